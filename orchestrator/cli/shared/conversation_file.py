"""A file of earlier turns, one JSON object a line, oldest first. OpenAI's messages are lines of this form, too.

{"role": "user", "text": "which invoices are open?"}
{"role": "assistant", "content": "Three.", "tools": ["erp:list_invoices"]}
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from orchestrator.common.json_input import numbered_lines, reading
from orchestrator.common.regular import read_text
from orchestrator.records.request import Turn

_FORM = 'write one turn a line: {"role": "user", "text": "...", "tools": ["server:name"]}'


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")
    text: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("text", "content"))]
    role: Literal["user", "assistant", "system", "developer", "tool"] = "user"
    tools: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()


def read_conversation(path: Path) -> tuple[Turn, ...]:
    """Return the turns of a file. Raises InvalidInput with the line that is wrong."""
    with reading(f"--conversation {path}", _FORM):
        text = read_text(path, pipes=True)
    turns = []
    for number, line in numbered_lines(text):
        with reading(f"--conversation {path}:{number}", _FORM):
            turns.append(Turn(**dict(_Line.model_validate_json(line))))
    return tuple(turns)
