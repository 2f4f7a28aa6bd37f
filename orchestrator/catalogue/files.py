"""Files of tools: a .jsonl, a .json or a folder of them. The content of a file decides its form, not its name.

tools.jsonl       {"server": "stripe", "name": "refund_charge", "description": "..."}      one tool per line
tools.json        [{...}, {...}], {"tools": [{...}, {...}]}, or a single tool
openapi.json      {"openapi": "3.1.0", "paths": {...}}, an OpenAPI description
relations.jsonl   {"from": "stripe:refund_charge", "to": "stripe:get_charge", "type": "needs"}
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.catalogue.formats import tool_from, tool_to_json
from orchestrator.catalogue.openapi import OpenApi, is_openapi
from orchestrator.common.json_input import numbered_lines, read_json, reading
from orchestrator.common.regular import read_text
from orchestrator.errors import InvalidCatalogue
from orchestrator.records.tool import Tool

RELATIONS_FILE = "relations.jsonl"
_REMEDY = "give a tools.jsonl (UTF-8, one JSON object per line), or a folder with one"

logger = logging.getLogger(__name__)


def read_tools(path: str | Path, server: str | None = "") -> list[Tool]:
    """Return all tools of a .jsonl, a .json, or a folder of them, each once.

    Args:
        path: The file or the folder.
        server: The server of tools that name none. None: the name of their file, without its suffix.

    Raises:
        InvalidCatalogue: A file or a line is wrong. The message names it.
    """
    tools: dict[str, Tool] = {}
    origins: dict[str, str] = {}
    for file in _files(Path(path)):
        default = _server_name(file) if server is None else server
        for origin, record in _records(file, _text(file), server):
            with reading(origin, error=InvalidCatalogue):
                tool = tool_from(record, default)
                if server is None and not tool.server:
                    raise InvalidCatalogue(
                        "the tool has no server, and its file has no name for one: give --server NAME"
                    )
                if tools.setdefault(tool.key, tool).hash != tool.hash:
                    raise InvalidCatalogue(
                        f"the key {tool.key!r} is also at {origins[tool.key]}, with another definition: rename one of "
                        "the tools, or give them different servers"
                    )
                origins.setdefault(tool.key, origin)
    return _with_relations(list(tools.values()), Path(path))


def _with_relations(tools: list[Tool], path: Path) -> list[Tool]:
    """Return the tools with the relations in the relations.jsonl of their folder."""
    stated = _stated_relations(path)
    for source in stated.keys() - {tool.key for tool in tools}:
        logger.warning(
            "%s: the relations of %r are ignored, because there is no such tool", path, source
        )
    return [_with(tool, stated[tool.key]) if tool.key in stated else tool for tool in tools]


def _stated_relations(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the relations in the relations.jsonl of the folder, or next to a tools.jsonl file, by tool."""
    if path.is_dir():
        file = path / RELATIONS_FILE
    elif path.name == "tools.jsonl":
        file = path.with_name(RELATIONS_FILE)
    else:
        return {}
    if not file.is_file():
        return {}
    stated: dict[str, list[dict[str, Any]]] = {}
    for origin, record in _lines(file, _text(file)):
        if not isinstance(record, dict) or not isinstance(record.get("from"), str):
            raise InvalidCatalogue(
                f'{origin}: give {{"from": KEY, "to": KEY, "type": TYPE}}, not {record!r:.80}'
            )
        source = record.pop("from")
        stated.setdefault(source, []).append(record)
    return stated


def _with(tool: Tool, relations: list[dict[str, Any]]) -> Tool:
    record = tool_to_json(tool)
    with reading(f"{RELATIONS_FILE}, from {tool.key!r}", error=InvalidCatalogue):
        return tool_from({**record, "relations": [*record.get("relations", []), *relations]})


def _server_name(file: Path) -> str:
    """Return the name of a file as a server's name. Empty for a pipe."""
    return file.stem if file.is_file() and file.parts[:2] != ("/", "dev") else ""


def _files(path: Path) -> list[Path]:
    """Return the file itself. For a folder, return its tools.jsonl, or its tools.json, or all its .jsonl and
    .json files.
    """
    with reading(path, _REMEDY, InvalidCatalogue):
        if not path.exists():
            within = "" if path.is_absolute() else f" in {Path.cwd()}"
            raise InvalidCatalogue(f"there is no such file or folder{within}; {_REMEDY}")
        if not path.is_dir():
            return [path]
        if _is_store(path):
            raise InvalidCatalogue(
                f"this folder is a store, not a folder of tool files: use --store {path}, or write its tools to a file "
                f"with `toolroute tools list --store {path} -o jsonl`"
            )
        for name in ("tools.jsonl", "tools.json"):
            if (path / name).exists():
                return [path / name]
        files = [
            file for file in sorted(path.iterdir()) if file.suffix.lower() in (".jsonl", ".json")
        ]
        files = [file for file in files if file.name != RELATIONS_FILE]
        if not files:
            raise InvalidCatalogue(
                "this folder has no tools.jsonl and no other .jsonl or .json file"
            )
        return files


def _is_store(folder: Path) -> bool:
    if (folder / "tenants").is_dir():
        return True
    # The folder of qdrant-client's local mode.
    return (folder / "meta.json").is_file() and (folder / "collection").is_dir()


def _text(path: Path) -> str:
    with reading(path, _REMEDY, InvalidCatalogue):
        return read_text(path, pipes=True)


def _records(path: Path, text: str, server: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the records of a file, each with its origin. A file of lines has a whole object on its first line."""
    first, _, following = text.strip().partition("\n")
    is_object = first.startswith("{") and first.rstrip().endswith("}")
    if not first or (following and is_object):
        yield from _lines(path, text)
    else:
        yield from _document(path, text, server)


def _lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    for number, line in numbered_lines(text):
        with reading(f"{path}:{number}", "give one JSON object per line", InvalidCatalogue):
            record = read_json(line)
        yield f"{path}:{number}", record


def _document(path: Path, text: str, server: str | None) -> Iterator[tuple[str, Any]]:
    with reading(path, error=InvalidCatalogue):
        value = read_json(text)
    if is_openapi(value):
        api = OpenApi(value)
        for operation in api.operations.values():
            yield f"{path}: {operation.name}", {**operation.tool, "server": server or api.server}
        return
    records = _listed(value)
    if records is None:
        form = (
            'give a JSON list of tools, an object with the list under "tools", or one tool per line'
        )
        raise InvalidCatalogue(f"{path}: no tools found; {form}")
    for number, record in enumerate(records, start=1):
        yield f"{path}: tool {number}", record


def _listed(value: Any) -> list[Any] | None:
    """Return the items of a list, of the list "tools" in an object, or a single tool."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    inner = value.get("tools")
    # In a tool that is an agent, "tools" may be the names of the tools that it uses.
    if isinstance(inner, list) and all(isinstance(tool, dict) for tool in inner):
        return inner
    return [value] if "name" in value or "function" in value else None
