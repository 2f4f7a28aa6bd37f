"""Tasks through `toolroute serve`: a long call has a handle, and a server's own task is one call for its client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client import advertise
from mcp.client.extension import ResultClaim
from mcp.types import CallToolResult, CancelTaskRequest, CancelTaskRequestParams, ElicitResult, Result

from orchestrator.mcp.tasks import (
    EXTENSION,
    CreatedTask,
    Tasks,
    TaskState,
    UpdateParams,
    UpdateTask,
    task_state,
)
from orchestrator.server.sessions import task_handles
from orchestrator.server.tool_calls import ToolCalls
from tests.gateway import Served, serving
from tests.servers.start import config, entry, text_of

BUILD = {"tool": "it:build"}
TARGET = {"action": "accept", "content": {"target": "arm64"}}


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[Served]:
    env = {"PYTHONPATH": str(Path.cwd())}
    async with serving(folder, config(it=entry("tasking.py", str(folder / "cancelled"), **env))) as served:
        yield served


async def answer(_: object, __: object) -> ElicitResult:
    return ElicitResult(action="accept", content={"target": "arm64"})


async def handle_of(client: Client, call: dict[str, Any]) -> str:
    created = await client.session.call_tool("call_tool", call, allow_claimed=True)
    assert isinstance(created, CreatedTask)
    return created.task_id


async def until(client: Client, task_id: str, status: str) -> TaskState:
    state = await task_state(client.session, task_id)
    while state.status != status:
        assert state.status in ("working", "input_required")
        await asyncio.sleep(0.05)
        state = await task_state(client.session, task_id)
    return state


async def nothing(*_: Any) -> Any:
    raise AssertionError("a test that takes handles polls them itself")


class Handles(Tasks):
    """The extension of a client that polls by itself."""

    def __init__(self) -> None:
        super().__init__(nothing)

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=nothing)]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_servers_task_is_one_call(tmp_path: Path, mode: Any) -> None:
    async with gateway(tmp_path) as served, served.client(mode=mode, elicitation_callback=answer) as client:
        # A server speaks to toolroute in the protocol of a client over stdio, and has no tasks before 2026-07-28.
        expected = "built arm64" if mode == "auto" else "built at once"
        assert text_of(await client.call_tool("call_tool", BUILD)) == expected


async def test_a_long_call_is_read_after_a_reconnect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_handles, "HANDLE_AFTER_S", 0.0)
    settings: Any = {"extensions": [Handles()], "elicitation_callback": answer}
    async with gateway(tmp_path) as served:
        async with served.client(**settings) as client:
            assert EXTENSION in (client.server_capabilities.extensions or {})
            task_id = await handle_of(client, BUILD)
            state = await until(client, task_id, "input_required")
            [question] = state.input_requests or {}
            params = UpdateParams(task_id=task_id, input_responses={question: TARGET})
            update: Any = UpdateTask(params=params)
            await client.session.send_request(update, Result)
        async with served.client(**settings) as again:
            ended = await until(again, task_id, "completed")
            assert text_of(CallToolResult.model_validate(ended.result)) == "built arm64"


async def test_a_cancelled_task_ends_at_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_handles, "HANDLE_AFTER_S", 0.0)
    async with gateway(tmp_path) as served, served.client(extensions=[Handles()]) as client:
        task_id = await handle_of(client, {"tool": "it:wait"})
        while not (await task_state(client.session, task_id)).status_message:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        cancel: Any = CancelTaskRequest(params=CancelTaskRequestParams(task_id=task_id))
        await client.session.send_request(cancel, Result)
        assert (await until(client, task_id, "cancelled")).result is None
        assert (tmp_path / "cancelled").exists()
        with pytest.raises(MCPError, match="unknown task other: a task is kept for 60 minutes"):
            await task_state(client.session, "other")


async def test_an_unexpected_error_of_a_task_is_in_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_handles, "HANDLE_AFTER_S", 0.0)

    async def broken(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(0.1)
        raise KeyError("sk-live-secret")

    monkeypatch.setattr(ToolCalls, "call", broken)
    async with gateway(tmp_path) as served, served.client(extensions=[Handles()]) as client:
        ended = await until(client, await handle_of(client, BUILD), "failed")
    assert "KeyError: the log of toolroute has the error" in str(ended.error)
    assert "sk-live-secret" not in str(ended.error)
    assert "sk-live-secret" in caplog.text


async def test_a_client_without_the_extension_gets_no_handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_handles, "HANDLE_AFTER_S", 0.0)
    apps = advertise("io.modelcontextprotocol/ui")
    async with gateway(tmp_path) as served, served.client(extensions=[apps], elicitation_callback=answer) as client:
        assert text_of(await client.call_tool("call_tool", BUILD)) == "built arm64"
