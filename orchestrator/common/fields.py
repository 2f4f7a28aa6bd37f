"""Fields of records. Their annotations define the allowed values and the remedy in an error.

    limit: Annotated[int, Give("1 to 50", ge=1, le=50)] = 10

`check` then raises InvalidInput("limit=0: give 1 to 50"). Reading a payload with pydantic applies the same rules.
"""

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from functools import cache, wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, get_args, get_type_hints

from orchestrator.common.argument_types import ArgumentTypes
from orchestrator.common.json_input import meant
from orchestrator.errors import InvalidConfig, InvalidInput, UnknownSetting

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SHORTEST_S = 0.001
"""Temporal counts in milliseconds, and a shorter time would be 0, which means no limit."""
_MOST_S = 10_000_000_000
"""Temporal counts in milliseconds. With a time far above this maximum, a timer cannot be set, and a workflow hangs."""

WANTED = "wanted"
"""The type of pydantic's error for a field that has a remedy."""


@dataclass(frozen=True, slots=True)
class Give:
    """The remedy that errors name for a field, and its limits. Only fields with a remedy are checked.

    A list is allowed for a tuple, and any mapping for a dict. NaN and infinity are not numbers. The limits are
    pydantic's. They are repeated here because the import of `annotated_types` takes a new process 15 ms.
    """

    wanted: str
    gt: float | None = None
    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    accepts: Callable[[Any], bool] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core.core_schema import (
            custom_error_schema,
            no_info_after_validator_function,
        )

        schema = handler(source)
        if schema["type"] in ("tuple", "dict"):
            schema["strict"] = False
        limited = schema["schema"] if schema["type"] == "nullable" else schema
        limited.update(self._limits())
        if self.accepts:
            schema = no_info_after_validator_function(self._accepted, schema)
        return custom_error_schema(schema, WANTED, custom_error_message=f"give {self.wanted}")

    def _limits(self) -> dict[str, float]:
        limits = {"gt": self.gt, "ge": self.ge, "le": self.le, "min_length": self.min_length}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def _accepted(self, value: Any) -> Any:
        if self.accepts and not self.accepts(value):
            raise ValueError(f"{value!r} is not accepted")
        return value


Text = Annotated[str, Give("a text")]
Count = Annotated[int, Give("a whole number above 0", gt=0)]
Tokens = Annotated[int, Give("a number of tokens above 0", gt=0)]
Probability = Annotated[float, Give("a probability from 0 to 1", ge=0, le=1)]
Seconds = Annotated[
    float, Give(f"seconds, from {SHORTEST_S} to {_MOST_S:,}", ge=SHORTEST_S, le=_MOST_S)
]


def check(record: object, error: type[InvalidInput] = InvalidInput) -> None:
    """Raise the error for the first field of the record with a value that its annotation does not allow.

    A default is allowed. To skip defaults and texts saves a new process the time to import pydantic and
    to build 50 validators.
    """
    kind: Any = type(record)
    texts = _text_fields(kind)
    for name, default in _checked_fields(kind).items():
        value = getattr(record, name)
        if _is_same(value, default) or (name in texts and type(value) is str and value.isascii()):
            continue
        _check_value(kind, name, value, error)


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and value == default)


def _check_value(kind: type, name: str, value: Any, error: type[InvalidInput]) -> None:
    from pydantic import ValidationError

    try:
        _validator(kind, name).validate_python((value,))
    except ValidationError as refused:
        first = refused.errors(include_url=False)[0]
        raise error(f"{name}={first['input']!r:.80}: {first['msg']}") from None


