"""The remembered tasks of a tenant, and one of them as a line of JSON."""

from datetime import UTC, datetime
from typing import Any

from orchestrator.cli.shared.output import counted, warn
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.records.outcome import Outcome
from orchestrator.store.outcomes import StoredOutcomes


def read_remembered(workspace: Workspace) -> StoredOutcomes:
    """Return the tenant's tasks. Prints a warning if tasks cannot be read."""
    stored = workspace.known_store().outcomes.read(workspace.tenant)
    if stored.damaged:
        remedy = "Remove them with `toolroute experience forget --before`"
        warn(f"{counted(stored.damaged, 'task')} cannot be read. {remedy}")
    return stored


def record_of(task: Outcome) -> dict[str, Any]:
    """Return a task in the form that `experience import` reads."""
    return {
        "id": task.id,
        "query": task.query,
        "used": [use.tool for use in task.used if use.ok],
        "failed": [use.tool for use in task.used if not use.ok],
        "ok": task.ok,
        "actor": task.actor,
        "at": datetime.fromtimestamp(task.at, UTC).isoformat(),
        "source": task.source,
        "chosen": task.chosen,
    }
