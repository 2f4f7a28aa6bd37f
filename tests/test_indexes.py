"""The indexes of a process: bounded, each loaded once, renewed when the store changes, kept when it fails."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from orchestrator import Router
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidCatalogue
from orchestrator.records.request import RouteRequest
from orchestrator.runtime.index_cache import IndexCache
from orchestrator.store.store import Store, Stored
from tests.stores import FILES, MAIL, SHARED, shipped


class CountingStore(Store):
    """A store that counts its loads, and holds them up until `gate` is set."""

    def __init__(self, place: str | Path = "") -> None:
        super().__init__(place, embedder=shipped(), timeout_s=5)
        self.loads, self.gate = 0, threading.Event()
        self.gate.set()

    def load(self, tenant: str, version: str = "") -> Stored:
        self.loads += 1
        self.gate.wait(20)
        return super().load(tenant, version)

    def renewed(self, tenant: str, earlier: Stored, version: str = "") -> Stored:
        stored = super().renewed(tenant, earlier, version)
        if stored is not earlier:
            self.loads += 1
            self.gate.wait(20)
        return stored


@pytest.fixture
def counting(tmp_path: Path) -> CountingStore:
    store = CountingStore(tmp_path / "store")
    store.replace_server("org:1", "mail", MAIL)
    return store


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1_000):
        if await done():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came")


async def loading(store: CountingStore, loads: int = 1) -> None:
    """Wait until the store is asked for the nth time."""

    async def asked() -> bool:
        return store.loads >= loads

    await until(asked)


async def test_many_callers_share_one_load_and_one_who_leaves_takes_it_from_nobody(counting: CountingStore) -> None:
    counting.gate.clear()
    indexes = IndexCache(None, counting, (), 8)
    first, *others = [asyncio.create_task(indexes.get("org:1")) for _ in range(50)]
    await loading(counting)
    first.cancel()
    counting.gate.set()
    found = await asyncio.gather(*others)
    assert counting.loads == 1
    assert len({id(index) for index, _ in found}) == 1
    assert {(len(index.catalogue), warning) for index, warning in found} == {(2, "")}


async def test_threads_with_event_loops_of_their_own_are_all_answered(counting: CountingStore) -> None:
    indexes = IndexCache(None, counting, (), 8)
    counting.gate.clear()
    answers = asyncio.gather(*(asyncio.to_thread(lambda: asyncio.run(indexes.get("org:1"))) for _ in range(4)))
    await loading(counting, 4)
    counting.gate.set()
    assert {len(index.catalogue) for index, _ in await answers} == {2}


async def test_the_least_recently_used_tenant_goes_first_and_the_bound_holds(counting: CountingStore) -> None:
    counting.replace_server(SHARED, "mail", MAIL)
    indexes = IndexCache(None, counting, (), 2)
    for tenant in ("org:1", "org:2", "org:1", "org:3"):
        await indexes.get(tenant)
    assert [indexes.at_hand(f"org:{number}") is not None for number in (1, 2, 3)] == [True, False, True]
    assert counting.loads == 3
    await asyncio.gather(*(indexes.get(f"user:{number}") for number in range(30)))
    assert sum(indexes.at_hand(f"user:{number}") is not None for number in range(30)) == 2


async def test_an_index_is_renewed_when_its_tenants_tools_change_and_only_then(counting: CountingStore) -> None:
    indexes = IndexCache(None, counting, (), 8)
    first, _ = await indexes.get("org:1")
    writer = Store(counting.location, embedder=shipped())  # Another process would do the same.
    writer.replace_server("org:2", "mail", MAIL)
    assert (await indexes.get("org:1"))[0] is first
    writer.replace_server("org:1", "files", FILES)
    renewed, warning = await indexes.get("org:1")
    assert (len(renewed.catalogue), warning, counting.loads) == (5, "", 2)


async def test_a_store_that_fails_in_mid_flight_leaves_the_known_tools_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.runtime.index_cache.PATIENCE_S", 0.2)
    Store(tmp_path / "store", embedder=shipped()).replace_server("org:1", "mail", MAIL)
    (file,) = (tmp_path / "store").glob("tenants/*/tools.sqlite")
    healthy = tmp_path / "healthy"
    async with Router(store=tmp_path / "store") as router:
        ask = RouteRequest(query="send an email", tenant="org:1")
        good = await router.route(ask)
        assert good.warnings == ()
        file.rename(healthy)
        file.write_bytes(b"something else" * 100)
        for _ in range(2):
            stale = await router.route(ask)
            assert [match.tool for match in stale.matches] == [match.tool for match in good.matches]
            assert any("may be out of date" in warning for warning in stale.warnings)
        other = await router.route(RouteRequest(query="send an email", tenant="org:2"))
        assert not any("cannot be read" in warning for warning in other.warnings)
        healthy.replace(file)

        async def healed() -> bool:
            return not (await router.route(ask)).warnings

        await until(healed)


async def test_a_slow_store_is_waited_for_so_long_at_most_and_its_answer_taken_when_it_comes(
    counting: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.runtime.index_cache.PATIENCE_S", 0.2)
    indexes = IndexCache(None, counting, (), 8)
    await indexes.get("org:1")
    empty = await indexes.get("org:2")
    counting.replace_server("org:1", "files", FILES)
    counting.replace_server("org:2", "mail", MAIL)
    counting.gate.clear()
    for _ in range(2):
        index, warning = await indexes.get("org:1")
        assert (len(index.catalogue), "still being loaded" in warning) == (2, True)
    waiting = asyncio.create_task(indexes.get("org:2"))  # Without a tool there is nothing to answer with.
    await asyncio.wait([waiting], timeout=0.5)
    assert (len(empty[0].catalogue), waiting.done()) == (0, False)
    counting.gate.set()
    assert len((await waiting)[0].catalogue) == 2

    async def renewed() -> bool:
        return len((await indexes.get("org:1"))[0].catalogue) == 5

    await until(renewed)


async def test_a_catalogue_is_one_index_for_all_tenants(tmp_path: Path) -> None:
    indexes = IndexCache(Catalogue(MAIL), None, (), 8)
    assert (await indexes.get("org:1"))[0] is (await indexes.get("org:2"))[0]
    with pytest.raises(InvalidCatalogue, match="there is no such file or folder"):
        await IndexCache(tmp_path / "none.jsonl", None, (), 8).get("org:1")
