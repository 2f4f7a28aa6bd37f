"""What the MCP commands share: which mcpServers file, and a coroutine as a command's body."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import click

from orchestrator.cli.ending import until_told
from orchestrator.cli.paths import FILE
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config import FILE_NAMES, McpConfig, find_config

P = ParamSpec("P")
Command = TypeVar("Command", bound=Callable[..., Any])


_OR_FOUND = f"The mcpServers file. [default: {' or '.join(FILE_NAMES)} in this folder]"


def config_option(command: Command, text: str = _OR_FOUND) -> Command:
    """`--config`."""
    return click.option("--config", metavar="FILE", type=FILE, multiple=True, callback=_only_one, help=text)(command)


def _only_one(_: click.Context, parameter: click.Parameter, given: tuple[Path, ...]) -> Path | None:
    """Of two files the first would be passed over in silence."""
    if len(given) > 1:
        raise click.BadParameter(f"{', '.join(map(str, given))}: give one file that names all servers", param=parameter)
    return given[0] if given else None


def read_config(path: Path | None) -> McpConfig:
    """The file given, else the working folder's; InvalidConfig where there is none."""
    return McpConfig.read(config_file(path))


def config_file(path: Path | None) -> Path:
    """The same, unread."""
    found = path or find_config()
    if found is None:
        raise InvalidConfig(f"no {' and no '.join(FILE_NAMES)} in this folder: give --config FILE")
    return found


def read_servers(path: Path | None) -> McpConfig | None:
    """The file given, else the working folder's, else none."""
    found = path or find_config()
    return McpConfig.read(found) if found else None


def command_body(body: Callable[P, Coroutine[Any, Any, int]]) -> Callable[P, NoReturn]:
    """Runs a command's coroutine, which returns the exit code."""

    @wraps(body)
    def run(*args: P.args, **kwargs: P.kwargs) -> NoReturn:
        sys.exit(asyncio.run(until_told(body(*args, **kwargs))))

    return run
