"""Signing in to servers over HTTP: once in a browser, then by tokens that renew themselves. No output shows them."""

import asyncio
import gzip
import json
import logging
import os
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.types import ElicitResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from orchestrator import OrchestratorPlugin
from orchestrator.activities.activities import Activities
from orchestrator.errors import InvalidConfig, ServerUnavailable, ToolrouteError, Unauthorised
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.mcp.connections import Connections
from orchestrator.mcp.signin.callback import Callback
from orchestrator.mcp.signin.files import SignIn, SignInFile
from orchestrator.mcp.signin.provider import SignInProvider
from orchestrator.records.call import ToolCall
from orchestrator.records.tool import Kind, Tool
from tests.command_line import COMMAND, Run
from tests.gateway import serving
from tests.loopback import served
from tests.servers.signed_in import Entry, browse, kept_folder
from tests.servers.signing import Accounts, signing
from tests.servers.start import config, free_port, running, text_of


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


@pytest.fixture
def web(accounts: Accounts) -> Iterator[str]:
    with signing(accounts) as web:
        yield web


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
        assert await entry.logout() == ""
        assert (accounts.access, accounts.refresh) == ({}, {})
        with pytest.raises(Unauthorised, match="requires a sign-in"):
            await entry.whoami()


async def test_a_sign_in_does_not_travel_in_clear(web: str) -> None:
    entry = Entry(web)
    await entry.login()
    elsewhere = Entry("http://127.0.0.2:9")
    with pytest.raises(InvalidConfig, match=r"'it': its url begins with http://.*write https://"):
        await elsewhere.login()
    elsewhere.file.write(entry.kept)
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
    [kept] = kept_folder().glob("*.json")
    assert (kept.stat().st_mode & 0o777, kept_folder().stat().st_mode & 0o777) == (0o600, 0o700)
    assert all(token in kept.read_text() for token in (*accounts.access, *accounts.refresh))
    assert not [token for token in (*accounts.access, *accounts.refresh) if token in caplog.text]
    assert "access-" not in f"{entry.kept!r} {entry.spec!r}"


async def test_the_server_is_asked_for_its_own_resource_and_the_entrys_scopes(web: str, accounts: Accounts) -> None:
    await Entry(web, oauth={"scopes": "read"}).login()
    [asked] = accounts.asked
    assert (asked.scopes, asked.resource) == (["read"], f"{web}/mcp")


async def test_each_tenant_has_its_own_sign_in(web: str, accounts: Accounts) -> None:
    ada, ben = Entry(web, "user:ada"), Entry(web, "user:ben")
    await ada.login()
    with pytest.raises(Unauthorised, match=r"--tenant user:ben`$"):
        await ben.whoami()
    accounts.user = "ben"
    await ben.login()
    assert (await ada.whoami(), await ben.whoami()) == ("ada", "ben")
    await ben.logout()
    assert ben.file.read() is None
    assert ada.file.read() is not None


async def test_a_token_goes_to_no_other_address_than_the_one_that_was_signed_in_to(web: str) -> None:
    seen = list[str]()

    async def note(request: Request) -> Response:
        seen.append(request.headers.get("authorization", ""))
        return Response(status_code=401)

    await Entry(web).login()
    with served(Starlette(routes=[Route("/mcp", note, methods=["POST"])])) as other:
        with pytest.raises(Unauthorised):
            await Entry(other).whoami()

        async def redirect(request: Request) -> Response:
            return RedirectResponse(f"{other}/mcp", 307)

        with served(Starlette(routes=[Route("/mcp", redirect, methods=["POST"])])) as elsewhere:
            moved = Entry(elsewhere)
            moved.file.write(Entry(web).kept)
            with pytest.raises(ServerUnavailable):
                await moved.whoami()
    assert set(seen) == {""}


@pytest.mark.parametrize("loses", ["expired", "refused"])
async def test_a_token_is_renewed_by_itself(web: str, accounts: Accounts, loses: str) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    before = entry.kept
    if loses == "expired":
        entry.expire()
    else:
        accounts.access.clear()
    async with entry.servers() as servers:
        said = await asyncio.gather(*(servers.call("it:whoami") for _ in range(5)))
    assert {one.text for one in said} == {"ada"}
    assert accounts.renewed == 1
    assert entry.kept.token != before.token
    assert not entry.kept.expired


async def test_a_token_that_nothing_renews_is_used_until_the_server_refuses_it(web: str, accounts: Accounts) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    token = {name: value for name, value in entry.kept.token.items() if name != "refresh_token"}
    entry.file.write(entry.kept.model_copy(update={"token": token, "expires_at": time.time() + 5}))
    assert await entry.whoami() == "ada"
    accounts.access.clear()
    with pytest.raises(Unauthorised, match="requires a sign-in"):
        await entry.whoami()
    assert entry.file.read() is None


