"""The types of the commands' arguments and options: paths that are not empty, files that are read, and dates."""

from pathlib import Path
from typing import Any

import click


class NonEmptyPath(click.Path):
    """Refuses "", which an unset variable leaves: as a path it would be the working folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            remedy = "Is an environment variable unset? Give a value, or leave the option out"
            self.fail(f"the value is empty. {remedy}", param, ctx)
        return super().convert(value, param, ctx)


class _InputPath(NonEmptyPath):
    """Takes `-` for standard input."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert("/dev/stdin" if value == "-" else value, param, ctx)


class _ToolsPath(_InputPath):
    """Refuses the address of a store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            remedy = "give a file; `toolroute tools list --store URL -o jsonl` writes the tools of a store"
            self.fail(f"a URL is not a file of tools: {remedy}", param, ctx)
        return super().convert(value, param, ctx)


class _Date(click.ParamType[float]):
    """Makes a date the seconds since 1970."""

    name = "date"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        from orchestrator.experience.logs import seconds

        try:
            return float(str(seconds(value)))
        except ValueError:
            self.fail(f"{value!r}: give a date, e.g. 2026-11-24 or 2026-11-24T10:00", param, ctx)


DATE = _Date()
TEXT = NonEmptyPath(readable=False)
"""A name or an address."""
PATH = NonEmptyPath(path_type=Path)
"""A file or folder."""
FILE = NonEmptyPath(path_type=Path, dir_okay=False)
LOG = _InputPath(path_type=Path, dir_okay=False)
"""A file that is read, `-` for standard input."""
TOOLS = _ToolsPath(path_type=Path)
"""A file or folder of tools, `-` for standard input."""
