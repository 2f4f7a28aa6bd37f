"""Nothing of one tenant reaches another: no tool, count, statistic, suggestion or error."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from orchestrator import OrchestratorPlugin, Router, RouteRequest, Store, Tool
from orchestrator.activities.activities import Activities
from orchestrator.common.tenant import tenant_of
from orchestrator.errors import UnknownTenant
from orchestrator.records.call import SyncRequest
from tests.catalogues import sample, tool
from tests.stores import FILES, MAIL, SHARED, by_server, shipped

WORDS = "send read list email file folder invoice weather song ticket search delete".split()
SERVERS = ("mail", "files", "acme", "billing")


@st.composite
def toolsets(draw: st.DrawFn) -> list[Tool]:
    """A few tools on few servers, of few words, so that tenants have much in common."""
    keys = draw(st.lists(st.tuples(st.sampled_from(SERVERS), st.sampled_from(WORDS)), unique=True, max_size=6))
    texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
    return [tool(f"{server}:{name}", draw(texts)) for server, name in keys]


QUERIES = st.one_of(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
    st.sampled_from(SERVERS).map(lambda server: f"use {server} mcp to send the invoice, without files"),
    st.just("use acmee server to list tickets"),
)


def _store(**tools: list[Tool]) -> Store:
    store = Store(embedder=shipped())
    for tenant, own in tools.items():
        store.replace_servers({"a": "org:a", "b": "org:b"}.get(tenant, tenant), by_server(own))
    return store


def _seen(store: Store, tenant: str, query: str) -> dict[str, Any]:
    async def route() -> dict[str, Any]:
        async with Router(store=store) as router:
            decision = await router.route(RouteRequest(query=query, tenant=tenant))
            return {**decision.to_json(), "timings_ms": None}

    return {"servers": store.servers(tenant), "decision": asyncio.run(route())}


@settings(max_examples=12, deadline=None)
@given(own=toolsets(), others=toolsets(), shared=toolsets(), query=QUERIES)
def test_a_decision_is_the_same_whatever_other_tenants_hold(
    own: list[Tool], others: list[Tool], shared: list[Tool], query: str
) -> None:
    alone = _seen(_store(a=own, shared=shared), "org:a", query)
    assert _seen(_store(b=others, a=own, shared=shared), "org:a", query) == alone
    assert _seen(_store(a=own, shared=shared, b=others), "org:a", query) == alone


async def test_a_server_of_another_tenant_is_unknown_and_not_suggested(store: Store) -> None:
    store.replace_server("org:a", "files", FILES)
    store.replace_servers("org:b", {"zebrafish": [tool("zebrafish:swim", "Swim a lap")]})
    async with Router(store=store) as router:
        decision = await router.route(RouteRequest(query="use zebrafishh mcp to read a file", tenant="org:a"))
        other = await router.route(RouteRequest(query="use zebrafishh mcp to read a file", tenant="org:b"))
    assert not any("did you mean" in warning for warning in decision.warnings)
    assert other.catalogue.tools == 1


async def test_shared_tools_are_everyones_and_give_way_to_a_tenants_own_server(store: Store) -> None:
    store.replace_server(SHARED, "mail", MAIL)
    store.replace_server("org:a", "mail", [tool("mail:post_letter", "Post a letter on paper")])
    async with Router(store=store) as router:
        own = await router.engine.index("org:a")
        other = await router.engine.index("user:x")
        assert store.servers("org:a") == {"mail": 1}
        assert store.servers("user:x") == {"mail": 2}
        store.remove_server("org:a", "mail")
        assert store.servers("org:a") == {"mail": 2}
    assert [one.key for one in own.catalogue] == ["mail:post_letter"]
    assert other.catalogue.tools == tuple(sorted(MAIL, key=lambda one: one.name))


def test_the_organization_wins_and_neither_gives_no_tenant() -> None:
    assert tenant_of("1", "2") == "org:1"
    assert tenant_of(None, "2") == "user:2"
    assert tenant_of(None, None) == ""
    for blank in ("", "  "):
        with pytest.raises(UnknownTenant, match="not blank"):
            tenant_of(blank, None)


async def test_a_worker_refuses_a_request_without_a_tenant() -> None:
    activities = Activities(OrchestratorPlugin(catalogue=sample()).resources)
    request = RawValue(DataConverter.default.payload_converter.to_payload({"query": "send an email"}))
    with pytest.raises(ApplicationError, match="no tenant was given: give an organization") as refused:
        await ActivityEnvironment().run(activities.route, request)
    assert refused.value.non_retryable


@pytest.mark.parametrize("name", ["o1", "Org:1", "org: ", "team:1", "shared"])
async def test_what_is_no_tenants_name_is_refused_and_not_taken_for_a_tenant_without_tools(
    name: str, store: Store, router: Router
) -> None:
    async with Router(store=store) as stored:
        for one in (stored, router):
            with pytest.raises(UnknownTenant, match=f"^tenant '{name}': give an organization"):
                await one.route(RouteRequest(query="send an email", tenant=name))


@pytest.mark.parametrize("name", ["o1", "Org:1", 42])
def test_a_store_and_a_sync_refuse_what_is_no_tenants_name(name: Any, store: Store) -> None:
    asked = (
        lambda: store.servers(name),
        lambda: store.load(name),
        lambda: store.replace_server(name, "mail", MAIL),
        lambda: store.remove_server(name, "mail"),
        SyncRequest(tenant=name).validate,
    )
    for ask in asked:
        with pytest.raises(UnknownTenant, match=f"tenant {name!r}: give an organization"):
            ask()


@pytest.mark.parametrize("name", ["local", "user:ann@example.org", "org:two words", "org:a:b"])
async def test_any_tenant_may_route_by_a_catalogue_that_all_share(name: str, router: Router) -> None:
    decision = await router.route(RouteRequest(query="refund the charge", tenant=name))
    assert (decision.tenant, bool(decision.matches)) == (name, True)


async def test_an_unknown_tenant_has_an_empty_catalogue_and_no_trace_of_others(store: Store) -> None:
    store.replace_server("org:a", "mail", MAIL)
    async with Router(store=store) as router:
        decision = await router.route(RouteRequest(query="send an email", tenant="user:a"))
    assert decision.matches == ()
    assert decision.catalogue.tools == 0
    assert "mail" not in str(decision.warnings)
