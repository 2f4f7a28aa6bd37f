"""The catalogue's tools for a framework's agent in a Temporal workflow. Each call is an activity of toolroute."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from temporalio.exceptions import FailureError

from orchestrator.catalogue.export import exported_name, offered_schema, own_arguments
from orchestrator.catalogue.resolve import read_arguments
from orchestrator.errors import ToolrouteError
from orchestrator.records.call import Approve
from orchestrator.records.decision import Decision
from orchestrator.records.tool import Tool
from orchestrator.temporal.workflow.call import described, was_cancelled
from orchestrator.temporal.workflow.tool_router import ToolRouter
from orchestrator.trust.approval_rules import needs_approval


@dataclass(frozen=True, slots=True)
class CatalogueTool:
    """One match of a Decision, in the form for an agent's model, with the call from the workflow."""

    router: ToolRouter
    decision: Decision
    tool: Tool

    @property
    def name(self) -> str:
        return exported_name(self.tool)

    @property
    def schema(self) -> dict[str, Any]:
        return offered_schema(self.tool)

    def waits(self, approve: Approve) -> bool:
        """Return True if the framework asks a person before it calls the tool."""
        return needs_approval(self.tool, approve)

    async def call(self, arguments: Mapping[str, Any] | str) -> str:
        """Return the answer as a text for the model, or the reason for having no answer. Only a cancelled call raises
        an error.
        """
        try:
            values = own_arguments(self.tool, read_arguments(self.tool.key, arguments))
            return (await self.router.call(self.decision, self.tool.key, values)).text
        except (FailureError, ToolrouteError) as error:
            if was_cancelled(error):
                raise
            return f"{self.name} failed: {described(error)}"


def tools_of(router: ToolRouter, decision: Decision) -> list[CatalogueTool]:
    """Return the matches of a Decision, best first. None of them if the Decision recommends no tool."""
    if not decision.recommended:
        return []
    return [CatalogueTool(router, decision, match.tool) for match in decision.matches]
