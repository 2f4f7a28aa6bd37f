"""Files of tools: a .jsonl, a .json or a folder of them. What a file holds tells its form, not what it is called."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.catalogue.formats import tool_from, tool_to_json
from orchestrator.common.json_input import numbered_lines, read_json, why_unread
from orchestrator.errors import InvalidCatalogue
from orchestrator.records.tool import Tool

RELATIONS_FILE = "relations.jsonl"

Read = TypeVar("Read")
logger = logging.getLogger(__name__)


def read_tools(path: str | Path, server: str | None = "") -> list[Tool]:
    """Return all tools of a .jsonl, a .json, or a folder of them, each once; InvalidCatalogue names file and line.

    Tools that name no server get `server`; None: the name of their file, without its suffix.
    """
    found: dict[str, tuple[str, Tool]] = {}
    for file in _read(Path(path), _files):
        for place, record in _records(file, _read(file, _text)):
            try:
                tool = tool_from(record)
                if not tool.server and server != "":
                    tool = tool_from({**tool_to_json(tool), "server": server or _name_of(file)})
            except InvalidCatalogue as error:
                raise InvalidCatalogue(f"{place}: {error}") from None
            before, known = found.setdefault(tool.key, (place, tool))
            if known.hash != tool.hash:
                raise InvalidCatalogue(
                    f"{place}: the key {tool.key!r} stands in {before} already, with another definition: "
                    "rename one, or give them different servers"
                )
    stated = _relations(Path(path))
    for source in stated.keys() - found.keys():
        logger.warning("%s: %r states a relation and is no tool here: it is ignored", path, source)
    return [_with(tool, stated.get(tool.key, [])) for _, tool in found.values()]


def _relations(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the edges that a relations.jsonl in the folder of the tools, or right by their file, states, by tool."""
    file = (path if path.is_dir() else path.parent) / RELATIONS_FILE
    if not (path.is_dir() or path.name == "tools.jsonl") or not file.is_file():
        return {}
    stated: dict[str, list[dict[str, Any]]] = {}
    for place, record in _lines(file, _read(file, _text)):
        if not isinstance(record, dict) or not isinstance(record.get("from"), str):
            raise InvalidCatalogue(f'{place}: give {{"from": KEY, "to": KEY, "type": TYPE}}, not {record!r:.80}')
        stated.setdefault(record["from"], []).append({name: own for name, own in record.items() if name != "from"})
    return stated


def _with(tool: Tool, stated: list[dict[str, Any]]) -> Tool:
    if not stated:
        return tool
    own = tool_to_json(tool)
    try:
        return tool_from({**own, "relations": [*own.get("relations", []), *stated]})
    except InvalidCatalogue as error:
        raise InvalidCatalogue(f"{RELATIONS_FILE}, from {tool.key!r}: {error}") from None


def _name_of(file: Path) -> str:
    if file.parts[:2] == ("/", "dev") or not file.is_file():
        raise InvalidCatalogue("the tool names no server, and there is no file to call one after: give --server NAME")
    return file.stem


def _read(path: Path, by: Callable[[Path], Read]) -> Read:
    try:
        return by(path)
    except FileNotFoundError:
        raise InvalidCatalogue(f"{path} does not exist: give a tools.jsonl, or a folder with one") from None
    except (OSError, UnicodeDecodeError) as error:
        form = "give a UTF-8 file, one JSON object a line"
        raise InvalidCatalogue(f"{path}: cannot be read ({why_unread(error)}); {form}") from None


def _files(path: Path) -> list[Path]:
    """Return the file itself; of a folder its tools.jsonl, else its tools.json, else all its .jsonl and .json."""
    if not path.is_dir():
        return [path]
    if (path / "tenants").is_dir() or ((path / "meta.json").is_file() and (path / "collection").is_dir()):
        written = f"`toolroute tools list --store {path} -o jsonl` writes its tools as a file"
        raise InvalidCatalogue(f"{path} is a store, not a folder of tools: {written}")
    read = [file for file in sorted(path.iterdir()) if file.suffix.lower() in (".jsonl", ".json")]
    files = {file.name: file for file in read if file.name != RELATIONS_FILE}
    if not files:
        raise InvalidCatalogue(f"{path}: no tools.jsonl and no other .jsonl or .json in this folder")
    named = files.get("tools.jsonl") or files.get("tools.json")
    return [named] if named else list(files.values())


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig")


def _records(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the records of a file, each with where it stands. Only lines of objects begin with a whole object."""
    first, _, rest = text.strip().partition("\n")
    if first and not (rest and first.startswith("{") and first.rstrip().endswith("}")):
        yield from _document(path, text)
    else:
        yield from _lines(path, text)


def _lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    for number, line in numbered_lines(text):
        try:
            yield f"{path}:{number}", read_json(line)
        except ValueError as error:
            raise InvalidCatalogue(f"{path}:{number}: not JSON ({error}); give one JSON object a line") from None


def _document(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list, or of an object's list under "tools"; or one tool alone."""
    try:
        value = read_json(text)
    except ValueError as error:
        raise InvalidCatalogue(f"{path}: not JSON ({error})") from None
    records = value
    if isinstance(value, dict):  # Of a tool that is an agent, "tools" may be the names of those that it uses.
        inner = value.get("tools")
        is_list = isinstance(inner, list) and all(isinstance(tool, dict) for tool in inner)
        records = inner if is_list else [value] if "name" in value or "function" in value else None
    if not isinstance(records, list):
        form = 'give a JSON list of tools, an object with the list under "tools", or one tool a line'
        raise InvalidCatalogue(f"{path}: {form}")
    for number, record in enumerate(records, start=1):
        yield f"{path}: tool {number}", record
