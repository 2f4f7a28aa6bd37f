"""The activities, one file per family, imported as `orchestrator.activities`."""
