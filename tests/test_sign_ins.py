"""Signing in to servers over HTTP with a browser: what is refused, and what is said about it."""

import asyncio
import gzip
import json
import sys
import tracemalloc
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator import McpConfig
from orchestrator.errors import ServerUnavailable, Unauthorised
from tests.command_line import COMMAND, Run
from tests.loopback import served
from tests.servers.signed_in import Entry, browse, expire, kept_files
from tests.servers.signing import Accounts, signing
from tests.servers.start import config, free_port, running

pytestmark = pytest.mark.usefixtures("own_sign_ins")


async def test_the_server_is_asked_for_its_own_resource_and_the_entrys_scopes(web: str, accounts: Accounts) -> None:
    await Entry(web, oauth={"scopes": "read"}).login()
    [asked] = accounts.asked
    assert (asked.scopes, asked.resource) == (["read"], f"{web}/mcp")


async def test_a_refused_sign_in_says_so_and_keeps_nothing(web: str, accounts: Accounts) -> None:
    accounts.refusal = "access_denied"
    with pytest.raises(Unauthorised, match=r"^server 'it': it was refused \(access_denied\)$"):
        await Entry(web).login()
    assert kept_files() == []


async def test_an_answer_of_another_issuer_is_refused(web: str, accounts: Accounts) -> None:
    accounts.issuer = "https://evil.example"
    with pytest.raises(Unauthorised, match=r"iss mismatch: https://evil\.example"):
        await Entry(web).login()
    assert accounts.access == {}


async def test_metadata_of_another_issuer_is_refused() -> None:
    links = list[str]()

    async def show(link: str) -> None:
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
    async def show(link: str) -> None:
        asked = httpx2.URL(link).params
        back = asked["redirect_uri"]
        async with httpx2.AsyncClient() as stranger:
            for query in ("code=stolen", "code=stolen&state=other", "error=access_denied"):
                assert (await stranger.get(f"{back}?{query}")).status_code == 400
            assert (await stranger.post(f"{back}?code=stolen&state={asked['state']}")).status_code == 400
        await browse(link)

    entry = Entry(web, toolroute={"protocol_version": "2025-06-18"})
    await entry.login(show)
    assert await entry.whoami() == "ada"


async def test_the_address_may_be_pasted_where_the_browser_is_elsewhere(web: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(config(it={"url": f"{web}/mcp"})))
    login = await asyncio.create_subprocess_exec(
        *(COMMAND, "login", "it", "--no-browser", "--config", file),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert login.stdin is not None
    assert login.stderr is not None
    while not (line := (await login.stderr.readline()).decode().strip()).startswith("http"):
        pass
    async with httpx2.AsyncClient() as browser:
        address = (await browser.get(line)).headers["location"]
    login.stdin.write(b"http://localhost/callback?code=x&state=y\n")
    while "is not the address of this sign-in" not in (await login.stderr.readline()).decode():
        pass
    login.stdin.write(f"  {address}\n".encode())
    assert "signed in to it" in (await login.communicate())[1].decode()
    assert await Entry(web).whoami() == "ada"


async def test_a_page_shows_no_markup_of_a_stranger(web: str) -> None:
    pages = list[str]()

    async def show(link: str) -> None:
        asked = httpx2.URL(link).params
        answer = {"state": asked["state"], "error": "<script>alert(1)</script>"}
        async with httpx2.AsyncClient() as browser:
            pages.append((await browser.get(asked["redirect_uri"], params=answer)).text)

    with pytest.raises(Unauthorised, match="refused"):
        await Entry(web, name="<b>it</b>").login(show)
    assert "sign-in failed" in pages[0]
    assert "<script>" not in pages[0]
    assert "<b>" not in pages[0]


@pytest.mark.parametrize(
    ("named", "method"),
    [("oauth", "client_secret_basic"), ("auth", "client_secret_basic"), ("oauth", "client_secret_post")],
)
async def test_a_client_of_the_entry_is_used_and_its_secret_is_not_kept(
    web: str, accounts: Accounts, named: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Entry(web)
    await first.login()
    await first.logout()
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
    expire()
    assert await entry.whoami() == "ada"
    assert len(accounts.clients) == 2
    [file] = kept_files()
    assert "s3cret" not in file.read_text()


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
        expire()
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
    bodies: list[bytes] = []

    async def refuse(request: Request) -> Response:
        bodies.append(await request.body())
        return JSONResponse({"error": "invalid_client"}, 401 if request.method == "POST" else 404)

    async def deny(link: str) -> None:
        asked = httpx2.URL(link).params
        async with httpx2.AsyncClient() as browser:
            await browser.get(asked["redirect_uri"], params={"state": asked["state"], "error": "access_denied"})

    own = {"clientId": "ours", "clientSecret": "kept-secret", "callbackPort": free_port()}
    with (
        served(Starlette(routes=[Route("/{path:path}", refuse, methods=["GET", "POST"])])) as web,
        pytest.raises(Unauthorised),
    ):
        await Entry(web, oauth=own).login(deny)
    assert bodies
    assert not [body for body in bodies if b"kept-secret" in body]
