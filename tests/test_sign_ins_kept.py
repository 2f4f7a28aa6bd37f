"""What a sign-in that is kept does: calls use it, tokens renew themselves, and no output shows them."""

import asyncio
import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ElicitResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator import Catalogue, Kind, OrchestratorPlugin, Tool
from orchestrator.errors import InvalidConfig, ServerUnavailable, ToolrouteError, Unauthorised
from orchestrator.mcp.signin.files import SignIn, SignInFile
from tests.command_line import COMMAND
from tests.gateway import serving
from tests.loopback import served
from tests.runner import Serve
from tests.servers.signed_in import Entry, browse, change_kept, expire, kept, kept_files
from tests.servers.signing import Accounts, signing
from tests.servers.start import config, text_of

pytestmark = pytest.mark.usefixtures("own_sign_ins")


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_server_is_called_after_a_sign_in_and_not_after_the_sign_out(accounts: Accounts, path: str) -> None:
    with signing(accounts, sse=path == "/sse") as web:
        entry = Entry(web, path=path, **({"type": "sse"} if path == "/sse" else {}))
        with pytest.raises(
            Unauthorised, match=r"'it' requires a sign-in \(HTTP 401 .*`toolroute login it --config FILE`$"
        ):
            await entry.whoami()
        await entry.login()
        assert await entry.whoami() == "ada"
        await entry.logout()
        assert (accounts.access, accounts.refresh) == ({}, {})
        with pytest.raises(Unauthorised, match="requires a sign-in"):
            await entry.whoami()


async def test_a_sign_in_does_not_travel_in_clear() -> None:
    with pytest.raises(InvalidConfig, match=r"'it': its url begins with http://.*write https://"):
        await Entry("http://127.0.0.2:9").login()


async def test_a_kept_sign_in_does_not_travel_in_clear(web: str) -> None:
    """The file is written here, because no command writes one for such an address."""
    await Entry(web).login()
    elsewhere = Entry("http://127.0.0.2:9")
    spec = elsewhere.config.servers["it"]
    SignInFile("local", spec, spec.launch()).write(SignIn(**kept()))
    with pytest.raises(ToolrouteError, match="write https://"):
        await elsewhere.whoami()


async def test_a_call_works_as_soon_as_the_sign_in_is_there(web: str) -> None:
    entry = Entry(web)
    async with entry.servers() as servers:
        for _ in range(3):
            with pytest.raises(Unauthorised):
                await servers.call("it:whoami")
        await entry.login()
        assert (await servers.call("it:whoami")).text == "ada"


async def test_a_sign_in_during_a_listing_counts_for_it(accounts: Accounts) -> None:
    asked = threading.Event()
    goes_on = threading.Event()

    def with_a_slow_refusal(app: ASGIApp, _: str) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("path") == "/mcp" and not asked.is_set():
                asked.set()
                await asyncio.to_thread(goes_on.wait, 100)
            await app(scope, receive, send)

        return answer

    with signing(accounts, behind=with_a_slow_refusal) as web:
        entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
        async with entry.servers() as servers:
            listing = asyncio.create_task(servers.tools("it"))
            assert await asyncio.to_thread(asked.wait, 100)
            await entry.login()
            call = asyncio.create_task(servers.call("it:whoami"))
            goes_on.set()
            assert [tool.name for tool in await listing] == ["whoami"]
            assert (await call).text == "ada"


