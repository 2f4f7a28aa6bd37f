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
"""Update of the run workflow: Approval -> nothing; refused unless the step waits for a word on these arguments."""
PROGRESS: Final = "toolroute.progress"
"""Query of the run workflow: -> Progress."""

TASK_QUEUE: Final = "toolroute"
"""The task queue that `toolroute worker` polls by default."""

COLLECTION: Final = "tool_capabilities"
"""The Qdrant alias under which the current embedder's collection is read."""

IDEMPOTENCY_KEY: Final = "toolroute/idempotency-key"
"""The key of an MCP call's metadata that carries `workflow:plan:step`."""
