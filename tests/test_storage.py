"""Opening Qdrant in a folder and at a URL: each failure is named, and no request grows too large."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import Catalogue, Router, Store
from orchestrator.errors import InvalidConfig, StoreUnavailable, Unauthorised
from orchestrator.store.sqlite.backend import SqliteBackend
from orchestrator.store.tools.manifest_records import CATALOGUES, PARTS, owned
from tests.catalogues import tool
from tests.qdrant_front import qdrant_front
from tests.stores import FILES, MAIL, shipped


def test_a_store_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidConfig, match="cannot be used: it is not a folder"):
        Store(tmp_path / "file", embedder=shipped()).load("org:1")


@pytest.mark.parametrize(
    "change",
    [
        lambda payload: payload.pop("tool"),
        lambda payload: payload.update(tool=payload["tool"].replace('"keywords"', '"words"')),
        lambda payload: payload.update(tool=payload["tool"].replace('"Send an email to a person"', "null")),
        lambda payload: payload.update(tool=payload["tool"][:40]),
    ],
)
async def test_a_damaged_record_is_named_the_rest_is_served_and_an_import_writes_it_again(
    change: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.runtime.index_cache.PATIENCE_S", 600)  # So that no earlier index answers.
    store = Store(place, embedder=shipped())
    store.replace_servers("local", {"mail": MAIL, "files": FILES})
    whole = store.load("local")
    tools = store._tool_points.collection
    with store.backend.writing("local") as points:
        kept = points.find(tools, vectors=True)
        (broken,) = [record for record in kept if record.payload["key"] == "mail:send_email"]
        change(broken.payload)
        points.put(tools, {broken.id: broken.payload}, np.array([broken.vector], np.float32))
    async with Router(store=store, embedder=shipped()) as router:
        decision = await router.route("read a file")
        assert decision.matches[0].tool.key == "files:read_file"
        named = [
            warning for warning in decision.warnings if "records of the tools 'mail:send_email' are damaged" in warning
        ]
        assert "`toolroute tools import`" in named[0]
        assert [own.key for own in store.load("local").tools] == [o.key for o in whole.tools if o.name != "send_email"]
        with pytest.raises(InvalidConfig, match="'mail:send_email' are damaged"):
            store.tool("local", "mail:send_email")
        store.replace_server("local", "mail", MAIL)
        assert (store.load("local").tools, store.load("local").damaged) == (whole.tools, "")
        assert (await router.route("send an email")).matches[0].tool.key == "mail:send_email"


def test_a_damaged_list_of_a_tenants_tools_is_named_with_the_remedy() -> None:
    store = Store(embedder=shipped())
    store.replace_server("local", "mail", MAIL)
    with store.backend.writing("local") as points:
        (record, *_) = points.find(PARTS)
        points.put(PARTS, {record.id: {**record.payload, "text": "[{"}})
    with pytest.raises(
        InvalidConfig, match=r"list of the tools of tenant 'local' is damaged: import the tools again.*--store"
    ):
        store.load("local")
    store.replace_server("local", "mail", MAIL)
    assert store.load("local").tools == Catalogue(MAIL).tools


def test_an_address_that_is_no_qdrant_servers_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidConfig, match=r"store 'ftp://there': give a folder, or the http\(s\):// address"):
        Store("ftp://me:secret@there", embedder=shipped())


def test_an_unreachable_server_is_unavailable_and_its_credentials_stay_hidden() -> None:
    with pytest.raises(StoreUnavailable, match=r"//127\.0\.0\.1:9 does not answer") as failure:
        Store("http://me:secret@127.0.0.1:9", embedder=shipped(), timeout_s=1).load("org:1")
    assert "secret" not in str(failure.value)


def test_a_server_that_refuses_the_key_says_which_setting_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    with qdrant_front(key="right") as front:
        monkeypatch.setenv("QDRANT_API_KEY", "wrong-one")
        with (
            pytest.warns(UserWarning, match="sent without encryption"),
            pytest.raises(Unauthorised, match="QDRANT_API_KEY") as refused,
        ):
            Store(front.url, embedder=shipped()).load("org:1")
        assert "wrong-one" not in str(refused.value)
        monkeypatch.setenv("QDRANT_API_KEY", "right\n")  # As a file of secrets may end.
        with pytest.warns(UserWarning, match="sent without encryption"):
            assert not Store(front.url, embedder=shipped()).load("org:1").tools


def test_an_empty_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "")
    with qdrant_front() as front:
        assert not Store(front.url, embedder=shipped()).load("org:1").tools


def test_a_server_without_conditional_updates_is_read_but_not_written_to() -> None:
    with qdrant_front() as front:
        Store(front.url, embedder=shipped()).replace_server("org:1", "mail", MAIL)
        front.engine.version = "1.15.5"
        store = Store(front.url, embedder=shipped())
        assert store.load("org:1").tools == Catalogue(MAIL).tools
        with pytest.raises(InvalidConfig, match=r"Qdrant 1\.15\.5.*upgrade the server to 1\.16"):
            store.replace_server("org:1", "mail", MAIL[:1])
        with pytest.raises(InvalidConfig, match="upgrade the server"):
            store.drop("org:1")
        assert store.load("org:1").tools == Catalogue(MAIL).tools


def test_an_index_that_a_dead_writer_did_not_make_is_made_by_the_next() -> None:
    with qdrant_front() as front:
        store = Store(front.url, embedder=shipped())
        store.replace_server("org:1", "mail", MAIL)
        front.engine.indexes.clear()
        store.replace_server("org:1", "mail", MAIL[:1])
        assert {name for name, fields in front.engine.indexes.items() if "tenant" in fields} >= {CATALOGUES, PARTS}


def test_a_changed_tool_leaves_most_parts_of_a_manifest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.store.tools.manifest._MOST", 20)
    tools = [tool(f"s:do_{number}", f"Does {number}") for number in range(100)]
    with qdrant_front() as front:
        store = Store(front.url, embedder=shipped())
        store.replace_server("org:1", "s", tools)
        before = store.backend.read("org:1", lambda points: owned(points, "org:1"))
        store.replace_server("org:1", "s", [*tools[:-1], tool("s:do_99", "Does something else")])
        after = store.backend.read("org:1", lambda points: owned(points, "org:1"))
        assert len(before.parts) == len(after.parts) == 6
        assert len({*before.parts} - {*after.parts}) == 1


def test_no_request_to_a_server_grows_beyond_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.store.qdrant.points._FLOATS", 1_000)
    with qdrant_front() as front:
        store = Store(front.url, embedder=shipped())
        store.replace_server("org:1", "s", [tool(f"s:do_{number}", f"Does {number}") for number in range(10)])
        assert sum(path.startswith("PUT /collections/tool_capabilities") for path in front.requests) > 4
        assert len(store.load("org:1").tools) == 10


def test_reading_makes_no_folder_and_finds_what_another_process_then_writes(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "store"
    reader, writer = (Store(folder, embedder=shipped()) for _ in range(2))
    nothing = reader.load("org:1")
    assert (nothing.tools, reader.servers("org:1"), reader.tool("org:1", MAIL[0].key)) == ((), {}, None)
    assert reader.load("org:1").version == nothing.version
    assert list(tmp_path.iterdir()) == []
    writer.replace_server("org:1", "mail", MAIL)
    now = reader.renewed("org:1", nothing)
    assert now.tools == Catalogue(MAIL).tools
    assert now.version == writer.load("org:1").version != nothing.version


def test_a_store_without_a_location_is_empty_once_it_is_closed() -> None:
    store = Store(embedder=shipped())
    store.replace_server("org:1", "mail", MAIL)
    assert isinstance(store.backend, SqliteBackend)
    folder = store.backend.path
    assert (store.servers("org:1"), str(store)) == ({"mail": 2}, "(a temporary folder)")
    store.close()
    assert store.servers("org:1") == {}
    store.replace_server("org:1", "mail", MAIL)
    del store
    gc.collect()
    assert not folder.exists()