async def test_tokens_are_in_a_private_file_and_in_no_log(
    web: str, accounts: Accounts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    assert await entry.whoami() == "ada"
    [file] = kept_files()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert all(token in file.read_text() for token in (*accounts.access, *accounts.refresh))
    assert not [token for token in (*accounts.access, *accounts.refresh) if token in caplog.text]


async def test_each_tenant_has_its_own_sign_in(web: str, accounts: Accounts) -> None:
    ada, ben = Entry(web, "user:ada"), Entry(web, "user:ben")
    await ada.login()
    with pytest.raises(Unauthorised, match=r"--tenant user:ben`$"):
        await ben.whoami()
    accounts.user = "ben"
    await ben.login()
    assert (await ada.whoami(), await ben.whoami()) == ("ada", "ben")
    await ben.logout()
    assert len(kept_files()) == 1


async def test_a_token_goes_to_no_other_address_than_the_one_that_was_signed_in_to(
    web: str, accounts: Accounts
) -> None:
    tokens = list[str]()

    async def note_token(request: Request) -> Response:
        tokens.append(request.headers.get("authorization", ""))
        return Response(status_code=401)

    await Entry(web).login()
    with served(Starlette(routes=[Route("/mcp", note_token, methods=["POST"])])) as other:
        with pytest.raises(Unauthorised):
            await Entry(other).whoami()
        moves = threading.Event()

        def with_a_redirect(app: ASGIApp, _: str) -> ASGIApp:
            async def answer(scope: Scope, receive: Receive, send: Send) -> None:
                is_moved = moves.is_set() and scope.get("path") == "/mcp"
                await (RedirectResponse(f"{other}/mcp", 307) if is_moved else app)(scope, receive, send)

            return answer

        with signing(accounts, behind=with_a_redirect) as moved:
            entry = Entry(moved)
            await entry.login()
            moves.set()
            with pytest.raises(ServerUnavailable):
                await entry.whoami()
    assert set(tokens) == {""}


@pytest.mark.parametrize("loses", ["expired", "refused"])
async def test_a_token_is_renewed_by_itself(web: str, accounts: Accounts, loses: str) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    before = kept()["token"]
    if loses == "expired":
        expire()
    else:
        accounts.access.clear()
    async with entry.servers() as servers:
        said = await asyncio.gather(*(servers.call("it:whoami") for _ in range(5)))
    assert {one.text for one in said} == {"ada"}
    assert accounts.renewed == 1
    assert kept()["token"] != before
    assert kept()["expires_at"] > time.time() + 60


async def test_a_token_that_nothing_renews_is_used_until_the_server_refuses_it(web: str, accounts: Accounts) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    token = {name: value for name, value in kept()["token"].items() if name != "refresh_token"}
    change_kept(token=token, expires_at=time.time() + 5)
    assert await entry.whoami() == "ada"
    accounts.access.clear()
    with pytest.raises(Unauthorised, match="requires a sign-in"):
        await entry.whoami()
    assert kept_files() == []


async def test_two_processes_renew_once(web: str, accounts: Accounts, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(config(it={"url": f"{web}/mcp"})))
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    expire()
    command = [COMMAND, "call", "it:whoami", "--config", file, "--store", tmp_path / "store"]
    running = [
        await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=os.environ) for _ in range(2)
    ]
    said = await asyncio.gather(*(process.communicate() for process in running))
    assert [out.strip() for out, _ in said] == [b"ada", b"ada"]
    assert accounts.renewed == 1


async def test_a_sign_in_that_was_revoked_is_asked_for_again_and_forgotten(web: str, accounts: Accounts) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    async with entry.servers() as servers:
        assert (await servers.call("it:whoami")).text == "ada"
        accounts.access.clear()
        accounts.refresh.clear()
        with pytest.raises(Unauthorised, match=r"requires a sign-in .*toolroute login it"):
            await servers.call("it:whoami")
        assert kept_files() == []
        await entry.login()
        assert (await servers.call("it:whoami")).text == "ada"


async def test_a_sign_in_is_kept_while_the_authorization_server_is_down(web: str) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    change_kept(expires_at=1.0, server=kept()["server"] | {"token_endpoint": "http://localhost:9/token"})
    with pytest.raises(ServerUnavailable, match="authorization server localhost cannot be reached"):
        await entry.whoami()
    assert len(kept_files()) == 1


