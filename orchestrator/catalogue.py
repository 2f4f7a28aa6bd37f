"""The Catalogue: the immutable set of tools that one tenant may use; and reading one from files."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orchestrator.digests import digest
from orchestrator.errors import InvalidCatalogue, UnknownTool
from orchestrator.models import Annotations, CatalogueVersion, Kind, Tool
from orchestrator.reading import read_json, why_unread

MAX_DEPTH = 64
"""Levels of objects and lists within one tool."""
_SURROGATES = re.compile(r"[\ud800-\udfff]")


class Catalogue:
    """Tools ordered by server and name, unique by key. Build one from tools, or with `Catalogue.read(path)`."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self.tools: tuple[Tool, ...] = tuple(sorted(tools, key=attrgetter("server", "name")))
        self.positions: Mapping[str, int] = _numbered([tool.key for tool in self.tools])
        """Each key's position in `tools`."""
        if len(self.positions) < len(self.tools):
            self._drop_repeated()

    def _drop_repeated(self) -> None:
        """Keeps each tool once that was given several times; two tools of one key are an error."""
        once: dict[str, Tool] = {}
        for tool in self.tools:
            if once.setdefault(tool.key, tool).hash != tool.hash:
                raise InvalidCatalogue(
                    f"two different tools have the key {tool.key!r}: rename one, or give them different servers"
                )
        self.tools = tuple(once.values())
        self.positions = _numbered(once)

    @classmethod
    def read(cls, path: str | Path) -> "Catalogue":
        """A tools.jsonl (one tool a line), a .json list, or a folder of them; InvalidCatalogue names file and line."""
        return cls(read_tools(path))

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def changed(self, servers: Mapping[str, Iterable[Tool]]) -> "Catalogue":
        """The same with these as the tools of these servers (none: the server goes); the others are taken over."""
        before, sizes = list(self.positions), dict(zip(self.places, self.sizes, strict=True))
        now, keys, past = list[Tool](), list[str](), 0
        for server in sorted(servers):
            place, own = self.place_of(server), Catalogue(servers[server])
            now += self.tools[past : place.start]
            now += own.tools
            keys += before[past : place.start]
            keys += own.positions
            past, sizes[server] = place.stop, len(own)
        keys += before[past:]
        other = Catalogue()
        other.tools = (*now, *self.tools[past:])
        if keys == before:
            other.positions, other.places = self.positions, self.places
        else:
            other.positions = _numbered(keys)
            other.places = _places({server: size for server, size in sorted(sizes.items()) if size})
        return other

    def without(self, keys: Collection[str]) -> "Catalogue":
        """The catalogue of the tools that none of these keys names; itself where that leaves all."""
        servers = {self[key].server for key in keys if key in self.positions}
        if not servers:
            return self
        return self.changed({name: [tool for tool in self.of_server(name) if tool.key not in keys] for name in servers})

    @cached_property
    def places(self) -> Mapping[str, slice]:
        """Where each server's tools stand."""
        return places_of_servers(self.tools)

    def place_of(self, server: str) -> slice:
        """Where the tools of a server stand, or would stand."""
        start = bisect_left(self.tools, server, key=attrgetter("server"))
        return self.places.get(server, slice(start, start))

    def of_server(self, server: str) -> Sequence[Tool]:
        """The tools of one server; none where there is no such server."""
        return self.tools[self.places.get(server, slice(0))]

    @cached_property
    def sizes(self) -> list[int]:
        """How many tools each server has, in the order of `places`."""
        return [place.stop - place.start for place in self.places.values()]

    def __getitem__(self, key: str) -> Tool:
        try:
            return self.tools[self.positions[key]]
        except KeyError:
            raise UnknownTool(f"no tool {key!r} in this catalogue; `toolroute tools list` shows the keys") from None

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits over all definitions; equal sets have equal fingerprints."""
        return digest("".join([tool.hash for tool in self.tools]), 16)

    @property
    def version(self) -> CatalogueVersion:
        return CatalogueVersion(fingerprint=self.fingerprint, tools=len(self.tools))


def _numbered(keys: Collection[str]) -> dict[str, int]:
    return dict(zip(keys, range(len(keys)), strict=True))


def places_of_servers(tools: Sequence[Tool]) -> dict[str, slice]:
    """Where each server's tools stand, among tools ordered by server."""
    return _places(Counter([tool.server for tool in tools]))


def _places(sizes: Mapping[str, int]) -> dict[str, slice]:
    bounds = pairwise([0, *accumulate(sizes.values())])
    return {server: slice(*bound) for server, bound in zip(sizes, bounds, strict=True)}


