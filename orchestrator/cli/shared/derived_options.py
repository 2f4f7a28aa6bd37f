"""Options that are derived from the fields of a record: each has its field's name, type and default.

derived(RouteRequest, "limit", "Maximum number of matches, 1 to 50.")      --limit N, with the default of the field
"""

from collections.abc import Callable
from dataclasses import MISSING, Field
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from orchestrator.cli.shared.parameter_types import NonEmptyPath
from orchestrator.errors import InvalidInput
from orchestrator.options import Options

_METAVARS = {int: "N", float: "P"}
_EXAMPLES = {
    "--filter": "for example kind=agent or domain=finance",
    "--context": "e.g. language=python",
    "--arg": "e.g. timezone=Europe/Berlin",
}


def derived(
    record: Any, name: str, text: str, spelling: str = "", **settings: Any
) -> Callable[[Any], Any]:
    """Return a click option for a field of a record, with the field's name, type and default.

    Args:
        record: The record that is made from the options. Fields of `Options` have no default, because an
            environment variable may set them.
        name: The field's name.
        text: The help text.
        spelling: The option's name, if it differs from the field's name.
        settings: Settings of `click.option` that take precedence.
    """
    record_field = record.__dataclass_fields__[name]
    hint = _hints(record)[name]  # type: ignore[arg-type, unused-ignore]  # mypy takes some classes for unhashable
    derived_settings = {"help": text, **_default(record, record_field), **_click_type(hint)}
    option_name = spelling or f"--{name.replace('_', '-')}"
    return click.option(option_name, name, **(derived_settings | settings))


@cache
def _hints(record: Any) -> dict[str, Any]:
    return get_type_hints(record)


def _default(record: Any, record_field: Field[Any]) -> dict[str, Any]:
    if record is Options or record_field.default is MISSING:
        return {}
    default = record_field.default
    return {"default": str(default) if isinstance(default, StrEnum) else default}


def _click_type(hint: Any) -> dict[str, Any]:
    """Return the click settings for a type: a mapping, a choice, or a value."""
    text = NonEmptyPath()
    if get_origin(hint) is dict:
        return {"type": text, "multiple": True, "metavar": "NAME=VALUE", "callback": _as_pairs}
    if get_origin(hint) is Literal:
        return {"type": click.Choice(get_args(hint))}
    kind = next(kind for kind in (*get_args(hint), hint) if kind is not NoneType)
    if issubclass(kind, StrEnum):
        return {
            "type": click.Choice(list(map(str, kind))),
            "callback": lambda _, __, value: value and kind(value),
        }
    return {"type": text if kind is str else kind, "metavar": _METAVARS.get(kind, "NAME")}


def pairs(
    name: str, values: tuple[str, ...], example: str, form: str = "NAME=VALUE"
) -> dict[str, str]:
    """Parse NAME=VALUE options into a dictionary.

    Args:
        name: The option's name, for the error.
        values: The values as typed.
        example: A correct value, for the error.
        form: The expected form, for the error.

    Raises:
        InvalidInput: A value has another form, or a name is given twice.
    """
    parsed: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise InvalidInput(f"{name} {value!r}: write {form}, {example}")
        if key in parsed:
            raise InvalidInput(f"{name} {key} is given twice. Give it once")
        parsed[key] = text
    return parsed


def _as_pairs(
    _: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    return pairs(parameter.opts[0], values, _EXAMPLES[parameter.opts[0]])
