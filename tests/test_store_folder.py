"""A store in a folder: each tenant's cost, lock and damage are its own, and no file in it runs."""

import asyncio
import base64
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
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
from orchestrator.runtime import index_file
from orchestrator.runtime.router import Router
from orchestrator.store import listing_records, manifest
from orchestrator.store.folder_backend import Folder
from orchestrator.store.opening import EXPERIENCE, TOOLS
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
    (found,) = place(store, tenant).glob("*.points")
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


def _recorded(content: Callable[[str], str], *, named: bool = True) -> Damage:
    """Change the first part of a manifest's content. With `named`, name the part by its new content."""

    def change(store: Store, tenant: str) -> None:
        file = place(store, tenant) / "head.json"
        head = json.loads(file.read_text())
        (record,) = [own for own in head["records"][manifest.CATALOGUES].values() if own.get("parts")]
        parts = head["records"][manifest.PARTS]
        part = parts.pop(record["parts"][0])
        part["text"] = content(part["text"])
        if named:
            record["parts"][0] = manifest._part_id(tenant, part["text"])
        parts[record["parts"][0]] = part
        file.write_text(json.dumps(head))

    return change


def _over(offset: int, data: bytes) -> Damage:
    def write(store: Store, tenant: str) -> None:
        with archive(store, tenant).open("r+b") as file:
            file.seek(offset)
            file.write(data)

    return write


def _lines(change: Callable[[bytes], bytes]) -> Damage:
    """Change each line of the file, with its length and checksum in the head."""

    def rewrite(store: Store, tenant: str) -> None:
        file, head = archive(store, tenant), place(store, tenant) / "head.json"
        content = b"".join(change(line) + b"\n" for line in file.read_bytes().splitlines())
        file.write_bytes(content)
        named = json.loads(head.read_text())
        (own,) = named["collections"].values()
        own |= {"length": len(content), "checksum": zlib.crc32(content)}
        head.write_text(json.dumps(named))

    return rewrite


NO_NUMBERS = base64.b64encode(b"\xff" * 4 * 256)


def _longer(store: Store, tenant: str) -> dict[str, object]:
    head = json.loads((place(store, tenant) / "head.json").read_text())
    return {name: {**own, "length": 10**18} for name, own in head["collections"].items()}


DAMAGE: dict[str, Damage] = {
    "archive gone": lambda store, tenant: archive(store, tenant).unlink(),
    "archive cut": lambda store, tenant: os.truncate(archive(store, tenant), 1_000),
    "one byte": _over(5_000, b"\xff"),
    "byte more": lambda store, tenant: _rewritten(collections=_longer(store, tenant))(store, tenant),
    "vectors cut": _lines(lambda line: line[:40] + line[140:]),
    "vectors no numbers": _lines(lambda line: b" ".join([line[:36], NO_NUMBERS, line.split(b" ", 2)[2]])),
    "vectors no base64": _lines(lambda line: b" ".join([line[:36], b"=%=", line.split(b" ", 2)[2]])),
    "payloads cut": _lines(lambda line: line[:-1]),
    "payloads no objects": _lines(lambda line: line[: line.rindex(b"{")] + b"[1]"),
    "lines empty": _lines(lambda _: b""),
    "head cut": lambda store, tenant: os.truncate(place(store, tenant) / "head.json", 40),
    "older form": _rewritten(form=0),
    "unknown field": _rewritten(colour="blue"),
    "another's": _rewritten(tenant="org:b"),
    "elsewhere": _rewritten(collections={"tool_capabilities__static": {"file": "../../x.points", "size": 256}}),
    "a letter": _recorded(lambda content: content.replace("e", "o", 1), named=False),
    "text": _recorded(lambda _: '[{"s": "x"}, {}, ""]'),
    "collection unknown": _recorded(lambda content: json.dumps({**json.loads(content), "collection": "nope"})),
}


