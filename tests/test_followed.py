"""`serve` takes its mcpServers file over when it changes, and goes on with what it had when that cannot be read."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from orchestrator.errors import UnknownTool
from orchestrator.records.request import RouteHint
from orchestrator.server.gateway import Followed
from tests.servers.start import alive, config, entry, text_of, until
from tests.test_gateway import gateway
from tests.test_mcp_server import COMMAND

QUICK, PLAIN = entry("quick.py"), entry("plain.py")
SUM = {"a": 1, "b": 2}


def write(file: Path, **servers: Any) -> Path:
    """As editors do: another file takes the place of the one that was."""
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(config(**servers)), encoding="utf-8")
    return beside.rename(file)


async def test_what_the_file_names_now_is_searched_and_called_and_nothing_else(tmp_path: Path) -> None:
    file = write(tmp_path / "mcp.json", quick=QUICK)
    followed = Followed(file)
    async with gateway(tmp_path, config(quick=QUICK), changed=followed.changed) as served:
        await served.search("org:1", "add two numbers", 5, RouteHint.AUTO)
        pid = text_of(await served.call("org:1", "quick:pid", {}))
        write(file, quick=QUICK, library=PLAIN)
        # A new server delays a search by 2 s at most; until it is listed a warning says so.
        while (found := await served.search("org:1", "add two numbers", 5, RouteHint.AUTO))["warnings"]:
            assert found["warnings"] == ["the tools of server 'library' are not among these: it is still being listed"]
            await asyncio.sleep(0.05)  # Nothing else runs while searches wait for nothing.
        assert {"library:add", "quick:add"} <= {match["tool"] for match in found["matches"]}
        assert text_of(await served.call("org:1", "library:add", SUM)) == "3"
        assert text_of(await served.call("org:1", "quick:pid", {})) == pid
        write(file, library=PLAIN)
        with pytest.raises(UnknownTool, match="not among the servers' tools here"):
            await served.call("org:1", "quick:add", SUM)
        assert [state["server"] for state in await served.states("org:1")] == ["library"]
        await until(lambda: not alive(pid))


async def test_a_file_that_cannot_be_read_or_holds_a_broken_entry_takes_nothing_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "mcp.json", quick=QUICK)
    followed = Followed(file)
    async with gateway(tmp_path, config(quick=QUICK), changed=followed.changed) as served:
        for text in ('{"mcpServers": {', json.dumps(config(quick={"type": "sse", "url": "http://a"}))):
            file.write_text(text, encoding="utf-8")
            for _ in range(2):
                assert text_of(await served.call("org:1", "quick:add", SUM)) == "3"
        file.unlink()
        assert text_of(await served.call("org:1", "quick:add", SUM)) == "3"
        told = [message.rpartition("; ")[2] for message in caplog.messages]
        assert told == [
            "what it named before stays in use",
            "the entry that was there before stays in use",
            "what it named before stays in use",
        ]
        write(file, quick=PLAIN)
        assert not (await served.call("org:1", "quick:change", {})).is_error


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    read, written = os.pipe()
    with os.fdopen(written, "w", encoding="utf-8") as pipe:
        json.dump(config(quick=QUICK), pipe)
    followed = Followed(Path(f"/dev/fd/{read}"))
    assert (list(followed.config.servers), followed.changed()) == (["quick"], None)
    os.close(read)


async def test_the_command_follows_the_file_that_it_was_given(tmp_path: Path) -> None:
    file = write(tmp_path / "mcp.json", quick=QUICK)
    arguments = [*COMMAND[1:], "--approve", "never", "--config", str(file), "--store", str(tmp_path / "store")]
    with (tmp_path / "stderr").open("w") as errlog:
        transport = stdio_client(StdioServerParameters(command=COMMAND[0], args=arguments), errlog=errlog)
        async with Client(transport) as client:
            call = {"tool": "library:add", "arguments": SUM}
            assert (await client.call_tool("call_tool", call)).is_error
            write(file, library=PLAIN)
            assert text_of(await client.call_tool("call_tool", call)) == "3"
