"""How what `orchestrator/data` holds is made; nothing here is imported at run time."""
