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
SYNC_CATALOGUE: Final = "toolroute.sync_catalogue"
"""Activity: SyncRequest -> SyncReport."""
RUN: Final = "toolroute.run"
"""Workflow: RunRequest -> RunResult."""

TASK_QUEUE: Final = "toolroute"
"""The task queue that `toolroute worker` polls unless told otherwise."""

COLLECTION: Final = "tool_capabilities"
"""The Qdrant alias under which the current embedder's collection is read."""

IDEMPOTENCY_KEY: Final = "toolroute/idempotency-key"
"""The key of an MCP call's metadata that carries `workflow:plan:step`."""
