"""The Catalogue: the immutable set of tools that one tenant may use."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

from orchestrator.catalogue.definitions import tool_from
from orchestrator.catalogue.files import read_tools
from orchestrator.errors import InvalidCatalogue, UnknownTool
from orchestrator.records.digests import digest
from orchestrator.records.tool import CatalogueVersion, Tool


class Catalogue:
    """Tools ordered by server and name, unique by key. Build one from tools, or with `Catalogue.read(path)`.

    A tool may also be a mapping, as a file would hold it: our own form, MCP's or a function definition's.
    InvalidCatalogue names the item that is none.
    """

    def __init__(self, tools: Iterable[Tool | Mapping[str, Any]] = ()) -> None:
        read = [own if isinstance(own, Tool) else _tool(number, own) for number, own in enumerate(tools, start=1)]
        self.tools: tuple[Tool, ...] = tuple(sorted(read, key=attrgetter("server", "name")))
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
    def read(cls, path: str | Path, server: str | None = "") -> "Catalogue":
        """A tools.jsonl (one tool a line), a .json list, or a folder of them; InvalidCatalogue names file and line.

        Tools that name no server get `server`; None: the name of their file, without its suffix.
        """
        return cls(read_tools(path, server))

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


def _tool(number: int, record: Mapping[str, Any]) -> Tool:
    try:
        return tool_from(record)
    except InvalidCatalogue as error:
        raise InvalidCatalogue(f"tool {number}: {error}") from None


def _numbered(keys: Collection[str]) -> dict[str, int]:
    return dict(zip(keys, range(len(keys)), strict=True))


def places_of_servers(tools: Sequence[Tool]) -> dict[str, slice]:
    """Where each server's tools stand, among tools ordered by server."""
    return _places(Counter([tool.server for tool in tools]))


def _places(sizes: Mapping[str, int]) -> dict[str, slice]:
    bounds = pairwise([0, *accumulate(sizes.values())])
    return {server: slice(*bound) for server, bound in zip(sizes, bounds, strict=True)}
