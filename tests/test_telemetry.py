"""Traces, metrics and the log of each entrance. Tasks and secrets stay out of them."""

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from opentelemetry import metrics, trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator import Connections, RouteHint, Router, telemetry
from tests.catalogues import EXAMPLES, sample
from tests.command_line import program
from tests.gateway import serving
from tests.imported import loaded
from tests.loopback import served
from tests.runner import Serve
from tests.servers.start import config, entry
from tests.user import User

CLEAR, VAGUE, NOTHING = "refund charge ch_3PqX twice", "the boardroom is ice cold, warm it up", "zzqx vrrm plonk"
SENTINEL = "Quetzalcoatl"
KEY = "token=s3cretkey1234567890abc"


class Seen:
    """The traces and metrics of a process with in-memory exporters, since the last look."""

    def __init__(self, spans: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self._spans, self._reader = spans, reader

    def spans(self) -> list[ReadableSpan]:
        found = [*self._spans.get_finished_spans()]
        self._spans.clear()
        return found

    def points(self, metric: str) -> list[dict[str, Any]]:
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        found = [one for scope in scopes for one in scope.metrics if one.name == metric]
        return [{**point.attributes, "value": point} for one in found for point in one.data.data_points]


@pytest.fixture(scope="module")
def providers() -> Iterator[tuple[InMemorySpanExporter, InMemoryMetricReader]]:
    """The process's providers, which it can be given once, for the tests of this file alone."""
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    telemetry._instruments.cache_clear()
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))
    yield spans, reader
    trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = None, Once()
    metrics._internal._METER_PROVIDER, metrics._internal._METER_PROVIDER_SET_ONCE = None, Once()
    telemetry._instruments.cache_clear()


@pytest.fixture
def seen(providers: tuple[InMemorySpanExporter, InMemoryMetricReader]) -> Seen:
    found = Seen(*providers)
    found.spans()
    return found


def named(spans: list[ReadableSpan], name: str) -> ReadableSpan:
    [found] = [span for span in spans if span.name == name]
    return found


def children(spans: list[ReadableSpan], parent: ReadableSpan) -> list[str]:
    return [span.name for span in spans if span.parent and span.parent.span_id == parent.context.span_id]


def written(spans: list[ReadableSpan]) -> str:
    return "".join(span.to_json() for span in spans)


