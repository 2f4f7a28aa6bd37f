"""Logs of past tasks: one JSON object a line, with the task and the tools that it used."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orchestrator.catalogue.reading import first_problem, numbered_lines, read_json, why_unread
from orchestrator.errors import InvalidInput
from orchestrator.records.request import MAX_QUERY_CHARS

FORM = 'give one JSON object a line: {"query", "used": ["server:name", ...], "ok", "actor", "at"}'


def _seconds(value: object) -> object:
    """Return the seconds since 1970 of a date and time in ISO 8601; without a zone it is UTC."""
    if not isinstance(value, str):
        return value
    at = datetime.fromisoformat(value)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


class Past(BaseModel):
    """A line: a task, the keys of the tools that it used, if it went well, by whom, and when."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    query: str = Field(min_length=1, max_length=MAX_QUERY_CHARS, pattern=r"\S")
    used: tuple[str, ...]
    ok: bool = True
    actor: str = ""
    at: Annotated[float | None, BeforeValidator(_seconds), Field(allow_inf_nan=False)] = None


def read_past(path: Path) -> list[Past]:
    """Read a log; InvalidInput names the file and the line that cannot be used."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read ({why_unread(error)}); {FORM}") from None
    tasks = []
    for number, line in numbered_lines(text):
        try:
            tasks.append(Past.model_validate(read_json(line)))
        except ValidationError as error:
            raise InvalidInput(f"{path}:{number}: {first_problem(error, 'the line')}; {FORM}") from None
        except ValueError as error:
            raise InvalidInput(f"{path}:{number}: not JSON ({error}); {FORM}") from None
    return tasks
