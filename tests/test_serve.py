"""The gateway behind `serve`: a tenant finds and calls its present tools, and is asked before a change."""

import asyncio
import getpass
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Implementation

from orchestrator import Approve, Kind, Router, Tool
from tests.catalogues import taking, tokens_of, tool
from tests.gateway import call_over_http, keys, serving
from tests.serve_program import write_servers
from tests.servers.real import python_entry
from tests.servers.start import alive, config, entry, free_port, owners, running, text_of
from tests.waiting import until

QUICK, PLAIN = entry("quick.py"), entry("plain.py")
pytestmark = pytest.mark.usefixtures("own_settings")
SILENT = entry("faulty.py", "mute", own={"connect_timeout_s": 600})
STILL_LISTED = ["the tools of server 'silent' were not searched: it is still being listed; try again soon"]
SUM = {"a": 1, "b": 2}


TIME = python_entry("mcp_server_time")


def gateway(folder: Path, servers: dict[str, Any] | None = None, **settings: Any) -> Any:
    return serving(folder, servers or config(quick=QUICK), **settings)


async def test_a_tenant_calls_only_what_it_has_now(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        await served.search()
        await served.replace("org:1", quick=[])
        assert "unknown tool 'quick:add'" in await served.refusal("quick:add", SUM)
        assert text_of(await served.call("quick:add", SUM, tenant="org:2")) == "3"
    assert owners() == []


async def test_servers_are_listed_as_soon_as_a_client_lists_the_tools(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(quick=QUICK)) as served, served.client() as client:
        await client.list_tools()
        await until(lambda: served.notes)
    assert re.fullmatch(r"quick: \d+ tools stored in .* s", served.notes[0])


async def test_a_tool_that_a_call_has_just_added_is_callable_at_once(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(library=PLAIN)) as served:
        await served.search()
        assert "unknown tool 'library:extended'" in await served.refusal("library:extended", {"text": "a"})
        await served.call("library:extend")
        assert text_of(await served.call("library:extended", {"text": "a"})) == "a"
        assert "library:extended" in keys(await served.search("a tool that was not there before"))


async def test_one_tenants_tool_is_unknown_to_another(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(quick=QUICK, time=TIME)) as served:
        for tenant in ("org:1", "user:1"):
            await served.search(tenant=tenant)
        await served.replace("org:1", time=[tool("time:payroll", "Show the payroll of the company")])
        assert (await served.search("show the payroll"))["matches"][0]["tool"] == "time:payroll"
        assert "time:payroll" not in keys(await served.search("show the payroll", 50, tenant="user:1"))
        refused = await served.refusal("time:payroll", tenant="user:1")
        assert "unknown tool 'time:payroll'" in refused
        assert "did you mean" not in refused


async def test_tools_that_cannot_be_called_here_are_not_offered_and_crowd_out_none_that_can(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        agents = [tool(f"agent{n}:add_{n}", "add two numbers", kind=Kind.AGENT) for n in range(5)]
        foreign = tool("elsewhere:add", "add two numbers")
        await served.replace("org:1", **{one.server: [one] for one in (*agents, foreign)})
        assert "quick:add" in keys(await served.search(limit=3))
        assert {key.partition(":")[0] for key in keys(await served.search(limit=50))} <= {"quick", "time"}
        assert "cannot be called through the gateway" in await served.refusal("agent1:add_1")


async def test_the_gateways_own_prefix_is_no_word_of_a_task(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(quick=QUICK)) as served:
        plain = await served.search("add two numbers")
        prefixed = await served.search("mcp__toolroute__call_tool add two numbers")
    assert prefixed["matches"] == plain["matches"]


async def test_a_search_shows_no_more_than_a_call_names_the_rest_and_calls_the_whole(tmp_path: Path) -> None:
    words = "what stands in this field of the form " * 20
    form = tool("quick:add", "Fill in the form", input_schema=taking("a", **{f"p{n}": words for n in range(100)}))
    needed = {f"{'long_' * 10}{n}": "what stands in this field" for n in range(200)}
    long = tool("time:form", "Fill in the long form", input_schema=taking(*needed, **needed))
    async with gateway(tmp_path, config(quick=QUICK, time=TIME)) as served:
        await served.search()
        agent = tool("agent:clerk", "Files letters", kind=Kind.AGENT)
        await served.replace("org:1", quick=[], time=[long], agent=[agent])
        found = await served.search("fill in the form", 1)
        assert keys(found) == {"time:form"}
        assert "time:form: the definition has more than" in str(found["warnings"])
        assert tokens_of(found) <= 1_000
        await served.replace("org:1", quick=[form], time=[])
        found = await served.search("fill in the form", 3)
        assert keys(found) == {"quick:add"}
        assert tokens_of(found) <= 8_500
        assert "p99: 5 is not of type 'string'" in await served.refusal("quick:add", {"a": "1", "p99": 5})


@pytest.mark.parametrize("called", ["add", "quik:add", "quick:ad"])
async def test_an_unknown_tool_is_answered_with_the_one_that_may_be_meant(tmp_path: Path, called: str) -> None:
    async with gateway(tmp_path, config(quick=QUICK)) as served:
        await served.search()
        assert re.search(r"did you mean (?:.* or )?quick:add\b", await served.refusal(called))


async def test_arguments_may_be_the_json_text_of_an_object_or_null(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served, served.client() as client:
        for given, answer in (
            ('{"a": 1, "b": 2}', "3"),
            ("[1, 2]", "InvalidArguments: call_tool: arguments are list, not an object"),
            ("a=1, b=2", "InvalidArguments: call_tool: arguments are not JSON"),
            ([1, 2], "InvalidArguments: arguments: "),
        ):
            result = await client.call_tool("call_tool", {"tool": "quick:add", "arguments": given})
            assert text_of(result).startswith(answer)
            assert result.is_error is (answer != "3")
        assert text_of(await client.call_tool("call_tool", {"tool": "quick:key", "arguments": None})) == "None"
        assert text_of(await client.call_tool("quick:add", SUM)) == "3", "a key in the place of a name"
        for name, wrong in (("search", {"query": "x", "limit": 500}), ("search", {}), ("call_tool", {"tool": 1})):
            assert "InvalidArguments" in text_of(await client.call_tool(name, wrong))


async def test_warming_connects_the_server_that_is_probably_needed_and_no_other(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(quick=QUICK, time=TIME)) as served:
        await served.search()
    async with gateway(tmp_path, config(quick=QUICK, time=TIME), warm=2) as served:
        await served.search("convert a time between time zones", 1)
        while [state["state"] for state in await served.states()] != ["known", "ready"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


# --- servers that the store does not hold yet


async def test_a_server_that_comes_up_late_is_named_until_then_and_found_from_then_on(tmp_path: Path) -> None:
    port = free_port()
    web = {"url": f"http://127.0.0.1:{port}/mcp"}
    async with gateway(tmp_path, config(quick=QUICK, web=web), retry_after_s=0.0, backoff_s=0.01) as served:
        for number in range(3):
            found = await served.search()
            assert "quick:add" in keys(found)
            assert ["server 'web'" in warning for warning in found["warnings"]] == ([] if number else [True])
            refused = await served.refusal("web:add", SUM)
            assert re.search("server 'web' has not been listed yet: listing it failed .*cannot be reached", refused)
        assert len([note for note in served.notes if note.startswith("web")]) == 1
        async with running("plain.py", port):
            while "web:add" not in keys(await served.search()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert text_of(await served.call("web:add", SUM)) == "3"


async def test_a_server_that_hangs_delays_no_search_once_a_server_is_known(tmp_path: Path) -> None:
    servers = config(quick=QUICK, silent=SILENT)
    async with gateway(tmp_path, servers, grace_s=0.0) as served:
        first = await served.search()
        assert "quick:add" in keys(first)
        assert first["warnings"] == STILL_LISTED
    async with gateway(tmp_path, servers) as served:  # Here a wait would last as long as the server hangs.
        async with asyncio.timeout(150):
            assert text_of(await served.call("quick:add", SUM)) == "3"
            assert (await served.search())["warnings"] == STILL_LISTED


async def test_a_call_waits_for_its_own_server_alone(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(quick=QUICK)) as served:
        await served.search()
    async with gateway(tmp_path, config(quick=QUICK, more=QUICK, silent=SILENT)) as served:
        async with asyncio.timeout(150):
            assert text_of(await served.call("more:add", SUM)) == "3"


async def test_another_projects_server_of_the_same_name_is_listed_again(tmp_path: Path) -> None:
    async with gateway(tmp_path, config(db=QUICK, quick=QUICK)) as served:
        assert {"db:pid", "db:crash_once"} <= keys(await served.search())
    async with gateway(tmp_path, config(db=entry("faulty.py", "restart"), quick=QUICK)) as served:
        assert "UnknownTool" in await served.refusal("db:pid")
        found = await served.search("the other tool")
        assert {key for key in keys(found) if key.startswith("db:")} == {"db:it", "db:other"}
    async with gateway(tmp_path, config(db={"command": "false"}, quick=QUICK)) as served:
        found = await served.search("the other tool")
        assert not any(key.startswith("db:") for key in keys(found))
        assert any("server 'db'" in warning for warning in found["warnings"])


async def test_what_cannot_be_called_here_neither_fills_a_search_nor_makes_it_sure(tmp_path: Path) -> None:
    store = Router(store=tmp_path / "store").store
    assert store is not None
    texts = ["Add two numbers", "Add a pair of numbers", "Add numbers", "Sum two numbers"]
    agents = [Tool(server="team", name=f"add_{n}", description=text, kind=Kind.AGENT) for n, text in enumerate(texts)]
    store.replace_server("org:1", "team", agents)
    others = [Tool(server="quick", name=f"add_numbers_{n}", description=text) for n, text in enumerate(texts)]
    store.replace_server("org:1", "quick", others, entry="0" * 24, file="/elsewhere/mcp.json")
    async with gateway(tmp_path, config(quick=QUICK)) as served:
        found = await served.search("add two numbers", 2, "auto")
        assert found["matches"][0]["tool"] == "quick:add"
        assert not [match for match in found["matches"] if "add_" in match["tool"]]
    async with gateway(tmp_path, config(time=python_entry("mcp_server_time"))) as served:
        found = await served.search("add two numbers", 2, "auto")
        assert (found["confidence"] < 0.5, len(found["matches"])) == (True, 2)


# --- a configuration that changes


async def test_what_the_file_names_now_is_searched_and_called_and_nothing_else(tmp_path: Path) -> None:
    file = write_servers(tmp_path / "mcp.json", quick=QUICK)
    async with gateway(tmp_path, config(quick=QUICK), file=file) as served:
        await served.search()
        pid = text_of(await served.call("quick:pid"))
        write_servers(file, quick=QUICK, library=PLAIN)
        await served.call("library:add", SUM)
        assert {"library:add", "quick:add"} <= keys(await served.search())
        assert text_of(await served.call("quick:pid")) == pid
        write_servers(file, library=PLAIN)
        assert "unknown tool 'quick:add'" in await served.refusal("quick:add", SUM)
        assert [state["server"] for state in await served.states()] == ["library"]
        await until(lambda: not alive(pid))


async def test_the_file_is_looked_at_beside_the_event_loop(tmp_path: Path) -> None:
    threads = list[str]()
    looked: Any = lambda: threads.append(threading.current_thread().name)  # noqa: E731
    async with gateway(tmp_path, config(quick=QUICK), changed=looked) as served:
        await served.states()
    assert threads
    assert threading.main_thread().name not in threads


async def test_a_file_that_cannot_be_read_takes_nothing_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write_servers(tmp_path / "mcp.json", quick=QUICK)
    async with gateway(tmp_path, config(quick=QUICK), file=file) as served:
        file.write_text('{"mcpServers": {', encoding="utf-8")
        for _ in range(2):
            assert text_of(await served.call("quick:add", SUM)) == "3"
        assert [message.rpartition("; ")[2] for message in caplog.messages] == [
            "the previous configuration stays in use"
        ]
        write_servers(file, quick=PLAIN)
        assert not (await served.call("quick:change")).is_error


async def test_calls_that_follow_a_clients_search_are_remembered_as_its_outcome(tmp_path: Path) -> None:
    desk = Implementation(name="desk", version="1")
    async with gateway(tmp_path) as served:
        async with served.client(client_info=desk) as client:
            await client.call_tool("search", {"query": "how much is one and two"})
            await served.call("quick:add", SUM, tenant="user:1")
            for _ in range(2):
                await client.call_tool("call_tool", {"tool": "quick:add", "arguments": SUM})
            await client.call_tool("search", {"query": "which zones are there"})  # No call follows it.
        store = served.store
    [outcome] = store.outcomes.read("org:1").outcomes
    assert (outcome.query, outcome.source, outcome.ok) == ("how much is one and two", "serve", True)
    assert [(use.tool, use.ok, bool(use.ms)) for use in outcome.used] == [("quick:add", True, True)] * 2
    assert outcome.actor == getpass.getuser(), "a name that a client gives itself identifies nobody"
    assert store.outcomes.read("user:1").outcomes == ()


async def test_a_call_that_ends_its_server_is_remembered_as_a_failure(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        await served.search("crash", 1, "auto")
        assert "quick" in await served.refusal("quick:crash")
        store = served.store
    [outcome] = store.outcomes.read("org:1").outcomes
    assert [(use.tool, use.ok) for use in outcome.used] == [("quick:crash", False)]


async def test_a_gateway_that_stops_blames_no_tool(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        await served.search("wait some seconds", 1, "auto")
        waiting = asyncio.create_task(served.call("quick:wait", {"seconds": 150}))
        await until(served.calls_in_flight)
        store = served.store
    await asyncio.gather(waiting, return_exceptions=True)
    assert store.outcomes.read("org:1").outcomes == ()


async def _booked(folder: Path, steps: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The tools that are booked on each task, after these searches (`?`) and calls (`!`)."""
    async with gateway(folder, config(quick=QUICK, time=TIME)) as served:
        for kind, words in steps:
            if kind == "?":
                await served.search(words, 1, "auto")
            else:
                given = {"quick:add": SUM, "time:get_current_time": {"timezone": "UTC"}}[words]
                await served.call(words, given)
        store = served.store
    return {task.query: [use.tool for use in task.used] for task in store.outcomes.read("org:1").outcomes}


ADD, NOW = "add two numbers", "get the current time"


@pytest.mark.parametrize(
    ("steps", "booked"),
    [
        # Two parts of one task, searched together.
        (
            [("?", ADD), ("?", NOW), ("!", "quick:add"), ("!", "time:get_current_time")],
            {ADD: ["quick:add"], NOW: ["time:get_current_time"]},
        ),
        # Other work has begun: another search follows the call.
        (
            [("?", ADD), ("!", "quick:add"), ("?", NOW), ("!", "quick:add")],
            {ADD: ["quick:add"]},
        ),
        # Both searches returned the tool: the later one has it.
        (
            [("?", ADD), ("!", "quick:add"), ("?", f"{ADD} again"), ("!", "quick:add")],
            {ADD: ["quick:add"], f"{ADD} again": ["quick:add"]},
        ),
        # It was a match, and was not returned.
        ([("?", ADD), ("!", "time:get_current_time")], {}),
    ],
)
async def test_a_call_belongs_to_the_search_that_returned_its_tool_until_other_work(
    tmp_path: Path, steps: list[tuple[str, str]], booked: dict[str, list[str]]
) -> None:
    assert await _booked(tmp_path, steps) == booked


async def test_a_call_of_another_session_belongs_to_no_search(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"org:1": "a" * 16}))
    async with gateway(tmp_path) as served:
        async with served.over_http(tokens, approve=Approve.NEVER) as web:
            _, found = await call_over_http(web, "a" * 16, "search", {"query": ADD})
            _, answer = await call_over_http(web, "a" * 16, "call_tool", {"tool": "quick:add", "arguments": SUM})
        store = served.store
    assert "quick:add" in found
    assert "3" in answer
    assert store.outcomes.read("org:1").outcomes == ()


async def test_a_call_under_way_belongs_to_its_search_though_another_follows(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        await served.search("wait some seconds", 1, "auto")
        waiting = asyncio.create_task(served.call("quick:wait", {"seconds": 1}))
        await until(served.calls_in_flight)
        await served.search(NOW, 1, "auto")
        await waiting
        store = served.store
    [outcome] = store.outcomes.read("org:1").outcomes
    assert (outcome.query, [use.tool for use in outcome.used]) == ("wait some seconds", ["quick:wait"])
