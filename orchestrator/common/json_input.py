"""Reads JSON written by people and models strictly, and explains why a file or record cannot be read."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from orchestrator.errors import InvalidConfig, InvalidInput

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


def read_json(text: str) -> Any:
    """Parse JSON. Raises ValueError ("not JSON (...)") for other text and for too deep nesting.

    Python's own parser also accepts NaN and infinities, and silently keeps the last of two equal names.
    """
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("not JSON (nested too deep)") from None
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None


_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)


def without_comments(text: str) -> str:
    """Return plain JSON from JSON with comments and trailing commas, which become blanks.

    Strings are unchanged, and every character keeps its position, for positions in errors.
    """
    for part in (_COMMENT, _LAST_COMMA):
        text = part.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"\S", " ", found[0]), text)
    return text


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines that are not blank, counted from 1 with the others. U+2028, which JSON may hold, ends none."""
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice in one object: rename or remove one")
    return found


@contextmanager
def reading(place: object, remedy: str = "", error: type[InvalidInput] = InvalidInput) -> Iterator[None]:
    """Raise the error with place and remedy if a file or record in the block cannot be read.

    Args:
        place: The file and line.
        remedy: The remedy.
        error: The error class.
    """
    from pydantic import ValidationError

    end = f"; {remedy}" if remedy else ""
    try:
        yield
    except InvalidInput as wrong:
        raise error(f"{place}: {wrong}") from None
    except (OSError, UnicodeDecodeError) as wrong:
        raise error(f"{place}: cannot be read ({why_unread(wrong)}){end}") from None
    except ValidationError as wrong:
        raise error(f"{place}: {first_problem(wrong, 'the record')}{end}") from None
    except ValueError as wrong:
        raise error(f"{place}: {wrong}{end}") from None


def why_unread(error: OSError | UnicodeDecodeError) -> str:
    """Return the reason why a text file could not be read, without its path."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "not UTF-8"


_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}


def first_problem(error: "ValidationError", whole: str = "") -> str:
    """Return the first problem with a record, with the type of the wrong value. The value itself may be a secret.

    `whole` is the name of the record, for a problem with all of it.
    """
    problem = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, problem["loc"])) or whole
    given = _KINDS.get(type(problem["input"])) if problem["type"].endswith("_type") else None
    said = f"{problem['msg']}, but it is {given}" if given else problem["msg"]
    return f"{where}: {said}" if where else said


_NEARLY = 0.85
"""How alike a name and a known one are for a slip: `approveDestructive` and `tennant` are."""


def nearly(name: str, known: Iterable[str]) -> str:
    """Return the known name that this misspelt name means, also in another naming style, or ""."""
    return _nearest(name, tuple(known))


@lru_cache(maxsize=256)  # All tools of a file have the same further fields.
def _nearest(name: str, known: tuple[str, ...]) -> str:
    bare = {_bare(one): one for one in known}
    return next((bare[found] for found in get_close_matches(_bare(name), bare, 1, _NEARLY)), "")


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def meant(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the most similar known name, or ""."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_known(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise InvalidConfig for the first unknown name.

    Args:
        what: The kind of name, for the error.
        given: The given names.
        known: The known names.
    """
    for name in given:
        if name not in known:
            raise InvalidConfig(f"{what}: nothing is called {name!r}{meant(name, known)}")


@cache
def spellings(kind: "type[BaseModel]") -> dict[str, str]:
    """Return the field that each spelling of a record's names means."""
    return {
        spelling: name
        for name, field in kind.model_fields.items()
        for spelling in getattr(field.validation_alias, "choices", [name])
    }


def slip(given: Collection[str], fields: Mapping[str, str], what: str = "field") -> str:
    """Return the first name that resembles a missing field, with the correct spelling, or "".

    Args:
        given: The given names.
        fields: The field of each spelling.
        what: The kind of name, for the message.
    """
    found = {fields.get(name) for name in given}
    for name in given:
        meant = "" if name in fields else nearly(str(name), fields)
        if meant and fields[meant] not in found:
            return f"{str(name)!r} is no {what}: did you mean {meant!r}?"
    return ""
