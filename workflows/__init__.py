"""The workflow side of toolroute: imported as `orchestrator.workflows`."""
