"""`toolroute call`: one tool of an mcpServers file, called from the command line."""

import asyncio
import sys
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import echo_json, echo_text, warn, warn_of_flagged
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.trust.audit import audited
from orchestrator.common.json_input import read_json
from orchestrator.errors import InvalidArguments, ToolrouteError
from orchestrator.records.tool import Tool
from orchestrator.trust.audit import arguments_digest

if TYPE_CHECKING:
    from orchestrator.mcp.results import Answered


_ARGUMENTS = click.option(
    "--args",
    "text",
    default="{}",
    metavar="JSON",
    help="The arguments as a JSON object. - reads standard input.",
)
_MAX_TOKENS = click.option(
    "--max-tokens",
    metavar="N",
    type=click.IntRange(min=1),
    default=8_000,
    help="Cut the result after N tokens.",
)


@click.command()
@click.argument("tool", metavar="SERVER:NAME")
@_ARGUMENTS
@taking("config", "tenant", "output")
@_MAX_TOKENS
async def call(tool: str, text: str, workspace: Workspace, max_tokens: int, output: str) -> int:
    """Call one tool and print its result.

    Only the tool's server is connected. Typing the command is the approval: you are not asked again. `-o json` prints
    every block of the answer, with images and files in base64. If the store knows the tool, its arguments are checked
    before the server is connected.
    """
    arguments = _read_arguments(text)
    # A wrong argument is reported before a server is installed and started for it.
    stored = await _stored(workspace, tool)
    if stored is None:
        answer = await _call(workspace, tool, arguments, max_tokens)
    else:
        arguments = _checked_arguments(stored, arguments)
        warn_of_flagged([stored])
        answer = await _call(workspace, stored, arguments, max_tokens)
    return _print_answer(answer, output)


def _read_arguments(text: str) -> dict[str, Any]:
    try:
        value = read_json(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        example = '{"path": "a.txt"}'
        raise InvalidArguments(f"--args is {error}; give an object such as '{example}'") from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"--args is {type(value).__name__}, not an object")
    return value


async def _stored(workspace: Workspace, key: str) -> Tool | None:
    """Return the stored definition of a tool, if the file names its server."""
    if key.partition(":")[0] not in workspace.required_servers.servers:
        return None
    return await asyncio.to_thread(workspace.open_store().tool, workspace.tenant, key)


def _checked_arguments(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    from orchestrator.catalogue.resolve import check_arguments

    try:
        return check_arguments(tool, arguments)
    except InvalidArguments as error:
        raise InvalidArguments(
            f"{error}. If the server has changed, run `toolroute tools sync`"
        ) from None


async def _call(
    workspace: Workspace, tool: Tool | str, arguments: dict[str, Any], max_tokens: int
) -> "Answered":
    """Connect the tool's server, call the tool, and note the call in the audit log."""
    from orchestrator.mcp.calls import Call
    from orchestrator.mcp.connections import Connections

    config = workspace.required_servers
    async with Connections(config, tenant=workspace.tenant) as connections:
        request = Call.of(tool, arguments)
        request.max_tokens = max_tokens
        # A name of no known server or tool may be any text.
        known_server = request.server if request.server in config.servers else ""
        known_key = tool.key if isinstance(tool, Tool) else ""
        about = {"server": known_server, "arguments": arguments_digest(arguments)}
        started = time.perf_counter()
        try:
            answer = await connections.exchange(request)
        except ToolrouteError as error:
            audited("call", workspace.tenant, result=type(error).__name__, tool=known_key, **about)
            raise
        ms = (time.perf_counter() - started) * 1000
        result = "tool_error" if answer.is_error else "ok"
        key = known_key if answer.is_error else request.key
        audited("call", workspace.tenant, result=result, ms=ms, tool=key, **about)
        return answer


def _print_answer(answer: "Answered", output: str) -> int:
    from orchestrator.mcp.results import as_mcp_result, as_tool_result

    result = as_tool_result(answer)
    warn(*result.warnings)
    if output == "json":
        # The warnings are among the result's fields.
        blocks = as_mcp_result(replace(answer, warnings=())).content
        content = [
            block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks
        ]
        echo_json({**asdict(result), "content": content})
    elif result.is_error:
        names_tool = result.text.startswith(answer.key)
        warn(result.text if names_tool else f"{answer.key} failed: {result.text}")
    else:
        echo_text(result.text)
    return 1 if result.is_error else 0
