"""Signing in where nobody registers clients: metadata documents, further scopes, and workers without a person."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ElicitResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orchestrator.errors import InvalidConfig, Unauthorised
from tests.command_line import Run
from tests.gateway import serving
from tests.loopback import served
from tests.servers.signed_in import Entry, browse, kept_files
from tests.servers.signing import signing
from tests.servers.start import config, text_of
from tests.servers.workers import DOCUMENT, IDENTITY_TOKEN, PEM, Front, WorkerAccounts, with_metadata_documents

pytestmark = pytest.mark.usefixtures("own_sign_ins")


@pytest.fixture
def accounts() -> WorkerAccounts:
    return WorkerAccounts()


@pytest.fixture
def web(accounts: WorkerAccounts) -> Iterator[str]:
    def front(app: Any, web: str) -> Any:
        return with_metadata_documents(Front(app, accounts, web))

    with signing(accounts, behind=front, identity_assertion_enabled=True, client_registration_options=None) as web:
        yield web


def entry_of(web: str, **settings: Any) -> Entry:
    return Entry(web, oauth=settings)


@pytest.mark.parametrize("by", ["entry", "variable"])
async def test_a_metadata_document_signs_in(
    web: str, accounts: WorkerAccounts, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"clientId": DOCUMENT} if by == "entry" else {}
    if by == "variable":
        monkeypatch.setenv("TOOLROUTE_CLIENT_METADATA_URL", DOCUMENT)
    entry = entry_of(web, callbackPort=accounts.callback_port, **settings)
    await entry.login()
    assert await entry.whoami() == "ada"
    assert accounts.forms[0]["client_id"] == DOCUMENT


async def test_registration_that_is_off_names_the_document(web: str) -> None:
    with pytest.raises(Unauthorised, match=r"host one, and set TOOLROUTE_CLIENT_METADATA_URL to its https address$"):
        await entry_of(web).login()


async def test_a_server_without_documents_registers_the_client(
    accounts: WorkerAccounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLROUTE_CLIENT_METADATA_URL", DOCUMENT)
    with signing(accounts) as web:
        entry = entry_of(web)
        await entry.login()
        assert await entry.whoami() == "ada"
    assert accounts.forms == []
    assert len(accounts.clients) == 2


@pytest.mark.parametrize("address", ["http://acme.example/a.json", "https://acme.example"])
async def test_an_address_of_no_document_is_refused(web: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLROUTE_CLIENT_METADATA_URL", address)
    with pytest.raises(InvalidConfig, match="give the https address of a client metadata document, with a path"):
        await entry_of(web).login()


@pytest.mark.parametrize("names", ["resource", "issuer", "token"])
@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]"])
async def test_link_local_addresses_are_not_opened(names: str, host: str) -> None:
    """An address on this machine's own network may be the cloud's metadata service."""

    async def answer(request: Request) -> Response:
        base = str(request.base_url).rstrip("/")
        other = f"http://{host}"
        if request.url.path == "/mcp":
            document = f"{other if names == 'resource' else base}/resource"
            return Response(status_code=401, headers={"www-authenticate": f'Bearer resource_metadata="{document}"'})
        if request.url.path == "/resource":
            issuer = other if names == "issuer" else base
            return JSONResponse({"resource": f"{base}/mcp", "authorization_servers": [issuer]})
        endpoints = {"authorization_endpoint": f"{base}/authorize", "token_endpoint": f"{base}/token"}
        endpoints["registration_endpoint"] = f"{other}/register"
        return JSONResponse({"issuer": base, "response_types_supported": ["code"], **endpoints})

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    with served(app) as web, pytest.raises(Unauthorised, match=r"'it': it names the address .*, which is link-local"):
        await entry_of(web).login()


async def test_a_further_scope_is_asked_for_at_the_next_sign_in(web: str, accounts: WorkerAccounts) -> None:
    entry = entry_of(web, clientId=DOCUMENT, callbackPort=accounts.callback_port, scopes=["read"])
    await entry.login()
    async with entry.servers() as connections:
        with pytest.raises(Unauthorised, match=r"asks for the further scope write\): run `toolroute login it"):
            await connections.call("it:erase")
        await entry.login()
        assert (await connections.call("it:erase")).text == "erased"
        assert (await connections.call("it:whoami")).text == "ada"
    assert [asked.scopes for asked in accounts.asked] == [["read"], ["read", "write"]]


async def test_a_client_is_shown_the_link_for_a_further_scope(
    web: str, accounts: WorkerAccounts, tmp_path: Path
) -> None:
    async def ask(_: object, params: Any) -> ElicitResult:
        await browse(params.url)
        return ElicitResult(action="accept")

    entry = entry_of(web, clientId=DOCUMENT, callbackPort=accounts.callback_port, scopes=["read"])
    await entry.login()
    async with (
        serving(tmp_path, entry.mcp_servers) as gateway,
        gateway.client("local", elicitation_callback=ask) as client,
    ):
        assert text_of(await client.call_tool("call_tool", {"tool": "it:erase"})) == "erased"


def worker_settings(web: str, grant: str) -> dict[str, Any]:
    settings = {"grant": "client_credentials", "issuer": f"{web}/", "clientId": "worker", "scopes": ["read"]}
    if grant == "secret":
        return settings | {"clientSecret": "worker-secret"}
    if grant == "key":
        return settings | {"privateKey": PEM, "signingAlgorithm": "ES256"}
    identity = {"tokenEndpoint": f"{web}/idp/token", "clientId": "robot", "subjectToken": "${IDENTITY}"}
    return settings | {"grant": "jwt-bearer", "clientSecret": "worker-secret", "identityProvider": identity}


@pytest.mark.parametrize(("grant", "subject"), [("secret", "worker"), ("key", "worker"), ("id-jag", "robot")])
async def test_a_worker_signs_in_without_a_person(
    web: str, accounts: WorkerAccounts, grant: str, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY", IDENTITY_TOKEN)
    accounts.clients["worker"].token_endpoint_auth_method = (
        "client_secret_post" if grant == "id-jag" else "client_secret_basic"
    )
    async with entry_of(web, **worker_settings(web, grant)).servers() as connections:
        assert (await connections.call("it:whoami")).text == subject
        assert (await connections.call("it:erase")).text == "erased"
        accounts.access.clear()
        assert (await connections.call("it:whoami")).text == subject
    assert [form.get("scope") for form in accounts.forms][:2] == ["read", "read write"]
    assert accounts.asked == []
    assert kept_files() == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"clientSecret": "wrong-secret"}, r"by itself \(Token exchange failed .*check the oauth block"),
        ({"issuer": "https://other.example"}, "by itself .*other.example"),
        ({"privateKey": "no key", "clientSecret": ""}, r"by itself \(.*key"),
    ],
)
async def test_refused_credentials_name_the_block(web: str, change: dict[str, str], problem: str) -> None:
    settings = worker_settings(web, "secret") | change
    with pytest.raises(Unauthorised, match=problem) as refused:
        await entry_of(web, **settings).whoami()
    assert "wrong-secret" not in str(refused.value)


async def test_an_identity_that_is_refused_says_who_refused(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENTITY", "token-of-somebody")
    with pytest.raises(Unauthorised, match=r"/idp/token gave no ID-JAG \(HTTP 400: .*unknown identity") as refused:
        await entry_of(web, **worker_settings(web, "id-jag")).whoami()
    assert "token-of-somebody" not in str(refused.value)


def test_an_incomplete_worker_names_what_is_missing() -> None:
    settings = {"grant": "jwt-bearer", "clientId": "worker"}
    problem = entry_of("http://localhost:1", **settings).config.servers["it"].problem
    assert "grant 'jwt-bearer' also needs issuer, clientSecret, identityProvider" in problem


def test_login_of_a_worker_says_that_it_signs_in_alone(web: str, toolroute: Run, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(config(it={"url": f"{web}/mcp", "oauth": worker_settings(web, "secret")})))
    refused = toolroute("login", "it", "--config", file)
    assert refused.exit_code == 2
    assert "toolroute signs in by itself there (grant 'client_credentials')" in refused.stderr
    assert "signs in by itself (client_credentials)" in toolroute("login", "--config", file).stdout
