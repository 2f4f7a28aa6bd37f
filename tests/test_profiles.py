"""Profiles: the tools that a client may see and call, whatever it asks for, over stdio and HTTP."""

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.types import ElicitRequestFormParams, ElicitResult, LoggingMessageNotificationParams

from orchestrator import Approve, Catalogue, McpConfig, Router, RouteRequest, Tool
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.watch import WatchedConfig
from tests.catalogues import sample
from tests.gateway import call_over_http, serving
from tests.redefined import Redefined
from tests.servers.start import HERE, config, text_of

SENDER = "support-desk@example.com"
QUICK = {"command": sys.executable, "args": [str(HERE / "quick.py")]}
DESK = {"command": sys.executable, "args": [str(HERE / "desk.py")]}
PROFILES: dict[str, Any] = {
    "support": {
        "servers": ["desk"],
        "tools": ["desk:*", "!desk:delete_*"],
        "pinned": ["desk:list_emails", "desk:send_email"],
        "overrides": {
            "desk:send_email": {
                "name": "write_customer",
                "description": "Write to a customer.",
                "parameters": {
                    "sender": {"fixed": "${SENDER_ADDRESS}"},
                    "tags": {"hidden": True},
                    "to": {"description": "The customer's address."},
                },
                "annotations": {"idempotentHint": True},
            }
        },
    },
    "reader": {"tools": ["*:list_*"], "approve": "always"},
    "careless": {"approve": "never"},
    "safe": {"readOnly": True, "resources": False, "prompts": False, "approve": "never"},
}


def two_servers(**more: Any) -> dict[str, Any]:
    return {"mcpServers": {"desk": DESK, "quick": QUICK}, "profiles": {**PROFILES, **more}}


def configured(**more: Any) -> McpConfig:
    return McpConfig.parse(two_servers(**more))


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / "settings" / name)
    monkeypatch.setenv("SENDER_ADDRESS", SENDER)


@asynccontextmanager
async def connected(folder: Path, profile: str, mode: str = "auto") -> AsyncIterator[tuple[Client, list[str]]]:
    """Return a client of a profile, whose user accepts everything, and the texts that its user and its log received."""
    shown = list[str]()

    async def ask(_: object, params: ElicitRequestFormParams) -> ElicitResult:
        shown.append(str(params))
        return ElicitResult(action="accept", content={})

    async def log(params: LoggingMessageNotificationParams) -> None:
        shown.append(str(params))

    answers: Any = {"elicitation_callback": ask, "logging_callback": log}
    async with (
        serving(folder, two_servers()) as served,
        served.client("org:1", Approve.CHANGES, mode, {"profile": profile}, **answers) as client,
    ):
        yield client, shown


async def found(client: Client, query: str) -> dict[str, Any]:
    asked = {"query": query, "limit": 20, "route_hint": "semantic"}
    answer: dict[str, Any] = json.loads(text_of(await client.call_tool("search", asked)))
    return answer


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    return await client.call_tool("call_tool", {"tool": tool, "arguments": arguments})


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_hidden_tool_is_not_found_not_named_and_not_called(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, "support", mode) as (client, _):
        answers = [await found(client, query) for query in ("delete_email", "desk:delete_email of quick", "quick add")]
        assert {match["tool"] for one in answers for match in one["matches"]} == {
            "desk:list_emails",
            "desk:write_customer",
        }
        assert "delete" not in str(answers)
        for key in ("desk:delete_email", "quick:add", "desk:send_email", "desk__delete_email", "delete_email"):
            refused = await called(client, key, number=1)
            assert refused.is_error
            unknown = text_of(await called(client, f"{key}x", number=1)).partition(" (did")[0]
            assert text_of(refused).partition(" (did")[0].replace(key, "") == unknown.replace(f"{key}x", "")
            direct = await client.call_tool(key, {"number": 1})
            described = await client.call_tool("search", {"describe": [key]})
            assert (direct.is_error, described.is_error) == (True, True)
            for name in ("delete_email", "quick:"):
                assert name not in text_of(refused).replace(key, ""), "no tool outside is named as the one meant"
        states = (await client.read_resource("toolroute://servers")).contents[0]
        assert "quick" not in str(states)
        assert "quick" not in str(client.instructions)


