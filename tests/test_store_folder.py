"""A store in a folder: each tenant's cost, lock and damage are its own, and nothing that stands in it runs."""

import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.files import read_tools
from orchestrator.errors import InvalidCatalogue, InvalidConfig, StoreUnavailable
from orchestrator.store.folder import Folder
from orchestrator.store.qdrant import EXPERIENCE, TOOLS
from orchestrator.store.store import SHARED, Store
from tests.catalogues import tool
from tests.stores import FILES, MAIL, shipped

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A folder with two tenants' tools, and a shared server."""
    store = Store(tmp_path / "store", embedder=shipped(), timeout_s=5)
    store.replace_servers("org:a", {"mail": MAIL, "files": FILES})
    store.replace_server("org:b", "mail", MAIL)
    store.replace_server(SHARED, "web", [tool("web:search", "Search the web")])
    return store


def place(store: Store, tenant: str) -> Path:
    return Folder(Path(store.location)).part(tenant, TOOLS)


def archive(store: Store, tenant: str) -> Path:
    (found,) = place(store, tenant).glob("*.zip")
    return found


class Bomb:
    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, ("boom",)


def test_a_folder_of_the_earlier_form_is_refused_by_name_and_nothing_in_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdrant_client import QdrantClient, models

    monkeypatch.chdir(tmp_path)
    client = QdrantClient(path="old")
    client.create_collection("tool_catalogues", vectors_config={})
    client.upsert("tool_catalogues", [models.PointStruct(id=1, vector={}, payload={})])
    client.close()
    with sqlite3.connect("old/collection/tool_catalogues/storage.sqlite") as database:
        database.execute("UPDATE points SET point = ?", (pickle.dumps(Bomb()),))
    store = Store("old", embedder=shipped())
    for use in (lambda: store.load("org:a"), lambda: store.replace_server("org:a", "mail", MAIL)):
        with pytest.raises(InvalidConfig, match=r"'old' is of an earlier form .*`toolroute tools import`"):
            use()
    assert not Path("boom").exists()


def test_a_folder_that_others_can_write_is_refused(store: Store) -> None:
    Path(store.location).chmod(0o757)
    with pytest.raises(InvalidConfig, match=r"can be written by every user.*chmod"):
        store.load("org:a")
    Path(store.location).chmod(0o755)
    if os.geteuid() == 0:
        os.chown(store.location, 12_345, -1)
        with pytest.raises(InvalidConfig, match=r"belongs to another user \(id 12345\).*chown"):
            store.load("org:a")


def _rewritten(**changes: object) -> Callable[[Store], None]:
    def change(store: Store) -> None:
        head = place(store, "org:a") / "head.json"
        head.write_text(json.dumps({**json.loads(head.read_text()), **changes}))

    return change


def _over(offset: int, data: bytes) -> Callable[[Store], None]:
    def write(store: Store) -> None:
        with archive(store, "org:a").open("r+b") as file:
            file.seek(offset)
            file.write(data)

    return write


def _within(name: str, change: Callable[[bytes], bytes]) -> Callable[[Store], None]:
    """Change a file of the engine, with its checksum."""

    def repack(store: Store) -> None:
        file = archive(store, "org:a")
        with zipfile.ZipFile(file) as before:
            parts = [(part.filename, before.read(part)) for part in before.infolist()]
        with zipfile.ZipFile(file, "w") as after:
            for part, content in parts:
                if content or not part.endswith(name):
                    after.writestr(part, change(content) if part.endswith(name) else content)

    return repack


