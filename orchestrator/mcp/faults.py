"""Why a connection or a call failed, in words that name the remedy."""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.common.json_input import JsonSize, first_problem
from orchestrator.common.lines import one_line
from orchestrator.common.redact import Secrets
from orchestrator.errors import InvalidCatalogue, ServerUnavailable, ToolrouteError, Unauthorised
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.parse import ServerSpec
from orchestrator.mcp.signin.files import login_command

if TYPE_CHECKING:
    from mcp import MCPError

# What became of a request over HTTP. No server's own code is mistaken for one: JSON-RPC and MCP use another range.
# The server was not reached, or does not know the session any more: it did not run the request.
UNSENT = -31_001
LOST = -31_002  # The request was sent, and no usable answer came.
DENIED = -31_003  # The server refused the credentials.
REFUSED = -31_004  # The server refused the request for another reason, and did not run it.
BUSY = -31_005  # The server takes no more requests for now (HTTP 429), and did not run this one.

MAX_MESSAGE_BYTES = 16 * 2**20
MAX_VALUES = 500_000
"""10 million values fit into 16 MiB, and reading them takes seconds and 2 GB. This limit takes .25 s."""
TOO_MUCH = f"a message of more than {MAX_MESSAGE_BYTES // 2**20} MiB or {MAX_VALUES:,} values"
UNREADABLE = (
    "its answer cannot be read: it is not JSON, or its values are nested more than 200 deep"
)
_LIBRARY_UNREADABLE = "Failed to parse "
_PIECE = 2**18
"""The bytes of a message that are counted at once. The texts between all quotes of a long listing take 100 MB."""
_LONGEST = 500
_REFUSED_VERSION = ("unsupported protocol version", "invalid protocol version")
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}")


def is_unreadable(error: "MCPError") -> bool:
    """Return True if the MCP library could not read an answer over HTTP. The request may have taken effect.

    A server that could not read the request uses the same code, with other words.
    """
    from mcp.types import PARSE_ERROR

    return error.code == PARSE_ERROR and error.message.startswith(_LIBRARY_UNREADABLE)


def is_too_much(message: bytes) -> bool:
    """Return True if a JSON message exceeds the limits. Values are counted without decoding them."""
    if len(message) <= 2 * MAX_VALUES:
        return False
    if len(message) > MAX_MESSAGE_BYTES:
        return True
    size = JsonSize()
    for start in range(0, len(message), _PIECE):
        size.add(message[start : start + _PIECE])
        if size.brackets + size.commas > MAX_VALUES:
            return True
    return False


def connect_error(
    spec: ServerSpec, tenant: str, launch: Launch, error: Exception, hint: str
) -> ToolrouteError:
    """Return the ToolrouteError for a failure before the session was ready, without secrets.

    Args:
        spec: The server's entry.
        tenant: The tenant.
        launch: The entry with its variables replaced, if that succeeded.
        error: The failure.
        hint: A further sentence for the message.
    """
    from mcp import MCPError
    from pydantic import ValidationError

    cause = _leaf(error)
    server = f"server {spec.name!r}"
    redact = launch.secrets.redact
    if isinstance(cause, ToolrouteError):
        return cause
    if isinstance(cause, ValidationError):
        return InvalidCatalogue(
            redact(f"{server} violates the protocol: {first_problem(cause)}{hint}")
        )
    if isinstance(cause, MCPError) and cause.code == DENIED:
        return credentials_refused(spec, tenant, redact(cause.message))
    if isinstance(cause, OSError) and launch.command:
        return ServerUnavailable(redact(f"{server}: {_spawn_problem(launch, cause)}"))
    return ServerUnavailable(
        redact(f"{server} cannot be connected: {in_words(error, launch.secrets)}{hint}")
    )


def credentials_refused(spec: ServerSpec, tenant: str, message: str) -> Unauthorised:
    """Return the error for a server that refused the credentials.

    It names the way to sign in, unless the entry has its own credentials.

    Args:
        spec: The server's entry.
        tenant: The tenant.
        message: The server's message.
    """
    if "authorization" in map(str.lower, spec.headers):
        return Unauthorised(
            f"server {spec.name!r} refused the credentials ({message}): check its headers"
        )
    if spec.oauth.is_for_worker:
        return Unauthorised(
            f"server {spec.name!r} cannot be signed in to by itself ({message}): check the oauth block of its entry"
        )
    command = login_command(spec, tenant)
    return Unauthorised(f"server {spec.name!r} requires a sign-in ({message}): run `{command}`")


def _spawn_problem(launch: Launch, error: OSError) -> str:
    if launch.cwd and not Path(launch.cwd).is_dir():
        return f"its working folder {launch.cwd!r} does not exist"
    if isinstance(error, FileNotFoundError):
        program, _, arguments = launch.command.strip().partition(" ")
        remedy = "install it, or give its full path"
        if arguments and shutil.which(program, path=launch.path):
            remedy = "write only the program into command, and its arguments into args"
        return f"the command {launch.program!r} was not found: {remedy}"
    why = error.strerror or type(error).__name__
    return f"the command {launch.program!r} cannot be run ({why})"


def without_name(server: str, error: str) -> str:
    """Return an error's text without the server's name, for places that already show the name."""
    return re.sub(rf"^(.*?: )?server {re.escape(repr(server))}:? ", "", error, count=1)


def in_words(error: BaseException, secrets: Secrets) -> str:
    """Return one line for any exception or exception group. Secrets are removed before the line is shortened."""
    from mcp import MCPError

    cause = _leaf(error)
    if is_end(cause):
        words = "it exited before it answered"
    elif isinstance(cause, MCPError):
        words = cause.message
    elif isinstance(cause, TimeoutError):
        words = "it did not answer in time"
    elif isinstance(cause, ToolrouteError):
        words = str(cause)
    else:
        words = f"{type(cause).__name__}: {cause}"
    return one_line(secrets.redact(words))[:_LONGEST]


def is_end(error: BaseException) -> bool:
    """Return True if the server ended the connection instead of answering."""
    from mcp.types import CONNECTION_CLOSED

    return has_code(error, CONNECTION_CLOSED)


def accepted_versions(error: BaseException) -> list[str] | None:
    """Return the protocol versions that a server accepts in place of the refused version, the newest first.

    None if the server refused something other than the version. Only versions with a handshake are returned: all of
    them if the server names no version, and none if it names only others.
    """
    from mcp import MCPError
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    cause = _leaf(error)
    if not isinstance(cause, MCPError):
        return None
    data = cause.error.data
    supported = data.get("supported") if isinstance(data, dict) else None
    message = cause.message.lower()
    if not supported and not any(phrase in message for phrase in _REFUSED_VERSION):
        return None
    versions = HANDSHAKE_PROTOCOL_VERSIONS[::-1]
    named_versions = _VERSION.findall(str(supported or cause.message))
    if not named_versions:
        return list(versions)
    return [version for version in versions if version in named_versions]


def has_code(error: BaseException, code: int) -> bool:
    """Return True for a protocol error with this code, also within a group of errors."""
    from mcp import MCPError

    cause = _leaf(error)
    return isinstance(cause, MCPError) and cause.code == code


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