async def test_two_processes_renew_once(web: str, accounts: Accounts, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(config(it={"url": f"{web}/mcp"})))
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    entry.expire()
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
        assert entry.file.read() is None
        await entry.login()
        assert (await servers.call("it:whoami")).text == "ada"


async def test_a_sign_in_is_kept_while_the_authorization_server_is_down(web: str) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    entry.file.write(
        entry.kept.model_copy(
            update={
                "expires_at": 1.0,
                "server": {**(entry.kept.server or {}), "token_endpoint": "http://localhost:9/token"},
            }
        )
    )
    with pytest.raises(ServerUnavailable, match="authorization server localhost cannot be reached"):
        await entry.whoami()
    assert entry.file.read() is not None


async def test_a_refused_sign_in_says_so_and_keeps_nothing(web: str, accounts: Accounts) -> None:
    accounts.refusal = "access_denied"
    with pytest.raises(Unauthorised, match=r"^server 'it': it was refused \(access_denied\)$"):
        await Entry(web).login()
    assert not list(kept_folder().glob("*.json"))


async def test_an_answer_of_another_issuer_is_refused(web: str, accounts: Accounts) -> None:
    accounts.issuer = "https://evil.example"
    with pytest.raises(Unauthorised, match=r"iss mismatch: https://evil\.example"):
        await Entry(web).login()
    assert accounts.access == {}


async def test_metadata_of_another_issuer_is_refused() -> None:
    links = list[str]()

    async def show(link: str, take: Callable[[str], str]) -> None:
        links.append(link)

    async def metadata(request: Request) -> Response:
        if request.method == "POST":
            return Response(status_code=401)
        here = str(request.base_url).rstrip("/")
        if "protected-resource" in request.url.path:
            return JSONResponse({"resource": f"{here}/mcp", "authorization_servers": [here]})
        other = "https://evil.example"
        ends = {"authorization_endpoint": f"{other}/authorize", "token_endpoint": f"{other}/token"}
        return JSONResponse({"issuer": other, "response_types_supported": ["code"], **ends})

    app = Starlette(routes=[Route("/{path:path}", metadata, methods=["GET", "POST"])])
    with served(app) as web, pytest.raises(Unauthorised, match="issuer mismatch"):
        await Entry(web).login(show)
    assert links == []


async def test_an_answer_without_the_state_of_this_sign_in_is_not_taken(web: str) -> None:
    async def show(link: str, take: Callable[[str], str]) -> None:
        asked = httpx2.URL(link).params
        back = asked["redirect_uri"]
        async with httpx2.AsyncClient() as stranger:
            for query in ("code=stolen", "code=stolen&state=other", "error=access_denied"):
                assert (await stranger.get(f"{back}?{query}")).status_code == 400
            assert (await stranger.post(f"{back}?code=stolen&state={asked['state']}")).status_code == 400
        await browse(link, take)

    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login(show)
    assert await entry.whoami() == "ada"


async def test_the_address_may_be_pasted_where_the_browser_is_elsewhere(web: str) -> None:
    async def show(link: str, take: Callable[[str], str]) -> None:
        async with httpx2.AsyncClient() as browser:
            sent = (await browser.get(link)).headers["location"]
        assert take("http://localhost/callback?code=x&state=y") == ""
        assert "can use it" in take(f"  {sent}\n")

    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login(show)
    assert await entry.whoami() == "ada"


async def test_a_page_shows_no_markup_of_a_stranger() -> None:
    callback = Callback("<b>it</b>")
    async with callback.listening(0), httpx2.AsyncClient() as browser:
        callback.expect("https://a/?state=1")
        page = (await browser.get(f"{callback.address}?state=1&error=<script>alert(1)</script>")).text
    assert "<script>" not in page
    assert "<b>" not in page