def value_of(kind: type, name: str, text: str, variable: str) -> Any:
    """Return the value of a record's field from a text, for example a number from `"5"`.

    Args:
        kind: The type of the record.
        name: The name of the field.
        text: The text.
        variable: The name of the field in errors.

    Raises:
        InvalidConfig: The text has no allowed value.
    """
    if name in _text_fields(kind) and text.isascii():
        return text  # Without pydantic, whose import takes a new process 60 ms.
    from pydantic import ValidationError

    try:
        return _adapter(kind, name).validate_strings(text)
    except ValidationError as refused:
        raise InvalidConfig(
            f"{variable}={text!r}: {refused.errors(include_url=False)[0]['msg']}"
        ) from None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _checked_fields(kind: Any) -> dict[str, Any]:
    """Return the fields with a remedy and their defaults, MISSING without one."""
    defaults = {field.name: _default_of(field) for field in fields(kind)}
    return {
        name: defaults.get(name, MISSING)
        for name, hint in _hints(kind).items()
        if any(isinstance(part, Give) for part in getattr(hint, "__metadata__", ()))
    }


def _default_of(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


@cache
def _text_fields(kind: Any) -> frozenset[str]:
    """Return the fields that take any text. Only a text with characters beyond ASCII may be malformed."""
    return frozenset(name for name, hint in _hints(kind).items() if _takes_any_text(hint))


def _takes_any_text(hint: Any) -> bool:
    remedies = getattr(hint, "__metadata__", ())
    text: Any = hint.__origin__ if remedies else hint
    limited = [remedy for remedy in remedies if remedy != Give(remedy.wanted)]
    return text in (str, str | None) and not limited


@cache
def _validator(kind: type, name: str) -> Any:
    """Return the validator of a tuple with the field's value. Records as values take the settings only within a type
    that is no record.
    """
    from pydantic import ConfigDict, TypeAdapter

    wanted: Any = tuple[_hints(kind)[name]]  # type: ignore[misc]
    return TypeAdapter(wanted, config=ConfigDict(strict=True, allow_inf_nan=False)).validator


@cache
def _adapter(kind: type, name: str) -> "TypeAdapter[Any]":
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(_hints(kind)[name], config=ConfigDict(allow_inf_nan=False))


_Choice = TypeVar("_Choice", bound=StrEnum)


def member(kind: type[_Choice], name: str, value: Any) -> _Choice:
    """Return the member of an enumeration for a value. For an unknown value, InvalidInput lists all members.

    Args:
        kind: The enumeration.
        name: The name of the setting, for the error.
        value: The value.
    """
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(f"{name}={value!r}: give one of {', '.join(kind)}") from None


P = ParamSpec("P")
R = TypeVar("R")


def named(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function check its arguments.

    It raises UnknownSetting for an unknown keyword, with the most similar one, and InvalidInput for an argument of a
    wrong type, with the name of the parameter.
    """
    known = _known_settings(function)
    types = ArgumentTypes(function)

    @wraps(function)
    def checked(*args: P.args, **settings: P.kwargs) -> R:
        check_settings(settings, known)
        types.check(args, settings)
        return function(*args, **settings)

    return checked


def _known_settings(function: Callable[..., Any]) -> dict[str, None]:
    settings: dict[str, None] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:  # **options: Unpack[a TypedDict]
            settings |= dict.fromkeys(get_args(parameter.annotation)[0].__annotations__)
        else:
            settings[name] = None
    return settings


def check_settings(names: Collection[str], known_names: Collection[str]) -> None:
    """Raise UnknownSetting for the first name that is not known."""
    for name in names:
        if name not in known_names:
            settings = [setting for setting in known_names if setting != "self"]
            remedy = meant(name, known_names) or f": give {', '.join(settings)}"
            raise UnknownSetting(f"unknown setting {name!r}{remedy}")


K = TypeVar("K")


def settings(kind: type[K]) -> type[K]:
    """Make the constructor of a class raise UnknownSetting for an unknown keyword.

    The types of its arguments are not checked: Temporal makes records of a history with lists in place of tuples.
    """
    make: Callable[..., None] = kind.__init__
    known = _known_settings(make)

    @wraps(make)
    def checked(*args: Any, **settings: Any) -> None:
        check_settings(settings, known)
        make(*args, **settings)

    kind.__init__ = checked  # type: ignore[method-assign, assignment, unused-ignore]
    return kind
