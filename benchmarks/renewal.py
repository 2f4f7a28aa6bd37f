"""Measures building an index, and renewing it after a change of one server, from loaded tools and from a folder."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TypeVar

from orchestrator import DEFAULT_CAPABILITIES, Catalogue, Options, Store, Tool, Vectors
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.index.embedders.embedding import embed_tools
from orchestrator.index.index import Index

ROUNDS = 9
T = TypeVar("T")


def renewal_table(tools: Sequence[Tool]) -> str:
    """Return a table in milliseconds. A renewal is the median of several, each after a change of another server."""
    catalogue, embedder = Catalogue(tools), embedder_for(Options())
    rows = _at_hand(catalogue, embed_tools(embedder, catalogue.tools))
    with tempfile.TemporaryDirectory() as folder:
        rows += _from_store(catalogue, Store(Path(folder) / "store", embedder=embedder))
    lines = [f"| {name}, {len(catalogue):,} tools | {ms:,.0f} |" for name, ms in rows]
    return "\n".join(["| an index | ms of CPU |", "| --- | ---: |", *lines])


def _at_hand(catalogue: Catalogue, vectors: Vectors) -> list[tuple[str, float]]:
    built, index = _timed(_built, catalogue.tools, vectors)
    renewed = []
    for server in _some_servers(catalogue):
        now = {server: [_changed(tool) for tool in catalogue.of_server(server)]}
        took, index = _timed(_renewed, index, now, vectors)
        renewed.append(took)
    return [("built", built), ("renewed after one server's change", median(renewed))]


def _from_store(catalogue: Catalogue, store: Store) -> list[tuple[str, float]]:
    store.replace_servers(
        "local", {name: catalogue.tools[place] for name, place in catalogue.places.items()}
    )
    read, stored = _timed(store.load, "local")
    renewed = []
    for server in _some_servers(catalogue):
        now = [_changed(tool) for tool in catalogue.of_server(server)]
        store.replace_server("local", server, now)
        took, stored = _timed(store.renewed, "local", stored)
        renewed.append(took)
    return [
        ("its tools read from a folder", read),
        ("one changed server read from a folder", median(renewed)),
    ]


def _some_servers(catalogue: Catalogue) -> list[str]:
    servers = list(catalogue.places)
    return servers[:: max(1, len(servers) // ROUNDS)][:ROUNDS]


def _changed(tool: Tool) -> Tool:
    return replace(tool, description=f"{tool.description} Now with zebras.", hash="")


def _built(tools: Sequence[Tool], vectors: Vectors) -> Index:
    return _index(Catalogue(tools), vectors, None)


def _renewed(earlier: Index, now: Mapping[str, Sequence[Tool]], vectors: Vectors) -> Index:
    kept = [tool for tool in earlier.catalogue if tool.server not in now]
    return _index(
        Catalogue([*kept, *(tool for tools in now.values() for tool in tools)]), vectors, earlier
    )


def _index(catalogue: Catalogue, vectors: Vectors, earlier: Index | None) -> Index:
    """The index of these tools, with the counts of tokens that the first Decision would make."""
    index = Index(catalogue, DEFAULT_CAPABILITIES, vectors, earlier=earlier)
    _ = index.sizes
    return index


def _timed(act: Callable[..., T], *given: object) -> tuple[float, T]:
    begin = time.process_time()
    found = act(*given)
    return (time.process_time() - begin) * 1000, found
