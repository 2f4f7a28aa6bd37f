"""A group of commands whose modules are imported only when a command is called."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that knows the name and help line of each command, and imports its module on demand.

    Args:
        package: The package of the commands' modules.
        places: By command, its place in the package as `module:name`, and its line in the list of commands.
    """

    def __init__(
        self,
        *args: Any,
        package: str,
        places: Mapping[str, tuple[str, str]],
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self._package = package
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module, _, name = self.places[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"{self._package}.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.places.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # An option in this place has a hint of its own.
        near = get_close_matches(args[0], self.places, 1)
        if args[0] not in self.places and near and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)
