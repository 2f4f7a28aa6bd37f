"""Inside a workflow: a plan carried out, approvals, calls. Deterministic; `orchestrator.workflow` is the door."""
