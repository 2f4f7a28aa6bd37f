"""One folder, several processes: each waits for the others, and a killed writer leaves the old catalogue or the new."""

import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import Catalogue, Store, Tool
from orchestrator.errors import StoreUnavailable
from tests.catalogues import tool
from tests.stores import MAIL, by_server, shipped

SERVERS = 12
WRITER = """
import sys, time
from tests.stores import by_server, shipped
from tests.test_store_processes import edition
from orchestrator import Store

store = Store(sys.argv[1], embedder=shipped(), timeout_s=30)
print("ready", flush=True)
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    store.replace_servers("org:1", by_server(edition(number % 2)))
    print(number, flush=True)
    time.sleep(float(sys.argv[4]))
"""
SYNCER = """
import sys
from tests.catalogues import tool
from tests.stores import shipped
from orchestrator import Store

store = Store(sys.argv[1], embedder=shipped(), timeout_s=30)
for number in range(4):
    tools = [tool(f"{sys.argv[2]}:tool_{n}", f"Edition {number} of {n}") for n in range(5 + number)]
    store.replace_server("org:1", sys.argv[2], tools)
"""
NOTER = """
import sys
from tests.catalogues import tool
from tests.stores import shipped
from orchestrator import Store

store = Store(sys.argv[1], embedder=shipped(), timeout_s=60)
store.servers("org:1")
print("ready", flush=True)
sys.stdin.readline()
for number in range(5):
    name = f"{sys.argv[2]}_{number}"
    store.records.note_failures("org:1", {name: "it failed"})
    pin = {name: tool(f"mail:{name}")}
    store.records.update_accepted("org:1", "mail", "", lambda pins: pins.with_tools(pin, 100, 100_000))
"""
HOLDER = """
import sys, time
from orchestrator.store.location import open_backend

with open_backend(sys.argv[1], 5).writing("org:1"):
    print("held", flush=True)
    time.sleep(60)
"""


def edition(number: int) -> list[Tool]:
    """One of two catalogues with the same keys: every definition differs."""
    return [tool(f"s{n % SERVERS}:tool_{n}", f"Edition {number} of {n}") for n in range(4 * SERVERS)]


EDITIONS = [Catalogue(edition(number)).fingerprint for number in (0, 1)]


def _start(code: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes, cwd=Path(__file__).resolve().parents[1])


def _said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
def test_a_writer_killed_at_any_point_leaves_the_old_catalogue_or_the_new(tmp_path: Path) -> None:
    chance = random.Random(4)
    reader = Store(tmp_path / "store", embedder=shipped(), timeout_s=30)
    reader.replace_servers("org:1", by_server(edition(0)))
    followed = reader.load("org:1")
    for _ in range(4):
        writer = _start(WRITER, tmp_path / "store", 1, 1_000, 0)
        assert _said(writer) == "ready"
        time.sleep(chance.uniform(0.0, 0.6))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        followed = reader.renewed("org:1", followed)
        stored = reader.load("org:1")
        assert (followed.version, followed.tools) == (stored.version, stored.tools)
        assert stored.vectors is not None
        assert len(stored.vectors) == len(stored.tools) == 4 * SERVERS
        assert stored.catalogue.fingerprint in EDITIONS
    reader.replace_servers("org:1", by_server(edition(1)))
    assert reader.load("org:1").catalogue.fingerprint == EDITIONS[1]


@pytest.mark.slow
def test_two_servers_a_worker_and_a_sync_live_on_one_folder(tmp_path: Path) -> None:
    writers = [_start(SYNCER, tmp_path / "store", name) for name in ("serve", "worker", "sync")]
    reader = Store(tmp_path / "store", embedder=shipped(), timeout_s=30)
    while any(writer.poll() is None for writer in writers):
        for own in by_server(reader.load("org:1").tools).values():
            assert len({one.description.split()[1] for one in own}) == 1
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert reader.servers("org:1") == {"serve": 8, "sync": 8, "worker": 8}


def test_a_writer_holds_up_only_other_writers_of_its_tenant(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", embedder=shipped(), timeout_s=0.3)
    store.replace_server("org:1", "mail", MAIL)
    holder = _start(HOLDER, tmp_path / "store")
    assert _said(holder) == "held"
    try:
        begin = time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"was locked by another writer for 0\.3 s.*Qdrant server"):
            store.replace_server("org:1", "mail", MAIL[:1])
        assert time.monotonic() - begin >= 0.3
        assert store.load("org:1").tools == Catalogue(MAIL).tools
        store.replace_server("org:2", "mail", MAIL[:1])
    finally:
        holder.kill()
        holder.communicate()
    store.replace_server("org:1", "mail", MAIL[:1])
    assert store.load("org:1").tools == MAIL[:1] == store.load("org:2").tools


@pytest.mark.slow
def test_a_long_import_lets_others_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.store.tools.tool_points._CHUNK", 300)
    writer = Store(tmp_path / "store", embedder=shipped(), timeout_s=30)
    writer.replace_server("org:1", "mail", MAIL)
    tools = [tool(f"s:tool_{n}", f"Does thing {n}") for n in range(1_000)]
    steps: list[int] = []
    importing = threading.Thread(
        target=writer.replace_server, args=("org:1", "s", tools, lambda done, total: steps.append(done))
    )
    importing.start()
    reader = Store(tmp_path / "store", embedder=shipped(), timeout_s=30)
    during = set()
    while importing.is_alive():
        assert len(reader.load("org:1").tools) in (2, 1_002)
        during.update(steps[-1:])
        time.sleep(0.01)
    importing.join()
    assert len(during) > 1
    assert len(reader.load("org:1").tools) == 1_002


def test_two_processes_lose_no_note_of_each_other(place: str) -> None:
    writers = [_start(NOTER, place, name) for name in ("a", "b")]
    assert [_said(writer) for writer in writers] == ["ready", "ready"]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    store = Store(place, embedder=shipped())
    names = {f"{writer}_{number}" for writer in "ab" for number in range(5)}
    assert store.failures("org:1").keys() == names
    assert store.records.accepted("org:1", "mail", "").tools.keys() == names


def test_two_acceptances_at_once_both_count(place: str) -> None:
    stores = [Store(place, embedder=shipped(), timeout_s=60) for _ in range(2)]
    stores[0].replace_server("org:1", "mail", MAIL)

    def accept(number: int) -> None:
        new = replace(MAIL[number], labels={"accepted": "yes"}, hash="")
        stores[number].exchange_tools("org:1", "mail", [(MAIL[number], new)])

    with ThreadPoolExecutor() as threads:
        list(threads.map(accept, range(2)))
    assert [tool.labels for tool in stores[0].load("org:1").tools] == [{"accepted": "yes"}, {"accepted": "yes"}]
