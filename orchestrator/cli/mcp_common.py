"""What the MCP commands share: which file, which store, which tenant; errors as exit codes."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec

import click

from orchestrator.errors import InvalidConfig, InvalidInput, ToolrouteError
from orchestrator.mcp_config import FILE_NAMES, McpConfig, find_config
from orchestrator.models import tenant_of

P = ParamSpec("P")

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"The mcpServers file.  [default: {' or '.join(FILE_NAMES)} here]",
)
store_option = click.option("--store", help="A folder or a Qdrant URL.  [default: the user's data folder]")
output_option = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", help="For people or for programs."
)


def tenant_options(command: Callable[P, Any]) -> Callable[P, Any]:
    """--organization and --user, as the parameters `organization` and `user`."""
    command = click.option("--user", help="The tenant user:ID.")(command)
    return click.option("--organization", help="The tenant org:ID; goes before --user.")(command)


def read_config(path: Path | None) -> McpConfig:
    """The file given, else the working folder's."""
    found = path or find_config()
    if found is None:
        raise InvalidConfig(f"no {' and no '.join(FILE_NAMES)} in this folder: give --config FILE")
    return McpConfig.read(found)


def tenant_named(organization: str | None, user: str | None) -> str:
    return tenant_of(organization, user, default="local")


def note(text: str) -> None:
    """Progress and warnings, on standard error."""
    click.echo(text, err=True)


def command_body(body: Callable[P, Coroutine[Any, Any, int]]) -> Callable[P, NoReturn]:
    """Runs a command's coroutine; it returns the exit code. Wrong input exits 2, any other failure 1."""

    @wraps(body)
    def run(*args: P.args, **kwargs: P.kwargs) -> NoReturn:
        try:
            code = asyncio.run(body(*args, **kwargs))
        except ToolrouteError as error:
            note(f"toolroute: {error}")
            code = 2 if isinstance(error, InvalidInput) else 1
        except KeyboardInterrupt:
            code = 130
        sys.exit(code)

    return run