async def test_a_route_is_a_retrieval_without_texts(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Router(sample()) as router:
        await router.route(f"{CLEAR} {SENTINEL}", limit=3, route_hint=RouteHint.KEYWORD)
        spans = seen.spans()
        route = named(spans, "retrieval local")
        assert children(spans, route)[:3] == ["load", "understand", "keyword"]
        assert "semantic" not in children(spans, route)
        known = {"gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": "local", "gen_ai.retrieval.top_k": 3}
        assert known.items() <= dict(route.attributes or {}).items()
        assert SENTINEL not in written(spans)
        assert "refund_charge" not in written(spans)
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        decision = await router.route(f"{VAGUE} {KEY}")
    spans = seen.spans()
    route = named(spans, "retrieval local")
    assert "semantic" in children(spans, route)
    attributes = dict(route.attributes or {})
    assert attributes["gen_ai.retrieval.query.text"] == f"{VAGUE} token=***"
    documents = json.loads(str(attributes["gen_ai.retrieval.documents"]))
    assert documents[0] == {"id": decision.matches[0].tool.key, "score": round(decision.matches[0].probability, 4)}


async def test_routes_and_outcomes_are_counted(seen: Seen, tmp_path: Path) -> None:
    def routes(stage: str) -> int:
        return sum(one["value"].value for one in seen.points("toolroute.routes") if one["toolroute.stage"] == stage)

    async with Router(store=str(tmp_path)) as router:
        assert router.store is not None
        router.store.replace_servers("local", {"stripe": [one for one in sample() if one.server == "stripe"]})
        nothing, some = routes("none"), routes("keyword") + routes("semantic")
        await router.route(NOTHING)
        decision = await router.route(CLEAR)
        await router.record(decision, used=["stripe:refund_charge"])
    assert (routes("none") - nothing, routes("keyword") + routes("semantic") - some) == (1, 1)
    assert {one["toolroute.gate.open"] for one in seen.points("toolroute.routes")} <= {True, False}
    [saved] = seen.points("toolroute.tokens_saved")
    assert saved["value"].value >= decision.tokens.before - decision.tokens.after
    [outcome] = [one for one in seen.points("toolroute.outcomes") if one["toolroute.ok"]]
    assert (outcome["toolroute.source"], outcome["value"].value) == ("api", 1)
    [claim] = seen.points("toolroute.confidence")
    assert (claim["toolroute.right"], claim["value"].count) == (True, 1)


async def test_a_call_is_traced_and_measured_once(seen: Seen) -> None:
    async with Connections(config(quick=entry("quick.py"))) as servers:
        await servers.call("quick:add", {"a": 1, "b": 2})
        assert not (await servers.call("quick:pid")).is_error
        [open_now] = seen.points("toolroute.connections")
        with pytest.raises(Exception, match="no tool 'nope'"):
            await servers.call("quick:nope")
        with pytest.raises(Exception, match="no server"):
            await servers.call(f"{SENTINEL}:add")
    spans = seen.spans()
    call = named(spans, "execute_tool quick:add")
    assert children(spans, call) == ["MCP send tools/call add"]
    tools = [dict(span.attributes or {}) for span in spans]
    operations = [one["gen_ai.tool.name"] for one in tools if one.get("gen_ai.operation.name") == "execute_tool"]
    assert operations == ["quick:add", "quick:pid", "quick:nope"]
    failed = named(spans, "execute_tool quick:nope")
    assert (failed.status.is_ok, dict(failed.attributes or {})["error.type"]) == (False, "UnknownTool")
    assert (open_now["toolroute.server"], open_now["value"].value) == ("quick", 1)
    counts = {one.get("error.type", ""): one["value"].count for one in seen.points("gen_ai.execute_tool.duration")}
    assert counts == {"": 2, "UnknownTool": 1}
    assert SENTINEL not in written(spans) + str(seen.points("gen_ai.execute_tool.duration"))
    assert [one["value"].value for one in seen.points("toolroute.connections")] == [0]


async def test_a_run_is_one_trace(seen: Seen, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "orchestrator")
    runner = await serve()
    with trace.get_tracer("user").start_as_current_span("mine") as mine:
        result, _ = await runner.run(f"What is the current time in Europe/Berlin? {SENTINEL}")
    assert [str(step.status) for step in result.steps] == ["done"]
    spans = [span for span in seen.spans() if span.context.trace_id == mine.get_span_context().trace_id]
    assert SENTINEL not in written(spans) + caplog.text
    assert "called time:get_current_time: ok in" in caplog.text
    for activity, work in {
        "route": "retrieval org:1",
        "plan": "plan org:1",
        "call_tool": "execute_tool time:get_current_time",
    }.items():
        assert work in children(spans, named(spans, f"RunActivity:toolroute.{activity}"))
    step = dict(named(spans, "step s1").attributes or {})
    assert (step["gen_ai.tool.name"], step["toolroute.step.status"]) == ("time:get_current_time", "done")
    assert children(spans, named(spans, "execute_tool time:get_current_time")) == [
        "MCP send tools/call get_current_time"
    ]


async def test_a_served_call_is_traced_to_its_server(seen: Seen, tmp_path: Path) -> None:
    servers = config(quick=entry("quick.py"))
    async with serving(tmp_path, servers) as served, served.client("local") as client:
        await client.call_tool("search", {"query": f"add two numbers {SENTINEL}"})
        await client.call_tool("call_tool", {"tool": "quick:add", "arguments": {"a": 1, "b": 2}})
    spans = seen.spans()
    assert "retrieval local" in children(spans, named(spans, "tools/call search"))
    assert children(spans, named(spans, "tools/call call_tool")) == ["execute_tool quick:add"]
    assert children(spans, named(spans, "execute_tool quick:add")) == ["MCP send tools/call add"]
    assert SENTINEL not in written(spans)


def test_without_a_provider_nothing_of_it_is_loaded() -> None:
    code = (
        "import asyncio; from orchestrator import Router;"
        f"asyncio.run(Router({str(EXAMPLES / 'tools.jsonl')!r}).route({CLEAR!r}, route_hint='keyword'))"
    )
    assert "opentelemetry" not in loaded(code)


@pytest.mark.slow
async def test_the_log_at_info_names_no_task(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLROUTE_STORE", str(user.path / "store"))
    task = f"What is the current time in Europe/Berlin? {SENTINEL} {KEY}"
    _, _, routed = await user.toolroute("-v", "route", task, "--catalogue", "tools.jsonl")
    assert "orchestrator.runtime: routed for local" in routed
    code, _, ran = await user.toolroute("-v", "--log-format", "json", *user.command(task, "--approve", "never"))
    assert code == 0, ran
    logged = [json.loads(line) for line in ran.splitlines()]
    packages = {one["logger"] for one in logged if one["level"] == "INFO"}
    assert {"orchestrator", "orchestrator.runtime", "orchestrator.mcp", "orchestrator.llm"} <= packages
    for said in (routed, ran, await _served(user, task)):
        assert SENTINEL not in said
        assert KEY[6:] not in said
    _, _, full = await user.toolroute("-vv", "route", task, "--catalogue", "tools.jsonl")
    assert SENTINEL in full
    assert KEY[6:] not in full


async def _served(user: User, task: str) -> str:
    """Return the standard error of `serve` while a client searches and calls."""
    said, command = user.path / "stderr.txt", ["-m", "orchestrator", "-v", "serve", "--approve", "never"]
    start = StdioServerParameters(command=sys.executable, args=command, env={**os.environ}, cwd=user.path)
    with said.open("w") as errors:
        async with Client(stdio_client(start, errlog=errors)) as client:
            await client.call_tool("search", {"query": task})
            called = {"tool": "time:get_current_time", "arguments": {"timezone": "UTC"}}
            assert not (await client.call_tool("call_tool", called)).is_error
    text = said.read_text()
    assert "orchestrator: called time:get_current_time: ok in" in text
    return text


def test_the_command_line_exports_to_the_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: dict[str, bytes] = {}

    async def take(request: Request) -> Response:
        taken[request.url.path] = await request.body()
        return Response(media_type="application/x-protobuf")

    with served(Starlette(routes=[Route("/v1/{signal}", take, methods=["POST"])])) as address:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        done = program("route", CLEAR, "--catalogue", str(EXAMPLES / "tools.jsonl"))
    assert (done.returncode, done.stderr) == (0, "")
    [resource] = ExportTraceServiceRequest.FromString(taken["/v1/traces"]).resource_spans
    assert {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"] == "toolroute"
    assert "retrieval local" in [span.name for scope in resource.scope_spans for span in scope.spans]
    assert b"toolroute.tokens_saved" in taken["/v1/metrics"]
