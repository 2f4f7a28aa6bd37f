"""A store in a folder: each tenant's cost, lock and damage are its own, and no file in it runs."""

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator import Catalogue, Outcome, Router, Store, Use
from orchestrator.errors import InvalidCatalogue, InvalidConfig, StoreUnavailable
from orchestrator.runtime import index_file
from tests.catalogues import tool
from tests.command_line import Run
from tests.stores import EXPERIENCE, FILES, MAIL, SHARED, TOOLS, file_of, folder_name, folder_of, shipped

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A folder with two tenants' tools, and a shared server."""
    store = Store(tmp_path / "store", embedder=shipped(), timeout_s=60)
    store.replace_servers("org:a", {"mail": MAIL, "files": FILES})
    store.replace_server("org:b", "mail", MAIL)
    store.replace_server(SHARED, "web", [tool("web:search", "Search the web")])
    return store


def test_a_folder_that_others_can_write_is_refused(store: Store) -> None:
    tenant = folder_of(store, "org:a")
    for folder in (Path(store.location), tenant.parent, tenant):
        folder.chmod(0o757)
        for use in (lambda: store.load("org:a"), lambda: store.replace_server("org:a", "mail", MAIL)):
            with pytest.raises(InvalidConfig, match=rf"'{folder}' can be written by every user.*chmod"):
                use()
        folder.chmod(0o755)
    assert len(store.load("org:b").tools) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(store: Store) -> None:
    os.chown(store.location, 12_345, -1)
    with pytest.raises(InvalidConfig, match=r"belongs to another user \(id 12345\).*chown"):
        store.load("org:a")


@pytest.mark.parametrize("which", ["tenants", "tenant"])
def test_a_link_inside_a_store_is_not_followed(which: str, store: Store, tmp_path: Path) -> None:
    done = Outcome(id="1", query="send it", used=(Use(tool="mail:send_email"),), at=time.time())
    store.outcomes.add("org:a", [done], shipped().embed(["send it"]), 90)
    folder = folder_of(store, "org:a")
    folder = folder.parent if which == "tenants" else folder
    elsewhere = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(elsewhere)
    before = contents(elsewhere)
    for use in (
        lambda: store.load("org:a"),
        lambda: store.replace_server("org:a", "mail", MAIL[:1]),
        lambda: store.outcomes.forget_all("org:a"),
        lambda: store.drop("org:a"),
    ):
        with pytest.raises(InvalidConfig, match=r"it is a link.*remove it, or give another folder with --store"):
            use()
    assert contents(elsewhere) == before


def test_a_link_to_damaged_files_is_removed_and_its_target_stays(store: Store, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "diary").write_text("mine")
    link = folder_of(store, "org:a") / "damaged-experience-x"
    link.symlink_to(elsewhere)
    store.outcomes.forget_all("org:a")
    assert not link.is_symlink()
    assert (elsewhere / "diary").read_text() == "mine"


def test_a_file_of_an_earlier_toolroute_is_named_with_its_remedy(tmp_path: Path) -> None:
    old = tmp_path / "tenants" / folder_name("org:a") / "tools"
    old.mkdir(parents=True)
    (old / "head.json").write_text('{"form": 2}')
    store = Store(tmp_path, embedder=shipped())
    for use in (lambda: store.load("org:a"), lambda: store.replace_server("org:a", "mail", MAIL)):
        with pytest.raises(InvalidConfig, match=r"files of an earlier toolroute.*experience export.*tools import"):
            use()


def test_the_remedy_for_files_of_an_earlier_toolroute_keeps_the_files_of_this_one(tmp_path: Path) -> None:
    store = Store(tmp_path, embedder=shipped())
    store.replace_server("org:a", "mail", MAIL)
    old = tmp_path / "tenants" / folder_name("org:a") / "experience"
    old.mkdir()
    (old / "head.json").write_text('{"form": 2}')
    with pytest.raises(InvalidConfig) as refused:
        store.load("org:a")
    named = re.search(r"remove the folder '([^']+)'", str(refused.value))
    assert named is not None
    shutil.rmtree(named[1])
    assert len(store.load("org:a").tools) == len(MAIL)


Damage = Callable[[Store, str, str], object]


def _changed(statement: str, *values: object) -> Damage:
    def change(store: Store, tenant: str, part: str) -> None:
        with closing(sqlite3.connect(file_of(store, tenant, part))) as connection:
            connection.execute(statement, values)
            connection.commit()

    return change


