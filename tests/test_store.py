"""The Store, in memory and in a folder (and on a server where QDRANT_URL is set): what is written is what is read."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.definitions import tool_to_json
from orchestrator.errors import InvalidCatalogue, InvalidConfig, StoreUnavailable, UnknownTenant
from orchestrator.index.embed import embed_tools
from orchestrator.records.durable_names import COLLECTION
from orchestrator.records.tool import Annotations, Kind
from orchestrator.store.client import Points
from orchestrator.store.store import SHARED, Changes, Store
from tests.catalogues import sample, tool
from tests.stores import FILES, MAIL, by_server, shipped


def test_what_is_written_is_read_back_in_order_with_its_vectors(store: Store) -> None:
    full = tool(
        "mail:odd näme",
        "Ünïcode ✓",
        kind=Kind.AGENT,
        keywords=("a", "b"),
        labels={"usage": "3"},
        annotations=Annotations(read_only=True, idempotent=False),
        input_schema={"type": "object", "properties": {"x": {"enum": [1, None]}}, "required": []},
    )
    store.replace_servers("org:1", {"mail": [*MAIL, full], "files": FILES})
    stored = store.load("org:1")
    assert stored.tools == Catalogue([*MAIL, full, *FILES]).tools
    assert [one.hash for one in stored.tools] == [one.hash for one in Catalogue([*MAIL, full, *FILES])]
    assert stored.vectors is not None
    np.testing.assert_allclose(stored.vectors, embed_tools(shipped(), stored.tools), atol=1e-6)
    assert stored.note == ""


def test_an_empty_store_answers_that_it_is_empty(store: Store) -> None:
    assert store.load("org:1").tools == ()
    assert store.load("org:1").vectors is None
    assert store.servers("org:1") == {}
    assert store.search("org:1", shipped().embed(["mail"])[0], 5) == []
    assert store.load("org:1").version == store.load("org:1").version


def test_a_write_tells_what_it_changed(store: Store) -> None:
    first = store.replace_server("org:1", "files", FILES)
    assert first == Changes(new=("read_file", "delete_file", "list_folder"))
    changed = (FILES[0], tool("files:delete_file", "Move a file to the bin"), tool("files:copy_file", "Copy a file"))
    second = store.replace_server("org:1", "files", changed)
    assert second == Changes(new=("copy_file",), changed=("delete_file",), gone=("list_folder",), same=1)
    assert {one.name for one in store.load("org:1").tools} == {"read_file", "delete_file", "copy_file"}


def test_only_the_servers_of_the_write_change(store: Store) -> None:
    store.replace_servers("org:1", {"mail": MAIL, "files": FILES})
    store.replace_server("org:1", "mail", MAIL[:1])
    assert store.servers("org:1") == {"files": 3, "mail": 1}
    store.remove_server("org:1", "files")
    assert store.servers("org:1") == {"mail": 1}
    assert store.load("org:1").tools == MAIL[:1]


def test_a_server_without_tools_stays_known_and_a_removed_one_does_not(store: Store) -> None:
    store.replace_servers("org:1", {"mail": MAIL, "files": FILES})
    store.replace_server("org:1", "mail", ())
    store.remove_server("org:1", "files")
    assert store.servers("org:1") == {"mail": 0}


def test_the_version_changes_when_the_catalogue_does_and_only_then(store: Store) -> None:
    versions = [store.load("org:1").version]
    store.replace_server("org:1", "mail", MAIL)
    versions.append(store.load("org:1").version)
    assert store.replace_server("org:1", "mail", MAIL) == Changes(same=2)
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
    store.replace_server(SHARED, "web", [tool("web:search", "Search the web")])
    store.replace_server("org:1", "mail", MAIL[:1])
    store.replace_server("org:1", "files", [FILES[1], tool("files:read_file", "Read a file aloud")])
    read: list[str] = []
    get = Points.get

    def watched(points: Points, name: str, ids: Sequence[str], **what: bool) -> dict[str, Any]:
        read.extend(ids if what.get("vectors") else ())
        return get(points, name, ids, **what)

    monkeypatch.setattr(Points, "get", watched)
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
    with pytest.raises(InvalidCatalogue, match="'files:read_file' is not of server 'mail'"):
        store.replace_server("org:1", "mail", FILES)


def test_an_address_that_is_no_qdrant_servers_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidConfig, match=r"store 'ftp://there': give a folder, or a Qdrant server's http"):
        Store("ftp://me:secret@there", embedder=shipped())


def test_a_server_that_nobody_runs_is_told_with_the_reason_and_without_its_password() -> None:
    store = Store("http://me:secret@127.0.0.1:9", embedder=shipped())
    with pytest.raises(StoreUnavailable, match=r"http://127\.0\.0\.1:9 does not answer: .*refused"):
        store.servers("org:1")


def test_no_tenant_is_no_tenant(store: Store) -> None:
    for ask in (store.load, store.servers):
        with pytest.raises(UnknownTenant):
            ask("")


def test_qdrants_own_search_and_the_matrix_give_the_same_answers(store: Store) -> None:
    store.replace_servers("org:1", by_server(sample().tools))
    store.replace_server(SHARED, "mail", MAIL)
    store.replace_server("org:2", "files", FILES)
    stored = store.load("org:1")
    assert stored.vectors is not None
    keys = [one.key for one in stored.tools]
    for query in ("send an email to my boss", "what is the weather", "refund the customer", "list files"):
        vector = shipped().embed([query])[0]
        cosines = stored.vectors @ vector
        order = np.argsort(-cosines, kind="stable")[:10]
        found = store.search("org:1", vector, 10)
        np.testing.assert_allclose([score for _, score in found], cosines[order], atol=1e-5)
        assert {key for key, score in found if score > found[-1][1] + 1e-5} <= {keys[i] for i in order}


def test_qdrants_own_search_shows_no_hidden_tool(store: Store) -> None:
    store.replace_server(SHARED, "mail", MAIL)
    store.replace_server("org:1", "mail", [tool("mail:send_email", "Post a letter")])
    assert [key for key, _ in store.search("org:1", shipped().embed(["email"])[0], 5)] == ["mail:send_email"]


def test_what_a_dead_writer_left_is_swept_once_it_is_old(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(place, embedder=shipped())
    store.replace_server("org:1", "mail", MAIL)
    with monkeypatch.context() as dying:
        dying.setattr("orchestrator.store.manifest.flip", _die)
        with pytest.raises(KeyboardInterrupt):
            store.replace_servers("org:1", {"mail": MAIL[:1], "files": FILES})
    assert store.load("org:1").tools == Catalogue(MAIL).tools
    store.replace_server("org:1", "mail", MAIL)
    assert _points(store) == 5
    monkeypatch.setattr("orchestrator.store.writing._DRAFT_S", -1)
    store.replace_server("org:1", "mail", MAIL)
    assert _points(store) == 2
    assert store.load("org:1").tools == Catalogue(MAIL).tools


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def _points(store: Store) -> int:
    with store._qdrant.opened() as points:
        return len(points.find(COLLECTION, {"tenant": "org:1"}))


def test_a_half_done_flip_is_in_force_and_is_finished_by_the_next_write(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(place, embedder=shipped())
    store.replace_servers("org:1", {"mail": MAIL, "files": FILES[:1]})
    before = store.load("org:1").version
    with monkeypatch.context() as dying:
        dying.setattr("orchestrator.store.manifest.meta_payload", _die)
        with pytest.raises(KeyboardInterrupt):
            store.replace_servers("org:1", {"mail": MAIL[:1], "files": FILES})
    store._qdrant.wrote()
    assert store.load("org:1").version != before
    assert store.load("org:1").tools == Catalogue([MAIL[0], *FILES]).tools
    store.replace_server("org:1", "time", [tool("time:now", "The time")])
    assert store.servers("org:1") == {"files": 3, "mail": 1, "time": 1}


def test_a_new_process_routes_from_the_store_alone_beyond_a_thousand_tools(tmp_path: Path) -> None:
    tools = [tool(f"s{n % 40}:job_{n}", f"Runs job number {n} of the night shift") for n in range(1_200)]
    file = tmp_path / "tools.jsonl"
    file.write_text("".join(json.dumps(tool_to_json(one)) + "\n" for one in [*tools, *MAIL]))
    command = [sys.executable, "-m", "orchestrator"]
    target = ["--store", str(tmp_path / "store"), "--organization", "7"]
    begin = time.perf_counter()
    done = subprocess.run(
        [*command, "tools", "import", str(file), *target, "-o", "json"], capture_output=True, text=True
    )
    assert json.loads(done.stdout)["new"] == 1_202, done.stderr
    file.unlink()
    found = subprocess.run(
        [*command, "route", "send an email to Ann", *target, "-o", "json"], capture_output=True, text=True
    )
    decision = json.loads(found.stdout)
    assert decision["matches"][0]["tool"] == "mail:send_email", found.stderr
    assert decision["catalogue"]["tools"] == 1_202
    assert time.perf_counter() - begin < 60