async def test_a_read_only_profile_has_only_tools_that_read(tmp_path: Path) -> None:
    async with connected(tmp_path, "safe") as (client, _):
        keys = {match["tool"] for match in (await found(client, "list, send and delete emails"))["matches"]}
        assert "desk:list_emails" in keys
        assert not {"desk:delete_email", "desk:send_email", "quick:add"} & keys
        assert "unknown tool" not in text_of(await called(client, "desk:list_emails"))
        assert (await called(client, "desk:delete_email", number=1)).is_error


async def test_a_profile_hides_resources_and_prompts(tmp_path: Path) -> None:
    async with connected(tmp_path, "safe") as (client, _):
        assert [resource.name for resource in (await client.list_resources()).resources] == ["servers"]
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_prompts()).prompts == []


def test_a_pinned_name_has_room_for_a_clients_prefix() -> None:
    long = Tool(server="a.server.with.a.long.name", name="a_tool_with_quite_a_long_name_of_its_own")
    profile = McpConfig.parse(
        {"mcpServers": {long.server: QUICK}, "profiles": {"desk": {"pinned": [long.key]}}}
    ).profiles["desk"]
    [name] = profile.pinned([long])
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", f"mcp__toolroute__{name}")


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_fixed_value_is_sent_never_shown_and_never_given_by_a_client(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, "support", mode) as (client, shown):
        if mode == "legacy":
            await client.set_logging_level("debug")
        answer = await found(client, "write to a customer")
        match = next(one for one in answer["matches"] if one["tool"] == "desk:write_customer")
        assert match["description"] == "Write to a customer."
        assert match["input_schema"]["properties"].keys() == {"to", "subject"}
        assert match["input_schema"]["properties"]["to"]["description"] == "The customer's address."

        async def noted(progress: float, total: float | None, message: str | None) -> None:
            shown.append(str(message))

        to = {"to": "a@example.com", "subject": "Hi"}
        asked = {"tool": "desk:write_customer", "arguments": to}
        sent = await client.call_tool("call_tool", asked, progress_callback=noted)
        failed = await called(client, "desk:write_customer", **{**to, "to": "nobody"})
        assert (sent.is_error, failed.is_error) == (False, True)
        received = json.loads(text_of(sent))
        assert received == {"to": "a@example.com", "subject": "Hi", "sender": "***", "tags": ""}
        for name in ("sender", "tags"):
            refused = await called(client, "desk:write_customer", **to, **{name: "mine@example.com"})
            assert f"takes no parameter '{name}'" in text_of(refused)
        described = text_of(await client.call_tool("search", {"describe": ["desk:write_customer"]}))
        assert "sender" not in described
        assert SENDER not in f"{shown} {sent} {failed} {answer} {await client.list_tools()}"
        assert mode != "legacy" or any("logged" in one for one in shown)
        assert any("write_customer" in one for one in shown), "the user was asked, by the name that the profile gives"


async def test_a_pinned_or_changed_tool_that_its_server_does_not_have_is_named_once(tmp_path: Path) -> None:
    misspelt = {
        "pinned": ["desk:list_mails", "desk:list_emails"],
        "overrides": {"desk:send_mail": {"parameters": {"sender": {"fixed": SENDER}}}},
    }
    async with (
        serving(tmp_path, two_servers(misspelt=misspelt)) as served,
        served.client(server={"profile": "misspelt"}) as client,
    ):
        await found(client, "list the mails")
        for _ in range(2):
            tools = {tool.name for tool in (await client.list_tools()).tools}
    assert "desk__list_emails" in tools
    lines = [line for line in served.notes if "its server has no tool" in line]
    assert [line.rpartition("no tool ")[2] for line in lines] == [
        "'desk:list_mails': correct the name",
        "'desk:send_mail': correct the name",
    ]


