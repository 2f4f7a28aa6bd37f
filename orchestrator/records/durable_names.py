"""Durable names. Workflow histories contain them, so changing one is a breaking release."""

from typing import Final

ROUTE: Final = "toolroute.route"
"""Activity and workflow: RouteRequest -> Decision."""
ROUTE_STAGED: Final = "toolroute.route_staged"
"""Workflow: RouteRequest and a task queue for the semantic stage -> Decision. It runs one activity for each stage."""
MATCH_ALWAYS_AVAILABLE: Final = "toolroute.match_always_available"
"""Activity: RouteRequest -> Findings."""
DETECT_EXPLICIT_SERVER: Final = "toolroute.detect_explicit_server"
KEYWORD_GATE: Final = "toolroute.keyword_gate"
SEMANTIC_FALLBACK: Final = "toolroute.semantic_fallback"
"""Activities: RouteRequest, Findings -> Findings."""
MERGE: Final = "toolroute.merge"
"""Activity: RouteRequest, Findings -> Decision."""
PLAN: Final = "toolroute.plan"
"""Activity, and the workflow behind the Nexus operation `plan`: PlanRequest -> Plan."""
COMPLETE: Final = "toolroute.complete"
"""Activity: one model call."""
CALL_TOOL: Final = "toolroute.call_tool"
"""Activity, and the workflow behind the Nexus operation `call`: ToolCall -> ToolResult."""
CHECK_CALL: Final = "toolroute.check_call"
"""Activity: ToolCall -> Present. It fails if the arguments do not fit the tool, or if no executor exists for it."""
READ_RESULT: Final = "toolroute.read_result"
"""Activity: PageRequest -> ResultPage."""
SYNC_CATALOGUE: Final = "toolroute.sync_catalogue"
"""Activity, and the workflow that a schedule starts: SyncRequest -> a SyncReport's JSON."""
RECORD_OUTCOME: Final = "toolroute.record_outcome"
"""Activity: RecordRequest -> nothing. An Outcome with the same id replaces the earlier one."""
RUN: Final = "toolroute.run"
"""Workflow: RunRequest -> RunResult."""
APPROVE: Final = "toolroute.approve"
"""Update of the run workflow: Approval -> nothing. It is refused unless the step waits for approval of these arguments.
"""
PROGRESS: Final = "toolroute.progress"
"""Query of the run workflow: -> Progress."""

TENANT_ATTRIBUTE: Final = "ToolrouteTenant"
WAITING_ATTRIBUTE: Final = "ToolrouteWaiting"
"""Search attributes of a run, if the namespace has them: Keyword, its tenant, and Bool, whether a step waits for
approval.
"""

NEXUS_SERVICE: Final = "toolroute"
NEXUS_FIND: Final = "find"
NEXUS_PLAN: Final = "plan"
NEXUS_CALL: Final = "call"
"""The Nexus service and its operations: RouteRequest -> Decision, PlanRequest -> Plan, ToolCall -> ToolResult."""

TASK_QUEUE: Final = "toolroute"
"""The task queue that `toolroute worker` polls by default."""

COLLECTION: Final = "tool_capabilities"
"""The prefix of the Qdrant collections with tools. The embedder's name follows."""

IDEMPOTENCY_KEY: Final = "toolroute/idempotency-key"
"""The key in an MCP call's metadata for the idempotency key, `workflow:plan:step`."""
