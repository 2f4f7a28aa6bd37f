"""Files of tools: a .jsonl, a .json or a folder of them. What a file holds tells its form, not what it is called."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.catalogue.definitions import tool_from, tool_to_json
from orchestrator.catalogue.reading import numbered_lines, read_json, why_unread
from orchestrator.errors import InvalidCatalogue
from orchestrator.records.tool import Tool

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a record stands: on a line of a file, or as an item of a file's list; both count from 1."""

    path: Path
    line: int = 0
    item: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else f"{self.path}: tool {self.item}"

    def beside(self, other: "_Place") -> str:
        """The same as one says it of another record."""
        return f"on line {self.line}" if self.line and self.path == other.path else f"in {self}"


def read_tools(path: str | Path, server: str | None = "") -> list[Tool]:
    """All tools of a .jsonl, a .json, or a folder of them, each once; InvalidCatalogue names file and line.

    Tools that name no server get `server`; None: the name of their file, without its suffix.
    """
    found: dict[str, tuple[_Place, Tool]] = {}
    for place, record in _records(Path(path)):
        try:
            tool = tool_from(record)
            if not tool.server and server != "":
                tool = tool_from({**tool_to_json(tool), "server": server or _called_as(place.path)})
        except InvalidCatalogue as error:
            raise InvalidCatalogue(f"{place}: {error}") from None
        before, known = found.setdefault(tool.key, (place, tool))
        if known.hash != tool.hash:
            raise InvalidCatalogue(
                f"{place}: the key {tool.key!r} stands {before.beside(place)} already, with another definition: "
                "rename one, or give them different servers"
            )
    return [tool for _, tool in found.values()]


_STREAMS = (Path("/dev"), Path("/dev/fd"))


def _called_as(path: Path) -> str:
    if path.parent in _STREAMS or not path.is_file():
        raise InvalidCatalogue("the tool names no server, and there is no file to call one after: give --server NAME")
    return path.stem


def _records(path: Path) -> Iterator[tuple[_Place, Any]]:
    """All records of a file, or of a folder's files; InvalidCatalogue names the file that cannot be used."""
    for file in _read(path, _files):
        text = _read(file, _text)
        yield from _lines(file, text) if _is_lines(text) else _document(file, text)


def _read(path: Path, by: Callable[[Path], Read]) -> Read:
    try:
        return by(path)
    except FileNotFoundError:
        raise InvalidCatalogue(f"{path} does not exist: give a tools.jsonl, or a folder with one") from None
    except (OSError, UnicodeDecodeError) as error:
        form = "give a UTF-8 file, one JSON object a line"
        raise InvalidCatalogue(f"{path}: cannot be read ({why_unread(error)}); {form}") from None


def _files(path: Path) -> list[Path]:
    """The file itself; of a folder its tools.jsonl, else its tools.json, else all its .jsonl and .json."""
    if not path.is_dir():
        return [path]
    if (path / "meta.json").is_file() and (path / "collection").is_dir():
        written = f"`toolroute tools list --store {path} -o jsonl` writes its tools as a file"
        raise InvalidCatalogue(f"{path} is a store, not a folder of tools: {written}")
    files = {file.name: file for file in sorted(path.iterdir()) if file.suffix.lower() in (".jsonl", ".json")}
    if not files:
        raise InvalidCatalogue(f"{path}: no tools.jsonl and no other .jsonl or .json in this folder")
    named = files.get("tools.jsonl") or files.get("tools.json")
    return [named] if named else list(files.values())


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig")


def _is_lines(text: str) -> bool:
    """Whether each line is a record of its own: nothing else begins with a line that is an object, whole."""
    first, _, rest = text.strip().partition("\n")
    return not first or (bool(rest) and first.startswith("{") and first.rstrip().endswith("}"))


def _lines(path: Path, text: str) -> Iterator[tuple[_Place, Any]]:
    for number, line in numbered_lines(text):
        place = _Place(path=path, line=number)
        try:
            record = read_json(line)
        except ValueError as error:
            raise InvalidCatalogue(f"{place}: not JSON ({error}); give one JSON object a line") from None
        yield place, record


def _document(path: Path, text: str) -> Iterator[tuple[_Place, Any]]:
    """The items of a list, or of an object's list under "tools"; or one tool alone."""
    try:
        value = read_json(text)
    except ValueError as error:
        raise InvalidCatalogue(f"{path}: not JSON ({error})") from None
    records = value.get("tools") if isinstance(value, dict) else value
    if isinstance(value, dict) and ("name" in value or "function" in value) and not _are_records(records):
        yield _Place(path=path, line=1), value
        return
    if not isinstance(records, list):
        form = 'give a JSON list of tools, an object with the list under "tools", or one tool a line'
        raise InvalidCatalogue(f"{path}: {form}")
    for number, record in enumerate(records, start=1):
        yield _Place(path=path, item=number), record


def _are_records(tools: Any) -> bool:
    """Whether what stands under "tools" is a list of tools; of an agent it may be the names of those it uses."""
    return isinstance(tools, list) and bool(tools) and all(isinstance(tool, dict) for tool in tools)
