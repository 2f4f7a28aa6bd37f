"""Strict reading of the JSON that people and models write, with messages about unreadable files and records, and the
number of values in a message before it is decoded.
"""

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
    """Return the value of a JSON text.

    Raise ValueError ("not JSON (...)") for other texts and for values nested too deeply.

    Python's own reader also accepts NaN and infinity, and silently keeps the last of two values with the same name.
    """
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("not JSON (nested too deeply)") from None
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None


_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
"""Strings match as well, so that `//` in an address does not begin a comment."""
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)


def without_comments(text: str) -> str:
    """Return plain JSON from the extended form that editors allow. Comments and a last comma become blanks.

    Strings stay unchanged, and everything keeps its position, so that an error names the right place.
    """
    for pattern in (_COMMENT, _LAST_COMMA):
        text = pattern.sub(_blanked, text)
    return text


def _blanked(match: re.Match[str]) -> str:
    text = match[0]
    return text if text.startswith('"') else re.sub(r"\S", " ", text)


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the lines that are not blank, with their numbers from 1.

    U+2028, which JSON may contain, does not end a line.
    """
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} is twice in one object: rename or remove one of them")
    return unique


@contextmanager
def reading(
    place: object, remedy: str = "", error: type[InvalidInput] = InvalidInput
) -> Iterator[None]:
    """Raise the error, with the place and the remedy, if a file or a record cannot be read within this context.

    Args:
        place: The file or the record, for the message.
        remedy: The end of the message.
        error: The type of the error.
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
    """Return the reason for an unreadable text file. The message has its path elsewhere."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "not UTF-8"


_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}
"""The words for a value's type in JSON. Errors are for people who do not know Python's names."""


def first_problem(error: "ValidationError", record: str = "") -> str:
    """Return the first fault of a record. It shows the kind of the value, not the value, which may be a secret.

    `record` is the name of the record, for a fault that is not about a field.
    """
    problem = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, problem["loc"])) or record
    kind = _KINDS.get(type(problem["input"])) if problem["type"].endswith("_type") else None
    wanted = problem["msg"].replace("a valid tuple", "a list")
    message = f"{wanted}, but it is {kind}" if kind else wanted
    return f"{where}: {message}" if where else message


_NEARLY = 0.85
"""The similarity from which a name counts as a typing error of a known name, as `approveDestructive` and `tennant` do.
"""


def nearly(name: str, known: Iterable[str]) -> str:
    """Return the known name of which this name is a typing error, or which it has in another case.

    Empty if no known name is near enough.
    """
    return _nearest(name, tuple(known))


@lru_cache(maxsize=256)  # The tools of a file have the same additional fields.
def _nearest(name: str, known: tuple[str, ...]) -> str:
    bare = {_bare(candidate): candidate for candidate in known}
    for match in get_close_matches(_bare(name), bare, 1, _NEARLY):
        return bare[match]
    return ""


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def meant(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the most similar known name. Empty if none is similar."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


MOST_LISTED = 10
"""The maximum number of names in an error."""


def check_known(what: str, names: Iterable[str], known_names: Collection[str]) -> None:
    """Raise InvalidConfig for the first name that is not known.

    Args:
        what: The name of the setting, for the error.
        names: The names.
        known_names: The known names.
    """
    for name in names:
        if name not in known_names:
            remedy = (
                meant(name, known_names) or f"; the known names: {shortened(known_names) or 'none'}"
            )
            raise InvalidConfig(f"{what}: unknown name {name!r}{remedy}")


def shortened(names: Collection[str]) -> str:
    """Return a list of names for an error, and the number of the names that are left out."""
    first = list(names)[:MOST_LISTED]
    omitted = len(names) - len(first)
    return ", ".join(first) + (f" and {omitted:,} more" if omitted else "")


@cache
def spellings(kind: "type[BaseModel]") -> dict[str, str]:
    """Return the field for each spelling of a record's names."""
    return {
        spelling: name
        for name, field in kind.model_fields.items()
        for spelling in getattr(field.validation_alias, "choices", [name])
    }


def slip(names: Collection[str], fields: Mapping[str, str], what: str = "field") -> str:
    """Return a message about the first name that is probably a typing error of a missing field. Otherwise empty.

    Args:
        names: The names.
        fields: The field of each spelling.
        what: The kind of name, for the message.
    """
    present = {fields.get(name) for name in names}
    for name in names:
        similar = "" if name in fields else nearly(str(name), fields)
        if similar and fields[similar] not in present:
            return f"unknown {what} {str(name)!r}: did you mean {similar!r}?"
    return ""


class JsonSize:
    """Counts the values of a message, piece by piece, before it is decoded.

    A decoded value takes up to 100 times its bytes.

    Attributes:
        brackets: The lists and objects.
        commas: The commas outside of texts.
        quotes: The quotes of texts.
    """

    def __init__(self) -> None:
        self.brackets = 0
        self.commas = 0
        self.quotes = 0
        self._begun = b""  # A backslash that escapes the first byte of the next piece.

    def add(self, piece: bytes) -> None:
        """Count a piece of the message."""
        piece = self._begun + piece
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        self._begun = b"\\" * (backslashes % 2)
        whole = piece.removesuffix(self._begun)
        without_escapes = whole.replace(rb"\\", b"").replace(rb"\"", b"")
        parts = without_escapes.split(b'"')
        outside_of_texts = b"".join(parts[self.quotes % 2 :: 2])
        self.quotes += len(parts) - 1
        self.brackets += outside_of_texts.count(b"[") + outside_of_texts.count(b"{")
        self.commas += outside_of_texts.count(b",")