def _damage(store: Store, tenant: str) -> str:
    try:
        return store.load(tenant).damaged
    except InvalidConfig as error:
        return str(error)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_its_tenants_alone_is_named_and_an_import_mends_it(name: str, store: Store) -> None:
    known = store.load("org:a")
    DAMAGE[name](store, "org:a")
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
    monkeypatch.setattr("orchestrator.store.writer._BATCH", 1)
    store.replace_servers("org:a", {"mail": MAIL, "files": FILES})
    assert (len(store.load("org:a").tools), store.load("org:a").damaged) == (6, "")


def test_a_manifest_that_is_written_otherwise_is_replaced(store: Store) -> None:
    _recorded(lambda content: json.dumps(json.loads(content), indent=1))(store, "org:a")
    store.remove_server("org:a", "mail")
    assert store.servers("org:a", own=True) == {"files": 3}


def test_only_a_successful_listing_has_a_time(store: Store) -> None:
    tools = store.of_server("org:a", "files")
    store.replace_server("org:a", "files", tools, entry="e1")
    assert store.listed_at("org:a") == {}
    store.note_failures("org:a", {"files": ""}, {"files": "e1"})
    assert store.listed_at("org:a").keys() == {"files"}
    store.note_failures("org:a", {"files": "it failed"}, {"files": "e1"})
    assert store.listed_at("org:a") == {}


@pytest.mark.parametrize("content", ["{", '{"dead": 5}', None])
def test_damaged_notes_of_failures_take_no_tools_and_go(content: str | None, store: Store) -> None:
    with store.qdrant.writing("org:a") as points:
        listing_records.note_failures(points, "org:a", {})
        (notes,) = [r.id for r in points.find(manifest.CATALOGUES) if r.payload.get("content") == "{}"]
        points.put(manifest.CATALOGUES, {notes: {"content": content}})
    assert (len(store.load("org:a").tools), store.failures("org:a")) == (6, {})
    store.note_failures("org:a", {"dead": "it failed"})
    assert store.failures("org:a") == {"dead": "it failed"}


