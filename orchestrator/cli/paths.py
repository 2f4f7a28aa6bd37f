"""The types of options that name a place. What is empty, as a shell leaves an unset variable, is refused: as a path it
would mean the working folder, as a store the user's own."""

from pathlib import Path
from typing import Any

import click


class _Text(click.types.StringParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(_not_empty(value, param, ctx), param, ctx)


class _Path(click.Path):
    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(_not_empty(value, param, ctx), param, ctx)


class _Tools(_Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            remedy = "give a file; `toolroute tools list --store URL -o jsonl` writes a store's tools as one"
            raise click.BadParameter(f"an address is no file of tools: {remedy}", ctx, param)
        return super().convert("/dev/stdin" if value == "-" else value, param, ctx)


def _not_empty(value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
    if value == "":
        raise click.BadParameter("it is empty; is a variable unset? Name one, or leave it out", ctx, param)
    return value


TEXT = _Text()
"""A name, or a folder or URL."""
PATH = _Path()
"""A file or a folder."""
FILE = _Path(dir_okay=False)
TOOLS = _Tools()
"""A file or a folder of tools; `-` is standard input."""
