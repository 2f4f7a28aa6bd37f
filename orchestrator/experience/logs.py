"""Logs of past tasks: lines of our own, and chat logs with tool calls as OpenAI's and Anthropic's APIs write them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat

from orchestrator.catalogue.export import keys_by_name
from orchestrator.common.json_input import numbered_lines, read_json, reading, slip, spellings
from orchestrator.records.outcome import WHEN, Use, is_past
from orchestrator.records.request import MAX_QUERY_CHARS
from orchestrator.records.tool import Tool

FORM = (
    'give one JSON object a line: {"query", "used": ["server:name", ...], "ok", "actor", "at"}, or a chat with its '
    '"messages"'
)


def seconds(value: object) -> object:
    """Return the seconds since 1970 of a date and time in ISO 8601; without a zone it is UTC."""
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
    """A task, the tools that it used by key or by the name that a model called, if it went well, by whom, and when.

    `query` is "" where no text was kept; `failed`: calls that did not work; `id`: what names the task; `chosen` as in
    an Outcome.
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
        return (*(Use(tool=key) for key in self.used), *(Use(tool=key, ok=False) for key in self.failed))


class _Chat(BaseModel):
    model_config = ConfigDict(extra="ignore")
    messages: list[dict[str, Any]]
    actor: str = ""
    at: When = None


def read_past(path: Path) -> list[Past]:
    """Read a log; InvalidInput names the file and the line that cannot be used."""
    with reading(path, FORM):
        text = path.read_text(encoding="utf-8-sig")
    tasks: list[Past] = []
    for number, line in numbered_lines(text):
        with reading(f"{path}:{number}", FORM):
            if not isinstance(record := read_json(line), dict):
                raise ValueError("this is no JSON object")
            kind = _Chat if "messages" in record else Past
            if wrong := slip(record, spellings(kind)):
                raise ValueError(wrong)
            own = kind(**record)
            tasks += _tasks(own) if isinstance(own, _Chat) else [own]
    return tasks


def with_keys(tasks: Sequence[Past], tools: Sequence[Tool]) -> tuple[list[Past], list[str]]:
    """Return the tasks with the keys of the tools that they used, and the names that no tool, or several, have."""
    keys = keys_by_name(tools)
    unknown = dict.fromkeys(name for task in tasks for name in (*task.used, *task.failed) if name not in keys)

    def known(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(keys[name] for name in names if name in keys))

    found = [task.model_copy(update={"used": known(task.used), "failed": known(task.failed)}) for task in tasks]
    return found, list(unknown)


def _tasks(chat: _Chat) -> Iterator[Past]:
    """Yield each request of a user that tools were called for, with their names."""
    blocks = [block for message in chat.messages for block in _blocks(message)]
    wrong = {block.get("tool_use_id") for block in blocks if block.get("is_error")}
    query, called = "", list[tuple[str, str]]()
    for message in [*chat.messages, {"role": "user", "content": "end"}]:
        said = " ".join(str(block["text"]) for block in _blocks(message) if isinstance(block.get("text"), str))
        if message.get("role") == "user" and said.strip():
            if called and query:
                used = tuple(name for call, name in called if call not in wrong)
                failed = tuple(name for call, name in called if call in wrong)
                yield Past(query=query, used=used, failed=failed, actor=chat.actor, at=chat.at)
            query, called = said[:MAX_QUERY_CHARS], []
        called += _calls(message)


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}]
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the id and the tool's name of each call of a message, in either API's shape, or OpenAI's older one."""
    calls, older = message.get("tool_calls") or [], message.get("function_call")
    for call in [*(calls if isinstance(calls, list) else [calls]), *([{"function": older}] if older else [])]:
        called = (call.get("function") or call.get("custom")) if isinstance(call, Mapping) else None
        if not isinstance(called, Mapping) or not isinstance(called.get("name"), str):
            raise ValueError(f"{call!r:.80} in tool_calls: give calls with their function and its name")
        yield str(call.get("id")), called["name"]
    for block in _blocks(message):
        if block.get("type") == "tool_use":
            yield str(block.get("id")), str(block.get("name"))
