"""The options that the user typed for the running command."""

from collections.abc import Iterable
from typing import Any

import click
from click.core import ParameterSource

from orchestrator.errors import InvalidInput


def typed(name: str) -> Any:
    """Return the text that the user typed for an option of the running command, or None."""
    return click.get_current_context().params.get(name)


def refuse(names: Iterable[str], reason: str) -> None:
    """Raise InvalidInput for the first of these options that the user typed.

    Args:
        names: The names of the options' parameters.
        reason: Why the option has no effect, and what to do. The message begins with the option.
    """
    context = click.get_current_context()
    spelling = {parameter.name: parameter.opts[-1] for parameter in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InvalidInput(f"{spelling[name]} {reason}")


def typed_options(*without: str) -> list[str]:
    """Return the parameters of the running command's options, without these."""
    options = click.get_current_context().command.params
    return [str(option.name) for option in options if option.name not in without]
