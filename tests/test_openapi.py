"""An OpenAPI description becomes tools, and calls of these become its operations with its security scheme."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from orchestrator import Catalogue, OpenApiExecutor, Router, ToolCall
from orchestrator.errors import InvalidArguments, InvalidCatalogue, InvalidConfig
from tests.loopback import served

ISSUE = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}, "of": {"$ref": "#/x/Of"}}}
API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Issue Desk"},
    "security": [{"key": []}],
    "x": {"Of": {"type": "object", "properties": {"next": {"$ref": "#/x/Of"}}}},
    "components": {
        "parameters": {"owner": {"name": "owner", "in": "path", "required": True, "schema": {"type": "string"}}},
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}, "web": {"type": "oauth2"}},
        "schemas": {"Issue": ISSUE},
    },
    "paths": {
        "/repos/{owner}/issues": {
            "parameters": [{"$ref": "#/components/parameters/owner"}],
            "get": {
                "operationId": "issues/list",
                "summary": "List the issues",
                "description": "Of one owner.",
                "parameters": [{"name": "page", "in": "query", "schema": {"type": "integer"}}],
            },
            "post": {
                "operationId": "issues/create",
                "summary": "Create an issue",
                "security": [{"web": []}],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Issue"}}},
                },
            },
            "delete": {
                "summary": "Delete all issues",
                "requestBody": {
                    "content": {"application/json": {"schema": {"type": "array", "items": {"type": "integer"}}}}
                },
            },
        },
    },
}
TEXT = {"type": "string"}


def operation(*parameters: dict[str, Any], body: str = "", fields: Any = None, **others: Any) -> dict[str, Any]:
    """An API with one operation, and with what else its document has."""
    made: dict[str, Any] = {"operationId": "do", "parameters": list(parameters)}
    if body:
        made["requestBody"] = {"content": {body: {"schema": {"properties": fields or {}}}}}
    return {"openapi": "3.0.0", "info": {"title": "x"}, "paths": {"/do": {"post": made}}, **others}


def older(*parameters: dict[str, Any], **others: Any) -> dict[str, Any]:
    """The same in version 2.0, which gives a body as a parameter."""
    paths = {"/do": {"post": {"operationId": "do", "parameters": list(parameters)}}}
    return {"swagger": "2.0", "info": {"title": "x"}, "paths": paths, **others}


IDS = {"name": "ids", "schema": {"type": "array", "items": TEXT}}
WHERE = {"name": "where", "in": "query", "schema": {"type": "object"}}
INTEGERS = {"type": "object", "additionalProperties": {"type": "integer"}}
AS_JSON = {"name": "ids", "in": "query", "content": {"application/json": {"schema": INTEGERS}}}
AS_TEXT = {"name": "ids", "content": {"application/json": {"schema": TEXT}}}
TENANT = {"name": "tenant", "in": "query", "schema": TEXT}


def argument(place: str, name: str) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": TEXT}


def keyed(place: str, *names: str) -> dict[str, Any]:
    """Security by keys with these names in one place of the request."""
    schemes = {name: {"type": "apiKey", "in": place, "name": name} for name in names}
    return {"components": {"securitySchemes": schemes}, "security": [{name: [] for name in names}]}


LIMITS = {"limits": {"properties": {"max": {"type": "integer"}}}, "ok": {"type": "boolean"}, "tags": {"type": "array"}}
OLDER_FORM = older({"name": "a", "in": "formData", "type": "string"})
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
OLDER_BODY = older({"name": "it", "in": "body", "schema": OK}, consumes=["*/*"])


class Api:
    """A loopback API that answers with what it was sent."""

    url = ""

    async def answer(self, request: Request) -> JSONResponse:
        body = await request.body()
        shown = ("x-key", "authorization", "cookie", "content-type", "ids", "accept")
        sent = {name: request.headers[name] for name in shown if name in request.headers}
        path = f"{request.method} {request.scope['raw_path'].decode()}"
        return JSONResponse({"path": path, "query": str(request.query_params), "body": body.decode(), **sent})

    async def call(self, document: dict[str, Any], arguments: dict[str, Any], tool: str = "do", **settings: Any) -> Any:
        """Call an operation. `settings`: those of the executor, which has a secret for each scheme by default."""
        schemes = document.get("components", {}).get("securitySchemes", {})
        credentials = {scheme: f"s3cret-{scheme}" for scheme in schemes}
        executor = OpenApiExecutor(document, **{"url": self.url, "credentials": credentials, **settings})
        chosen = Catalogue.from_openapi(document, server="desk")[f"desk:{tool}"]
        result = await executor.execute(ToolCall(tenant="local", tool=chosen, arguments=arguments))
        await executor.aclose()
        return result.structured


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api()
    route = Route("/{path:path}", found.answer, methods=["GET", "POST", "DELETE"])
    with served(Starlette(routes=[route])) as address:
        found.url = address
        yield found


def test_operations_become_tools_with_one_schema_each() -> None:
    catalogue = Catalogue.from_openapi(API)
    listing = catalogue["issue-desk:issues_list"]
    assert listing.description == "List the issues\n\nOf one owner."
    assert listing.annotations.read_only
    creation = catalogue["issue-desk:issues_create"].input_schema or {}
    assert list(creation["properties"]) == ["owner", "title", "of"]
    assert creation["required"] == ["owner", "title"]
    assert creation["$defs"]["x_Of"]["properties"]["next"] == {"$ref": "#/$defs/x_Of"}
    assert catalogue["issue-desk:delete_repos_owner_issues"].annotations.destructive


def test_a_description_of_version_2_has_its_address_and_fields() -> None:
    pet = {"name": "pet", "in": "body", "schema": {"properties": {"name": TEXT}}}
    document = older({"name": "kind", "in": "query", "type": "string"}, pet, host="pets.example", basePath="/v2")
    (tool,) = Catalogue.from_openapi(document, server="zoo")
    assert tool.key == "zoo:do"
    assert list((tool.input_schema or {})["properties"]) == ["kind", "name"]
    assert OpenApiExecutor(document).url == "https://pets.example/v2"


def test_a_file_with_a_description_is_a_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(API))
    with Router(Catalogue.read(path)) as router:
        assert router.route_sync("create an issue").matches[0].tool.key == "issue-desk:issues_create"


async def test_a_call_fills_path_query_and_headers(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_KEY", "s3cret-key")
    arguments = {"owner": "../a b", "page": 2}
    answer = await api.call(API, arguments, "issues_list", credentials={"key": "${DESK_KEY}"})
    assert answer["path"] == "GET /repos/..%2Fa%20b/issues"
    assert answer["query"] == "page=2"
    assert answer["x-key"] == "***"


async def test_a_call_sends_the_body_and_its_own_scheme(api: Api) -> None:
    answer = await api.call(API, {"owner": "a", "title": "Broken"}, "issues_create")
    assert json.loads(answer["body"]) == {"title": "Broken"}
    assert answer["authorization"] == "Bearer ***"
    answer = await api.call(API, {"owner": "a", "body": [1, 2]}, "delete_repos_owner_issues", credentials={})
    assert json.loads(answer["body"]) == [1, 2]
    assert "x-key" not in answer


@pytest.mark.parametrize(
    ("document", "arguments", "sent"),
    [
        (
            operation(body="application/x-www-form-urlencoded", fields=LIMITS),
            {"limits": {"max": 5}, "ok": True, "tags": ["a", "b"]},
            {"content-type": "application/x-www-form-urlencoded", "body": "limits%5Bmax%5D=5&ok=true&tags=a&tags=b"},
        ),
        (OLDER_FORM, {"a": "b c"}, {"content-type": "application/x-www-form-urlencoded", "body": "a=b+c"}),
        (operation(body="text/plain"), {"body": "hello"}, {"content-type": "text/plain", "body": "hello"}),
        (operation(body="text/plain"), {}, {"body": ""}),
        (
            operation(body="*/*", fields={"ok": TEXT}),
            {"ok": "a"},
            {"content-type": "application/json", "body": '{"ok": "a"}'},
        ),
        (OLDER_BODY, {"ok": True}, {"content-type": "application/json", "body": '{"ok": true}'}),
        (
            operation(body="application/vnd.api+json", fields={"a": TEXT}),
            {"a": "b"},
            {"content-type": "application/vnd.api+json", "body": '{"a": "b"}'},
        ),
        (operation({**IDS, "in": "query"}), {"ids": ["1", "2"]}, {"query": "ids=1&ids=2"}),
        (operation({**IDS, "in": "query", "explode": False}), {"ids": ["1", "2"]}, {"query": "ids=1%2C2"}),
        (operation({**IDS, "in": "header"}), {"ids": ["1", "2"]}, {"ids": "1,2"}),
        (operation(WHERE), {"where": {"a": 1, "b": ["x", "y"]}}, {"query": "a=1&b=x&b=y"}),
        (operation({**WHERE, "style": "deepObject"}), {"where": {"a": 1}}, {"query": "where%5Ba%5D=1"}),
        (operation({**WHERE, "explode": False}), {"where": {"a": 1, "b": "x"}}, {"query": "where=a%2C1%2Cb%2Cx"}),
        (operation({**WHERE, "in": "header", "name": "ids"}), {"ids": {"a": 1, "b": "x"}}, {"ids": "a,1,b,x"}),
        (
            operation({**WHERE, "in": "header", "name": "ids", "explode": True}),
            {"ids": {"a": 1, "b": "x"}},
            {"ids": "a=1,b=x"},
        ),
        (
            OLDER_BODY | {"consumes": ["application/xml", "application/json"]},
            {"ok": True},
            {"content-type": "application/json", "body": '{"ok": true}'},
        ),
        (
            OLDER_BODY | {"consumes": ["application/xml"]},
            {"body": "<it/>"},
            {"content-type": "application/xml", "body": "<it/>"},
        ),
        (operation(**keyed("cookie", "sid")), {}, {"cookie": "sid=***"}),
        (operation(**keyed("cookie", "sid", "csrf")), {}, {"cookie": "sid=***; csrf=***"}),
        # A model's argument does not stand before the credential of the same name.
        (
            operation(argument("header", "Cookie"), **keyed("cookie", "sid")),
            {"Cookie": "sid=mine"},
            {"cookie": "sid=***"},
        ),
        (operation(argument("query", "Key"), **keyed("query", "key")), {"Key": "mine"}, {"query": "key=***"}),
        (operation(argument("header", "X-KEY"), **keyed("header", "x-key")), {"X-KEY": "mine"}, {"x-key": "***"}),
        (operation(AS_JSON), {"ids": {"a": 1}}, {"query": "ids=%7B%22a%22%3A1%7D"}),
        (operation({**AS_JSON, "in": "header"}), {"ids": {"a": 1}}, {"ids": '{"a":1}'}),
        (operation({**AS_TEXT, "in": "query"}), {"ids": "a,b"}, {"query": "ids=a%2Cb"}),
    ],
)
async def test_a_call_is_sent_in_the_form_of_its_operation(
    api: Api, document: dict[str, Any], arguments: dict[str, Any], sent: dict[str, str]
) -> None:
    answer = await api.call(document, arguments)
    assert answer | sent == answer


async def test_a_multipart_body_has_a_part_for_each_field(api: Api) -> None:
    document = operation(body="multipart/form-data", fields={"note": TEXT, "file": {**TEXT, "format": "binary"}})
    answer = await api.call(document, {"note": "n", "file": "content"})
    assert answer["content-type"].startswith("multipart/form-data; boundary=")
    assert 'name="note"\r\n\r\nn\r\n' in answer["body"]
    assert 'name="file"\r\n\r\ncontent\r\n' in answer["body"]


async def test_an_address_has_its_variables_and_an_operation_its_own(api: Api) -> None:
    template = {"url": "{place}/v2", "variables": {"place": {"default": api.url}}}
    document = operation(servers=[template])
    assert (await api.call(document, {}, url=""))["path"] == "POST /v2/do"
    document["paths"]["/do"]["servers"] = [{"url": f"{api.url}/own"}]
    assert (await api.call(document, {}, url=""))["path"] == "POST /own/do"
    assert (await api.call(document, {}))["path"] == "POST /do"
    document["paths"]["/do"]["servers"] = [{"url": "/other"}]
    assert (await api.call(document, {}, url=""))["path"] == "POST /other/do"


def test_a_model_is_not_asked_for_what_it_cannot_send() -> None:
    header = {"name": "Authorization", "in": "header", "required": True, "schema": TEXT}
    document = operation(header, body="application/json", fields={"id": {**TEXT, "readOnly": True}, "name": TEXT})
    (tool,) = Catalogue.from_openapi(document)
    assert tool.input_schema == {"type": "object", "properties": {"name": TEXT}}


@pytest.mark.parametrize(
    ("parameter", "fields", "message"),
    [
        (WHERE, {"api_key": "evil"}, "a field of 'where' would be sent as 'api_key', .* leave it out"),
        (WHERE, {"API_Key": {"a": "evil"}}, r"would be sent as 'API_Key\[a\]', .* leave it out"),
        (WHERE, {"tenant": "other"}, "would be sent as 'tenant', .* give it as the argument 'tenant'"),
        ({**WHERE, "style": "deepObject"}, {"max": 1}, r"would be sent as 'where\[max\]'"),
    ],
)
async def test_a_field_of_an_object_is_not_sent_as_another_parameter(
    api: Api, parameter: dict[str, Any], fields: dict[str, Any], message: str
) -> None:
    literal = {**TENANT, "name": "where[max]"}
    document = operation(parameter, TENANT, literal, **keyed("query", "api_key"))
    with pytest.raises(InvalidArguments, match=message):
        await api.call(document, {"where": fields, "tenant": "mine"})
    answer = await api.call(document, {"where": {"free": 1}, "tenant": "mine", "where[max]": "2"})
    assert "free" in answer["query"]


@pytest.mark.parametrize("value", ["a\nX-Key: mine", "Grüße", " a"])
async def test_a_header_that_http_cannot_send_is_refused(api: Api, value: str) -> None:
    document = operation(argument("header", "ids"))
    with pytest.raises(InvalidArguments, match="'ids' is sent as a header: give ASCII text"):
        await api.call(document, {"ids": value})


def test_the_schema_of_a_parameter_may_stand_in_its_content() -> None:
    (tool,) = Catalogue.from_openapi(operation(AS_JSON))
    assert (tool.input_schema or {})["properties"]["ids"] == INTEGERS


@pytest.mark.parametrize("style", ["label", "matrix"])
def test_an_operation_with_a_style_that_is_not_sent_is_left_out(style: str, caplog: pytest.LogCaptureFixture) -> None:
    document = operation({**IDS, "in": "path", "style": style})
    document["paths"]["/other"] = {"get": {"operationId": "kept"}}
    (tool,) = Catalogue.from_openapi(document)
    assert tool.name == "kept"
    assert (
        f"the operation POST /do is left out: the style {style!r} of its parameter 'ids' cannot be sent" in caplog.text
    )


def test_a_nullable_field_takes_null() -> None:
    kinds = {**TEXT, "nullable": True, "enum": ["a"]}
    (tool,) = Catalogue.from_openapi(operation(body="application/json", fields={"kind": kinds}))
    assert (tool.input_schema or {})["properties"]["kind"] == {"type": ["string", "null"], "enum": ["a", None]}


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="server '/v3' has no host: give url=, for example https://HOST/v3"):
        OpenApiExecutor(operation(servers=[{"url": "/v3"}]))
    with pytest.raises(InvalidCatalogue, match="no OpenAPI description"):
        Catalogue.from_openapi({"paths": {}})
    with pytest.raises(InvalidConfig, match="no such scheme; its schemes: key, web"):
        OpenApiExecutor(API, url="https://a.example", credentials={"token": "x"})
    for scheme in ({"type": "http", "scheme": "Digest"}, {"type": "mutualTLS"}):
        document = operation(components={"securitySchemes": {"it": scheme}})
        with pytest.raises(InvalidConfig, match=r"credentials\['it'\]: the scheme '(digest|mutualtls)' cannot be sent"):
            OpenApiExecutor(document, url="https://a.example", credentials={"it": "secret"})
    with pytest.raises(InvalidConfig, match="names no server"):
        OpenApiExecutor(API)
    with pytest.raises(InvalidConfig, match="NO_SUCH_KEY"):
        OpenApiExecutor(API, url="https://a.example", credentials={"key": "${NO_SUCH_KEY}"})
