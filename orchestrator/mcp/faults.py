"""Why a connection could not be made, in words that name the remedy."""

import re
from pathlib import Path

from orchestrator.catalogue.reading import first_problem
from orchestrator.errors import InvalidCatalogue, ServerUnavailable, ToolrouteError, Unauthorised
from orchestrator.mcp import http_guard
from orchestrator.mcp.config import ServerSpec
from orchestrator.mcp.launch import Launch
from orchestrator.records.redact import Secrets

LONGEST = 500


def connect_error(spec: ServerSpec, launch: Launch, error: Exception, hint: str) -> ToolrouteError:
    """The ToolrouteError for what went wrong before the session was ready; no secrets in it."""
    from mcp import MCPError
    from pydantic import ValidationError

    cause = _leaf(error)
    say = launch.secrets.scrub
    if isinstance(cause, ToolrouteError):
        return cause
    if isinstance(cause, ValidationError):
        return InvalidCatalogue(say(f"server {spec.name!r} breaks the protocol: {first_problem(cause)}{hint}"))
    if isinstance(cause, MCPError) and cause.code in http_guard.REMEDIES:
        remedy = http_guard.REMEDIES[cause.code]
        return Unauthorised(say(f"server {spec.name!r} refused the credentials ({cause.message}): {remedy}"))
    if isinstance(cause, OSError) and launch.command:
        return ServerUnavailable(say(f"server {spec.name!r}: {_spawn_problem(launch, cause)}"))
    why = in_words(error, launch.secrets)
    return ServerUnavailable(say(f"server {spec.name!r} cannot be connected: {why}{hint}"))


def _spawn_problem(launch: Launch, error: OSError) -> str:
    if launch.cwd and not Path(launch.cwd).is_dir():
        return f"its working folder {launch.cwd!r} does not exist"
    if isinstance(error, FileNotFoundError):
        return f"the command {launch.command!r} is not found: install it, or give its full path"
    return f"the command {launch.command!r} cannot be run ({error.strerror or type(error).__name__})"


def without_name(server: str, error: str) -> str:
    """An error's text for where the server's name stands already."""
    return re.sub(rf"^(.*?: )?server {re.escape(repr(server))}:? ", "", error, count=1)


def in_words(error: BaseException, secrets: Secrets) -> str:
    """One line for any exception, groups included; without secrets, which go before it is shortened."""
    return " ".join(secrets.scrub(_words(_leaf(error))).split())[:LONGEST]


def is_end(error: BaseException) -> bool:
    """Whether the server ended the connection in place of an answer."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    cause = _leaf(error)
    return isinstance(cause, MCPError) and cause.code == CONNECTION_CLOSED


def _words(cause: BaseException) -> str:
    from mcp import MCPError

    if isinstance(cause, MCPError):
        return "it ended before it answered" if is_end(cause) else cause.message
    if isinstance(cause, ToolrouteError):
        return str(cause)
    if isinstance(cause, TimeoutError):
        return "it did not answer in time"
    return f"{type(cause).__name__}: {cause}"


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
