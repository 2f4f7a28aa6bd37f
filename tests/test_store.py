"""The Store in a folder and on a server: a reader gets the written tools."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from orchestrator import Annotations, Catalogue, Kind, Relation, Store
from orchestrator.errors import InvalidCatalogue
from orchestrator.index.embedders.embedding import embed_tools
from orchestrator.store.points import Points
from tests.catalogues import tool
from tests.stores import FILES, KINDS, MAIL, SHARED, shipped

NOTHING = {"new": (), "changed": (), "gone": (), "same": 0}
"""What a write tells that changes nothing."""


def test_what_is_written_is_read_back_in_order_with_its_vectors(store: Store) -> None:
    full = tool(
        "mail:odd näme",
        "Ünïcode ✓",
        kind=Kind.AGENT,
        keywords=("a", "b"),
        labels={"usage": "3"},
        annotations=Annotations(read_only=True, idempotent=False),
        relations=(Relation(to="mail:send", type="needs", weight=0.5),),
        input_schema={"type": "object", "properties": {"x": {"enum": [1, None]}}, "required": []},
    )
    store.replace_servers("org:1", {"mail": [*MAIL, full], "files": FILES})
    stored = store.load("org:1")
    assert stored.tools == Catalogue([*MAIL, full, *FILES]).tools
    assert [one.hash for one in stored.tools] == [one.hash for one in Catalogue([*MAIL, full, *FILES])]
    assert stored.vectors is not None
    np.testing.assert_allclose(stored.vectors, embed_tools(shipped(), stored.tools), atol=1e-6)
    assert stored.note == ""


def test_a_write_tells_what_it_changed(store: Store) -> None:
    first = store.replace_server("org:1", "files", FILES)
    assert asdict(first) == {**NOTHING, "new": ("read_file", "delete_file", "list_folder")}
    changed = (FILES[0], tool("files:delete_file", "Move a file to the bin"), tool("files:copy_file", "Copy a file"))
    second = store.replace_server("org:1", "files", changed)
    assert second.new == ("copy_file",)
    assert second.changed == ("delete_file",)
    assert second.gone == ("list_folder",)
    assert second.same == 1
    assert {one.name for one in store.load("org:1").tools} == {"read_file", "delete_file", "copy_file"}


def test_only_the_servers_of_the_write_change(store: Store) -> None:
    assert (store.load("org:1").tools, store.load("org:1").vectors, store.servers("org:1")) == ((), None, {})
    store.replace_servers("org:1", {"mail": MAIL, "files": FILES, "web": FILES[:0]})
    store.replace_server("org:1", "mail", MAIL[:1])
    assert store.servers("org:1") == {"files": 3, "mail": 1, "web": 0}
    store.remove_server("org:1", "files")
    assert store.servers("org:1") == {"mail": 1, "web": 0}
    assert store.load("org:1").tools == MAIL[:1]


def test_the_version_changes_when_the_catalogue_does_and_only_then(store: Store) -> None:
    versions = [store.load("org:1").version]
    store.replace_server("org:1", "mail", MAIL)
    versions.append(store.load("org:1").version)
    assert asdict(store.replace_server("org:1", "mail", MAIL)) == {**NOTHING, "same": 2}
    assert store.load("org:1").version == versions[-1]
    store.replace_server(SHARED, "files", FILES)
    versions.append(store.load("org:1").version)
    store.replace_server("org:2", "mail", MAIL[:1])
    assert store.load("org:1").version == versions[-1]
    store.remove_server("org:1", "mail")
    versions.append(store.load("org:1").version)
    assert len(set(versions)) == len(versions)


def test_a_renewed_catalogue_is_what_a_fresh_reader_loads_and_only_what_changed_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.replace_servers("org:1", {"mail": MAIL, "files": FILES})
    earlier = store.load("org:1")
    assert store.renewed("org:1", earlier) is earlier
    read: list[str] = []
    get = type(_points(store)).get

    def watched(points: Points, name: str, ids: Sequence[str], **what: Any) -> dict[str, Any]:
        read.extend(ids if what.get("vectors") else ())
        return get(points, name, ids, **what)

    monkeypatch.setattr(type(_points(store)), "get", watched)
    store.replace_server(SHARED, "web", [tool("web:search", "Search the web")])
    store.replace_server("org:1", "mail", MAIL[:1])
    store.replace_server("org:1", "files", [FILES[1], tool("files:read_file", "Read a file aloud")])
    read.clear()
    renewed = store.renewed("org:1", earlier)
    assert len(read) == 2
    fresh = store.load("org:1")
    assert (renewed.tools, renewed.version, renewed.note) == (fresh.tools, fresh.version, "")
    assert [one.key for one in renewed.tools] == [
        "files:delete_file",
        "files:read_file",
        "mail:send_email",
        "web:search",
    ]
    assert renewed.vectors is not None
    np.testing.assert_array_equal(renewed.vectors, fresh.vectors)


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_whatever_is_written_a_reader_that_follows_reads_what_a_fresh_one_does(place: str) -> None:
    chance = random.Random(7)
    own = Store(place, embedder=shipped())

    def opened() -> Store:
        return Store(place, embedder=shipped())

    writers, tenants = [own, opened()], ("org:1", "org:2", SHARED)
    known = {tenant: own.load(tenant) for tenant in tenants}
    for number in range(30):
        writer, tenant = chance.choice(writers), chance.choice(tenants)
        server = chance.choice(["a", "b", "c"])
        if chance.random() < 0.2:
            writer.remove_server(tenant, server)
        else:
            tools = [tool(f"{server}:t{n}", f"Edition {number % 3} of {n}") for n in range(chance.randrange(5))]
            writer.replace_server(tenant, server, tools)
        for name in chance.sample(tenants, 2):
            known[name] = own.renewed(name, known[name])
            fresh = opened().load(name)
            assert (known[name].tools, known[name].version) == (fresh.tools, fresh.version)
            np.testing.assert_array_equal(known[name].vectors, fresh.vectors)


def test_is_current_never_claims_more_than_it_can_tell(store: Store) -> None:
    store.replace_server("org:1", "mail", MAIL)
    version = store.load("org:1").version
    assert store.is_current("org:1", version) is not store.remote
    store.replace_server("org:1", "mail", MAIL[:1])
    assert not store.is_current("org:1", version)


def test_progress_counts_up_to_the_tools_that_are_written(store: Store) -> None:
    tools = [tool(f"s:tool_{number}", f"Does thing {number}") for number in range(600)]
    steps: list[tuple[int, int]] = []
    store.replace_server("org:1", "s", tools, lambda done, total: steps.append((done, total)))
    assert steps == [(256, 600), (512, 600), (600, 600)]


def test_a_tool_of_another_server_is_refused(store: Store) -> None:
    with pytest.raises(InvalidCatalogue, match="'files:read_file' does not belong to server 'mail'"):
        store.replace_server("org:1", "mail", FILES)


def test_what_a_dead_writer_left_is_swept_once_it_is_old(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(place, embedder=shipped())
    store.replace_server("org:1", "mail", MAIL)
    with monkeypatch.context() as dying:
        dying.setattr("orchestrator.store.tools.manifest_records.swap", _die)
        with pytest.raises(KeyboardInterrupt):
            store.replace_servers("org:1", {"mail": MAIL[:1], "files": FILES})
    assert store.load("org:1").tools == Catalogue(MAIL).tools
    store.replace_server("org:1", "mail", MAIL)
    assert _kept(store) == (5 if store.remote else 2)  # In a folder, what a dead writer did never was.
    monkeypatch.setattr("orchestrator.store.tools.drafts.KEPT_S", -1)
    store.replace_server("org:1", "mail", MAIL)
    assert _kept(store) == 2
    assert store.load("org:1").tools == Catalogue(MAIL).tools


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def _points(store: Store) -> Points:
    return store.backend.read("org:1", lambda points: points)


def _kept(store: Store) -> int:
    return store.backend.read("org:1", lambda points: len(list(points.find(store._tool_points.collection))))


@pytest.mark.parametrize("place", [kind for kind in KINDS if kind in ("http", "url")], indirect=True)
def test_writers_of_one_tenant_on_a_server_lose_nothing_of_each_other(place: str) -> None:
    def write(server: str) -> None:
        store = Store(place, embedder=shipped())
        for number in range(3):
            store.replace_server("org:1", server, [tool(f"{server}:do", f"Edition {number}")])

    servers = [f"s{number}" for number in range(4)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(write, servers))
    stored = Store(place, embedder=shipped()).load("org:1")
    assert {one.key: one.description for one in stored.tools} == {f"{name}:do": "Edition 2" for name in servers}


def test_a_snapshot_has_all_that_a_request_asks(store: Store) -> None:
    store.replace_server("org:1", "mail", MAIL, entry="e1")
    store.replace_server(SHARED, "files", FILES)
    store.records.note_failures("org:1", {"dead": "it failed"})
    store.records.keep_offer("org:1", "mail", "e1", '{"prompts": []}')
    snapshot = store.snapshot("org:1")
    assert {server: set(tools) for server, tools in snapshot.tools.items()} == {
        "mail": {"send_email", "search_inbox"},
        "files": {"read_file", "delete_file", "list_folder"},
    }
    assert snapshot.entries == {"mail": "e1"}
    assert snapshot.failures == {"dead": "it failed"}
    assert snapshot.offers == {"mail": '{"prompts": []}'}


def test_a_snapshot_follows_each_write(store: Store) -> None:
    assert store.snapshot("org:1").tools == {}
    store.replace_server("org:1", "mail", MAIL)
    assert set(store.snapshot("org:1").tools) == {"mail"}
    store.records.note_failures("org:1", {"dead": "it failed"})
    assert store.snapshot("org:1").failures == {"dead": "it failed"}


def test_a_definition_that_is_replaced_while_its_server_is_read_is_not_missing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.replace_server("org:1", "mail", MAIL)
    store.of_server("org:1", "mail")  # The names of its tools are remembered.
    read = store.backend.read
    changed = [replace(MAIL[0], description="Changed meanwhile", hash=""), *MAIL[1:]]

    def read_after_a_write(tenant: str, what: Any) -> Any:
        monkeypatch.undo()
        store.replace_server("org:1", "mail", changed)
        return read(tenant, what)

    monkeypatch.setattr(store.backend, "read", read_after_a_write)
    assert [tool.name for tool in store.of_server("org:1", "mail")] == [tool.name for tool in MAIL]
