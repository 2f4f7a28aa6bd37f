"""One call of an MCP tool: what was asked, and how the tool differs from the one that was chosen."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

from orchestrator.catalogue.export import check_arguments, read_arguments
from orchestrator.errors import InvalidArguments, OutcomeUnknown, ServerUnavailable, UnknownTool
from orchestrator.records.durable_names import IDEMPOTENCY_KEY
from orchestrator.records.tool import Tool

MAX_RESULT_TOKENS = 8_000


_WITH_PROGRESS = 10
"""How many times as long a call may take whose server goes on telling its progress."""


class Patience(NamedTuple):
    """Seconds to wait for an answer: since it was asked for or progress was last told, and altogether."""

    silent_s: float
    whole_s: float


class OnProgress(Protocol):
    """Called with how far the server is with a call, out of how much, and its words for it."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


@dataclass(slots=True, kw_only=True)
class Call:
    """A call under way. `chosen` is the Tool record it was made from, if any; `deadline` is in the loop's time and goes
    before the server's timeout; what the server tells of its progress is passed to `on_progress`."""

    server: str
    name: str
    chosen: Tool | None
    arguments: dict[str, Any]
    meta: dict[str, Any] = field(default_factory=dict)
    max_tokens: int = MAX_RESULT_TOKENS
    deadline: float | None = None
    replayable: bool = False
    on_progress: OnProgress | None = None

    @classmethod
    def of(cls, tool: Tool | str, arguments: Mapping[str, Any], idempotency_key: str | None = None) -> Self:
        """A call by key or record; UnknownTool for what is no key, InvalidArguments for what JSON cannot carry."""
        server, name = split_key(tool)
        return cls(
            server=server,
            name=name,
            chosen=tool if isinstance(tool, Tool) else None,
            arguments=read_arguments(f"{server}:{name}", arguments),
            meta={IDEMPOTENCY_KEY: idempotency_key} if idempotency_key else {},
        )

    @property
    def key(self) -> str:
        return f"{self.server}:{self.name}"

    def patience(self, timeout_s: float) -> Patience:
        """For the call itself: what its own deadline leaves, else the server's timeout; ServerUnavailable when
        connecting has used up the deadline."""
        if self.deadline is None:
            return Patience(timeout_s, _WITH_PROGRESS * timeout_s)
        left = self.deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise ServerUnavailable(f"{self.key}: the deadline passed before the call was sent")
        return Patience(left, left)

    def compare(self, live: Tool) -> tuple[str, ...]:
        """Notes the server's present definition, and warns if it is not the chosen one; InvalidArguments if the
        arguments do not fit it any more."""
        self.replayable = live.annotations.replayable
        if self.chosen is None or self.chosen.hash == as_chosen(live, self.chosen).hash:
            return ()
        try:
            check_arguments(live, self.arguments)
        except InvalidArguments as error:
            raise InvalidArguments(f"{self.key} has changed since it was chosen; choose again ({error})") from None
        return (f"{self.key} has changed since it was chosen: its definition on the server is another one",)

    def unknown_outcome(self, reason: Exception) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"{self.key} was sent and its answer lost ({reason}); whether it took effect is not known, "
            "so it was not sent again"
        )


def as_chosen(live: Tool, chosen: Tool) -> Tool:
    """The live tool with what only a catalogue adds to a definition; itself where they are one."""
    if live.hash == chosen.hash:
        return live
    return replace(live, keywords=chosen.keywords, labels=chosen.labels, kind=chosen.kind, hash="")


def split_key(tool: Tool | str) -> tuple[str, str]:
    """Server and name; the server never holds a colon, a name may."""
    if isinstance(tool, Tool):
        return tool.server, tool.name
    server, colon, name = tool.partition(":")
    if not (server and colon and name):
        raise UnknownTool(f"{tool!r} is no tool key: give server:name")
    return server, name
