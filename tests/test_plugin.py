import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.plugin import SimplePlugin
from temporalio.worker import Replayer, Worker

from orchestrator import (
    Catalogue,
    Decision,
    Kind,
    McpConfig,
    OrchestratorPlugin,
    Router,
    RouteRequest,
    Tool,
    ToolCall,
)
from orchestrator.errors import InvalidConfig, ServerUnavailable, UnknownTool
from orchestrator.temporal.worker import resources as worker_resources
from orchestrator.temporal.worker.resources import Resources
from orchestrator.temporal.worker.servers_by_tenant import ServersByTenant
from tests.decisions import NOW
from tests.my_workflow import Assistant
from tests.runner import Serve
from tests.running import SERVERS, TENANT, plugin_over
from tests.servers.start import config, entry
from tests.temporal import DEPLOYMENT, working
from tests.waiting import until


async def routed(client: Client, task_queue: str) -> Decision:
    request = RouteRequest(query="Read the file a.txt", tenant=TENANT)
    decision: Decision = await client.execute_workflow(
        "toolroute.route", request, id=f"route-{uuid4().hex[:8]}", task_queue=task_queue, result_type=Decision
    )
    return decision


@pytest.mark.filterwarnings("ignore:The same plugin type:UserWarning")
@pytest.mark.parametrize(("on_client", "on_worker"), [(True, False), (False, True), (True, True)])
async def test_it_registers_once_on_client_worker_or_both(
    temporal_address: str, task_queue: str, on_client: bool, on_worker: bool
) -> None:
    plugin = plugin_over()
    client = await Client.connect(temporal_address, plugins=[plugin] * on_client)
    async with working(client, task_queue, plugins=[plugin] * on_worker):
        assert (await routed(client, task_queue)).recommended
    if on_client:
        with pytest.raises(InvalidConfig, match="give one plugin to the client"):
            Worker(client, task_queue=task_queue, plugins=[plugin_over()], deployment_config=DEPLOYMENT)


