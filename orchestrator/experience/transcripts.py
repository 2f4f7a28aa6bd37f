"""Transcripts of Claude Code, Cursor and Codex: their lines as messages of Anthropic's API.

Claude Code: `~/.claude/projects/*/*.jsonl`. Cursor: `~/.cursor/projects/*/agent-transcripts/**/*.jsonl`, which hold no
results, so that each call counts as one that worked. Codex: `~/.codex/sessions/**/*.jsonl`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_ASKED = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)
_COMMAND = re.compile(r"<command-(?:name|args)>(.*?)</command-(?:name|args)>", re.DOTALL)
_ADDED = re.compile(r"<([\w-]+)[^>]*>.*?</\1>", re.DOTALL)
"""Texts that a client adds to its user's messages: reminders, the environment, the output of commands."""
_NOT_ASKED = ("isSidechain", "isMeta", "isCompactSummary")
"""Claude Code's marks of lines from a subagent, from itself, or with a summary of earlier lines."""
_CURSOR_CALLS = ("CallMcpTool", "CallDynamicTool")

Object = Mapping[str, Any]


def is_line(record: Object) -> bool:
    """Return True if an object has the form of a line of a transcript."""
    return ("type" in record or "role" in record) and not record.keys() & {
        "messages",
        "query",
        "used",
    }


def message(record: Object) -> dict[str, Any]:
    """Return a line as a message with `at`. Lines without a request or a call get no role."""
    payload = record.get("payload")
    inner = record.get("message")
    role: Any
    if isinstance(payload, Mapping):
        item = payload.get("item")
        role, content = _codex(item if isinstance(item, Mapping) else payload)
    elif isinstance(inner, Mapping) and not any(record.get(mark) for mark in _NOT_ASKED):
        role = record.get("role") or record.get("type")
        content = inner.get("content")
    else:
        return {}
    blocks = text_blocks(content)
    if role == "user":
        blocks = [
            {**block, "text": _asked(block["text"])} if "text" in block else block
            for block in blocks
        ]
    return {"role": role, "content": blocks, "at": record.get("timestamp")}


def text_blocks(content: Any) -> list[Object]:
    """Return a message's content as blocks. A text becomes one block, and parts that are no blocks are left out."""
    if isinstance(content, str):
        return [{"text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, Mapping)]


def called(name: str, arguments: Any) -> str:
    """Return the name of the tool that a call means, where the tool that is called only passes the call on."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return name
    if not isinstance(arguments, Mapping):
        return name
    if name in _CURSOR_CALLS and "toolName" in arguments:
        server = str(arguments.get("server") or arguments.get("namespace")).removeprefix("user-")
        return called(f"mcp__{server}__{arguments['toolName']}", arguments.get("arguments"))
    # Of `toolroute serve`, or one like it.
    inner = arguments.get("tool") if name.endswith("call_tool") else None
    return inner if isinstance(inner, str) else name


def _codex(item: Object) -> tuple[Any, Any]:
    """Return the role and the content of a line of Codex."""
    kind = item.get("type")
    if kind == "message":
        return item.get("role"), item.get("content")
    if kind in ("user_message", "UserMessage"):
        return "user", item.get("message") or item.get("content")
    call = item.get("call_id") or item.get("id")
    if kind in ("function_call", "custom_tool_call"):
        name = "__".join(filter(None, (item.get("namespace"), str(item.get("name")))))
        return "assistant", [_tool_use(call, name, item)]
    # The same call again, with its server and how it went.
    if kind in ("mcp_tool_call_end", "McpToolCall"):
        invocation = item.get("invocation") or item
        name = f"mcp__{invocation.get('server')}__{invocation.get('tool')}"
        result = {"type": "tool_result", "tool_use_id": call, "is_error": _has_failed(item)}
        return "assistant", [
            _tool_use(call, name, {"arguments": invocation.get("arguments")}),
            result,
        ]
    return "", None


def _tool_use(call: Any, name: str, item: Object) -> Object:
    return {"type": "tool_use", "id": call, "name": name, "input": item.get("arguments")}


def _has_failed(item: Object) -> bool:
    result = item.get("result") or {}
    answer = result.get("Ok", result) or {}
    return bool(
        "Err" in result
        or item.get("error")
        or answer.get("isError")
        or item.get("status") == "failed"
    )


def _asked(text: Any) -> str:
    """Return the user's own words of a message."""
    texts = _ASKED.findall(str(text)) or _COMMAND.findall(str(text)) or [_ADDED.sub("", str(text))]
    return " ".join(texts).strip()
