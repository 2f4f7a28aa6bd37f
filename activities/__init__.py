"""The activities, a file a family: imported as `orchestrator.activities`."""
