"""`--conversation FILE`: earlier turns as JSON lines."""

from pathlib import Path
from typing import Annotated

import click
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.catalogue.reading import first_problem, numbered_lines, why_unread
from orchestrator.cli.paths import PATH
from orchestrator.errors import InvalidInput
from orchestrator.records.request import Turn

CONVERSATION = click.option(
    "--conversation",
    type=PATH,
    metavar="FILE",
    help='Earlier turns, one JSON object a line: {"role", "text", "tools", "offered"}; only the text, or "content", '
    "must be there.",
)


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")
    text: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("text", "content"))]
    role: str = "user"
    tools: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()


_READER = TypeAdapter(_Line)


def read_conversation(path: Path | None) -> tuple[Turn, ...]:
    """The turns of the file, oldest first; none without a file. InvalidInput names the line that cannot be used."""
    if path is None:
        return ()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--conversation {path}: cannot be read ({why_unread(error)}); give a UTF-8 file") from None
    return tuple(_turn(path, number, line) for number, line in numbered_lines(text))


def _turn(path: Path, number: int, line: str) -> Turn:
    try:
        return Turn(**dict(_READER.validate_json(line)))
    except ValidationError as error:
        wrong = first_problem(error, "the line")
        form = '{"role": "user", "text": "...", "tools": ["server:name"]}'
        raise InvalidInput(f"--conversation {path}:{number}: {wrong}; write {form}") from None
