"""Servers that answer oddly: what they say is read as far as it goes, and nothing of it is a lost connection."""

import asyncio

import pytest

from orchestrator import Connections
from orchestrator.mcp.states import State
from tests.servers.start import config, entry


async def test_text_on_standard_output_that_is_not_mcp_is_passed_over() -> None:
    async with Connections(config(bad=entry("faulty.py", "chatty"))) as servers:
        assert (await servers.call("bad:it")).text == "fine"


async def test_an_output_schema_that_only_javascript_reads_costs_no_answer() -> None:
    async with Connections(config(bad=entry("faulty.py", "javascript"))) as servers:
        for _ in range(2):
            result = await servers.call("bad:it")
            assert (result.text, result.structured, result.is_error) == ("fine", {"word": "fine"}, False)
            await servers.tools("bad", fresh=True)
            async with servers.using("bad") as connection:
                connection.doubt()  # It is asked whether it is still there.
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("fault", ["restart", "two_pages"])
async def test_an_empty_cursor_leads_to_a_page_or_is_the_end(fault: str) -> None:
    async with Connections(config(bad=entry("faulty.py", fault))) as servers:
        assert [tool.name for tool in await servers.tools("bad")] == ["it", "other"]


async def test_a_servers_own_error_with_the_librarys_code_is_not_a_lost_connection() -> None:
    async with Connections(config(bad=entry("faulty.py", "own_code"))) as servers:
        result = await servers.call("bad:it")
        assert result.is_error
        assert "quota used up" in result.text
        assert servers.states()[0].state is State.READY
