"""One call of an MCP tool: its arguments, and the differences between the live tool and the chosen one."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from orchestrator.catalogue.resolve import check_arguments, read_arguments
from orchestrator.errors import InvalidArguments, OutcomeUnknown, ServerUnavailable, UnknownTool
from orchestrator.mcp.passed_messages import request_meta
from orchestrator.records.durable_names import IDEMPOTENCY_KEY
from orchestrator.records.tool import Tool, as_chosen

MAX_RESULT_TOKENS = 8_000
UNLIMITED = sys.maxsize
"""A value of `max_result_tokens` that neither cuts nor counts the result."""


Confirm = Callable[[Tool], Awaitable[None]]
"""Called with the server's own record of a tool before the call. Raises an error if the call is not allowed."""


class OnProgress(Protocol):
    """Called with how far the server is with a call, out of how much, and its words for it."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


@dataclass(slots=True, kw_only=True)
class Call:
    """A call in progress.

    Attributes:
        chosen: The Tool record that the call was made from, if any.
        deadline: The deadline in the event loop's time, in seconds.
    """

    server: str
    name: str
    chosen: Tool | None
    arguments: dict[str, Any]
    meta: dict[str, Any]
    deadline: float | None
    max_tokens: int
    confirm: Confirm | None
    on_progress: OnProgress | None
    replayable: bool = False

    @classmethod
    def of(
        cls,
        tool: Tool | str,
        arguments: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        meta: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
        max_tokens: int | None = None,
        confirm: Confirm | None = None,
        on_progress: OnProgress | None = None,
    ) -> Self:
        """Make a call from a key or a Tool record.

        Args:
            tool: The tool's key or record.
            arguments: The arguments.
            idempotency_key: A key for servers that recognise repeated calls.
            meta: The `_meta` of the client's request.
            deadline_s: Seconds for the whole call. Default: the server's timeout.
            max_tokens: Cut the result after this many tokens. Default: MAX_RESULT_TOKENS.
            confirm: Receives the server's own record of the tool before the call.
            on_progress: Receives the server's progress.

        Raises:
            UnknownTool: `tool` is not a key.
            InvalidArguments: JSON cannot represent the arguments, or `meta` is too large.
        """
        tool_record = tool if isinstance(tool, Tool) else None
        key = tool_record.key if tool_record else str(tool)
        server, _, name = key.partition(":")
        if not (server and name):
            raise UnknownTool(f"{tool!r} is not a tool key: use server:name")
        passed_meta = request_meta(meta)
        if idempotency_key:
            passed_meta[IDEMPOTENCY_KEY] = idempotency_key
        deadline = None
        if deadline_s is not None:
            deadline = asyncio.get_running_loop().time() + deadline_s
        return cls(
            server=server,
            name=name,
            chosen=tool_record,
            arguments=read_arguments(key, arguments),
            meta=passed_meta,
            deadline=deadline,
            max_tokens=MAX_RESULT_TOKENS if max_tokens is None else max_tokens,
            confirm=confirm,
            on_progress=on_progress,
        )

    @property
    def key(self) -> str:
        return f"{self.server}:{self.name}"

    def seconds_left(self, timeout_s: float) -> float:
        """Return the seconds until the call's deadline, or the server's timeout.

        Raises:
            ServerUnavailable: The deadline has passed.
        """
        if self.deadline is None:
            return timeout_s
        seconds = self.deadline - asyncio.get_running_loop().time()
        if seconds <= 0:
            raise ServerUnavailable(f"{self.key}: the deadline passed before the call was sent")
        return seconds

    def rename(self, live: Tool) -> tuple[str, ...]:
        """Call the tool by its present name. If the name changed, a warning names both."""
        former_key = self.key
        self.name = live.name
        if former_key == self.key:
            return ()
        return (f"the tool {former_key} was renamed to {self.key}: use the new name",)

    def compare(self, live: Tool) -> tuple[str, ...]:
        """Return a warning if the live tool differs from the chosen one.

        Raises:
            InvalidArguments: The arguments do not fit the live tool.
        """
        if self.chosen is None:
            self.replayable = live.replayable
            with suppress(InvalidArguments):  # The server's own error is better.
                self.arguments = check_arguments(live, self.arguments)
            return ()
        self.replayable = replace(live, labels=self.chosen.labels).replayable
        if self.chosen.hash == as_chosen(live, self.chosen).hash:
            return ()
        try:
            check_arguments(live, self.arguments)
        except InvalidArguments as error:
            raise InvalidArguments(
                f"{self.key} has changed since it was chosen; choose again ({error})"
            ) from None
        return (
            f"{self.key} has changed since it was chosen: its definition on the server is different",
        )

    def unknown_outcome(self, reason: Exception) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"{self.key} was sent, and its answer was lost. It may have taken effect, so it was not sent again: check "
            # Last, because a model does not read the end of a reason that has a server's output.
            f"the effect before you call it again. Cause: {reason}",
            final=True,
        )
