"""Histories hold no secret and no catalogue. That no key of a model enters one is tested in test_workflow_model."""

import base64
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from temporalio.client import WorkflowHandle

from orchestrator import Annotations, Catalogue, McpConfig, OrchestratorPlugin, Tool
from tests.decisions import ALL
from tests.loopback import served
from tests.runner import Runner, Serve, statuses
from tests.servers.byhand import HELLO, OBJECT
from tests.servers.signed_in import Entry, expire
from tests.servers.signing import Accounts, signing
from tests.servers.start import entry


async def test_no_secret_and_no_catalogue_enters_a_history(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a server repeats its secrets as it dies."""
    monkeypatch.setenv("PLANTED_KEY", "s3cr3t-key")
    many = [Tool(server="other", name=f"tool_{n}", description=f"unlikely-{n} to be wanted") for n in range(200)]
    launch = Tool(
        server="bad", name="it", description="Launch the weather balloon", annotations=Annotations(destructive=True)
    )
    bad = entry("faulty.py", "crash", "--token", "s3cr3t-arg", API_KEY="${PLANTED_KEY}")
    servers = McpConfig.parse({"mcpServers": {"bad": bad}})
    runner = await serve(OrchestratorPlugin(catalogue=Catalogue([*ALL, *many, launch]), mcp_servers=servers))
    result, handle = await runner.run("Launch the weather balloon")
    assert statuses(result) == ["outcome_unknown"]
    written = (await handle.fetch_history()).to_json()
    payloads = b"\n".join(base64.b64decode(text) for text in re.findall(r'"data": ?"([A-Za-z0-9+/=]+)"', written))
    assert b"the key was ***" in written.encode() + payloads
    assert b"s3cr3t" not in written.encode() + payloads
    assert len(set(re.findall(rb"unlikely-\d+", payloads))) <= 10 + 20  # matches and rejected at most


DESCRIPTIONS = {"launch": "Launch the weather balloon", "paint": "Paint the garden fence", "mow": "Mow the lawn"}
BASIC, KEY, PARAMETER = "pa55word!", "sk-live/9Q+zX81-value", "q7mm2xw9z1"


def _seen(request: Request) -> str:
    """What a server sees of its client's secrets, as it stands and in base64."""
    credential = request.headers.get("authorization", "").partition(" ")[2]
    plain = f"{request.url} {request.headers['x-key']} {credential} {base64.b64decode(credential).decode()}"
    return f"{plain} {base64.b64encode(plain.encode()).decode()}"


async def _tell(request: Request) -> Response:
    """Tell what was seen in each text of a listing, a result, a refusal, and an error."""
    message, seen = await request.json(), _seen(request)
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
    method, name = message["method"], message.get("params", {}).get("name")
    if method == "initialize":
        reply["result"] = {**HELLO, "instructions": seen}
    elif method == "tools/list":
        tools = [{"name": key, "description": f"{text} {seen}"} for key, text in DESCRIPTIONS.items()]
        reply["result"] = {"tools": [{**tool, "inputSchema": OBJECT} for tool in tools]}
    elif name == "launch":
        image = {"type": "image", "data": base64.b64encode(seen.encode()).decode(), "mimeType": "image/png"}
        content = [{"type": "text", "text": seen}, image]
        reply["result"] = {"content": content, "structuredContent": {"seen": [seen]}, "_meta": {"a/b": seen}}
    elif name == "paint":
        reply["error"] = {"code": -32050, "message": seen, "data": {"seen": seen}}
    elif name == "mow":
        return PlainTextResponse(seen, 500)
    return JSONResponse(reply)


async def _written(runner: Runner, handle: WorkflowHandle[Any, Any]) -> bytes:
    """Everything that Temporal keeps of a run: history, memo and search attributes, with what is base64 in them."""
    history = (await handle.fetch_history()).to_json()
    description = (await handle.describe()).raw_description
    written = history.encode() + description.SerializeToString()
    for _ in range(2):  # The texts of a server are base64 in a payload, which is base64 in the history.
        runs = re.findall(rb"[A-Za-z0-9+/]{12,}", written)
        written += b" ".join(base64.b64decode(run[: len(run) // 4 * 4]) for run in runs)
    return written


@pytest.mark.parametrize("task", DESCRIPTIONS.values())
@pytest.mark.parametrize("place", ["header", "address"])
async def test_a_server_tells_its_clients_secrets_to_no_history(
    serve: Serve, caplog: pytest.LogCaptureFixture, task: str, place: str
) -> None:
    caplog.set_level(logging.DEBUG)
    basic = base64.b64encode(f"me:{BASIC}".encode()).decode()
    with served(Starlette(routes=[Route("/mcp", _tell, methods=["POST"])])) as web:
        if place == "address":
            web = web.replace("//", f"//me:{BASIC}@")
        headers = {"x-key": KEY} | ({"authorization": f"Basic {basic}"} if place == "header" else {})
        servers = {"mcpServers": {"garden": {"url": f"{web}/mcp?key={PARAMETER}", "headers": headers}}}
        tools = [Tool(server="garden", name=name, description=text) for name, text in DESCRIPTIONS.items()]
        runner = await serve(OrchestratorPlugin(catalogue=Catalogue([*ALL, *tools]), mcp_servers=servers))
        result, handle = await runner.run(task)
    written = await _written(runner, handle)
    assert result.steps[0].tool in {tool.key for tool in tools}
    assert b"***" in written
    for secret in (BASIC, basic, KEY, PARAMETER):
        assert secret.encode() not in written
        assert secret not in caplog.text


class _Telling(Accounts):
    """Names the tokens as the user who is signed in."""

    def _token(self, grant: Any) -> Any:
        token = super()._token(grant)
        encoded = base64.b64encode(token.access_token.encode()).decode()
        self.access[token.access_token].subject = f"{token.access_token} {encoded} {token.refresh_token}"
        return token


async def test_the_tokens_of_a_sign_in_enter_no_history(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    accounts = _Telling()
    with signing(accounts) as web:
        signed_in = Entry(web, tenant="org:1")
        await signed_in.login()
        expire()  # So that the worker renews the token.
        whoami = Tool(server="it", name="whoami", description="Say who is signed in")
        plugin = OrchestratorPlugin(catalogue=Catalogue([*ALL, whoami]), mcp_servers=signed_in.mcp_servers)
        runner = await serve(plugin)
        result, handle = await runner.run("Say who is signed in")
    written = await _written(runner, handle)
    assert statuses(result) == ["done"]
    assert accounts.renewed == 1
    assert b"*** *** ***" in written
    assert not [token for token in (*accounts.access, *accounts.refresh) if token.encode() in written]