def _cut(store: Store, tenant: str, part: str) -> None:
    path = file_of(store, tenant, part)
    os.truncate(path, path.stat().st_size // 2)


def _overwritten(store: Store, tenant: str, part: str) -> None:
    with file_of(store, tenant, part).open("r+b") as file:
        file.write(b"half a file of something else" * 200)


_NO_NUMBERS = np.full(256, np.nan, np.float32).tobytes()
_OF_TOOLS = "WHERE collection LIKE 'tool_capabilities%'"
DAMAGE: dict[str, Damage] = {
    "file cut": _cut,
    "file overwritten": _overwritten,
    "file of something else": lambda store, tenant, part: file_of(store, tenant, part).write_bytes(b"x" * 10_000),
    "tables gone": _changed("DROP TABLE points"),
    "one letter": _changed(f"UPDATE points SET payload = replace(payload, 'e', 'o') {_OF_TOOLS}"),
    "payloads cut": _changed(f"UPDATE points SET payload = substr(payload, 1, 9) {_OF_TOOLS}"),
    "payloads no text": _changed(f"UPDATE points SET payload = x'ff' {_OF_TOOLS}"),
    "vectors cut": _changed(f"UPDATE points SET vector = x'00' {_OF_TOOLS}"),
    "vectors gone": _changed(f"UPDATE points SET vector = NULL {_OF_TOOLS}"),
    "vectors no numbers": _changed(
        f"UPDATE points SET vector = ?, vector_checksum = ? {_OF_TOOLS}", _NO_NUMBERS, zlib.crc32(_NO_NUMBERS)
    ),
    "points gone": _changed(f"DELETE FROM points {_OF_TOOLS}"),
    "list changed": _changed("UPDATE points SET payload = replace(payload, 'e', 'o') WHERE collection LIKE '%parts'"),
    "list gone": _changed("DELETE FROM points WHERE collection LIKE '%parts'"),
}


def _damage(store: Store, tenant: str) -> str:
    try:
        return store.load(tenant).damaged
    except InvalidConfig as error:
        return str(error)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_its_tenants_alone_is_named_and_an_import_mends_it(name: str, store: Store) -> None:
    known = store.load("org:a")
    DAMAGE[name](store, "org:a", TOOLS)
    for reader in (Store(store.location, embedder=shipped()), store):
        assert re.search(r"'(org:a|mail:\w+|files:\w+)'.*`toolroute tools import`", _damage(reader, "org:a"))
    assert len(store.load("org:b").tools) == 3
    store.replace_servers("org:a", {"mail": MAIL, "files": FILES})
    assert (store.load("org:a").tools, store.load("org:a").damaged) == (known.tools, "")


@pytest.mark.parametrize("name", ["file cut", "vectors no numbers", "tables gone", "one letter"])
def test_damage_of_what_is_shared_takes_nothing_from_a_tenants_own(name: str, store: Store) -> None:
    DAMAGE[name](store, SHARED, TOOLS)
    found = store.load("org:a")
    assert found.tools == Catalogue([*MAIL, *FILES]).tools
    assert re.search(r"'(shared|web:search)'.*`toolroute tools import`", found.damaged)
    assert set(store.servers("org:a")) >= {"files", "mail"}
    store.replace_server(SHARED, "web", [tool("web:search", "Search the web")])
    assert (len(store.load("org:a").tools), store.load("org:a").damaged) == (6, "")


def test_an_import_in_chunks_mends_what_it_finds_damaged_late(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    DAMAGE["vectors cut"](store, "org:a", TOOLS)
    monkeypatch.setattr("orchestrator.store.tools.tool_points._CHUNK", 2)
    monkeypatch.setattr("orchestrator.store.tools.writer._BATCH", 1)
    store.replace_servers("org:a", {"mail": MAIL, "files": FILES})
    assert (len(store.load("org:a").tools), store.load("org:a").damaged) == (6, "")


def test_only_a_successful_listing_has_a_time(store: Store) -> None:
    tools = store.of_server("org:a", "files")
    store.replace_server("org:a", "files", tools, entry="e1")
    assert store.records.listed_at("org:a", store.entries("org:a")) == {}
    store.records.note_failures("org:a", {"files": ""}, {"files": "e1"})
    assert store.records.listed_at("org:a", store.entries("org:a")).keys() == {"files"}
    store.records.note_failures("org:a", {"files": "it failed"}, {"files": "e1"})
    assert store.records.listed_at("org:a", store.entries("org:a")) == {}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_reading_opens_nothing_of_other_tenants(store: Store) -> None:
    opened: list[str] = []
    own = {str(folder_of(store, name)) for name in ("org:a", SHARED)}
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
    if (into := _opened[-1]) is not None and event in ("open", "os.listdir", "os.scandir", "sqlite3.connect"):
        into.append(str(given[0]).removeprefix("file://"))


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


def test_a_store_is_no_folder_of_tools(store: Store) -> None:
    with pytest.raises(InvalidCatalogue, match="is a store, not a folder of tool files"):
        Catalogue.read(Path(store.location))


def _apart(mounts: str, code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a program where these mounts are its own."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("this system gives no mounts of one's own")
    run = f'{mounts} && exec "$0" -W ignore -c "$@"'
    command = ["unshare", "-rm", "sh", "-ec", run, sys.executable, code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


READ = """
import sys
from orchestrator import Store
from tests.stores import shipped
print(len(Store(sys.argv[1], embedder=shipped()).load("org:a").tools))
"""


def test_a_read_only_folder_is_read_and_a_write_says_why_not(store: Store) -> None:
    mount = f"mount --bind {store.location} {store.location} && mount -o remount,ro,bind {store.location}"
    write = READ + 'Store(sys.argv[1], embedder=shipped()).remove_server("org:a", "mail")'
    done = _apart(mount, write, store.location)
    assert done.stdout == "6\n"
    assert "the folder cannot be written" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("orchestrator.errors.")


FILL = """
import os, sys
from orchestrator.errors import StoreUnavailable
from orchestrator import Store
from tests.catalogues import tool
from tests.stores import MAIL, shipped

full = sys.argv[1]
with open(os.path.join(full, "ballast"), "wb") as file:
    file.write(bytes(600_000))
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
os.unlink(os.path.join(full, "ballast"))
store.replace_server("org:b", "mail", MAIL)
assert len(store.load("org:b").tools) == 2
assert store.load("org:a").tools == known.tools
print("whole", len(known.tools))
"""


def test_a_full_disk_ends_the_writer_with_a_clear_error_and_takes_nothing(tmp_path: Path) -> None:
    done = _apart(f"mount -t tmpfs -o size=2m,mode=755 tmpfs {tmp_path}", FILL, tmp_path)
    first, second, last = done.stdout.splitlines()
    assert "disk is full" in first
    assert "cannot be used" in second
    assert last.startswith("whole ")
    assert done.returncode == 0


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
    assert {path.name for path in modes} >= {"tools.sqlite", "experience.sqlite", "index.npz"}
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
@pytest.mark.parametrize("name", ["tools.sqlite", "tools.sqlite-wal", "index.npz"])
@pytest.mark.timeout(60)
def test_what_is_no_file_in_a_files_place_holds_nobody_up(name: str, odd: str, store: Store) -> None:
    store.close()
    file = folder_of(store, "org:a") / name
    file.unlink(missing_ok=True)
    ODD_FILES[odd](file)
    if name == "index.npz":
        assert index_file.load(file, "", (), frozenset()) is None
        return
    with pytest.raises(StoreUnavailable, match=rf"{name} is not a regular file.*repair it"):
        store.load("org:a")
    with pytest.raises(StoreUnavailable, match=rf"{name} is not a regular file.*repair it"):
        store.replace_server("org:a", "mail", MAIL[:1])


@pytest.mark.parametrize("name", ["file cut", "file of something else", "tables gone"])
def test_damaged_experience_is_named_and_forgetting_it_mends_it(name: str, store: Store, toolroute: Run) -> None:
    done = Outcome(id="1", query="send it", used=(Use(tool="mail:send_email"),), at=time.time())
    vectors = shipped().embed(["send it"])
    many = [replace(done, id=str(number)) for number in range(60)]
    store.outcomes.add("org:a", many, vectors.repeat(60, axis=0), 90)
    DAMAGE[name](store, "org:a", EXPERIENCE)
    left = file_of(store, "org:a", EXPERIENCE).read_bytes()
    for use in (
        lambda: store.outcomes.read("org:a"),
        lambda: store.outcomes.add("org:a", many, vectors.repeat(60, axis=0), 90),
        lambda: store.outcomes.forget("org:a", lambda outcome: outcome.actor == "ann"),
    ):
        with pytest.raises(InvalidConfig, match=r"'org:a'.*`toolroute experience forget --all`"):
            use()
    assert file_of(store, "org:a", EXPERIENCE).read_bytes() == left
    assert len(store.load("org:a").tools) == 6
    command = ("experience", "forget", "--all", "--store", store.location, "--organization", "a")
    assert toolroute(*command).exit_code == 0
    assert store.outcomes.read("org:a").outcomes == ()
    store.outcomes.add("org:a", [done], vectors, 90)
    assert store.outcomes.read("org:a").outcomes == (done,)


def test_damaged_records_of_past_tasks_are_counted(store: Store) -> None:
    done = Outcome(id="1", query="send it", used=(Use(tool="mail:send_email"),), at=time.time())
    store.outcomes.add("org:a", [done], shipped().embed(["send it"]), 90)
    _changed("UPDATE points SET payload = '{}' WHERE vector IS NOT NULL")(store, "org:a", EXPERIENCE)
    assert store.outcomes.read("org:a").damaged == 1


def test_a_file_of_a_newer_toolroute_is_refused_and_stays(store: Store) -> None:
    _changed("PRAGMA user_version = 99")(store, "org:a", TOOLS)
    newer = file_of(store, "org:a").read_bytes()
    for use in (
        lambda: store.load("org:a"),
        lambda: store.replace_server("org:a", "web", []),
        lambda: store.replace_server("org:a", "mail", MAIL),
        lambda: store.drop("org:a"),
    ):
        with pytest.raises(InvalidConfig, match=r"'org:a' was written by a newer toolroute \(form 99, .*--store"):
            use()
    assert file_of(store, "org:a").read_bytes() == newer
    _changed("PRAGMA user_version = 99")(store, SHARED, TOOLS)
    assert "'shared' was written by a newer toolroute" in store.load("org:b").damaged


@pytest.mark.parametrize("name", ["file cut", "file of something else"])
def test_a_damaged_file_is_set_aside_by_an_import(name: str, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    DAMAGE[name](store, "org:a", TOOLS)
    left = file_of(store, "org:a").read_bytes()
    for use in (
        lambda: store.remove_server("org:a", "mail"),
        lambda: store.records.note_failures("org:a", {"dead": "it failed"}),
    ):
        with pytest.raises(InvalidConfig, match=r"'org:a'.*`toolroute tools import`"):
            use()
    store.replace_server("org:a", "mail", MAIL)
    (aside,) = folder_of(store, "org:a").glob("damaged-tools-*")
    assert (aside / "tools.sqlite").read_bytes() == left
    assert str(aside) in caplog.text
    assert {tool.key for tool in store.load("org:a").tools} >= {"mail:send_email"}


def test_nothing_of_a_removed_tool_stays_on_disk(store: Store) -> None:
    secret = "The passphrase of the vault is tulip"
    store.replace_server("org:a", "vault", [tool("vault:open", secret), tool("vault:close", "Close it")])
    assert any(secret.encode() in content for content in contents(folder_of(store, "org:a")).values())
    store.replace_server("org:a", "vault", [tool("vault:close", "Close it")])
    assert not any(secret.encode() in content for content in contents(folder_of(store, "org:a")).values())


def test_nothing_of_a_forgotten_task_stays_on_disk(store: Store) -> None:
    done = Outcome(id="1", query="call the tulip vault", used=(Use(tool="mail:send_email"),), at=time.time())
    store.outcomes.add("org:a", [done], shipped().embed(["x"]), 90)
    assert store.outcomes.forget("org:a", lambda _: True) == 1
    assert not any(b"tulip" in content for content in contents(folder_of(store, "org:a")).values())


def test_nothing_of_a_dropped_tenant_stays_on_disk(store: Store) -> None:
    store.drop("org:a")
    assert [tool.key for tool in store.load("org:a").tools] == ["web:search"]
    assert len(store.load("org:b").tools) == 3
    assert not any(b"send_email" in content for content in contents(folder_of(store, "org:a")).values())


def test_a_file_does_not_grow_with_removed_tools(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", embedder=shipped())
    sizes = []
    for edition in range(8):
        store.replace_server("org:a", "s", [tool(f"s:t{n}", f"Edition {edition} of {n}") for n in range(250)])
        sizes.append(file_of(store, "org:a").stat().st_size)
    assert max(sizes[4:]) <= max(sizes[:4]) * 1.2


def test_a_file_system_without_shared_memory_keeps_a_journal(store: Store) -> None:
    """Such a file has the other journal mode, and each use keeps it."""
    _changed("PRAGMA journal_mode = DELETE")(store, "org:a", TOOLS)
    version = store.load("org:a").version
    Store(store.location, embedder=shipped()).replace_server("org:a", "mail", MAIL[:1])
    assert not store.is_current("org:a", version)
    assert len(store.load("org:a").tools) == 5
    assert not file_of(store, "org:a").with_name("tools.sqlite-wal").exists()
