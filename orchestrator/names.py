"""Durable names. They stand in workflow histories: changing one is a breaking release."""

from typing import Final

ROUTE: Final = "toolroute.route"
"""Activity and workflow: RouteRequest -> Decision."""
PLAN: Final = "toolroute.plan"
"""Activity: PlanRequest -> Plan."""
COMPLETE: Final = "toolroute.complete"
"""Activity: one model call."""
CALL_TOOL: Final = "toolroute.call_tool"
"""Activity: ToolCall -> ToolResult."""
CHECK_CALL: Final = "toolroute.check_call"
"""Activity: ToolCall -> nothing; fails where the arguments do not fit the tool's schema."""
SYNC_CATALOGUE: Final = "toolroute.sync_catalogue"
"""Activity: SyncRequest -> a SyncReport's JSON."""
RUN: Final = "toolroute.run"
"""Workflow: RunRequest -> RunResult."""
APPROVE: Final = "toolroute.approve"
"""Signal of the run workflow: the id of a step that may use its destructive tool."""
REJECT: Final = "toolroute.reject"
"""Signal of the run workflow: the id of a step that may not."""
PROGRESS: Final = "toolroute.progress"
"""Query of the run workflow: -> Progress."""

FILL_BEFORE_APPROVAL: Final = "toolroute.fill_before_approval"
"""Patch of the run workflow: a step's late arguments are filled before its approval is asked for, not after."""
LAST_WORD: Final = "toolroute.last_word"
"""Patch of the run workflow: a no that comes while an approved step waits for its turn counts."""

TASK_QUEUE: Final = "toolroute"
"""The task queue that `toolroute worker` polls unless told otherwise."""

COLLECTION: Final = "tool_capabilities"
"""The Qdrant alias under which the current embedder's collection is read."""

IDEMPOTENCY_KEY: Final = "toolroute/idempotency-key"
"""The key of an MCP call's metadata that carries `workflow:plan:step`."""