async def test_tools_are_described_although_another_is_unknown(tmp_path: Path) -> None:
    async with connected(tmp_path, "support") as (client, _):
        await found(client, "list the mails")
        answer = await client.call_tool("search", {"describe": ["desk:nothing", "desk:list_emails"]})
        described = json.loads(text_of(answer))
        assert [tool["tool"] for tool in described["tools"]] == ["desk:list_emails"]
        assert described["warnings"][0].startswith("unknown tool 'desk:nothing'")


async def test_pinned_tools_are_listed_beside_search_and_called_by_their_names(tmp_path: Path) -> None:
    async with connected(tmp_path, "support") as (client, _):
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [*listed] == ["search", "call_tool", "desk__list_emails", "desk__write_customer"]
        hints = listed["desk__write_customer"].annotations
        assert hints is not None
        assert hints.idempotent_hint is True
        assert "one" in text_of(await client.call_tool("desk__list_emails", {}))
        written = await client.call_tool("desk__write_customer", {"to": "a@example.com", "subject": "Hi"})
        assert json.loads(text_of(written))["subject"] == "Hi"
        refused = await client.call_tool("desk__write_customer", {"to": "a", "subject": "b", "sender": "c"})
        assert refused.is_error


async def test_a_pinned_tool_has_a_schema_that_models_accept(tmp_path: Path) -> None:
    """A provider refuses a whole request because of one schema."""
    branch = {
        "properties": {"due date": {"type": "integer", "exclusiveMinimum": True}, "of": {"$ref": "#/$defs/Missing"}},
        "required": ["due date"],
    }
    server = Redefined(tmp_path, {"name": "odd", "inputSchema": {"type": "object", "anyOf": [branch]}})
    servers = {**config(web=server.entry), "profiles": {"all": {"pinned": ["web:odd"]}}}
    async with serving(tmp_path, servers) as served, served.client(server={"profile": "all"}) as client:
        await called(client, "web:odd", **{"due date": 1})
        [_, _, listed] = (await client.list_tools()).tools
        schema = listed.input_schema
        assert schema.keys() == {"type", "properties", "required"}
        assert [*schema["properties"].values()] == [{"type": "integer"}, {}]
        [required] = schema["required"]
        assert re.fullmatch(r"due_date_\w{8}", required)
        assert text_of(await client.call_tool(listed.name, {required: 3})) == "done"


async def test_a_profile_has_its_own_approval_policy(tmp_path: Path) -> None:
    async with connected(tmp_path, "reader") as (client, shown):
        await called(client, "desk:list_emails")
        assert len(shown) == 1, "a tool that only reads is asked about"
    async with connected(tmp_path, "careless") as (client, shown):
        assert text_of(await called(client, "desk:delete_email", number=1)) == "deleted 1"
        assert not shown


async def test_a_name_given_to_another_tool_hides_the_tool_that_has_it(tmp_path: Path) -> None:
    swapped = {
        "tools": ["desk:*_email*"],
        "overrides": {
            "desk:list_emails": {"name": "delete_email"},
            "desk:delete_email": {"name": "list_emails"},
            "desk:send_email": {"name": "add"},
        },
    }
    profile = configured(swapped=swapped).profiles["swapped"]
    keys = ("desk:list_emails", "desk:delete_email", "desk:add", "desk:send_email")
    assert [profile.key(key) for key in keys] == ["desk:delete_email", "desk:list_emails", "desk:send_email", ""]
    covering = configured(one={"overrides": {"desk:send_email": {"name": "list_emails"}}}).profiles["one"]
    assert covering.key("desk:list_emails") == "desk:send_email"
    assert (covering.has("desk:list_emails"), covering.has("desk:send_email")) == (False, True)


@pytest.mark.parametrize(
    ("spec", "has"),
    [
        ({}, [True, True, True]),
        ({"servers": []}, [False, False, False]),
        ({"tools": []}, [False, False, False]),
        ({"servers": ["de*"], "tools": ["*:*_emails"]}, [True, False, False]),
        ({"tools": ["!*:delete_*"]}, [True, False, True]),
        ({"servers": ["quick"], "tools": ["desk:*"]}, [False, False, False]),
    ],
)
def test_a_profile_has_what_its_patterns_say_and_an_empty_list_leaves_nothing(spec: Any, has: list[bool]) -> None:
    profile = configured(one=spec).profiles["one"]
    keys = ("desk:list_emails", "desk:delete_email", "quick:add")
    assert [profile.has(key) for key in keys] == has


