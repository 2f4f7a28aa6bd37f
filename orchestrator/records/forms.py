"""The types and names of settings, for callers without a type checker: what is wrong is told with what would do."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from orchestrator.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import BaseModel

Form = tuple[tuple[type, ...], str]
"""What a setting may be, and how to say so."""


def check_forms(settings: object, forms: Mapping[str, Form], error: type[InvalidInput] = InvalidInput) -> None:
    """Raises the error for the first setting of the wrong type. True and False are numbers to Python alone."""
    for name, (kinds, wanted) in forms.items():
        value = getattr(settings, name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise error(f"{name}={value!r:.80}: give {wanted}")


_Choice = TypeVar("_Choice", bound=StrEnum)


def member(kind: type[_Choice], name: str, value: Any) -> _Choice:
    """The member of an enumeration that a value names; InvalidInput tells them all."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(f"{name}={value!r}: give one of {', '.join(kind)}") from None


_NEARLY = 0.85
"""How alike a name and a known one are for a slip: `approveDestructive` and `tennant` are."""


def nearly(name: str, known: Iterable[str]) -> str:
    """The known name that this one is but for a slip, or the case that a language writes it in; "" where none is."""
    return _nearest(name, tuple(known))


@lru_cache(maxsize=256)  # All tools of a file have the same further fields.
def _nearest(name: str, known: tuple[str, ...]) -> str:
    bare = {_bare(one): one for one in known}
    return next((bare[found] for found in get_close_matches(_bare(name), bare, 1, _NEARLY)), "")


def spellings(kind: "type[BaseModel]") -> dict[str, str]:
    """The field that each spelling of a record's names means."""
    return {
        spelling: name
        for name, field in kind.model_fields.items()
        for spelling in getattr(field.validation_alias, "choices", [name])
    }


def misspelt(given: Collection[str], fields: Mapping[str, str]) -> tuple[str, str] | None:
    """The first of these names that is no field but nearly one that is lacking, and the spelling meant; None: no such.

    fields: the field that each spelling names.
    """
    there = {fields.get(name) for name in given}
    for name in given:
        meant = "" if name in fields else nearly(str(name), fields)
        if meant and fields[meant] not in there:
            return str(name), meant
    return None


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
