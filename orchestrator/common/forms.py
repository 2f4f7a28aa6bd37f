"""Check settings and names: a wrong one is shown with what would do, a misspelt one with what is meant."""

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from orchestrator.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import BaseModel


class Form(NamedTuple):
    """A setting's types, how to say so, and a condition on what is not None."""

    kinds: tuple[type, ...]
    wanted: str
    fits: Callable[[Any], bool] = lambda _: True


TOKENS = Form((int,), "a number of tokens above 0", lambda tokens: tokens > 0)
PROBABILITY = Form((int, float), "a probability, 0 to 1", lambda value: 0 <= value <= 1)


def check_forms(settings: object, forms: Mapping[str, Form], error: type[InvalidInput] = InvalidInput) -> None:
    """Raise the error for the first setting of a wrong type or value. True and False are numbers to Python alone."""
    for name, form in forms.items():
        value = getattr(settings, name)
        is_kind = isinstance(value, form.kinds) and (bool in form.kinds or not isinstance(value, bool))
        if not is_kind or (value is not None and not form.fits(value)):
            raise error(f"{name}={value!r:.80}: give {form.wanted}")


_Choice = TypeVar("_Choice", bound=StrEnum)


def member(kind: type[_Choice], name: str, value: Any) -> _Choice:
    """Return the member of an enumeration that a value names; InvalidInput lists them all."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(f"{name}={value!r}: give one of {', '.join(kind)}") from None


_NEARLY = 0.85
"""How alike a name and a known one are for a slip: `approveDestructive` and `tennant` are."""


def nearly(name: str, known: Iterable[str]) -> str:
    """Return the known name that this one is but for a slip, or the case that a language writes it in; else ""."""
    return _nearest(name, tuple(known))


@lru_cache(maxsize=256)  # All tools of a file have the same further fields.
def _nearest(name: str, known: tuple[str, ...]) -> str:
    bare = {_bare(one): one for one in known}
    return next((bare[found] for found in get_close_matches(_bare(name), bare, 1, _NEARLY)), "")


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def spellings(kind: "type[BaseModel]") -> dict[str, str]:
    """Return the field that each spelling of a record's names means."""
    return {
        spelling: name
        for name, field in kind.model_fields.items()
        for spelling in getattr(field.validation_alias, "choices", [name])
    }


def misspelt(given: Collection[str], fields: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first of these names that is nearly one of a missing field, and the spelling meant; None if none is.

    fields: the field that each spelling names.
    """
    found = {fields.get(name) for name in given}
    for name in given:
        meant = "" if name in fields else nearly(str(name), fields)
        if meant and fields[meant] not in found:
            return str(name), meant
    return None
