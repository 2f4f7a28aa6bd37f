"""The Delta: the tools that a Decision adds to the tools that a model already has."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.common.fields import named
from orchestrator.records.tool import Tool

if TYPE_CHECKING:  # At run time, records import no package of a higher layer.
    from orchestrator.catalogue.export import Appended, Provider
    from orchestrator.catalogue.resolve import ResolvedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The tools to append to a conversation.

    The list of tools only grows. The text that a model has read stays the same, so the provider's cache remains valid.

    Attributes:
        new: The tools to append, best first.
        seen: The tools that the model already has, in their order.
        current: The current definitions of all offered tools. Calls are checked against these.

    Examples:
        >>> from orchestrator import Router
        >>> with Router("examples/tools.jsonl") as router:
        ...     first = router.route_sync("refund a charge").delta()
        ...     second = router.route_sync("review my code", limit=1).delta(first)
        >>> [tool.key for tool in second.new]
        ['agents:code_review_agent']
    """

    new: tuple[Tool, ...] = ()
    seen: tuple[Tool, ...] = ()
    current: tuple[Tool, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Delta(new={[tool.key for tool in self.new]}, seen={[tool.key for tool in self.seen]})"
        )

    @classmethod
    @named
    def between(cls, seen: Iterable[Tool], matched: Iterable[Tool], adds: bool = True) -> "Delta":
        """Compare matched tools with the tools that the model already has.

        Args:
            seen: The tools that the model already has, in order.
            matched: The tools of the new matches, best first.
            adds: Whether to add new tools. False if the Decision recommends nothing.
        """
        seen_by_key = {tool.key: tool for tool in seen}
        matched_by_key = {tool.key: tool for tool in matched}
        new = []
        if adds:
            new = [tool for key, tool in matched_by_key.items() if key not in seen_by_key]
        # A tool that matches again has its newest definition.
        renewed = [matched_by_key.get(key, tool) for key, tool in seen_by_key.items()]
        return cls(
            new=tuple(new),
            seen=tuple(seen_by_key.values()),
            current=(*renewed, *new),
        )

    @property
    def offered(self) -> tuple[Tool, ...]:
        """All tools that the model has now, in the order in which it read them."""
        return self.seen + self.new

    @property
    def changed(self) -> tuple[str, ...]:
        """The keys of the seen tools with a changed definition. The model keeps the earlier definition until a
        new conversation.
        """
        return tuple(
            current.key
            for seen, current in zip(self.seen, self.current, strict=False)
            if seen.hash != current.hash
        )

    def tools(self, provider: "Provider" = "openai") -> list[Any]:
        """Return the definitions of all offered tools, new tools last, for providers that take one list per request.

        Args:
            provider: The shape of the definitions: `openai` (Responses API), `openai-chat`, `anthropic` or `mcp`.
        """
        from orchestrator.catalogue.export import export

        return export(self.offered, provider)

    def items(self, shape: "Appended", call_id: str = "") -> list[Any]:
        """Return the new tools as items to append to the conversation. docs/how-to/append-tools.md shows each shape.

        Args:
            shape: The kind of item. Its name is the item's type in the provider's API.
            call_id: The id of the search call that this answers, for `tool_search_output` and `tool_result`.
        """
        from orchestrator.catalogue.export import appended

        return appended(self.new, shape, call_id)

    def resolve(self, call: Any) -> "ResolvedCall":
        """Map a model's tool call to one of the offered tools. See `Decision.resolve`."""
        from orchestrator.catalogue.resolve import resolve

        return resolve(self.current, call)
