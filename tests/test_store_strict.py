"""A Qdrant server in strict mode, as Qdrant Cloud sets it: each command succeeds, and a refusal is named as it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import Outcome, Store, Use
from orchestrator.errors import StoreUnavailable
from tests.catalogues import tool, write_tools
from tests.command_line import Run, command
from tests.qdrant_front import QdrantFront, Strict, qdrant_front
from tests.serve_program import write_servers
from tests.servers.start import free_port, running
from tests.stores import FILES, MAIL, by_server, shipped

TOOLS = [tool(f"s{number % 4}:do_{number}", f"Does thing {number}") for number in range(440)]


@pytest.fixture
def front() -> Iterator[QdrantFront]:
    with qdrant_front(strict=True) as front:
        yield front


@pytest.fixture
def store(front: QdrantFront) -> Store:
    store = Store(front.url, embedder=shipped(), timeout_s=30)
    store.replace_servers("org:1", by_server(TOOLS))
    return store


def test_an_import_of_a_change_exits_with_0(front: QdrantFront, tmp_path: Path, toolroute: Run) -> None:
    file = write_tools(tmp_path / "tools.jsonl", [*MAIL, *FILES])
    assert toolroute("tools", "import", file, "--store", front.url).exit_code == 0
    changed = write_tools(file, [*MAIL[:1], tool("mail:search_inbox", "Look for messages"), *FILES])
    done = toolroute("tools", "import", changed, "--store", front.url)
    assert (done.exit_code, done.stderr) == (0, "")


async def test_a_sync_of_four_servers_stores_all(front: QdrantFront, tmp_path: Path) -> None:
    port = free_port()
    names = ("one", "two", "three", "four")
    server = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"}
    file = write_servers(tmp_path / "mcp.json", **dict.fromkeys(names, server))
    async with running("plain.py", port):
        for _ in range(2):
            await command("tools", "sync", file, "--store", front.url)
    assert Store(front.url, embedder=shipped()).servers("local").keys() == set(names)


def test_a_removed_server_is_gone(front: QdrantFront, tmp_path: Path, toolroute: Run) -> None:
    file = write_tools(tmp_path / "tools.jsonl", [*MAIL, *FILES])
    toolroute("tools", "import", file, "--store", front.url)
    assert toolroute("tools", "remove", "mail", "--store", front.url).exit_code == 0
    assert Store(front.url, embedder=shipped()).servers("local") == {"files": 3}


def test_many_tools_are_written_and_changed(store: Store) -> None:
    store.replace_server("org:1", "s0", [tool("s0:do_0", "Does another thing")])
    assert len(store.load("org:1").tools) == 331


def test_unused_points_go_once_they_are_old(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.store.tools.drafts.KEPT_S", -1)
    store.replace_server("org:1", "s0", [])
    with store.backend.reading("org:1") as points:
        assert len(list(points.find(store._tool_points.collection))) == 330


def test_a_dropped_tenant_is_gone(store: Store) -> None:
    done = Outcome(id="1", query="do it", used=(Use(tool="s0:do_0"),), at=1.0)
    store.outcomes.add("org:1", [done], shipped().embed(["do it"]), 365_000)
    store.drop("org:1")
    assert store.load("org:1").tools == ()
    assert store.outcomes.read("org:1").outcomes == ()


def test_a_failure_behind_the_write_is_a_warning(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> None:
        raise Strict("Filters are off. Help: Turn them on.")

    monkeypatch.setattr("tests.qdrant_front.Engine._check_filter", lambda *_: None)
    with monkeypatch.context() as deleting:
        deleting.setattr("tests.qdrant_front.Engine._delete", refused)
        store.backend.close()
        assert store.replace_server("org:1", "s1", []).gone
    assert store.servers("org:1")["s1"] == 0


def test_a_refusal_has_the_servers_own_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise Strict("Search is disabled. Help: Enable it.")

    monkeypatch.setattr("tests.qdrant_front.Engine._check_filter", refused)
    with pytest.raises(StoreUnavailable, match=r"HTTP status 400: Bad request: Search is disabled.*strict mode"):
        store.replace_server("org:1", "s1", [])


def test_all_collections_are_created_by_one_command(front: QdrantFront, toolroute: Run) -> None:
    done = toolroute("store", "create", "--replication", "2", "--store", front.url)
    assert "5 collections created" in done.stdout
    assert set(front.engine.replicas.values()) == {2}
    assert "0 collections created" in toolroute("store", "create", "--store", front.url).stdout
    Store(front.url, embedder=shipped()).replace_server("org:1", "mail", MAIL)
    assert len(front.engine.replicas) == 5


def test_a_prefix_separates_two_users(front: QdrantFront) -> None:
    mine, theirs = (Store(front.url, embedder=shipped(), collections=prefix) for prefix in ("ann_", "bob_"))
    mine.replace_server("local", "mail", MAIL)
    theirs.replace_server("local", "files", FILES)
    mine.drop("local")
    assert theirs.servers("local") == {"files": 3}
    assert mine.servers("local") == {}
