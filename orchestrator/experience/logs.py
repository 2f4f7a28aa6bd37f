"""Logs of past tasks: lines of our own, chats as OpenAI's and Anthropic's APIs write them, and clients' transcripts."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat

from orchestrator.catalogue.export import keys_by_name
from orchestrator.common.json_input import read_json, reading, slip, spellings
from orchestrator.common.regular import regular_or_pipe
from orchestrator.errors import InvalidInput
from orchestrator.experience import transcripts
from orchestrator.records.outcome import WHEN, Use, is_past
from orchestrator.records.request import MAX_QUERY_CHARS
from orchestrator.records.tool import Tool

FORM = (
    'give one JSON object per line: {"query", "used": ["server:name", ...], "ok", "actor", "at"}, or a chat with its '
    '"messages", or a transcript of Claude Code, Cursor or Codex'
)

_MOST_CHARS = 16 * 2**20
"""The characters of one line. A chat with three of the largest images that an API takes has as many."""
_MOST_TASKS = 100_000
"""The tasks of one log. A tenant uses its newest 10,000, and 100,000 short tasks are read within 180 MiB."""


def seconds(value: object) -> object:
    """Return the seconds since 1970 of an ISO 8601 date and time. The default time zone is UTC."""
    if not isinstance(value, str):
        return value
    at = datetime.fromisoformat(value)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _checked(at: float | None) -> float | None:
    if at is not None and not is_past(at):
        raise ValueError(f"{at!r}: give {WHEN}")
    return at


When = Annotated[FiniteFloat | None, BeforeValidator(seconds), AfterValidator(_checked)]


class Past(BaseModel):
    """A past task from a log.

    Attributes:
        query: The text, or "" if it was not kept.
        used: The used tools, by key or by the name that a model called.
        failed: The calls that did not work.
        id: The task's identity.
        chosen: As in an Outcome.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)
    query: str = Field(max_length=MAX_QUERY_CHARS, pattern=r"^$|\S")
    used: tuple[str, ...]
    ok: bool = True
    actor: str = ""
    at: When = None
    failed: tuple[str, ...] = ()
    id: str = ""
    chosen: bool = True

    @property
    def uses(self) -> tuple[Use, ...]:
        return (
            *(Use(tool=key) for key in self.used),
            *(Use(tool=key, ok=False) for key in self.failed),
        )


class _Chat(BaseModel):
    model_config = ConfigDict(extra="ignore")
    messages: list[dict[str, Any]]
    actor: str = ""
    at: When = None


def read_past(path: Path) -> list[Past]:
    """Read a log line by line.

    Raises:
        InvalidInput: A line cannot be used, or the log has more than 100,000 tasks.
    """
    tasks: list[Past] = []
    for task in _tasks_of_log(path):
        if len(tasks) == _MOST_TASKS:
            raise InvalidInput(
                f"{path}: more than {_MOST_TASKS:,} tasks; give the newest tasks alone"
            )
        tasks.append(task)
    return tasks


def _tasks_of_log(path: Path) -> Iterator[Past]:
    for is_transcript, group in groupby(
        _records(path), lambda numbered: transcripts.is_line(numbered[1])
    ):
        if is_transcript:
            yield from _tasks(transcripts.message(record) for _, record in group)
            continue
        for number, record in group:
            with reading(f"{path}:{number}", FORM):
                tasks = _tasks_of_record(record)
            yield from tasks