@pytest.mark.parametrize(
    ("profiles", "message"),
    [
        ([], '"profiles" must be an object'),
        ({"a b": {}}, "1 to 64 letters"),
        ({"p": {"server": ["a"]}}, "profile 'p': server: Extra inputs"),
        ({"p": {"tools": ["add"]}}, "'add' names no tool: write SERVER:NAME"),
        ({"p": {"approve": "maybe"}}, "profile 'p': approve"),
        ({"p": {"overrides": {"a:b": {"name": "x:y"}}}}, "overrides.a:b.name"),
        ({"p": {"overrides": {"a:b": {"name": "c"}, "a:d": {"name": "c"}}}}, "the same name"),
        ({"p": {"overrides": {"a:b": {"annotations": {"readOnly": True}}}}}, "annotations.readOnly"),
        ({"p": {"overrides": {"a:b": {"parameters": {"x": {"fixd": "topsecret"}}}}}}, "parameters.x.fixd"),
    ],
)
def test_a_profile_that_cannot_be_used_is_named_and_shows_no_value(profiles: Any, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message) as caught:
        McpConfig.parse({"mcpServers": {}, "profiles": profiles})
    assert "topsecret" not in str(caught.value)


def test_a_profile_alone_keeps_its_servers_and_an_unknown_one_is_refused() -> None:
    whole = {"mcpServers": {"desk": DESK, "quick": QUICK}, "profiles": PROFILES}
    assert [*McpConfig.parse(whole, profile="support").servers] == ["desk"]
    with pytest.raises(InvalidConfig, match="no profile 'nobody'; its profiles: support, reader, careless"):
        McpConfig.parse(whole, profile="nobody")


@pytest.mark.parametrize("change", [{"fixed": SENDER}, {"hidden": True}])
async def test_a_misspelt_parameter_stops_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    own = {"overrides": {"desk:send_email": {"parameters": {"sendr": change}}}}
    monkeypatch.setitem(PROFILES, "support", own)
    async with connected(tmp_path, "support") as (client, _):
        refused = text_of(await called(client, "desk:send_email", to="a", subject="b", sender="c"))
        assert "InvalidConfig: mcpServers: profile 'support': desk:send_email has no parameter 'sendr'" in refused
        assert "its parameters: to, subject, sender, tags" in refused


def test_a_pinned_tool_outside_the_profile_is_an_error_and_an_unknown_server_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for outside in ("quick:add", "desk:delete_email"):
        with pytest.raises(InvalidConfig, match=f"profile 'p': the pinned tool '{outside}' is not in the profile"):
            configured(p={"servers": ["desk"], "tools": ["!desk:delete_*"], "pinned": [outside]})
    slips = {"servers": ["desk", "dsek"], "tools": ["qick:*", "!*:add"], "overrides": {"de:a": {}}}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"desk": DESK}, "profiles": {"p": slips, "all": {"servers": ["de*"]}}}))
    watched = WatchedConfig(file, "all")
    assert [one.getMessage() for one in caplog.records] == [
        f"{file}: profile 'p': no server matches 'dsek', 'de', 'qick': correct the name, or add the server"
    ]
    file.write_text(json.dumps({"mcpServers": {"dsek": DESK}, "profiles": {"all": {"servers": ["desk"]}}}))
    assert watched.changed()
    assert "profile 'all': no server matches 'desk'" in caplog.text


async def test_a_missing_variable_of_a_fixed_value_stops_that_call_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SENDER_ADDRESS")
    async with connected(tmp_path, "support") as (client, _):
        refused = text_of(await called(client, "desk:write_customer", to="a", subject="b"))
        assert "SENDER_ADDRESS (in sender)" in refused
        assert not (await called(client, "desk:list_emails")).is_error