def _clean(value: Any, depth: int = 0) -> Any:
    """The same JSON value with lone surrogates (legal in JSON, illegal in UTF-8) replaced in every text."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if depth > MAX_DEPTH:
        raise InvalidCatalogue(f"nested deeper than {MAX_DEPTH} levels: no tool needs that")
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    return value


def _label_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) else value


class _Hints(BaseModel):
    """MCP's annotations in the spelling of the protocol, or in Python's."""

    model_config = ConfigDict(extra="ignore")
    read_only: bool | None = Field(None, validation_alias=AliasChoices("readOnlyHint", "read_only_hint", "read_only"))
    destructive: bool | None = Field(
        None, validation_alias=AliasChoices("destructiveHint", "destructive_hint", "destructive")
    )
    idempotent: bool | None = Field(
        None, validation_alias=AliasChoices("idempotentHint", "idempotent_hint", "idempotent")
    )
    open_world: bool | None = Field(
        None, validation_alias=AliasChoices("openWorldHint", "open_world_hint", "open_world")
    )


class _Record(BaseModel):
    """A tool as strangers write it: our own form, MCP's (`inputSchema`) or a function definition's (`parameters`), also
    where that stands under `function`."""

    model_config = ConfigDict(extra="ignore")
    server: str = ""
    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    input_schema: dict[str, Any] | None = Field(
        None, validation_alias=AliasChoices("input_schema", "inputSchema", "parameters")
    )
    kind: Kind = Kind.MCP
    keywords: tuple[str, ...] = ()
    labels: dict[str, Annotated[str, BeforeValidator(_label_text)]] = Field(default_factory=dict)
    annotations: _Hints | None = None


def tool_from(record: Any) -> Tool:
    """A Tool from a decoded JSON object; InvalidCatalogue says which field is wrong and what it holds."""
    if not isinstance(record, Mapping):
        raise InvalidCatalogue(f"the record is no JSON object: {repr(record)[:80]}")
    if isinstance(function := record.get("function"), Mapping):
        record = {**record, **function}
    record = {name: _clean(value) for name, value in record.items() if value is not None}  # null says nothing.
    try:
        parsed = _Record.model_validate(record)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"]))
        shown = repr(problem.get("input"))[:80]
        if problem["type"] == "missing":
            raise InvalidCatalogue(f"{field}: missing in {shown}: a tool has at least a name") from None
        raise InvalidCatalogue(f"{field}: {problem['msg']}, but it is {shown}") from None
    if ":" in parsed.server:
        raise InvalidCatalogue(f"server {parsed.server!r} holds a colon, which separates server and name: rename it")
    hints = parsed.annotations.model_dump() if parsed.annotations else {}
    return Tool(**{**dict(parsed), "annotations": Annotations(**hints)})


def tool_to_json(tool: Tool) -> dict[str, Any]:
    """The tool as a line of tools.jsonl holds it; fields with nothing in them are left out."""
    hints = {
        "readOnlyHint": tool.annotations.read_only,
        "destructiveHint": tool.annotations.destructive,
        "idempotentHint": tool.annotations.idempotent,
        "openWorldHint": tool.annotations.open_world,
    }
    optional = {
        "keywords": list(tool.keywords),
        "labels": tool.labels,
        "annotations": {name: hint for name, hint in hints.items() if hint is not None},
    }
    return {
        "server": tool.server,
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "kind": str(tool.kind),
        **{name: value for name, value in optional.items() if value},
    }


def read_tools(path: str | Path) -> list[Tool]:
    """All tools of a .jsonl, a .json or a folder's tools.jsonl (else all its .jsonl); InvalidCatalogue if unusable."""
    path = Path(path)
    try:
        if path.is_dir():
            return [tool for file in _files_in(path) for tool in read_tools(file)]
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InvalidCatalogue(f"{path} does not exist: give a tools.jsonl, or a folder with one") from None
    except (OSError, UnicodeDecodeError) as error:
        form = "give a UTF-8 file, one JSON object a line"
        raise InvalidCatalogue(f"{path}: cannot be read ({why_unread(error)}); {form}") from None
    return list(_read_list(path, text) if path.suffix == ".json" else _read_lines(path, text))


def _files_in(folder: Path) -> list[Path]:
    named = folder / "tools.jsonl"
    files = [named] if named.is_file() else sorted(file for file in folder.iterdir() if file.suffix == ".jsonl")
    if not files:
        raise InvalidCatalogue(f"{folder}: no tools.jsonl and no other .jsonl in this folder")
    return files


def _read_lines(path: Path, text: str) -> Iterator[Tool]:
    first_seen: dict[str, tuple[int, str]] = {}
    # Only "\n" ends a line: JSON texts may hold U+2028 and its like, at which splitlines() would cut.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            tool = tool_from(read_json(line))
        except ValueError as error:
            raise InvalidCatalogue(f"{path}:{number}: not JSON ({error}); give one JSON object a line") from None
        except InvalidCatalogue as error:
            raise InvalidCatalogue(f"{path}:{number}: {error}") from None
        line_before, hash_before = first_seen.setdefault(tool.key, (number, tool.hash))
        if hash_before != tool.hash:
            raise InvalidCatalogue(
                f"{path}:{number}: the key {tool.key!r} stands on line {line_before} already, with another definition: "
                "rename one, or give them different servers"
            )
        if line_before == number:
            yield tool


def _read_list(path: Path, text: str) -> Iterator[Tool]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise InvalidCatalogue(f"{path}: not JSON ({error})") from None
    records = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(records, list):
        raise InvalidCatalogue(f'{path}: give a JSON list of tools, or an object with the list under "tools"')
    for number, record in enumerate(records, start=1):
        try:
            yield tool_from(record)
        except InvalidCatalogue as error:
            raise InvalidCatalogue(f"{path}: tool {number}: {error}") from None
