"""A client's JSON file, in which the servers are replaced and comments and trailing commas stay.

If the standard library writes exactly the same text, a program wrote the file (Claude Code's has several megabytes),
and the standard library writes it again. Any other file is read by `json5`, which keeps comments and blanks as parts of
its tree:

    { /* leading */ "a": 1 /* after a */ , /* before b */ "b": 2 , /* after the comma */ }
"""

import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from orchestrator.common.json_input import read_json, without_comments

if TYPE_CHECKING:
    from json5.model import JSONObject, Key, Value

INDENTS = (2, 4, "\t", None)
"""The indents that programs write, the most usual first."""
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|(//[^\n]*|/\*.*?\*/)', re.DOTALL)


def parse(text: str) -> Any:
    """Return the value of the file, None for an empty one. Raises ValueError for a broken one."""
    return read_json(without_comments(text)) if text.strip() else None


def comments(text: str) -> list[str]:
    """Return the comments of the file."""
    return [comment for comment in _COMMENT.findall(text) if comment]


def with_servers(text: str, key: str, entries: Mapping[str, Any]) -> str:
    """Return the text with these servers as the value of `key`. All other content is unchanged.

    Args:
        text: The text of the file.
        key: The key of the servers, at the top level.
        entries: The entries of the servers, by name.
    """
    as_written = _written_by_a_program(text)
    # Such a file has no comments, and `json5` takes seconds for its megabytes.
    if as_written is not None:
        indent, end = as_written
        content = {**json.loads(text), key: entries}
        return json.dumps(content, indent=indent, ensure_ascii=False) + end
    return _with_comments(text, key, entries)


def _written_by_a_program(text: str) -> tuple[int | str | None, str] | None:
    """Return the indent and the end of a text that `json.dumps` writes just so, otherwise None."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    stripped = text.rstrip()
    for indent in INDENTS:
        if json.dumps(content, indent=indent, ensure_ascii=False) == stripped:
            return indent, text[len(stripped) :]
    return None


def _with_comments(text: str, key: str, entries: Mapping[str, Any]) -> str:
    from json5.loader import ModelLoader, loads
    from json5.model import JSONObject

    tree = loads(text, loader=ModelLoader())
    root = tree.value
    names = _names(root)
    if key in names and isinstance(root.values[names.index(key)], JSONObject):
        _replace(root.values[names.index(key)], entries, outer=_indent(root) or "  ")
    else:
        _replace(root, {**_value(root), key: dict(entries)}, outer="")
    return _dumped(tree)


def _dumped(node: Any) -> str:
    from json5.dumper import ModelDumper, dumps

    dumper: Any = ModelDumper()
    return str(dumps(node, dumper=dumper))


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object: its nodes, and the blanks and comments before it."""

    name: str
    key: "Key"
    value: "Value"
    gap: list[Any]


def _replace(node: "JSONObject", entries: Mapping[str, Any], *, outer: str) -> None:
    """Give an object these members. Members that stay keep their text, and comments stay but on a removed line.

    Args:
        node: The object.
        entries: Its new members.
        outer: The indent of the line on which the object begins.
    """
    before = _value(node)
    members = _members(node)
    indent = _indent(node) or outer + ("\t" if outer.startswith("\t") else "  ")
    members, end = _kept(members, _end(node), entries, indent)
    for position, member in enumerate(members):
        if entries[member.name] != before[member.name]:
            value = _node(entries[member.name], indent)
            value.wsc_before = member.value.wsc_before
            members[position] = replace(member, value=value)
    for name, entry in entries.items():
        if name not in before:
            value = _node(entry, indent)
            value.wsc_before = [" "]
            members.append(
                _Member(
                    name, _node(name, indent), value, [*_up_to_last_comment(end), f"\n{indent}"]
                )
            )
            end = [f"\n{outer}"]
    _write(node, members, end)


def _members(node: "JSONObject") -> list[_Member]:
    gaps = [node.leading_wsc, *(key.wsc_before for key in node.keys[1:])]
    parts = zip(_names(node), node.keys, node.values, gaps, strict=False)
    return [_Member(name, key, value, list(gap)) for name, key, value, gap in parts]


def _end(node: "JSONObject") -> list[Any]:
    """Return the blanks and comments before the closing brace."""
    if not node.values:
        return list(node.leading_wsc)
    if node.trailing_comma is not None:
        return list(node.trailing_comma.wsc_after)
    end = list(node.values[-1].wsc_after)
    node.values[-1].wsc_after = []
    return end


def _indent(node: "JSONObject") -> str:
    """Return the blanks before the first member that begins a line, "" if none does."""
    for member in _members(node):
        blanks = "".join(part for part in member.gap if isinstance(part, str))
        if "\n" in blanks:
            return blanks.rpartition("\n")[2]
    return ""


def _kept(
    members: Sequence[_Member], end: list[Any], entries: Container[str], indent: str
) -> tuple[list[_Member], list[Any]]:
    """Return the members that stay, and the object's end, with the comments before the removed members."""
    remaining: list[_Member] = []
    carried: list[Any] = []
    follows_removed = False
    for member in members:
        gap = _from_next_line(member.gap) if follows_removed else member.gap
        follows_removed = member.name not in entries
        if follows_removed:
            carried = _joined(carried, _up_to_last_comment(gap), indent)
        else:
            remaining.append(replace(member, gap=_joined(carried, gap, indent)))
            carried = []
    return remaining, _joined(carried, _from_next_line(end) if follows_removed else end, indent)


def _from_next_line(gap: list[Any]) -> list[Any]:
    """Return a gap without the rest of the line on which it begins."""
    line_ends = (
        position for position, part in enumerate(gap) if isinstance(part, str) and "\n" in part
    )
    return gap[next(line_ends, 0) :]


def _up_to_last_comment(gap: list[Any]) -> list[Any]:
    last = max(
        (position for position, part in enumerate(gap) if not isinstance(part, str)), default=-1
    )
    return gap[: last + 1]


def _joined(first: list[Any], then: list[Any], indent: str) -> list[Any]:
    """Return two gaps as one, with a new line between them if a comment would swallow the second gap."""
    if first and not (then and isinstance(then[0], str) and "\n" in then[0]):
        return [*first, f"\n{indent}", *then]
    return [*first, *then]


def _write(node: "JSONObject", members: Sequence[_Member], end: list[Any]) -> None:
    node.keys = [member.key for member in members]
    node.values = [member.value for member in members]
    node.leading_wsc = members[0].gap if members else end
    for position, member in enumerate(members):
        member.key.wsc_before = member.gap if position else []
    if not members:
        node.trailing_comma = None
    elif node.trailing_comma is not None:
        node.trailing_comma.wsc_after = end
    else:
        node.values[-1].wsc_after = [*_up_to_last_comment(node.values[-1].wsc_after), *end]


def _node(value: Any, indent: str) -> Any:
    """Return a value as a node of the tree."""
    from json5.loader import ModelLoader, loads

    step = "\t" if indent.startswith("\t") else 2
    text = json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"\n{indent}")
    return loads(text, loader=ModelLoader()).value


def _names(node: "JSONObject") -> list[str]:
    return [json.loads(_source(name)) for name in node.keys]


def _value(node: "JSONObject") -> dict[str, Any]:
    value: dict[str, Any] = parse(_source(node))
    return value


def _source(node: "Key | Value") -> str:
    """Return a node's text without the comments around it."""
    before = node.wsc_before
    after = node.wsc_after
    node.wsc_before = []
    node.wsc_after = []
    try:
        return _dumped(node)
    finally:
        node.wsc_before = before
        node.wsc_after = after