async def test_a_request_routes_within_patterns_of_keys_alone() -> None:
    async with Router(Catalogue(sample())) as router:
        task = "refund the charge of the customer"
        whole = await router.route(task)
        first = whole.matches[0].tool
        others = await router.route(RouteRequest(query=task, tenant="local", only=(f"!{first.key}",)))
        own = await router.route(RouteRequest(query=task, tenant="local", only=(f"{first.server}:*",)))
    assert first.key not in {match.tool.key for match in others.matches}
    assert {match.tool.server for match in own.matches} == {first.server}


TOKENS = {"whole": "w" * 16, "support": "s" * 16, "slow": "l" * 16}


@asynccontextmanager
async def over_http(folder: Path, only: str = "", **more: Any) -> AsyncIterator[httpx2.AsyncClient]:
    path = folder / "tokens.json"
    support = {"token": TOKENS["support"], "profile": "support"}
    slow = {"token": TOKENS["slow"], "calls_per_minute": 2}
    path.write_text(json.dumps({"org:1": [TOKENS["whole"], support, slow]}))
    async with serving(folder, two_servers()) as served, served.over_http(path, only, **more) as web:
        yield web


async def post(web: httpx2.AsyncClient, token: str, path: str, name: str, **arguments: Any) -> tuple[int, str]:
    return await call_over_http(web, TOKENS[token], name, arguments, path)


async def test_a_profile_is_chosen_by_path_or_token_and_no_token_leaves_its_own(tmp_path: Path) -> None:
    async with over_http(tmp_path) as web:

        async def deletes(token: str, path: str) -> tuple[int, bool]:
            status, text = await post(web, token, path, "call_tool", tool="desk:delete_email", arguments={"number": 1})
            return status, "unknown tool 'desk:delete_email'" in text

        assert await deletes("whole", "/mcp") == (200, False)
        assert await deletes("whole", "/mcp/support") == (200, True)
        assert await deletes("support", "/mcp") == (200, True)
        assert await deletes("support", "/mcp/support") == (200, True)
        assert (await deletes("support", "/mcp/careless"))[0] == 403
        assert (await deletes("whole", "/mcp/nobody"))[0] == 404
        assert (await web.post("/mcp/support", json={})).status_code == 401
    async with over_http(tmp_path, "support") as web:
        assert await deletes("whole", "/mcp") == (200, True)
        assert (await deletes("whole", "/mcp/careless"))[0] == 403


async def test_a_token_calls_no_more_often_than_it_may(tmp_path: Path) -> None:
    async with over_http(tmp_path) as web:
        answers = [(await post(web, "slow", "/mcp", "search", query="add"))[1] for _ in range(3)]
        assert ["Busy: too many calls: this token may make 2 calls a minute" in one for one in answers] == [
            False,
            False,
            True,
        ]
        assert "Busy" not in (await post(web, "whole", "/mcp", "search", query="add"))[1], "another token is free"


async def test_health_needs_no_token_and_says_nothing_of_tenants(tmp_path: Path) -> None:
    async with over_http(tmp_path) as web:
        healthy = [await web.get(path) for path in ("/healthz", "/readyz")]
        assert [(one.status_code, one.text) for one in healthy] == [(200, "ok\n"), (200, "ready\n")]

    async def away() -> bool:
        return False

    async with over_http(tmp_path, ready=away) as web:
        assert (await web.get("/readyz")).status_code == 503
        assert (await web.get("/healthz")).status_code == 200


def test_a_value_may_stand_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("hunter2hunter2\n")
    entry = {"url": "https://example.com/mcp", "headers": {"Authorization": f"Bearer ${{file:{secret}}}"}}
    (spec,) = McpConfig.parse({"mcpServers": {"a": entry}}).servers.values()
    launch = spec.launch()
    assert launch.headers["Authorization"] == "Bearer hunter2hunter2"
    assert "hunter2" not in launch.secrets.redact("it said hunter2hunter2")
    assert "hunter2" not in repr(spec) + spec.identity
    secret.unlink()
    with pytest.raises(InvalidConfig, match="No such file"):
        spec.launch()
    os.mkfifo(secret)
    with pytest.raises(InvalidConfig, match="not a regular file"):
        spec.launch()
