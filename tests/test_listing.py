"""Servers that list only some of what they say they have: what they do list is used."""

import asyncio

import pytest

from orchestrator import Connections
from orchestrator.mcp import listing
from orchestrator.mcp.states import State
from tests.servers.start import config, entry


@pytest.mark.parametrize("fault", ["prompts", "unlisted"])
async def test_prompts_that_cannot_be_counted_cost_no_tools(
    fault: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listing, "_COUNT_S", 0.5)
    async with Connections(config(bad=entry("faulty.py", fault, API_KEY="s3cret-key"))) as servers:
        inventory = await servers.inventory("bad")
        assert [tool.name for tool in inventory.tools] == ["it"]
        assert (inventory.prompts, inventory.resources) == (0, 0)
        assert (await servers.call("bad:it")).text == "fine"
    assert "s3cret" not in str(capfd.readouterr())


async def test_a_server_without_tools_is_connected_and_has_none() -> None:
    async with Connections(config(bare=entry("faulty.py", "toolless"))) as servers:
        for _ in range(2):
            assert (await servers.inventory("bare")).tools == ()
        async with servers.using("bare") as connection:
            connection.doubt()  # It is asked whether it is still there.
            await asyncio.sleep(0.2)
            assert connection.usable
        assert (servers.states()[0].state, servers.states()[0].tools) == (State.READY, 0)
