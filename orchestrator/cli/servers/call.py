"""`toolroute call`: one tool of an mcpServers file, called from the command line."""

import asyncio
import sys
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import echo_json, echo_text, warn, warn_of_flagged
from orchestrator.cli.shared.workspace import Place
from orchestrator.cli.trust.audit import audited
from orchestrator.common.json_input import read_json
from orchestrator.errors import InvalidArguments, ToolrouteError
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.trust.audit import arguments_digest

if TYPE_CHECKING:
    from orchestrator.mcp.results import Answered


@click.command()
@click.argument("tool", metavar="SERVER:NAME")
@click.option(
    "--args", "arguments", default="{}", metavar="JSON", help="The arguments as a JSON object. - reads standard input."
)
@taking("config", "tenant", "output")
@click.option(
    "--max-tokens", metavar="N", type=click.IntRange(min=1), default=8_000, help="Cut the result after N tokens."
)
async def call(tool: str, arguments: str, place: Place, max_tokens: int, output: str) -> int:
    """Call one tool and print its result.

    Only the tool's server is connected. Typing the command is the approval: you are not asked again. `-o json` prints
    every block of the answer, with images and files in base64. If the store knows the tool, its arguments are checked
    before the server is connected.
    """
    from orchestrator.catalogue.export import check_arguments
    from orchestrator.mcp.calls import Call
    from orchestrator.mcp.connections import Connections

    given, servers = _read_arguments(arguments), McpConfig.read(place.config_file())
    named = tool.partition(":")[0] in servers.servers
    known = await asyncio.to_thread(place.open_store().tool, place.tenant, tool) if named else None
    if known is not None:
        try:
            given = check_arguments(known, given)
        except InvalidArguments as error:
            raise InvalidArguments(f"{error}. If the server has changed, run `toolroute tools sync`") from None
        warn_of_flagged([known])
    async with Connections(servers, tenant=place.tenant) as connections:
        asked = Call.of(known or tool, given)
        asked.max_tokens = max_tokens
        about = {"server": asked.server, "arguments": arguments_digest(given)}
        known_key = known.key if known is not None else ""  # A name of no known tool may be any text.
        began = time.perf_counter()
        try:
            answered = await connections.exchange(asked)
        except ToolrouteError as error:
            audited("call", place.tenant, result=type(error).__name__, tool=known_key, **about)
            raise
        result, ms = "tool_error" if answered.is_error else "ok", (time.perf_counter() - began) * 1000
        tool_key = known_key if answered.is_error else asked.key
        audited("call", place.tenant, result=result, ms=ms, tool=tool_key, **about)
    return _print_answer(answered, output)


def _read_arguments(text: str) -> dict[str, Any]:
    try:
        value = read_json(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        such = '{"path": "a.txt"}'
        raise InvalidArguments(f"--args is {error}; give an object such as '{such}'") from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"--args is {type(value).__name__}, not an object")
    return value


def _print_answer(answered: "Answered", output: str) -> int:
    from orchestrator.mcp.results import as_mcp_result, as_tool_result

    result, key = as_tool_result(answered), answered.key
    warn(result.warnings)
    if output == "json":
        blocks = as_mcp_result(replace(answered, warnings=())).content  # The warnings are among the result's fields.
        content = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks]
        echo_json({**asdict(result), "content": content})
    elif result.is_error:
        warn([result.text if result.text.startswith(key) else f"{key} failed: {result.text}"])
    else:
        echo_text(result.text)
    return 1 if result.is_error else 0