async def test_a_broken_file_is_named_with_the_remedy(web: str) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    kept_files()[0].write_text("{")
    with pytest.raises(ServerUnavailable, match=r"sign-in .*\.json: .*delete it and sign in again"):
        await entry.whoami()


async def test_a_worker_is_refused_without_a_retry_until_somebody_signs_in(web: str, serve: Serve) -> None:
    entry = Entry(web, "user:ada")
    whoami = Tool(server="it", name="whoami", description="Say who is signed in", kind=Kind.MCP)
    runner = await serve(OrchestratorPlugin(catalogue=Catalogue([whoami]), mcp_servers=entry.mcp_servers))
    result, handle = await runner.run("Say who is signed in", tenant="user:ada")
    assert "toolroute login it --config FILE --tenant user:ada" in result.steps[0].reason
    history = (await handle.fetch_history()).to_json()
    assert '"type": "Unauthorised", "nonRetryable": true' in " ".join(history.split())
    await entry.login()
    result, _ = await runner.run("Say who is signed in", tenant="user:ada")
    assert result.steps[0].result is not None
    assert result.steps[0].result.text == "ada"


async def test_a_search_says_which_of_its_servers_want_a_sign_in(web: str, tmp_path: Path) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    async with serving(tmp_path, entry.mcp_servers) as gateway:

        async def search() -> tuple[list[str], str]:
            found = await gateway.search("who is signed in?", 5, "auto", tenant="local")
            return [match["tool"] for match in found["matches"]], " ".join(found["warnings"])

        tools, warned = await search()
        assert tools == []
        assert "`toolroute login it --config FILE`" in warned
        await entry.login()
        assert text_of(await gateway.call("it:whoami", tenant="local")) == "ada"
        assert await search() == (["it:whoami"], "")
        await entry.logout()
        assert "Unauthorised" in await gateway.refusal("it:whoami", tenant="local")
        tools, warned = await search()
        assert tools == ["it:whoami"]
        assert "`toolroute login it --config FILE`" in warned


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_with_url_elicitation_is_shown_the_link(web: str, tmp_path: Path, mode: Any) -> None:
    shown, answers, visits = list[str](), ["decline", "accept"], list[asyncio.Task[None]]()

    async def ask(_: object, params: Any) -> ElicitResult:
        assert params.mode == "url"
        shown.append(params.message)
        action: Any = answers.pop(0)
        if action == "accept":
            visits.append(asyncio.create_task(browse(params.url)))
        return ElicitResult(action=action)

    entry, call = Entry(web), {"tool": "it:whoami"}
    async with (
        serving(tmp_path, entry.mcp_servers) as gateway,
        gateway.client("local", mode=mode, elicitation_callback=ask) as client,
    ):
        declined = await client.call_tool("call_tool", call)
        assert "`toolroute login it" in text_of(declined)
        assert text_of(await client.call_tool("call_tool", call)) == "ada"
    assert shown == 2 * ["Sign in to it, so that your agent can call its tools."]
    await asyncio.gather(*visits)


@pytest.mark.parametrize(
    ("status", "challenge"),
    [(403, 'Bearer error="insufficient_scope", scope="admin"'), (401, 'Bearer error="invalid_token"')],
)
async def test_a_server_that_keeps_refusing_ends_the_call(accounts: Accounts, status: int, challenge: str) -> None:
    refuses = threading.Event()
    refused: list[str] = []

    def with_refusals(app: ASGIApp, _: str) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if refuses.is_set() and scope.get("path") == "/mcp":
                refused.append(scope["method"])
                app_or_refusal: ASGIApp = Response(status_code=status, headers={"www-authenticate": challenge})
            else:
                app_or_refusal = app
            await app_or_refusal(scope, receive, send)

        return answer

    with signing(accounts, behind=with_refusals) as web:
        entry = Entry(web)
        await entry.login()
        refuses.set()
        async with asyncio.timeout(150):
            with pytest.raises(Unauthorised, match="toolroute login it"):
                await entry.whoami()
    assert len(refused) < 20