@pytest.mark.parametrize("name", ["archive cut", "archive gone", "head cut", "payloads cut"])
def test_damaged_experience_is_named_and_forgetting_it_mends_it(
    name: str, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done = Outcome(id="1", query="send it", used=(Use(tool="mail:send_email"),), at=time.time())
    vectors = shipped().embed(["send it"])
    many = [replace(done, id=str(number)) for number in range(70)]
    store.outcomes.add("org:a", many, vectors.repeat(70, axis=0), 90)
    part = place(store, "org:a").parent / EXPERIENCE
    monkeypatch.setattr(sys.modules[__name__], "TOOLS", EXPERIENCE)
    DAMAGE[name](store, "org:a")
    if name == "payloads cut":
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
    which = ["--before", "2100-01-01"] if name == "payloads cut" else ["--all"]
    command = ["experience", "forget", *which, "--store", store.location, "--organization", "a"]
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert ("tenant 'org:a': past tasks that could not be read were removed" in caplog.text) == (name != "payloads cut")
    assert [*contents(part)] == ([part / "head.json"] if name == "payloads cut" else [])
    assert store.outcomes.read("org:a").outcomes == ()
    store.outcomes.add("org:a", [done], vectors, 90)
    assert store.outcomes.read("org:a").outcomes == (done,)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_what_a_newer_toolroute_wrote_is_refused_by_name_and_nothing_of_it_goes(store: Store) -> None:
    done = Outcome(id="1", query="send it", used=(Use(tool="mail:send_email"),), at=time.time())
    vectors = shipped().embed(["send it"])
    store.outcomes.add("org:a", [done], vectors, 90)
    known, folder, head = store.load("org:a"), Path(store.location), '"form":2,'
    written = contents(folder)
    for path in folder.rglob("head.json"):
        path.write_text(path.read_text().replace(head, head.replace("2", "99")))
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


@pytest.mark.parametrize("name", ["head cut", "archive cut", "one byte"])
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
    assert kept == {path.name: own for path, own in left.items() if name == "head cut" or path.suffix == ".points"}
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
    with pytest.raises(InvalidCatalogue, match="is a store, not a folder of tool files"):
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


def test_a_writer_takes_nothing_for_lost_that_only_could_not_be_opened(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: str, flags: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files", path)

    monkeypatch.setattr("orchestrator.store.folder_backend.regular", refused)
    for use in (lambda: store.load("org:a"), lambda: store.replace_server("org:a", "mail", MAIL[:1])):
        with pytest.raises(StoreUnavailable, match="Too many open files"):
            use()
    monkeypatch.undo()
    assert len(store.load("org:a").tools) == 6


def test_what_a_writer_left_that_died_while_it_appended_counts_for_nobody(store: Store) -> None:
    with archive(store, "org:a").open("ab") as file:
        file.write(b"half a line, longer than what comes next" * 100)
    assert (len(store.load("org:a").tools), store.load("org:a").damaged) == (6, "")
    store.replace_server("org:a", "other", [tool("other:one", "One")])
    assert (len(store.load("org:a").tools), store.load("org:a").damaged) == (7, "")
    assert b"half a line" not in archive(store, "org:a").read_bytes()


def test_a_point_that_is_written_again_stands_in_the_file_once_more_only_until_that_is_read(store: Store) -> None:
    vectors = shipped().embed(["send it"])
    for text in ("first words", "second words"):
        done = Outcome(id="1", query=text, used=(Use(tool="mail:send_email"),), at=time.time())
        store.outcomes.add("org:a", [done], vectors, 90)
        assert store.outcomes.read("org:a").outcomes == (done,)
    (file,) = (place(store, "org:a").parent / EXPERIENCE).glob("*.points")
    assert b"first words" in file.read_bytes()
    store.outcomes.add("org:a", [replace(done, id=str(number)) for number in range(65)], vectors.repeat(65, axis=0), 90)
    (file,) = file.parent.glob("*.points")
    assert b"first words" not in file.read_bytes()
    assert len(store.outcomes.read("org:a").outcomes) == 65


def test_what_is_kept_is_its_users_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = Store(tmp_path / "store", embedder=shipped())
        store.replace_server("local", "s", [tool(f"s:t{n}") for n in range(2_000)])
        done = Outcome(id="1", query="send it", used=(Use(tool="s:t1"),), at=time.time())
        store.outcomes.add("local", [done], shipped().embed(["send it"]), 90)
        asyncio.run(_routed(store))
    finally:
        os.umask(before)
    modes = {path: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "store", *(tmp_path / "store").rglob("*"))}
    assert {path.name for path in modes} >= {"head.json", "lock", "index.npz", "tools", "experience"}
    assert modes == {path: "0o700" if path.is_dir() else "0o600" for path in modes}


async def _routed(store: Store) -> None:
    async with Router(store=store, embedder=shipped()) as router:
        await router.route("send an email")


ODD_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": os.mkdir,
}


@pytest.mark.parametrize("odd", ODD_FILES)
@pytest.mark.parametrize("name", ["head.json", "points", "lock", "index.npz"])
@pytest.mark.timeout(60)
def test_what_is_no_file_in_a_files_place_holds_nobody_up(name: str, odd: str, store: Store) -> None:
    file = archive(store, "org:a") if name == "points" else place(store, "org:a") / name
    file.unlink(missing_ok=True)
    ODD_FILES[odd](file)
    if name == "index.npz":
        assert index_file.load(file, "", "", (), frozenset()) is None
    elif name == "lock":
        assert len(store.load("org:a").tools) == 6
        with pytest.raises(StoreUnavailable, match=r"(not a regular file|Is a directory).*lock"):
            store.replace_server("org:a", "mail", MAIL[:1])
    else:
        with pytest.raises(InvalidConfig, match=r"not a regular file.*`toolroute tools import`"):
            store.load("org:a")
        store.replace_servers("org:a", {"mail": MAIL, "files": FILES})
        assert (len(store.load("org:a").tools), store.load("org:a").damaged) == (6, "")
