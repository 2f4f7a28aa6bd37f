"""What people and models write: JSON read strictly, and in words why a file or a record of it cannot be read."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


def read_json(text: str) -> Any:
    """JSON alone; ValueError for anything else, and for what is nested too deep.

    Python would also take NaN and the infinities, which no model's endpoint does, and of a name that stands twice in
    one object keep the last in silence.
    """
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deep") from None


_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)


def without_comments(text: str) -> str:
    """JSON as editors let people write it, made plain: comments and a comma behind the last item become blanks.

    Strings stay as they are, and everything stays where it stands, for what an error says of its place.
    """
    for part in (_COMMENT, _LAST_COMMA):
        text = part.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"\S", " ", found[0]), text)
    return text


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, counted from 1 with the others. Only a line feed ends one: JSON texts may hold
    U+2028 and its like, at which `splitlines` would cut."""
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


def why_unread(error: OSError | UnicodeDecodeError) -> str:
    """Why a text file could not be read; its path stands elsewhere in what is said."""
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "not UTF-8"


_KINDS = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}


def first_problem(error: "ValidationError", whole: str = "") -> str:
    """The first thing wrong with a record, with the kind of what was given in its place, which may hold a secret;
    `whole` names it where that is all of it."""
    problem = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, problem["loc"])) or whole
    given = _KINDS.get(type(problem["input"])) if problem["type"].endswith("_type") else None
    said = f"{problem['msg']}, but it is {given}" if given else problem["msg"]
    return f"{where}: {said}" if where else said
