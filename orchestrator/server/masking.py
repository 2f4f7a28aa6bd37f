"""Masks the fixed values of a profile in everything that a client reads."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from orchestrator.errors import ToolrouteError
from orchestrator.mcp.calls import OnProgress
from orchestrator.mcp.config.profiles import secrets_of, texts
from orchestrator.mcp.results import Answered
from orchestrator.mcp.server_requests import ASKER


@contextmanager
def masking(fixed: Mapping[str, Any]) -> Iterator[Callable[[Answered], Answered]]:
    """Yield a function that masks these values in a server's answer. Errors are masked, too."""
    secrets = secrets_of(fixed)

    def masked(answered: Answered) -> Answered:
        return replace(answered, secrets=answered.secrets.also(texts(fixed))) if fixed else answered

    if fixed and (asker := ASKER.get()) is not None:
        asker.fixed.add(texts(fixed))
    try:
        yield masked
    except ToolrouteError as error:
        error.args = tuple(
            secrets.redact(argument) if isinstance(argument, str) else argument
            for argument in error.args
        )
        raise


def masked_progress(on_progress: OnProgress | None, fixed: Mapping[str, Any]) -> OnProgress | None:
    """Return the same, with these values masked in the server's words."""
    if on_progress is None or not fixed:
        return on_progress
    secrets = secrets_of(fixed)

    async def masked(progress: float, total: float | None, message: str | None) -> None:
        await on_progress(progress, total, message and secrets.redact(message))

    return masked
