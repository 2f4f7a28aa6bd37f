"""The Delta: what a Decision adds to the tools that a model was offered before."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orchestrator.records.tool import Tool

if TYPE_CHECKING:  # Records import nothing above them.
    from orchestrator.catalogue.export import Appended, Provider, ResolvedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The tools to append, so that what a model has read stays as it is and its provider's cache holds.

    `new`, best first, come behind `seen`, which lose no tool and keep their order. `current` are the definitions that
    calls are checked against; `changed` names the seen tools whose definition is another one now: the model goes on
    reading the earlier one, until a new conversation begins.
    """

    new: tuple[Tool, ...] = ()
    seen: tuple[Tool, ...] = ()
    current: tuple[Tool, ...] = ()

    def __repr__(self) -> str:
        return f"Delta(new={[tool.key for tool in self.new]}, seen={[tool.key for tool in self.seen]})"

    @classmethod
    def between(cls, seen: Iterable[Tool], matched: Iterable[Tool], adds: bool = True) -> "Delta":
        """Return what the matched tools add to those seen: nothing where a Decision `adds` none."""
        before, now = {tool.key: tool for tool in seen}, {tool.key: tool for tool in matched}
        new = {key: tool for key, tool in now.items() if adds and key not in before}
        known = {key: now.get(key, tool) for key, tool in before.items()}
        return cls(new=tuple(new.values()), seen=tuple(before.values()), current=(*known.values(), *new.values()))

    @property
    def offered(self) -> tuple[Tool, ...]:
        """All tools that the model then has, in the order in which it read them."""
        return self.seen + self.new

    @property
    def changed(self) -> tuple[str, ...]:
        """The keys of seen tools that are defined otherwise now."""
        return tuple(now.key for tool, now in zip(self.seen, self.current, strict=False) if tool.hash != now.hash)

    def tools(self, provider: "Provider" = "openai") -> list[Any]:
        """Return all offered tools as definitions, new ones last: for providers that take one list a request."""
        from orchestrator.catalogue.export import export

        return export(self.offered, provider)

    def items(self, shape: "Appended", call_id: str = "") -> list[Any]:
        """Return the new tools as what is appended to the conversation: docs/how-to/integrations.md shows each shape.

        `call_id` is the search call's that is answered, for `tool_search_output` and `tool_result`.
        """
        from orchestrator.catalogue.export import appended

        return appended(self.new, shape, call_id)

    def resolve(self, call: Any) -> "ResolvedCall":
        """Map a model's call to one of the offered tools, as Decision.resolve does."""
        from orchestrator.catalogue.export import resolve

        return resolve(self.current, call)
