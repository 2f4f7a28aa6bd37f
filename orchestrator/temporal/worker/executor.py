"""An Executor, which carries out the calls of the tools for which it is registered."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from orchestrator.records.call import ToolCall, ToolResult


class Executor(ABC):
    """Carries out calls of the tools for which it is registered.

    Examples:
        >>> from orchestrator import Executor, OrchestratorPlugin, ToolCall, ToolResult
        >>> class Echo(Executor):
        ...     async def execute(self, call: ToolCall) -> ToolResult:
        ...         return ToolResult(text=f"{call.tool.name}: {call.arguments}")
        >>> plugin = OrchestratorPlugin(catalogue="examples/tools.jsonl", executors={"stripe:*": Echo()})
    """

    @abstractmethod
    async def execute(self, call: ToolCall) -> ToolResult:
        """Call the tool and return its answer.

        Args:
            call: The call.

        Raises:
            ToolFailed: The tool reported an error.
            ServerUnavailable: The tool cannot be reached, and nothing was sent.
            OutcomeUnknown: The call was sent, and its answer was lost.
        """


Registered = Executor | Callable[..., Any]
"""An Executor, or a function, which may be async.

A function for a single tool gets the arguments by name. A function for a whole server or kind gets the ToolCall.
"""
