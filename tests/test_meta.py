"""`_meta` passes between a client and a server in both directions, without secrets and without the session's keys."""

import asyncio
import json
from typing import Any

import pytest

from orchestrator import Connections, ToolResult
from orchestrator.errors import InvalidArguments
from orchestrator.mcp.listing.offers import Offer
from orchestrator.mcp.server_requests import Host
from tests.servers.start import config, entry

TALKING = config(talking=entry("talking.py", API_KEY="s3cret-key"))
TRACE = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}


async def called(meta: dict[str, Any], idempotency_key: str | None = None) -> ToolResult:
    async with Connections(TALKING) as servers:
        return await servers.call("talking:meta", meta=meta, idempotency_key=idempotency_key)


async def test_a_callers_meta_reaches_the_server() -> None:
    own = {"progressToken": 7, "io.modelcontextprotocol/clientInfo": {"name": "x"}, "toolroute/any": 1}
    received = json.loads((await called({**TRACE, **own, "example.com/user": "ada"}, "w:p:s")).text)
    assert received.items() >= TRACE.items()
    assert received["example.com/user"] == "ada"
    assert received["toolroute/idempotency-key"] == "w:p:s"
    assert "toolroute/any" not in received
    assert received.get("progressToken") != 7
    assert received.get("io.modelcontextprotocol/clientInfo", {}).get("name") != "x"


async def test_a_results_meta_reaches_the_caller_without_secrets() -> None:
    assert (await called({})).meta == {"example.com/of": "result", "example.com/key": "***"}


async def test_meta_that_is_too_large_is_refused_before_the_call() -> None:
    with pytest.raises(InvalidArguments, match="_meta has more than 256 KiB"):
        await called({"example.com/large": "x" * 10 * 2**20})


async def test_an_offer_has_the_meta_of_tools_and_resources() -> None:
    offers: asyncio.Queue[Offer] = asyncio.Queue()

    async def on_offer(_: str, offer: Offer) -> None:
        offers.put_nowait(offer)

    async with Connections(TALKING, host=Host(on_offer=on_offer)) as servers:
        await servers.offer("talking")
        offer = await offers.get()
    assert offer.tools["meta"]["_meta"] == {"ui": {"resourceUri": "ui://memo/view"}, "example.com/key": "***"}
    assert offer.resources[0]["_meta"] == {"of": "memo://first"}


async def test_a_server_learns_that_apps_pass_through() -> None:
    async with Connections(TALKING, host=Host()) as servers:
        received = json.loads((await servers.call("talking:meta")).text)
    capabilities = received["io.modelcontextprotocol/clientCapabilities"]
    assert "io.modelcontextprotocol/ui" in capabilities["extensions"]