DAMAGE: dict[str, Callable[[Store], object]] = {
    "archive gone": lambda store: archive(store, "org:a").unlink(),
    "archive empty": lambda store: archive(store, "org:a").write_bytes(b""),
    "archive cut": lambda store: os.truncate(archive(store, "org:a"), 20_000),
    "one byte": _over(5_000, b"\xff"),
    "zeroed": _over(0, bytes(30_000)),
    "panic": _within("vectors/status.dat", lambda content: content[:4]),
    "engine's file cut": _within("segment.json", lambda content: content[:20]),
    "head cut": lambda store: os.truncate(place(store, "org:a") / "head.json", 40),
    "head no object": lambda store: (place(store, "org:a") / "head.json").write_text("[]"),
    "newer form": _rewritten(form=2),
    "unknown field": _rewritten(colour="blue"),
    "anothers": _rewritten(tenant="org:b"),
    "elsewhere": _rewritten(archives={"tool_capabilities__static": ["../../x.zip", 256, 0]}),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_its_tenants_alone_is_named_and_an_import_mends_it(name: str, store: Store) -> None:
    known = store.load("org:a")
    DAMAGE[name](store)
    for read in (lambda: Store(store.location, embedder=shipped()).load("org:a"), lambda: store.load("org:a")):
        with pytest.raises(InvalidConfig, match=r"keeps of 'org:a' cannot be read \(.*`toolroute tools import`"):
            read()
    assert len(store.load("org:b").tools) == 3
    store.replace_servers("org:a", {"mail": MAIL, "files": FILES})
    assert store.load("org:a").tools == known.tools


def test_damage_of_what_is_shared_takes_nothing_from_a_tenants_own(store: Store) -> None:
    archive(store, SHARED).write_bytes(b"")
    found = store.load("org:a")
    assert found.tools == Catalogue([*MAIL, *FILES]).tools
    assert "keeps of 'shared' cannot be read" in found.damaged
    (place(store, SHARED) / "head.json").write_text("{")
    assert store.load("org:a").tools == found.tools
    assert store.servers("org:a") == {"files": 3, "mail": 2}
    store.replace_server(SHARED, "web", [tool("web:search", "Search the web")])
    assert (len(store.load("org:a").tools), store.load("org:a").damaged) == (6, "")


def test_what_an_import_of_one_server_cannot_mend_stays_named(store: Store) -> None:
    archive(store, "org:a").write_bytes(b"")
    store.replace_server("org:a", "mail", MAIL)
    found = store.load("org:a")
    assert [one.key for one in found.tools] == [*sorted(one.key for one in MAIL), "web:search"]
    assert "'files:read_file'" in found.damaged


def test_reading_opens_nothing_of_other_tenants(store: Store) -> None:
    opened: list[str] = []
    own = {str(place(store, name)) for name in ("org:a", SHARED)}
    _watch(opened)
    store.load("org:a")
    _watch(None)
    inside = [path for path in opened if path.startswith(store.location)]
    assert inside
    assert {str(Path(path).parent) for path in inside} == own


_opened: list[list[str] | None] = [None]


def _watch(into: list[str] | None) -> None:
    if _opened == [None]:
        sys.addaudithook(_audit)
    _opened.append(into)


def _audit(event: str, given: tuple[object, ...]) -> None:
    if (into := _opened[-1]) is not None and event in ("open", "os.listdir", "os.scandir"):
        into.append(str(given[0]))


ODD = [
    "org:../../../up",
    "org:/etc",
    "org:A",
    "org:a",
    "org:" + "x" * 400,
    "org:a\x1b[2Ja",
    "org:ſ",
    "org:s",
    "user:con",
]


def test_any_tenants_name_has_a_folder_of_its_own_inside(tmp_path: Path) -> None:
    store = Store(tmp_path / "in" / "store", embedder=shipped())
    for number, tenant in enumerate(ODD):
        store.replace_server(tenant, "s", [tool(f"s:tool_{number}")])
    for number, tenant in enumerate(ODD):
        assert [one.name for one in store.load(tenant).tools] == [f"tool_{number}"]
    folders = [path.name.casefold() for path in (tmp_path / "in" / "store" / "tenants").iterdir()]
    assert len(set(folders)) == len(ODD)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_dropped_tenant_leaves_nothing_and_others_stay(store: Store) -> None:
    with store.qdrant.writing("org:a", EXPERIENCE) as points:
        points.create("tool_experience__x", 0)
        points.put("tool_experience__x", {"00000000-0000-0000-0000-000000000001": {"text": "a"}})
    store.drop("org:a")
    assert [one.key for one in store.load("org:a").tools] == ["web:search"]
    assert list(store.qdrant.read("org:a", lambda points: points.find("tool_experience__x"), EXPERIENCE)) == []
    assert len(store.load("org:b").tools) == 3
    assert not place(store, "org:a").parent.exists()


def test_a_store_is_no_folder_of_tools(store: Store) -> None:
    with pytest.raises(InvalidCatalogue, match="is a store, not a folder of tools"):
        list(read_tools(Path(store.location)))


def test_an_archive_does_not_grow_with_what_is_gone(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", embedder=shipped())
    sizes = []
    for edition in range(8):
        store.replace_server("org:a", "s", [tool(f"s:t{n}", f"Edition {edition} of {n}") for n in range(250)])
        sizes.append(archive(store, "org:a").stat().st_size)
    assert max(sizes[4:]) <= max(sizes[:4]) * 2


def _apart(mounts: str, code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a program where these mounts are its own."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("this system gives no mounts of one's own")
    run = f'{mounts} && exec "$0" -W ignore -c "$@"'
    command = ["unshare", "-rm", "sh", "-ec", run, sys.executable, code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


READ = """
import sys
from orchestrator.store.store import Store
from tests.stores import shipped
print(len(Store(sys.argv[1], embedder=shipped()).load("org:a").tools))
"""


def test_a_read_only_folder_is_read_and_a_write_says_why_not(store: Store) -> None:
    mount = f"mount --bind {store.location} {store.location} && mount -o remount,ro,bind {store.location}"
    write = READ + 'Store(sys.argv[1], embedder=shipped()).remove_server("org:a", "mail")'
    done = _apart(mount, write, store.location)
    assert done.stdout == "6\n"
    assert "Read-only file system" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("orchestrator.errors.")


FILL = """
import os, sys
from orchestrator.errors import StoreUnavailable
from orchestrator.store.store import Store
from tests.catalogues import tool
from tests.stores import MAIL, shipped

full = sys.argv[1]
store = Store(full, embedder=shipped())
store.replace_server("org:a", "mail", MAIL)
known = store.load("org:a")
for number in range(1, 40):
    try:
        store.replace_server("org:a", "s", [tool(f"s:t{n}", "x" * 200 + str(number)) for n in range(100 * number)])
        known = store.load("org:a")
    except StoreUnavailable as error:
        print(error)
        break
with open(os.path.join(full, "fill"), "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)): pass
    except OSError:
        pass
for reader in (store, Store(full, embedder=shipped())):
    assert reader.load("org:a").tools == known.tools
try:
    store.replace_server("org:b", "mail", MAIL)
except StoreUnavailable as error:
    print(error)
os.unlink(os.path.join(full, "fill"))
store.replace_server("org:b", "mail", MAIL)
assert len(store.load("org:b").tools) == 2
assert store.load("org:a").tools == known.tools
print("whole", len(known.tools))
"""


def test_a_full_disk_ends_the_writer_with_a_clear_error_and_takes_nothing(tmp_path: Path) -> None:
    done = _apart(f"mount -t tmpfs -o size=2m,mode=755 tmpfs {tmp_path}", FILL, tmp_path)
    first, second, last = done.stdout.splitlines()
    assert "No space left on device" in first
    assert "No space left on device" in second
    assert last.startswith("whole ")
    assert done.returncode == 0


def test_no_room_to_open_the_store_is_an_error_and_no_crash(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.store.shard._MARGIN", 1 << 60)
    with pytest.raises(
        StoreUnavailable, match="MB are needed to open the store's files there: make room, or set TMPDIR"
    ):
        store.load("org:a")


def test_a_writer_takes_nothing_for_lost_that_only_could_not_be_opened(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.store.shard._places", lambda: [Path("/nowhere")])
    for use in (lambda: store.load("org:a"), lambda: store.replace_server("org:a", "mail", MAIL[:1])):
        with pytest.raises(StoreUnavailable, match="nowhere"):
            use()
    monkeypatch.undo()
    assert len(store.load("org:a").tools) == 6


def test_killed_processes_leave_nothing_in_memory_for_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestrator.store import shard

    places = shard._places()
    left = places[0] / f"{shard._PREFIX}test-{os.getpid()}"
    left.mkdir()
    store.replace_server("org:a", "mail", MAIL[:1])
    assert left.exists()
    os.utime(left, (0, 0))
    store.replace_server("org:a", "mail", MAIL)
    assert not left.exists()
