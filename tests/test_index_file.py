"""An index from a file gives the same answers as a new one, and a file for other tools is ignored."""

import asyncio
import io
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import Options, Relation, RouteHint, Router, RouteRequest, Store
from orchestrator.index.documents import Document
from orchestrator.runtime import index_file
from tests.catalogues import sample, taking, tool
from tests.qdrant_front import QdrantFront, qdrant_front
from tests.stores import FILES, MAIL, SHARED, by_server, shipped


class Bomb:
    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, ("boom",)


ODD = (
    tool("odd:add", "Adds. Never use other tools.", labels={"team": "x"}, input_schema=taking("id", id="From get_id")),
    tool("odd:get_id", "Get an id.", relations=(Relation(to="odd:add", weight=0.5),)),
    tool("odd:old", "Deprecated: use odd:add"),
)
QUERIES = ("refund a charge", "send an email, then read the file", "add it", "use odd to get an id", "zzqx")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store", embedder=shipped(), timeout_s=60)
    store.replace_servers("local", by_server([*sample(), *ODD, *MAIL]))
    store.replace_server(SHARED, "files", FILES)
    return store


@pytest.fixture
def front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QdrantFront]:
    """Start a server with its own cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with qdrant_front() as front:
        yield front


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the keys of the tools whose texts are read."""
    keys: list[str] = []
    found = Document.of
    monkeypatch.setattr(Document, "of", lambda own: keys.append(own.key) or found(own))
    return keys


def decisions(store: Store) -> list[dict[str, Any]]:
    """Return a new process's Decisions. The process ends once its index is stored."""

    async def route() -> list[dict[str, Any]]:
        # The encoder for other languages would read the store.
        options = Options(languages="off")
        async with Router(store=Store(store.location, embedder=shipped()), options=options) as router:
            asked = [
                RouteRequest(query=query, tenant="local", route_hint=hint)
                for query in QUERIES
                for hint in (RouteHint.KEYWORD, RouteHint.SEMANTIC)
            ]
            return [{**(await router.route(own)).to_json(), "timings_ms": None} for own in asked]

    return asyncio.run(route())


def file_of(store: Store) -> Path:
    file = store.index_file("local")
    assert file is not None
    return file


def test_an_index_from_a_file_decides_the_same_and_reads_hardly_a_text(store: Store, read: list[str]) -> None:
    built = decisions(store)
    assert len(read) >= len(store.load("local").tools)
    read.clear()
    assert decisions(store) == built
    assert len(read) < len(store.load("local").tools)


def test_an_index_from_a_file_follows_the_store(store: Store) -> None:
    decisions(store)

    async def route() -> tuple[str, str]:
        # The encoder for other languages would read the store.
        options = Options(languages="off")
        async with Router(store=Store(store.location, embedder=shipped()), options=options) as router:
            before = await router.route(RouteRequest(query="send an email", tenant="local"))
            store.replace_server("local", "mail", [tool("mail:dispatch_email", "Send an email to a person")])
            after = await router.route(RouteRequest(query="dispatch an email", tenant="local"))
            return before.matches[0].tool.key, after.matches[0].tool.key

    assert asyncio.run(route()) == ("mail:send_email", "mail:dispatch_email")
    assert decisions(store) == decisions(store)


def _with(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _endless() -> bytes:
    """Write a file whose head announces 4 TiB."""
    array, out = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)})
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("head.npy", array.getvalue())
    return out.getvalue()


def test_a_file_that_is_damaged_or_of_something_else_is_none(
    store: Store, read: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    built, file = decisions(store), file_of(store)
    good = file.read_bytes()
    hostile = _with(head=np.array([Bomb()], dtype=object))
    encrypted = bytearray(good)
    encrypted[good.index(b"PK\x01\x02") + 8] |= 1
    cut = (b"", good[:5_000], good[:3_000] + b"\xff" + good[3_001:], b"{}")
    for bad in (*cut, bytes(encrypted), hostile, _with(head=np.zeros(3)), _endless()):
        file.write_bytes(bad)
        read.clear()
        assert decisions(store) == built
        assert len(read) >= len(store.load("local").tools)
        assert len(file.read_bytes()) == len(good)
    assert not (tmp_path / "boom").exists()
    monkeypatch.setattr("orchestrator.runtime.index_file._code", lambda: "other code")
    read.clear()
    assert decisions(store) == built
    assert len(read) >= len(store.load("local").tools)


def test_another_embedders_vectors_are_not_taken_from_a_file(store: Store, tmp_path: Path) -> None:
    decisions(store)
    from tests.stores import embedder_of, smaller_model

    other = embedder_of(embedder=str(smaller_model(tmp_path / "model")))

    async def route() -> tuple[str, ...]:
        async with Router(store=Store(store.location, embedder=other)) as router:
            ask = RouteRequest(query="send an email", tenant="local", route_hint=RouteHint.SEMANTIC)
            return (await router.route(ask)).warnings

    assert any("embeds the tools again" in warning for warning in asyncio.run(route()))


def test_an_index_that_cannot_be_kept_says_so_and_answers(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file_of(store).mkdir()
    with caplog.at_level("INFO"):
        assert decisions(store)
    assert "the index of tenant 'local' could not be saved for the next process" in caplog.text


def server_store(front: QdrantFront, tenants: Sequence[str] = ("local",)) -> Store:
    store = Store(front.url, embedder=shipped(), timeout_s=60)
    for tenant in tenants:
        store.replace_servers(tenant, by_server([*sample(), *MAIL]))
    return store


def test_an_index_of_a_servers_tools_is_kept_in_the_users_cache(front: QdrantFront, read: list[str]) -> None:
    store = server_store(front)
    built, file = decisions(store), file_of(store)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, file.parent.parent)] == [384, 448, 448]
    read.clear()
    front.requests.clear()
    assert decisions(store) == built
    assert not any("tool_capabilities" in request for request in front.requests)
    assert len(read) < len(store.load("local").tools)
    store.drop("local")
    assert not file.exists()


def test_each_tenant_and_each_server_has_an_index_file_of_its_own(front: QdrantFront) -> None:
    places = [(front.url, "org:a"), (front.url, "org:b"), (f"{front.url}/b", "org:a")]
    files = {Store(url, embedder=shipped()).index_file(tenant) for url, tenant in places}
    assert len(files) == 3
    assert None not in files


async def test_routes_do_not_write_the_index_again(front: QdrantFront, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[str] = []
    monkeypatch.setattr(index_file, "save", lambda file, stored, *_: saved.append(stored.version))
    store = server_store(front)
    async with Router(store=store) as router:
        for query in QUERIES:
            await router.route(query)
        store.replace_server("local", "files", FILES)
        for query in QUERIES:
            await router.route(query)
    assert len(saved) == 2
    assert len(set(saved)) == 2


def test_index_files_that_nobody_reads_go(front: QdrantFront) -> None:
    store = server_store(front, ["org:a", "org:b"])
    old, new = (store.index_file(tenant) for tenant in ("org:a", "org:b"))
    assert old
    assert new
    for file in (old, new):
        index_file.make_room(file)
        file.write_text("")
    os.utime(old, (0, 0))
    index_file.make_room(new)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_first_decision_from_an_index_file_imports_no_qdrant_client(front: QdrantFront) -> None:
    store = server_store(front)
    decisions(store)
    code = f"""
import sys
from orchestrator import Options, Router
with Router(store={store.location!r}) as router:
    assert router.route_sync("send an email").matches[0].tool.key == "mail:send_email"
print("qdrant_client" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (ran.stdout.strip(), ran.stderr) == ("False", "")