async def test_it_composes_with_other_plugins(
    temporal_address: str, task_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-used")  # that plugin makes a client at once; nothing is called
    from temporalio.contrib.openai_agents import OpenAIAgentsPlugin

    @activity.defn
    async def theirs() -> str:
        return "theirs"

    others = [OpenAIAgentsPlugin(), SimplePlugin("other", activities=[theirs], workflows=[Assistant])]
    client = await Client.connect(temporal_address, plugins=[*others, plugin_over()])
    async with working(client, task_queue):
        assert (await routed(client, task_queue)).recommended == ("files:read_file",)


class Turned(PayloadCodec):
    """Replaces an encryption: it reverses every payload's bytes."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        data = (payload.SerializeToString()[::-1] for payload in payloads)
        return [Payload(metadata={"encoding": b"binary/turned"}, data=turned) for turned in data]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(payload.data[::-1]) for payload in payloads]


@pytest.mark.parametrize(
    "converter",
    [pydantic_data_converter, replace(DataConverter.default, payload_codec=Turned())],
    ids=["pydantic", "codec"],
)
async def test_the_users_own_data_converter_stays(
    temporal_address: str, task_queue: str, converter: DataConverter
) -> None:
    plugin = plugin_over()
    client = await Client.connect(temporal_address, plugins=[plugin], data_converter=converter)
    async with working(client, task_queue, workflows=[Assistant]):
        handle = await client.start_workflow(
            Assistant.run, "Read the file a.txt", id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue
        )
        assert await handle.result() == ["files:read_file", "read_file a.txt", "read_file a.txt"]
        replayer = Replayer(workflows=[Assistant], plugins=[plugin], data_converter=converter)
        await replayer.replay_workflow(await handle.fetch_history())


async def test_nothing_is_opened_before_an_activity_asks_and_all_is_closed_after() -> None:
    plugin = plugin_over()
    call = ToolCall(tenant=TENANT, tool=NOW, arguments={"timezone": "UTC"})
    async with plugin.resources.held():
        async with plugin.resources.held():
            assert not _children()
            assert "UTC" in (await plugin.resources.execute(call)).text
        assert _children()
    assert not _children()


async def test_beyond_the_most_tenants_the_one_served_longest_ago_loses_its_connections_unless_it_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orchestrator.temporal.worker.servers_by_tenant.MAX_TENANTS", 3)
    plugin = OrchestratorPlugin(catalogue="unused.jsonl", mcp_servers=config(quick=entry("quick.py")))
    resources = plugin.resources

    def call(tenant: str, name: str, **arguments: float) -> ToolCall:
        return ToolCall(tenant=tenant, tool=Tool(server="quick", name=name), arguments=arguments)

    async with resources.held():
        busy = asyncio.create_task(resources.execute(call("org:1", "wait", seconds=2)))
        await until(lambda: bool((held := resources.connections("org:1")) and held.states()[0].calls_in_flight))
        for tenant in ("org:2", "org:3", "org:4"):
            await resources.execute(call(tenant, "pid"))
        kept = [resources.connections(f"org:{number}") is not None for number in (1, 2, 3, 4)]
        assert kept == [True, False, True, True]
        assert (await busy).text == "waited"
    assert not _children()


async def test_a_users_worker_keeps_its_own_options(temporal_address: str, task_queue: str) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    plain = await Client.connect(temporal_address)
    ours = Worker(client, task_queue=task_queue, deployment_config=DEPLOYMENT).config()
    theirs = Worker(plain, task_queue=task_queue, workflows=[Assistant], deployment_config=DEPLOYMENT).config()
    for option in (
        "max_concurrent_activities",
        "max_heartbeat_throttle_interval",
        "graceful_shutdown_timeout",
        "tuner",
    ):
        assert ours.get(option) == theirs.get(option)


def test_what_contradicts_itself_fails_where_it_is_written() -> None:
    with pytest.raises(InvalidConfig, match="both store and stores"):
        OrchestratorPlugin(store="folder", stores=["other"])
    with pytest.raises(InvalidConfig, match="by its key"):
        OrchestratorPlugin(executors={"files:": print})


def _children() -> list[str]:
    """The command lines of this process's children that are MCP servers."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # A thread or a child that has just ended.
            children = (task / "children").read_text().split()
            found += [child for child in children if "mcp_server_time" in Path(f"/proc/{child}/cmdline").read_text()]
    return found


async def test_a_worker_connects_ahead_what_the_matches_probably_need(temporal_address: str, task_queue: str) -> None:
    plugin = plugin_over(warm=2)
    client = await Client.connect(temporal_address, plugins=[plugin])
    async with working(client, task_queue):
        await routed(client, task_queue)
        assert plugin.resources.connections(TENANT) is None, "the file's tool is no MCP server's"
        asked = RouteRequest(query="Get the current time in Berlin", tenant=TENANT)
        await client.execute_workflow("toolroute.route", asked, id=f"route-{uuid4().hex[:8]}", task_queue=task_queue)

        def connected() -> list[str]:
            pool = plugin.resources.connections(TENANT)
            return [state.server for state in pool.states() if state.state == "ready"] if pool else []

        await until(lambda: connected() == ["time"])


def say(text: str) -> str:
    """Say a text."""
    return f"said {text}"


def test_names_that_no_tool_has_are_refused_when_the_plugin_is_made(tmp_path: Path) -> None:
    catalogue = Catalogue([say, NOW])
    with pytest.raises(InvalidConfig, match=r"executors: unknown name 'sya'; did you mean 'say'\?"):
        OrchestratorPlugin(catalogue=catalogue, executors={"sya": say})
    with pytest.raises(InvalidConfig, match=r"only_servers: unknown name 'tmie'; did you mean 'time'\?"):
        OrchestratorPlugin(catalogue=catalogue, only_servers=["tmie"])
    file = tmp_path / "tools.jsonl"
    file.write_text('{"server": "time", "name": "now"}\n')
    with pytest.raises(InvalidConfig, match=r"executors: unknown name 'time:nwo'; did you mean 'time:now'\?"):
        OrchestratorPlugin(catalogue=file, executors={"time:nwo": say})
    OrchestratorPlugin(catalogue=catalogue, executors={"say": say, "time:*": say, "mcp": say}, only_servers=["time"])
    OrchestratorPlugin(catalogue="on/the/worker.jsonl", executors={"a:b": say})


async def test_functions_of_a_catalogue_carry_out_their_own_calls() -> None:
    plugin = OrchestratorPlugin(catalogue=Catalogue.of(say))
    call = ToolCall(tenant=TENANT, tool=Catalogue.of(say)["say"], arguments={"text": "yes"})
    assert (await plugin.resources.execute(call)).text == "said yes"


async def test_functions_and_mcp_servers_are_routed_together(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_resources, "LISTING_WAIT_S", 150)  # A busy machine needs longer.
    runner = await serve(OrchestratorPlugin(catalogue=Catalogue.of(say), mcp_servers=SERVERS))
    for task, tool in (("say the text 'yes'", "say"), ("get the current time in Berlin", "time:get_current_time")):
        request = RouteRequest(query=task, tenant=TENANT)
        decision = await (await runner.begin("toolroute.route", request, result_type=Decision)).result()
        assert decision.recommended[0] == tool
    result, _ = await runner.run("say the text 'yes'")
    assert result.answer == "said yes"


@pytest.mark.parametrize("workflow_name", ["toolroute.route", "toolroute.route_staged"])
async def test_each_first_route_waits_until_the_servers_are_listed(
    workflow_name: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_resources, "LISTING_WAIT_S", 150)  # A busy machine needs longer.
    runner = await serve(OrchestratorPlugin(catalogue=Catalogue.of(say), mcp_servers=SERVERS))
    request = RouteRequest(query="get the current time in Berlin", tenant=f"org:{workflow_name}")
    routes = [await runner.begin(workflow_name, request, result_type=Decision) for _ in range(4)]
    decisions = [await route.result() for route in routes]
    assert {decision.recommended[:1] for decision in decisions} == {("time:get_current_time",)}


async def test_an_executor_for_no_tool_is_named(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    runner = await serve(OrchestratorPlugin(catalogue=Catalogue.of(say), store=":memory:", executors={"crm:f": say}))
    request = RouteRequest(query="say the text 'yes'", tenant=TENANT)
    for _ in range(2):
        await (await runner.begin("toolroute.route", request)).result()
    assert caplog.text.count("executors: tenant 'org:1' has no 'crm:f': add it") == 1


FIRST_CALL = """
import asyncio, sys
from tests.decisions import NOW
from tests.runner import Serve
from tests.running import SERVERS, TENANT, plugin_over
from orchestrator import ToolCall

async def main():
    plugin = plugin_over()
    async with plugin.resources.held():
        await plugin.resources.load_modules()
        before = set(sys.modules)
        await plugin.resources.execute(ToolCall(tenant=TENANT, tool=NOW, arguments={"timezone": "UTC"}))
        await plugin.resources.router()
        print([name for name in sys.modules.keys() - before if name.startswith(("orchestrator", "mcp"))])

asyncio.run(main())
"""


async def test_the_first_call_imports_nothing_of_ours() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", FIRST_CALL, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert out.decode().strip() == "[]"


def test_an_empty_store_beside_a_catalogue_is_the_users_store() -> None:
    OrchestratorPlugin(catalogue="examples/tools.jsonl", store="", entries={})
    with pytest.raises(InvalidConfig, match="entries has no effect without a store"):
        OrchestratorPlugin(catalogue="examples/tools.jsonl", entries={})


def _with_new_server(folder: Path) -> Resources:
    """The resources of a plugin with a store and a server that never answers."""
    hanging = config(hanging=entry("faulty.py", "mute"))
    plugin = OrchestratorPlugin(catalogue="examples/tools.jsonl", store=folder, mcp_servers=hanging)
    return plugin.resources


async def test_a_hanging_server_does_not_hold_a_first_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_resources, "LISTING_WAIT_S", 0.1)
    resources = _with_new_server(tmp_path)
    async with resources.held(), asyncio.timeout(60):
        router = await resources.router_awaiting_listing(TENANT)
        while "hanging" not in (unlisted := await _warnings(resources, router)):
            assert "were not searched" in unlisted
            await asyncio.sleep(0.1)
        assert "the tools of server 'hanging' were not searched: it is still being listed" in unlisted


async def test_later_uses_of_a_catalogue_do_not_wait_for_a_hanging_server_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_resources, "LISTING_WAIT_S", 0.1)
    resources = _with_new_server(tmp_path)
    async with resources.held(), asyncio.timeout(20):
        await resources.router_awaiting_listing(TENANT)
        monkeypatch.setattr(worker_resources, "LISTING_WAIT_S", 100)
        await resources.router_awaiting_listing(TENANT)