@pytest.mark.parametrize(
    ("named", "method"),
    [("oauth", "client_secret_basic"), ("auth", "client_secret_basic"), ("oauth", "client_secret_post")],
)
async def test_a_client_of_the_entry_is_used_and_its_secret_is_not_kept(
    web: str, accounts: Accounts, named: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Entry(web).login()
    registered = next(iter(accounts.clients.values()))
    own = registered.model_copy(
        update={"client_id": "own", "client_secret": "s3cret-of-client", "token_endpoint_auth_method": method}
    )
    monkeypatch.setenv("CLIENT_SECRET", "s3cret-of-client")
    port = httpx2.URL(str((registered.redirect_uris or [])[0])).port
    accounts.clients["own"] = own
    spelt = {
        "oauth": {"clientId": "own", "clientSecret": "${CLIENT_SECRET}", "callbackPort": port},
        "auth": {"CLIENT_ID": "own", "CLIENT_SECRET": "${CLIENT_SECRET}", "callback_port": port},
    }
    entry = Entry(web, **{named: spelt[named]})
    await entry.login()
    entry.expire()
    assert await entry.whoami() == "ada"
    assert len(accounts.clients) == 2
    assert not [file for file in kept_folder().glob("*.json") if "s3cret" in file.read_text()]


async def test_a_server_of_clients_with_a_secret_registers_one(accounts: Accounts) -> None:
    def with_secrets_only(app: ASGIApp, _: str) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("path") != "/register":
                return await app(scope, receive, send)
            message = await receive()

            async def again() -> Message:
                return message

            is_public = b'"none"' in message["body"]
            refusal = JSONResponse({"error": "invalid_client_metadata"}, 400)
            return await (refusal if is_public else app)(scope, again, send)

        return answer

    with signing(accounts, behind=with_secrets_only) as web:
        entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
        await entry.login()
        entry.expire()
        assert await entry.whoami() == "ada"


async def test_a_sign_in_that_fails_names_the_address(accounts: Accounts) -> None:
    def without_authorization(app: ASGIApp, web: str) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            elsewhere = JSONResponse({"resource": f"{web}/mcp", "authorization_servers": ["http://127.0.0.1:9"]})
            is_document = scope.get("path", "").startswith("/.well-known/oauth-protected-resource")
            await (elsewhere if is_document else app)(scope, receive, send)

        return answer

    with (
        signing(accounts, behind=without_authorization) as web,
        pytest.raises(ServerUnavailable, match=r"failed: http://127\.0\.0\.1:9/\.well-known/\S+ cannot be reached \("),
    ):
        await Entry(web).login()


async def test_a_server_that_registers_nobody_is_told_with_the_remedy(accounts: Accounts) -> None:
    said = r'Registration failed: 404.*write "oauth": \{"clientId"'
    with signing(accounts, client_registration_options=None) as web, pytest.raises(Unauthorised, match=said):
        await Entry(web).login()


async def test_a_server_that_asks_for_no_sign_in_is_told_so() -> None:
    port = free_port()
    async with running("plain.py", port, "sse"):
        with pytest.raises(Unauthorised, match=r"^server 'it': it asked for no sign-in \(HTTP 200\)$"):
            await Entry(f"http://127.0.0.1:{port}", path="/sse", type="sse").login()


async def test_a_broken_file_is_named_with_the_remedy(web: str) -> None:
    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login()
    [kept] = kept_folder().glob("*.json")
    kept.write_text("{")
    with pytest.raises(ServerUnavailable, match=r"sign-in .*\.json: .*delete it and sign in again"):
        await entry.whoami()


def test_login_opens_the_browser_and_lists_what_is_signed_in_to(
    web: str, toolroute: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mcp.json"
    entries = {
        "it": {"url": f"{web}/mcp"},
        "token": {"url": f"{web}/mcp", "headers": {"Authorization": "Bearer x"}},
        "program": {"command": "x"},
    }
    file.write_text(json.dumps({"mcpServers": entries}))
    browser = tmp_path / "browser.py"
    browser.write_text("import sys, httpx2\nhttpx2.get(sys.argv[1], follow_redirects=True).raise_for_status()\n")
    monkeypatch.setenv("BROWSER", f"{sys.executable} {browser} %s")
    options = ("--config", file, "--user", "ada")
    signed = toolroute("login", "it", *options)
    assert (signed.exit_code, "signed in to it for user:ada" in signed.stderr) == (0, True)
    rows = json.loads(toolroute("login", *options, "-o", "json").stdout)
    assert [(row["server"], row["signed_in"]) for row in rows] == [("it", True), ("token", False)]
    assert "renews itself" in toolroute("login", *options).stdout
    assert toolroute("logout", "it", *options).exit_code == 0
    assert "renews itself" not in toolroute("login", *options).stdout
    again = toolroute("logout", "it", *options)
    assert (again.exit_code, "it has no sign-in for user:ada" in again.stderr) == (0, True)
    looked = json.loads(toolroute("doctor", "--connect", "--config", file, "-o", "json").stdout)
    [found] = [one for one in looked if one["what"] == "mcp it"]
    assert found["detail"].startswith("requires a sign-in (HTTP 401 Unauthorized: Authentication required): run `")
    assert found["remedy"] == ""
    for name, said in (
        ("program", "is a local program"),
        ("token", "has an Authorization header"),
        ("no", "no server 'no'"),
    ):
        refused = toolroute("login", name, *options)
        assert (refused.exit_code, said in refused.stderr) == (2, True)


def test_a_token_in_auth_is_refused_with_the_remedy() -> None:
    entry = McpConfig.parse(config(it={"url": "http://a", "auth": "secret-token"})).servers["it"]
    assert 'put a token into "headers"' in entry.problem
    assert "secret-token" not in entry.problem
    for own in ({"oauth": False}, {"auth": "oauth"}, {"oauth": {"enabled": True}}):
        assert not McpConfig.parse(config(it={"url": "http://a", **own})).servers["it"].problem


WHOAMI = ToolCall(tenant="user:ada", tool=Tool(server="it", name="whoami", kind=Kind.MCP))


async def test_a_worker_is_refused_without_a_retry_until_somebody_signs_in(web: str) -> None:
    entry = Entry(web, "user:ada")
    plugin = OrchestratorPlugin(catalogue="unused.jsonl", mcp_servers=entry.config)
    call = Activities(plugin.resources).call_tool
    given = RawValue(DataConverter.default.payload_converter.to_payload(WHOAMI))
    async with plugin.resources.held():
        with pytest.raises(ApplicationError, match=r"toolroute login it --config FILE --tenant user:ada`") as refused:
            await ActivityEnvironment().run(call, given)
        assert (refused.value.type, refused.value.non_retryable) == ("Unauthorised", True)
        connections = plugin.resources.connections("user:ada")
        assert connections is not None
        assert ["requires a sign-in" in said for said in connections.refusals(["it", "other"])] == [True]
        await entry.login()
        assert connections.refusals(["it"]) == []
        assert (await plugin.resources.execute(WHOAMI)).text == "ada"


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
            visits.append(asyncio.create_task(browse(params.url, lambda _: "")))
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


@pytest.mark.parametrize("path", ["/resource", "/.well-known/oauth-authorization-server", "/register"])
async def test_an_answer_that_unpacks_to_gigabytes_ends_the_sign_in(path: str) -> None:
    bomb = gzip.compress(bytes(64 * 2**20))

    async def answer(request: Request) -> Response:
        base = str(request.base_url).rstrip("/")
        if request.url.path == path:
            return Response(bomb, headers={"content-encoding": "gzip", "content-type": "application/json"})
        if request.url.path == "/mcp":
            challenge = f'Bearer resource_metadata="{base}/resource"'
            return Response(status_code=401, headers={"www-authenticate": challenge})
        if request.url.path == "/resource":
            return JSONResponse({"resource": f"{base}/mcp", "authorization_servers": [base]})
        endpoints = {f"{name}_endpoint": f"{base}/{name}" for name in ("authorization", "token", "registration")}
        endpoints["registration_endpoint"] = f"{base}/register"
        return JSONResponse({"issuer": base, "response_types_supported": ["code"], **endpoints})

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    with served(app) as web:
        tracemalloc.start()
        with pytest.raises((ServerUnavailable, Unauthorised), match="more than 1 MiB"):
            await Entry(web).login()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 30 * 2**20


async def test_a_refusing_server_gets_no_client_secret() -> None:
    entry = {"clientId": "ours", "clientSecret": "kept-secret", "callbackPort": 3333}
    config = McpConfig.parse({"mcpServers": {"it": {"url": "https://mcp.example.com/mcp", "oauth": entry}}})
    spec = config.servers["it"]
    request = httpx2.Request("POST", "https://mcp.example.com/mcp", json={})
    flow = SignInProvider(spec, spec.launch()).async_auth_flow(request)
    assert await anext(flow) is request
    answer = await flow.asend(httpx2.Response(401, json={"error": "invalid_client"}, request=request))
    assert b"kept-secret" not in answer.content
    assert answer.method == "GET"
    await flow.aclose()


@pytest.mark.parametrize(
    ("status", "challenge"),
    [(403, 'Bearer error="insufficient_scope", scope="admin"'), (401, 'Bearer error="invalid_token"')],
)
async def test_a_server_that_keeps_refusing_ends_the_call(status: int, challenge: str) -> None:
    requests: list[str] = []

    async def answer(request: Request) -> Response:
        requests.append(request.url.path)
        if request.url.path == "/token":
            token = {"access_token": f"new-{len(requests)}", "token_type": "Bearer", "refresh_token": "again"}
            return JSONResponse(token)
        return Response(status_code=status, headers={"www-authenticate": challenge})

    with served(Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])) as url:
        config = McpConfig.parse({"mcpServers": {"it": {"url": f"{url}/mcp"}}})
        spec = config.servers["it"]
        SignInFile("local", spec, spec.launch()).write(
            SignIn(
                token={"access_token": "old", "token_type": "Bearer", "refresh_token": "again"},
                client={"client_id": "c", "redirect_uris": ["http://localhost:1/callback"]},
                server={"issuer": url, "authorization_endpoint": f"{url}/authorize", "token_endpoint": f"{url}/token"},
                expires_at=time.time() + 3600,
            )
        )
        async with Connections(config) as connections, asyncio.timeout(60):
            with pytest.raises(Unauthorised, match="toolroute login it"):
                await connections.call("it:x", {})
    assert len(requests) < 20
