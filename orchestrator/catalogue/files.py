"""Files of tools: a .jsonl, a .json or a folder of them. The content of a file decides its form, not its name."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.catalogue.formats import tool_from, tool_to_json
from orchestrator.common.json_input import numbered_lines, read_json, reading
from orchestrator.errors import InvalidCatalogue
from orchestrator.records.tool import Tool

RELATIONS_FILE = "relations.jsonl"
_FORM = "give a tools.jsonl (UTF-8, one JSON object per line), or a folder with one"

logger = logging.getLogger(__name__)


def read_tools(path: str | Path, server: str | None = "") -> list[Tool]:
    """Return all tools of a .jsonl, a .json, or a folder of them, each once.

    Args:
        path: The file or the folder.
        server: The server of tools that name none. None: the name of their file, without its suffix.

    Raises:
        InvalidCatalogue: A file or a line is wrong. The message names it.
    """
    found: dict[str, tuple[str, Tool]] = {}
    for file in _files(Path(path)):
        for place, record in _records(file, _text(file)):
            with reading(place, error=InvalidCatalogue):
                tool = tool_from(record, _stem(file) if server is None else server)
                if server is None and not tool.server:
                    raise InvalidCatalogue(
                        "the tool has no server, and its file has no name for one: give --server NAME"
                    )
                before, known = found.setdefault(tool.key, (place, tool))
                if known.hash != tool.hash:
                    raise InvalidCatalogue(
                        f"the key {tool.key!r} is also at {before}, with another definition: rename one of the tools, "
                        "or give them different servers"
                    )
    stated = _relations(Path(path))
    for source in stated.keys() - found.keys():
        logger.warning("%s: the relations of %r are ignored, because there is no such tool", path, source)
    return [_with(tool, stated[tool.key]) if tool.key in stated else tool for _, tool in found.values()]


def _relations(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the relations in the relations.jsonl of the folder, or next to a tools.jsonl file, by tool."""
    file = (path if path.is_dir() else path.parent) / RELATIONS_FILE
    if not (path.is_dir() or path.name == "tools.jsonl") or not file.is_file():
        return {}
    stated: dict[str, list[dict[str, Any]]] = {}
    for place, record in _lines(file, _text(file)):
        if not isinstance(record, dict) or not isinstance(record.get("from"), str):
            raise InvalidCatalogue(f'{place}: give {{"from": KEY, "to": KEY, "type": TYPE}}, not {record!r:.80}')
        stated.setdefault(record["from"], []).append({name: own for name, own in record.items() if name != "from"})
    return stated


def _with(tool: Tool, stated: list[dict[str, Any]]) -> Tool:
    own = tool_to_json(tool)
    with reading(f"{RELATIONS_FILE}, from {tool.key!r}", error=InvalidCatalogue):
        return tool_from({**own, "relations": [*own.get("relations", []), *stated]})


def _stem(file: Path) -> str:
    """Return the name of a file for its tools. Empty for a pipe."""
    return file.stem if file.is_file() and file.parts[:2] != ("/", "dev") else ""


def _files(path: Path) -> list[Path]:
    """Return the file itself. For a folder, return its tools.jsonl, or its tools.json, or all its .jsonl and .json
    files.
    """
    with reading(path, _FORM, InvalidCatalogue):
        if not path.exists():
            within = "" if path.is_absolute() else f" in {Path.cwd()}"
            raise InvalidCatalogue(f"there is no such file or folder{within}; {_FORM}")
        if not path.is_dir():
            return [path]
        if (path / "tenants").is_dir() or ((path / "meta.json").is_file() and (path / "collection").is_dir()):
            written = (
                f"use --store {path}, or write its tools to a file with `toolroute tools list --store {path} -o jsonl`"
            )
            raise InvalidCatalogue(f"this folder is a store, not a folder of tool files: {written}")
        files = {file.name: file for file in sorted(path.iterdir()) if file.suffix.lower() in (".jsonl", ".json")}
        files.pop(RELATIONS_FILE, None)
        if not files:
            raise InvalidCatalogue("this folder has no tools.jsonl and no other .jsonl or .json file")
    named = files.get("tools.jsonl") or files.get("tools.json")
    return [named] if named else list(files.values())


def _text(path: Path) -> str:
    with reading(path, _FORM, InvalidCatalogue):
        return path.read_text(encoding="utf-8-sig")


def _records(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the records of a file, each with its place. A file of lines has a whole object on its first line."""
    first, _, rest = text.strip().partition("\n")
    if first and not (rest and first.startswith("{") and first.rstrip().endswith("}")):
        yield from _document(path, text)
    else:
        yield from _lines(path, text)


def _lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    for number, line in numbered_lines(text):
        with reading(f"{path}:{number}", "give one JSON object per line", InvalidCatalogue):
            record = read_json(line)
        yield f"{path}:{number}", record


def _document(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list, of the list "tools" in an object, or a single tool."""
    with reading(path, error=InvalidCatalogue):
        records = value = read_json(text)
    if isinstance(value, dict):  # In a tool that is an agent, "tools" may be the names of the tools that it uses.
        inner = value.get("tools")
        is_list = isinstance(inner, list) and all(isinstance(tool, dict) for tool in inner)
        records = inner if is_list else [value] if "name" in value or "function" in value else None
    if not isinstance(records, list):
        form = 'give a JSON list of tools, an object with the list under "tools", or one tool per line'
        raise InvalidCatalogue(f"{path}: no tools found; {form}")
    for number, record in enumerate(records, start=1):
        yield f"{path}: tool {number}", record
