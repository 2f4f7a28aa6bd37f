"""A store in a folder: each tenant's cost, lock and damage are its own, and nothing that stands in it runs."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.files import read_tools
from orchestrator.cli import cli
from orchestrator.common.digests import digest
from orchestrator.errors import InvalidCatalogue, InvalidConfig, StoreUnavailable
from orchestrator.records.outcome import Outcome, Use
from orchestrator.store import manifest
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


SHARED_FOLDER = digest(SHARED, 32)


def archive(store: Store, tenant: str) -> Path:
    (found,) = place(store, tenant).glob("*.zip")
    return found


def test_a_folder_that_others_can_write_is_refused(store: Store, tmp_path: Path) -> None:
    own = place(store, "org:a")
    for folder in (Path(store.location), own.parent.parent, own.parent, own):
        folder.chmod(0o757)
        for use in (lambda: store.load("org:a"), lambda: store.replace_server("org:a", "mail", MAIL)):
            with pytest.raises(InvalidConfig, match=rf"'{folder}' can be written by every user.*chmod"):
                use()
        folder.chmod(0o755)
    own.parent.rename(tmp_path / "elsewhere").chmod(0o757)
    own.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidConfig, match=r"can be written by every user"):
        store.load("org:a")
    assert len(store.load("org:b").tools) == 3
    if os.geteuid() == 0:
        os.chown(store.location, 12_345, -1)
        with pytest.raises(InvalidConfig, match=r"belongs to another user \(id 12345\).*chown"):
            store.load("org:a")


Damage = Callable[[Store, str], object]


def _rewritten(**changes: object) -> Damage:
    def change(store: Store, tenant: str) -> None:
        head = place(store, tenant) / "head.json"
        head.write_text(json.dumps({**json.loads(head.read_text()), **changes}))

    return change


def _recorded(content: Callable[[str], str], *, state: bool = True) -> Damage:
    """Change the manifest, with the digest of its content where `state` says so."""

    def change(store: Store, tenant: str) -> None:
        file = place(store, tenant) / "head.json"
        head = json.loads(file.read_text())
        (manifest,) = [own for own in head["records"]["tool_catalogues"].values() if own.get("version")]
        manifest["content"] = content(manifest["content"])
        if state:
            manifest["state"] = digest(manifest["content"], 16)
        file.write_text(json.dumps(head))

    return change


def _over(offset: int, data: bytes) -> Damage:
    def write(store: Store, tenant: str) -> None:
        with archive(store, tenant).open("r+b") as file:
            file.seek(offset)
            file.write(data)

    return write


def _within(name: str, change: Callable[[bytes], bytes] | None) -> Damage:
    """Change a file of the engine (None: it goes), with its checksum."""

    def repack(store: Store, tenant: str) -> None:
        file = archive(store, tenant)
        with zipfile.ZipFile(file) as before:
            parts = [(part.filename, before.read(part)) for part in before.infolist()]
        with zipfile.ZipFile(file, "w") as after:
            for part, content in parts:
                if not part.endswith(name) or (content and change is not None):
                    after.writestr(part, change(content) if change and part.endswith(name) else content)

    return repack


DAMAGE: dict[str, Damage] = {
    "archive gone": lambda store, tenant: archive(store, tenant).unlink(),
    "archive cut": lambda store, tenant: os.truncate(archive(store, tenant), 20_000),
    "one byte": _over(5_000, b"\xff"),
    "panic": _within("vectors/status.dat", lambda content: content[:4]),
    "engine's file gone": _within("segment.json", None),
    "garbage": _within("deleted/status.dat", lambda content: b"\xa7" * len(content)),
    "no length": _within("vectors/status.dat", None),
    "vectors cut": _within("chunk_0.mmap", lambda content: content[:100]),
    "vectors no numbers": _within("chunk_0.mmap", lambda content: b"\xff" * len(content)),
    "head cut": lambda store, tenant: os.truncate(place(store, tenant) / "head.json", 40),
    "older form": _rewritten(form=0),
    "unknown field": _rewritten(colour="blue"),
    "another's": _rewritten(tenant="org:b"),
    "elsewhere": _rewritten(archives={"tool_capabilities__static": {"file": "../../x.zip", "size": 256}}),
    "a letter": _recorded(lambda content: content.replace("e", "o", 1), state=False),
    "text": _recorded(lambda _: '[{"s": "x"}, {}, ""]'),
    "collection unknown": _recorded(lambda content: json.dumps([*json.loads(content)[:2], "nope"])),
}


def _named(name: str) -> Damage:
    def add(store: Store, tenant: str) -> None:
        with zipfile.ZipFile(archive(store, tenant), "a") as file:
            file.writestr(name, b"hello")

    return add


ODD_ARCHIVES: dict[str, Damage] = {
    "deflated": lambda store, tenant: _over(archive(store, tenant).read_bytes().index(b"PK\x01\x02") + 10, b"\x08")(
        store, tenant
    ),
    "place too large": _named("99999999999999999999/x"),
    "leads out": _named("5/../x"),
    "no place": _named("x"),
    "in a file": _named("0/edge_config.json/x"),
}


def _damage(store: Store, tenant: str) -> str:
    try:
        return store.load(tenant).damaged
    except InvalidConfig as error:
        return str(error)


@pytest.mark.parametrize("name", [*DAMAGE, *ODD_ARCHIVES])
def test_damage_is_its_tenants_alone_is_named_and_an_import_mends_it(name: str, store: Store) -> None:
    known = store.load("org:a")
    (DAMAGE | ODD_ARCHIVES)[name](store, "org:a")
    for reader in (Store(store.location, embedder=shipped()), store):
        assert re.search(r"'(org:a|mail:\w+|files:\w+)'.*`toolroute tools import`", _damage(reader, "org:a"))
    assert len(store.load("org:b").tools) == 3
    store.replace_servers("org:a", {"mail": MAIL, "files": FILES})
    assert (store.load("org:a").tools, store.load("org:a").damaged) == (known.tools, "")


@pytest.mark.parametrize("name", ["archive cut", "vectors no numbers", "head cut", "a letter"])
def test_damage_of_what_is_shared_takes_nothing_from_a_tenants_own(name: str, store: Store) -> None:
    DAMAGE[name](store, SHARED)
    found = store.load("org:a")
    assert found.tools == Catalogue([*MAIL, *FILES]).tools
    assert re.search(r"'(shared|web:search)'.*`toolroute tools import`", found.damaged)
    assert set(store.servers("org:a")) >= {"files", "mail"}
    store.replace_server(SHARED, "web", [tool("web:search", "Search the web")])
    assert (len(store.load("org:a").tools), store.load("org:a").damaged) == (6, "")


def test_an_import_in_chunks_mends_what_it_finds_damaged_late(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    DAMAGE["vectors cut"](store, "org:a")
    monkeypatch.setattr("orchestrator.store.vectors._CHUNK", 2)
    monkeypatch.setattr("orchestrator.store.store._BATCH", 1)
    store.replace_servers("org:a", {"mail": MAIL, "files": FILES})
    assert (len(store.load("org:a").tools), store.load("org:a").damaged) == (6, "")


def test_a_manifest_that_is_written_otherwise_is_replaced(store: Store) -> None:
    _recorded(lambda content: json.dumps(json.loads(content), indent=1))(store, "org:a")
    store.remove_server("org:a", "mail")
    assert store.servers("org:a", own=True) == {"files": 3}


@pytest.mark.parametrize("content", ["{", '{"dead": 5}', None])
def test_damaged_notes_of_failures_take_no_tools_and_go(content: str | None, store: Store) -> None:
    with store.qdrant.writing("org:a") as points:
        manifest.note_failures(points, "org:a", {})
        (notes,) = [r.id for r in points.find(manifest.CATALOGUES) if r.payload.get("content") == "{}"]
        points.put(manifest.CATALOGUES, {notes: {"content": content}})
    assert (len(store.load("org:a").tools), store.failures("org:a")) == (6, {})
    store.note_failures("org:a", {"dead": "it failed"})
    assert store.failures("org:a") == {"dead": "it failed"}


@pytest.mark.parametrize("name", ["archive cut", "head cut", "no length"])
def test_damaged_experience_is_named_and_forgetting_it_mends_it(
    name: str, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done = Outcome(id="1", query="send it", used=(Use(tool="mail:send_email"),), at=time.time())
    vectors = shipped().embed(["send it"])
    many = [replace(done, id=str(number)) for number in range(70)]  # As many as are packed.
    store.outcomes.add("org:a", many, vectors.repeat(70, axis=0), 90)
    part = place(store, "org:a").parent / EXPERIENCE
    monkeypatch.setattr(sys.modules[__name__], "TOOLS", EXPERIENCE)
    DAMAGE[name](store, "org:a")
    if name == "no length":
        assert store.outcomes.read("org:a").damaged == 70
    else:
        left = contents(part)
        for use in (
            lambda: store.outcomes.read("org:a"),
            lambda: store.outcomes.add("org:a", many, vectors.repeat(70, axis=0), 90),
            lambda: store.outcomes.forget("org:a", lambda own: own.actor == "ann"),
        ):
            with pytest.raises(InvalidConfig, match=r"'org:a'.*`toolroute experience forget --all`"):
                use()
        assert contents(part) == left
    assert len(store.load("org:a").tools) == 6
    which = ["--before", "2100-01-01"] if name == "no length" else ["--all"]
    command = ["experience", "forget", *which, "--store", store.location, "--organization", "a"]
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert ("the past tasks of 'org:a', which cannot be read, are forgotten" in caplog.text) == (name != "no length")
    assert [*contents(part)] == ([part / "head.json"] if name == "no length" else [])
    assert store.outcomes.read("org:a").outcomes == ()
    store.outcomes.add("org:a", [done], vectors, 90)
    assert store.outcomes.read("org:a").outcomes == (done,)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_what_a_newer_toolroute_wrote_is_refused_by_name_and_nothing_of_it_goes(store: Store) -> None:
    done = Outcome(id="1", query="send it", used=(Use(tool="mail:send_email"),), at=time.time())
    vectors = shipped().embed(["send it"])
    store.outcomes.add("org:a", [done], vectors, 90)
    known, folder, head = store.load("org:a"), Path(store.location), '"form":1,'
    written = contents(folder)
    for path in folder.rglob("head.json"):
        path.write_text(path.read_text().replace(head, head.replace("1", "99")))
    newer = contents(folder)
    for use in (
        lambda: store.load("org:a"),
        lambda: store.replace_server("org:a", "web", []),
        lambda: store.drop("org:a"),
        lambda: store.outcomes.add("org:a", [done], vectors, 90),
        lambda: store.outcomes.forget("org:a", lambda _: True),
        lambda: store.outcomes.forget_all("org:a"),
    ):
        with pytest.raises(InvalidConfig, match=r"'org:a' was written by a newer toolroute \(form 99, .*--store"):
            use()
    assert contents(folder) == newer
    for path, content in written.items():
        if SHARED_FOLDER not in str(path):
            path.write_bytes(content)
    assert store.load("org:a").tools == Catalogue([*MAIL, *FILES]).tools
    assert "'shared' was written by a newer toolroute" in store.load("org:a").damaged
    assert len(known.tools) == 6


@pytest.mark.parametrize("name", ["head cut", "archive cut", "garbage"])
def test_what_an_import_replaces_without_having_read_it_is_kept_and_said(
    name: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    DAMAGE[name](store, "org:a")
    left = contents(place(store, "org:a"))
    if name == "head cut":
        for use in (
            lambda: store.remove_server("org:a", "mail"),
            lambda: store.note_failures("org:a", {"dead": "it failed"}),
        ):
            with pytest.raises(InvalidConfig, match=r"'org:a'.*`toolroute tools import`"):
                use()
        assert contents(place(store, "org:a")) == left
    store.replace_server("org:a", "other", [tool("other:one", "One")])
    store.replace_server("org:a", "mail", MAIL)
    (aside,) = place(store, "org:a").glob("damaged-*")
    kept = {path.name: content for path, content in contents(aside).items()}
    assert kept == {path.name: own for path, own in left.items() if name == "head cut" or path.suffix == ".zip"}
    assert str(aside) in caplog.text
    assert {"other:one", "mail:send_email"} <= {one.key for one in store.load("org:a").tools}


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
    monkeypatch.setattr("orchestrator.store.shard.workplaces", lambda: [Path("/nowhere")])
    for use in (lambda: store.load("org:a"), lambda: store.replace_server("org:a", "mail", MAIL[:1])):
        with pytest.raises(StoreUnavailable, match="nowhere"):
            use()
    monkeypatch.undo()
    assert len(store.load("org:a").tools) == 6


def test_killed_processes_leave_nothing_in_memory_for_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestrator.store import shard

    places = shard.workplaces()
    left = places[0] / f"{shard._PREFIX}test-{os.getpid()}"
    left.mkdir()
    store.replace_server("org:a", "mail", MAIL[:1])
    assert left.exists()
    os.utime(left, (0, 0))
    store.replace_server("org:a", "mail", MAIL)
    assert not left.exists()