def _tasks_of_record(record: dict[str, Any]) -> list[Past]:
    kind = _Chat if "messages" in record else Past
    if wrong := slip(record, spellings(kind)):
        raise ValueError(wrong)
    if kind is Past:
        return [Past(**record)]
    chat = _Chat(**record)
    return list(_tasks(chat.messages, chat.actor, chat.at))


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of the lines that are not blank, with their numbers."""
    for number, line in _lines(path):
        with reading(f"{path}:{number}", FORM):
            if not isinstance(record := read_json(line), dict):
                raise ValueError("not a JSON object")
        yield number, record


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers. U+2028, which JSON may hold, ends no line."""
    with (
        reading(path, FORM),
        open(path, encoding="utf-8-sig", newline="\n", opener=regular_or_pipe) as file,
    ):
        number = 0
        while line := file.readline(_MOST_CHARS + 1):
            number += 1
            if len(line) > _MOST_CHARS:
                raise ValueError(f"line {number} has more than {_MOST_CHARS:,} characters")
            if line.strip():
                yield number, line


def with_keys(tasks: Sequence[Past], tools: Sequence[Tool]) -> tuple[list[Past], list[str]]:
    """Return the tasks with the keys of the tools that they used, and the names that no tool, or several, have."""
    keys = _names_with_one_key(tools) | keys_by_name(tools)
    key_of_name: dict[str, str] = {}
    unknown: dict[str, None] = {}
    for task in tasks:
        for name in (*task.used, *task.failed):
            key = keys.get(name) or keys.get(_plain(name))
            if key:
                key_of_name[name] = key
            else:
                unknown[name] = None

    def known(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key_of_name[name] for name in names if name in key_of_name))

    keyed = list[Past]()
    for task in tasks:
        keyed.append(
            task.model_copy(update={"used": known(task.used), "failed": known(task.failed)})
        )
    return keyed, list(unknown)


def _names_with_one_key(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the keys by the names that clients give to tools, without names that several tools have."""
    keys: dict[str, set[str]] = {}
    for tool in tools:
        name = _plain(f"mcp__{tool.server}__{tool.name}")
        keys.setdefault(name, set()).add(tool.key)
    return {name: min(candidates) for name, candidates in keys.items() if len(candidates) == 1}


def _plain(name: str) -> str:
    """Return a name as clients write it: of letters, digits and _."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _tasks(
    messages: Iterable[Mapping[str, Any]], actor: str = "", at: float | None = None
) -> Iterator[Past]:
    """Yield each request of a user that tools were called for, with their names."""
    query = ""
    began = at
    names_by_call: dict[Any, str] = {}
    failed_calls = set[Any]()
    for message in chain(messages, [{"role": "user", "content": "end"}]):
        blocks = transcripts.text_blocks(message.get("content"))
        failed_calls |= {block.get("tool_use_id") for block in blocks if block.get("is_error")}
        text = " ".join(
            str(block["text"]) for block in blocks if isinstance(block.get("text"), str)
        ).strip()
        if message.get("role") == "user" and text:
            if names_by_call and query:
                yield Past(
                    query=query,
                    used=tuple(
                        name for call, name in names_by_call.items() if call not in failed_calls
                    ),
                    failed=tuple(
                        name for call, name in names_by_call.items() if call in failed_calls
                    ),
                    actor=actor,
                    at=began,
                )
            query = text[:MAX_QUERY_CHARS]
            began = message.get("at", at)
            names_by_call = {}
            failed_calls = set()
        names_by_call |= {call or object(): name for call, name in _calls(message)}


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield the id and the tool's name of each call of a message, in either API's shape, or OpenAI's older one."""
    for call in _openai_calls(message):
        function = (
            (call.get("function") or call.get("custom")) if isinstance(call, Mapping) else None
        )
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise ValueError(
                f"{call!r:.80} in tool_calls: give each call with its function and the function's name"
            )
        yield call.get("id"), transcripts.called(function["name"], function.get("arguments"))
    for block in transcripts.text_blocks(message.get("content")):
        if block.get("type") == "tool_use":
            yield block.get("id"), transcripts.called(str(block.get("name")), block.get("input"))


def _openai_calls(message: Mapping[str, Any]) -> list[Any]:
    calls = message.get("tool_calls") or []
    calls = list(calls) if isinstance(calls, list) else [calls]
    older = message.get("function_call")
    return [*calls, {"function": older}] if older else calls