async def test_a_call_of_a_server_that_is_still_listed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_resources, "LISTING_WAIT_S", 0.1)
    resources = _with_new_server(tmp_path)
    async with resources.held(), asyncio.timeout(60):
        call = ToolCall(tool=Tool(server="hanging", name="ask", description="Ask", kind=Kind.MCP), tenant=TENANT)
        with pytest.raises(ServerUnavailable, match="server 'hanging' was not called: it is still being listed"):
            await resources.of_catalogue(call)
        unknown = replace(call, tool=replace(call.tool, server="other", hash=""))
        named = ""
        while "hanging" not in named:
            await asyncio.sleep(0.1)
            named = await _warnings(resources, await resources.router())
        with pytest.raises(UnknownTool):
            await resources.of_catalogue(unknown)


async def _warnings(resources: Resources, router: Router) -> str:
    decision = await router.route(RouteRequest(query="refund a charge", tenant=TENANT))
    return " ".join((await resources.limited(decision)).warnings)


async def test_an_error_of_a_listing_fails_no_later_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resources = _with_new_server(tmp_path)
    read = ServersByTenant.configuration
    fails = iter([True])

    async def configuration(self: ServersByTenant, tenant: str) -> McpConfig:
        if next(fails, False):
            raise OSError("the disk is full")
        return await read(self, tenant)

    monkeypatch.setattr(ServersByTenant, "configuration", configuration)
    monkeypatch.setattr(worker_resources, "LISTING_WAIT_S", 10)
    async with resources.held():
        with pytest.raises(OSError, match="the disk is full"):
            await resources.router_awaiting_listing(TENANT)
        monkeypatch.setattr(worker_resources, "LISTING_WAIT_S", 0.1)
        assert await resources.router_awaiting_listing(TENANT)
