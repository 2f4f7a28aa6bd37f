"""The indexes of a process: bounded, each loaded once, renewed when the store changes, kept when it fails."""

import asyncio
import time
from pathlib import Path

import pytest

from orchestrator import Router
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidCatalogue, StoreUnavailable
from orchestrator.index.cache import Indexes
from orchestrator.records.request import RouteRequest
from orchestrator.store.qdrant import Qdrant
from orchestrator.store.store import SHARED, Store, Stored
from tests.stores import FILES, MAIL, shipped


class CountingStore(Store):
    """A store that counts its loads, and can be made slow."""

    loads = 0
    slow_s = 0.0

    def load(self, tenant: str) -> Stored:
        self.loads += 1
        time.sleep(self.slow_s)
        return super().load(tenant)

    def renewed(self, tenant: str, earlier: Stored) -> Stored:
        stored = super().renewed(tenant, earlier)
        if stored is not earlier:
            self.loads += 1
            time.sleep(self.slow_s)
        return stored


@pytest.fixture
def counting(place: str) -> CountingStore:
    return CountingStore(place, embedder=shipped(), timeout_s=5)


async def test_many_callers_share_one_load(counting: CountingStore) -> None:
    counting.replace_server("org:1", "mail", MAIL)
    counting.slow_s = 0.05
    indexes = Indexes(None, counting, (), 8)
    found = await asyncio.gather(*(indexes.get("org:1") for _ in range(50)))
    assert counting.loads == 1
    assert len({id(index) for index, _ in found}) == 1
    assert {warning for _, warning in found} == {""}


async def test_threads_with_event_loops_of_their_own_are_all_answered(counting: CountingStore) -> None:
    counting.replace_server("org:1", "mail", MAIL)
    counting.slow_s = 0.3
    indexes = Indexes(None, counting, (), 8)
    answers = (asyncio.to_thread(lambda: asyncio.run(indexes.get("org:1"))) for _ in range(4))
    assert {len(index.catalogue) for index, _ in await asyncio.gather(*answers)} == {2}


async def test_one_callers_cancellation_does_not_take_the_load_from_the_others(counting: CountingStore) -> None:
    counting.replace_server("org:1", "mail", MAIL)
    counting.slow_s = 0.1
    indexes = Indexes(None, counting, (), 8)
    first = asyncio.create_task(indexes.get("org:1"))
    second = asyncio.create_task(indexes.get("org:1"))
    await asyncio.sleep(0.02)
    first.cancel()
    assert len((await second)[0].catalogue) == 2
    assert counting.loads == 1


async def test_the_least_recently_used_tenant_goes_first(counting: CountingStore) -> None:
    counting.replace_server(SHARED, "mail", MAIL)
    indexes = Indexes(None, counting, (), 2)
    for tenant in ("org:1", "org:2", "org:1", "org:3"):
        await indexes.get(tenant)
    assert [indexes.at_hand(f"org:{number}") is not None for number in (1, 2, 3)] == [True, False, True]
    assert counting.loads == 3
    await indexes.get("org:1")
    assert counting.loads == 3
    await indexes.get("org:2")
    assert counting.loads == 4


async def test_thousands_of_tenants_stay_within_the_bound() -> None:
    store = Store(embedder=shipped())
    store.replace_server(SHARED, "mail", MAIL)
    indexes = Indexes(None, store, (), 20)
    for start in range(0, 2_000, 100):
        await asyncio.gather(*(indexes.get(f"user:{number}") for number in range(start, start + 100)))
    assert sum(indexes.at_hand(f"user:{number}") is not None for number in range(2_000)) == 20


async def test_an_index_is_renewed_when_its_tenants_tools_change_and_only_then(counting: CountingStore) -> None:
    counting.replace_server("org:1", "mail", MAIL)
    indexes = Indexes(None, counting, (), 8)
    first, _ = await indexes.get("org:1")
    counting.replace_server("org:2", "mail", MAIL)
    assert (await indexes.get("org:1"))[0] is first
    counting.replace_server("org:1", "files", FILES)
    renewed, warning = await indexes.get("org:1")
    assert (len(renewed.catalogue), warning, counting.loads) == (5, "", 2)


async def test_a_change_by_another_store_is_seen(tmp_path: Path) -> None:
    writer = Store(tmp_path / "store", embedder=shipped())
    writer.replace_server("org:1", "mail", MAIL)
    async with Router(store=tmp_path / "store") as router:
        assert len((await router.index("org:1")).catalogue) == 2
        writer.replace_server("org:1", "files", FILES)
        assert len((await router.index("org:1")).catalogue) == 5


async def test_a_store_that_fails_in_mid_flight_leaves_the_known_tools_with_a_warning(tmp_path: Path) -> None:
    Store(tmp_path / "store", embedder=shipped()).replace_server("org:1", "mail", MAIL)
    meta = tmp_path / "store" / "meta.json"
    healthy = meta.read_text()
    async with Router(store=tmp_path / "store") as router:
        ask = RouteRequest(query="send an email", tenant="org:1")
        good = await router.route(ask)
        assert good.warnings == ()
        meta.write_text("{")
        for _ in range(2):
            stale = await router.route(ask)
            assert [match.tool for match in stale.matches] == [match.tool for match in good.matches]
            assert any("may be out of date" in warning for warning in stale.warnings)
        with pytest.raises(StoreUnavailable):
            await router.route(RouteRequest(query="send an email", tenant="org:2"))
        meta.write_text(healthy)
        await asyncio.sleep(1.1)
        assert (await router.route(ask)).warnings == ()


async def test_a_slow_store_is_waited_for_a_second_at_most(tmp_path: Path) -> None:
    store = CountingStore(tmp_path / "store", embedder=shipped())
    store.replace_server("org:1", "mail", MAIL)
    indexes = Indexes(None, store, (), 8)
    await indexes.get("org:1")
    store.replace_server("org:1", "files", FILES)
    store.slow_s = 1.6
    begin = time.monotonic()
    index, warning = await indexes.get("org:1")
    assert 0.9 < time.monotonic() - begin < 1.5
    assert len(index.catalogue) == 2
    assert "still being loaded" in warning
    begin = time.monotonic()
    assert "still being loaded" in (await indexes.get("org:1"))[1]
    assert time.monotonic() - begin < 0.3
    await asyncio.sleep(1.2)
    assert len((await indexes.get("org:1"))[0].catalogue) == 5


async def test_a_tenant_without_a_tool_waits_for_what_is_being_written_instead_of_answering_nothing(
    tmp_path: Path,
) -> None:
    store = CountingStore(tmp_path / "store", embedder=shipped(), timeout_s=30)
    indexes = Indexes(None, store, (), 8)
    assert not len((await indexes.get("org:1"))[0].catalogue)
    await asyncio.to_thread(store.replace_server, "org:1", "mail", MAIL)
    store.slow_s = 1.2
    with Qdrant(str(tmp_path / "store"), 5).opened():
        asked = asyncio.create_task(indexes.get("org:1"))
        await asyncio.sleep(0.3)
    index, warning = await asked
    assert (len(index.catalogue), warning) == (2, "")


async def test_a_catalogue_is_one_index_for_all_tenants(tmp_path: Path) -> None:
    indexes = Indexes(Catalogue(MAIL), None, (), 8)
    assert (await indexes.get("org:1"))[0] is (await indexes.get("org:2"))[0]
    with pytest.raises(InvalidCatalogue, match="does not exist"):
        await Indexes(tmp_path / "none.jsonl", None, (), 8).get("org:1")
