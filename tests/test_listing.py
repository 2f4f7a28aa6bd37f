"""Servers that list only some of what they say they have: what they do list is used."""

import asyncio
import logging

import pytest

from orchestrator import Connections
from orchestrator.errors import InvalidCatalogue
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


async def test_a_tool_that_no_catalogue_could_hold_is_named_once_and_takes_no_other_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with Connections(config(bad=entry("faulty.py", "deep", API_KEY="s3cret-key"))) as servers:
        for _ in range(2):
            assert [tool.name for tool in await servers.tools("bad", fresh=True)] == ["it"]
        assert (await servers.call("bad:it")).text == "fine"
    told = [record.getMessage() for record in caplog.records if record.name.startswith("orchestrator")]
    assert [said.partition(" cannot be read (")[0] for said in told] == [
        f"server bad: its tool {n}" for n in ("''", "'deep'")
    ]
    assert "at least 1 character" in told[0]
    assert told[1].endswith("(nested deeper than 64 levels: no tool needs that) and is left out")


async def test_a_listing_of_nothing_that_can_be_read_is_an_error() -> None:
    async with Connections(config(bad=entry("faulty.py", "nameless"))) as servers:
        with pytest.raises(InvalidCatalogue, match=r"server 'bad': its tool '': name: .* at least 1 character"):
            await servers.tools("bad")
