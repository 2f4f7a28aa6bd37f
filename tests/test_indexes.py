"""The indexes of a process: bounded, each loaded once, renewed when the store changes, kept when it fails."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Options, Router, RouteRequest, Store
from orchestrator.errors import InvalidCatalogue
from tests.stores import FILES, MAIL, SHARED, shipped
from tests.waiting import until


class CountingStore(Store):
    """A store that counts its loads, and holds them up until `gate` is set."""

    def __init__(self, place: str | Path = "") -> None:
        super().__init__(place, embedder=shipped(), timeout_s=60)
        self.loads, self.gate = 0, threading.Event()
        self.gate.set()

    def load(self, tenant: str, version: str = "") -> Any:
        self.loads += 1
        self.gate.wait(150)
        return super().load(tenant, version)

    def renewed(self, tenant: str, earlier: Any, version: str = "") -> Any:
        stored = super().renewed(tenant, earlier, version)
        if stored is not earlier:
            self.loads += 1
            self.gate.wait(150)
        return stored


@pytest.fixture
def counting(tmp_path: Path) -> CountingStore:
    store = CountingStore(tmp_path / "store")
    store.replace_server("org:1", "mail", MAIL)
    return store


def router_over(store: Store, **options: Any) -> Router:
    return Router(store=store, options=Options(languages="off", **options))


async def tools_found(router: Router, tenant: str, query: str = "send an email or read a file") -> set[str]:
    decision = await router.route(RouteRequest(query=query, tenant=tenant))
    assert not decision.warnings
    return {match.tool.name for match in decision.matches}


async def until_current(router: Router, request: RouteRequest) -> None:
    """Wait until a route warns of nothing."""
    for _ in range(5_000):
        if not (await router.route(request)).warnings:
            return
        await asyncio.sleep(0.02)
    pytest.fail("the tools are still out of date")


async def test_many_callers_share_one_load_and_one_who_leaves_takes_it_from_nobody(counting: CountingStore) -> None:
    counting.gate.clear()
    async with router_over(counting) as router:
        first, *others = [asyncio.create_task(tools_found(router, "org:1")) for _ in range(50)]
        await until(lambda: counting.loads > 0)
        first.cancel()
        counting.gate.set()
        found = await asyncio.gather(*others)
    assert counting.loads == 1
    assert {"send_email" in tools for tools in found} == {True}


async def test_threads_with_event_loops_of_their_own_are_all_answered(counting: CountingStore) -> None:
    router = router_over(counting)
    counting.gate.clear()
    answers = asyncio.gather(*(asyncio.to_thread(lambda: asyncio.run(tools_found(router, "org:1"))) for _ in range(4)))
    await until(lambda: counting.loads == 4)
    counting.gate.set()
    assert {"send_email" in tools for tools in await answers} == {True}
    await router.aclose()


async def test_the_least_recently_used_tenant_goes_first(counting: CountingStore) -> None:
    counting.replace_server(SHARED, "mail", MAIL)
    async with router_over(counting, cached_tenants=2) as router:
        for tenant in ("org:1", "org:2", "org:1", "org:3"):
            await tools_found(router, tenant)
        assert counting.loads == 3
        await tools_found(router, "org:1")
        assert counting.loads == 3
        await tools_found(router, "org:2")
        assert counting.loads == 4


async def test_an_index_is_renewed_when_its_tenants_tools_change_and_only_then(counting: CountingStore) -> None:
    async with router_over(counting) as router:
        await tools_found(router, "org:1")
        writer = Store(counting.location, embedder=shipped())  # Another process would do the same.
        writer.replace_server("org:2", "mail", MAIL)
        assert "read_file" not in await tools_found(router, "org:1")
        assert counting.loads == 1
        writer.replace_server("org:1", "files", FILES)
        assert "read_file" in await tools_found(router, "org:1")
        assert counting.loads == 2


async def test_a_store_that_fails_in_mid_flight_leaves_the_known_tools_with_a_warning(
    tmp_path: Path,
) -> None:
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

        await until_current(router, ask)


async def test_a_slow_store_is_waited_for_so_long_at_most_and_its_answer_taken_when_it_comes(
    counting: CountingStore,
) -> None:
    counting.replace_server("org:2", "mail", MAIL)
    async with router_over(counting) as router:
        await tools_found(router, "org:1")
        counting.replace_server("org:1", "files", FILES)
        counting.gate.clear()
        for _ in range(2):
            stale = await router.route(RouteRequest(query="read a file", tenant="org:1"))
            assert "still being loaded" in " ".join(stale.warnings)
            assert {match.tool.server for match in stale.matches} <= {"mail"}
        waiting = asyncio.create_task(tools_found(router, "org:2"))  # Nothing is there to answer with.
        await asyncio.wait([waiting], timeout=1.5)
        assert not waiting.done()
        counting.gate.set()
        assert "send_email" in await waiting
        await until_current(router, RouteRequest(query="read a file", tenant="org:1"))
        assert "read_file" in await tools_found(router, "org:1")


def test_a_catalogue_that_is_not_there_is_named(tmp_path: Path) -> None:
    with Router(tmp_path / "none.jsonl") as router, pytest.raises(InvalidCatalogue, match="no such file or folder"):
        router.route_sync("send an email")
