"""An entry of the configuration that changes while a worker runs is taken over, once its server does not answer."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator import OrchestratorPlugin, Tool, ToolCall
from orchestrator.errors import InvalidConfig, ServerUnavailable, ToolrouteError, Unauthorised, UnknownTool
from orchestrator.records.call import SyncRequest
from tests.running import TENANT
from tests.servers.start import alive, config, entry, free_port, running
from tests.waiting import until

SECRET = "sk-4711"
PID = ToolCall(tenant=TENANT, tool=Tool(server="web", name="pid"))


@asynccontextmanager
async def _refusing() -> AsyncIterator[str]:
    """The address of a server that takes no credentials."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


async def test_a_call_that_is_refused_goes_again_with_the_entry_as_it_stands_now() -> None:
    now: dict[str, Any] = {}
    plugin = OrchestratorPlugin(catalogue="unused.jsonl", mcp_servers=lambda _: config(web=dict(now)))
    port = free_port()
    async with _refusing() as refusing, running("plain.py", port), plugin.resources.held():
        now["url"] = refusing
        with pytest.raises(Unauthorised):
            await plugin.resources.execute(PID)
        now["url"] = f"http://127.0.0.1:{port}/mcp"
        both = await asyncio.gather(plugin.resources.execute(PID), plugin.resources.execute(PID))
        assert {result.is_error for result in both} == {False}
        now["url"] = refusing
        assert not (await plugin.resources.execute(PID)).is_error


async def test_what_has_not_changed_or_cannot_be_read_leaves_the_calls_own_error(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"web": {"url": "http://127.0.0.1:1/mcp"}}}')
    plugin = OrchestratorPlugin(catalogue="unused.jsonl", mcp_servers=file)
    async with plugin.resources.held():
        for written in (file.read_text(), "{", "{"):
            with pytest.raises(ServerUnavailable, match="cannot be reached"):
                await plugin.resources.execute(PID)
            file.write_text(written)


async def test_a_tenant_whose_servers_are_taken_away_calls_none() -> None:
    now: list[Any] = [config(web=entry("quick.py"))]
    plugin = OrchestratorPlugin(store="", mcp_servers=lambda _: now[-1])
    async with plugin.resources.held():
        pid = (await plugin.resources.execute(PID)).text
        now.append(None)
        with pytest.raises(InvalidConfig, match="cannot be listed"):
            await plugin.resources.sync(SyncRequest(tenant=TENANT))
        with pytest.raises(UnknownTool, match="no server 'web' in mcp_servers, which now returns None"):
            await plugin.resources.execute(PID)
        await until(lambda: not alive(pid))
        now.append(config(web=entry("quick.py")))
        assert (await plugin.resources.execute(PID)).text != pid


async def test_a_function_that_waits_for_a_vault_keeps_nobody_else_waiting() -> None:
    asked: list[str] = []
    opened = threading.Event()

    def servers_of(tenant: str) -> None:
        asked.append(tenant)
        if tenant == TENANT:
            opened.wait(150)

    resources = OrchestratorPlugin(catalogue="unused.jsonl", mcp_servers=servers_of).resources
    try:
        waiting = [asyncio.create_task(resources.execute(PID)) for _ in range(5)]
        await until(lambda: bool(asked))
        with pytest.raises(InvalidConfig, match="no executor"):
            await resources.execute(replace(PID, tenant="org:other"))
        waiting.pop().cancel()
        assert not any(call.done() for call in waiting)
    finally:
        opened.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {InvalidConfig}


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (KeyError("org:1"), InvalidConfig, "mcp_servers failed for 'org:1': KeyError: 'org:1'; return None"),
        (ConnectionError("the vault is shut"), ServerUnavailable, "ConnectionError: the vault is shut"),
        (StopIteration("no such tenant"), ServerUnavailable, "StopIteration: no such tenant"),
        ([SECRET], InvalidConfig, "mcp_servers returned a list for 'org:1': return an mcpServers mapping"),
    ],
)
async def test_a_function_that_names_no_servers_is_told_with_the_tenant(
    given: Any, kind: type[ToolrouteError], said: str
) -> None:
    def servers_of(tenant: str) -> Any:
        if isinstance(given, Exception):
            raise given
        return given

    plugin = OrchestratorPlugin(catalogue="unused.jsonl", mcp_servers=servers_of)
    with pytest.raises(kind, match=re.escape(said)) as failure:
        await plugin.resources.execute(PID)
    assert SECRET not in str(failure.value)


def test_what_is_no_model_is_told() -> None:
    models: Any = lambda: "gpt-5-mini"  # noqa: E731
    with pytest.raises(InvalidConfig, match=r"models returned a str: return orchestrator\.Models"):
        OrchestratorPlugin(catalogue="unused.jsonl", models=models).resources.models()
