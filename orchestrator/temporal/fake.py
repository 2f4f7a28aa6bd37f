"""`FakeRouting`: a plugin for tests. Its activities give prepared answers, without a catalogue, servers or a model."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.activities import Activities
from orchestrator.activities.stages import StageActivities
from orchestrator.activities.working import working
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import check_arguments, parameters
from orchestrator.catalogue.tokens import count_tokens
from orchestrator.common.fields import named
from orchestrator.common.json_input import check_known
from orchestrator.common.keys import split_key
from orchestrator.errors import InvalidInput
from orchestrator.mcp.calls import Confirm
from orchestrator.mcp.sync import SyncReport
from orchestrator.planning.planner import finish
from orchestrator.records import durable_names as names
from orchestrator.records.call import SyncRequest, ToolCall, ToolResult
from orchestrator.records.completion import CompleteRequest, Completion
from orchestrator.records.decision import Decision
from orchestrator.records.findings import Findings
from orchestrator.records.outcome import RecordRequest
from orchestrator.records.plan import Plan, PlanRequest, Step
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import CatalogueVersion, Kind, Match, Stage, Tokens, Tool
from orchestrator.temporal.worker.plugin import OrchestratorPlugin
from orchestrator.temporal.worker.resources import Resources
from orchestrator.temporal.workflow.payload import NOTHING, as_result

Choice = str | tuple[str, Mapping[str, Any]]
"""A tool's key, alone or with the arguments of its step."""
Tasks = Mapping[str, Sequence[Choice]] | Callable[[RouteRequest], Sequence[Choice]]

_SCORE = 0.9


class FakeRouting(OrchestratorPlugin):
    """Replaces `OrchestratorPlugin` in tests. A task finds the tools that you name, and calls return your results.

    Arguments are checked, errors are retried and approvals wait as in production.

    Args:
        tasks: The tools of each task, best first, as keys or as `(key, arguments)`. A plan has one step per tool. A
            function gets the RouteRequest instead. An unknown task fails with InvalidInput.
        results: The answer of each tool: a value, a ToolResult, an exception to raise, or a function of the arguments.
            Default: the text "KEY: done".
        tools: Definitions of tools, if schemas and hints matter: a Catalogue, its file, or Tools and functions. Other
            tools take any argument, and are not known to only read.
        complete: Answers for the worker's language model. Default: the worker has none.

    Raises:
        InvalidConfig: `results` names a tool that is neither in `tasks` nor in `tools`.

    Attributes:
        routed: The requests that were routed, in order.
        calls: The calls that were made, in order, with failed attempts.
        recorded: The Outcomes that were recorded, in order.
        synced: The requests to sync the catalogue, in order.

    Examples:
        >>> from temporalio.client import Client
        >>> from orchestrator.testing import FakeRouting
        >>> fake = FakeRouting({"refund Ada": [("billing:refund", {"payment": "p-7"})]}, results={"billing:refund": 7})
        >>> async def connect(address: str) -> Client:
        ...     return await Client.connect(address, plugins=[fake])
    """

    @named
    def __init__(
        self,
        tasks: Tasks,
        *,
        results: Mapping[str, Any] | None = None,
        tools: Iterable[Tool | Callable[..., Any]] | str | Path = (),
        complete: Callable[[CompleteRequest], Completion] | None = None,
    ) -> None:
        super().__init__(catalogue=Catalogue())
        self.routed: list[RouteRequest] = []
        self.calls: list[ToolCall] = []
        self.recorded: list[RecordRequest] = []
        self.synced: list[SyncRequest] = []
        self._tasks, self._results, self._complete = tasks, dict(results or {}), complete
        self._tools = {tool.key: tool for tool in Catalogue(tools)}
        if not callable(tasks):
            chosen = [self._tool(choice).key for choices in tasks.values() for choice in choices]
            check_known("results", self._results, [*self._tools, *chosen])

    def _with_activities(self, existing: Sequence[Callable[..., Any]] | None) -> Sequence[Callable[..., Any]]:
        given = list(existing or ())
        ours = any(isinstance(getattr(function, "__self__", None), _FakeActivities) for function in given)
        return given if ours else [*given, *_FakeActivities(self).all()]

    def _chosen(self, request: RouteRequest) -> Sequence[Choice]:
        if callable(self._tasks):
            return self._tasks(request)
        if request.query not in self._tasks:
            raise InvalidInput(f"FakeRouting has no tools for the task {request.query!r}; its tasks: {[*self._tasks]}")
        return self._tasks[request.query]

    def _tool(self, choice: Choice) -> Tool:
        key = choice if isinstance(choice, str) else choice[0]
        server, name = split_key(key)
        return self._tools.get(key) or Tool(server=server, name=name, kind=Kind.AGENT)

    def _decision(self, request: RouteRequest) -> Decision:
        request.validate()
        chosen = [self._tool(choice) for choice in self._chosen(request)]
        tools = list({tool.key: tool for tool in chosen}.values())
        return Decision(
            query=request.query,
            tenant=request.tenant,
            stage=Stage.KEYWORD if tools else Stage.NONE,
            confidence=_SCORE if tools else 0.0,
            gate_confidence=_SCORE if tools else 0.0,
            semantic_ran=False,
            matches=tuple(Match(tool=tool, score=_SCORE, why="named by the test") for tool in tools),
            recommended=tuple(tool.key for tool in tools),
            servers=tuple(dict.fromkeys(tool.server for tool in tools if tool.kind is Kind.MCP)),
            tokens=Tokens(before=0, after=0, counted_by="estimate"),
            catalogue=CatalogueVersion(fingerprint="fake", tools=len(tools)),
        )

    def _plan(self, request: PlanRequest) -> Plan:
        decision = request.decision
        chosen = self._chosen(RouteRequest(query=decision.query, tenant=decision.tenant))
        steps = tuple(self._step(f"s{place}", choice, request) for place, choice in enumerate(chosen, 1))
        return finish(request, steps, ("planned by the test",))

    def _step(self, name: str, choice: Choice, request: PlanRequest) -> Step:
        tool, own = self._tool(choice), dict(() if isinstance(choice, str) else choice[1])
        schema = parameters(tool)
        given = {**request.arguments, **_of_step(name, request.arguments)}
        own |= {parameter: given[parameter] for parameter in schema["properties"] if parameter in given}
        missing = tuple(parameter for parameter in schema.get("required", ()) if parameter not in own)
        return Step(id=name, task=request.decision.query, tool=tool.key, arguments=own, missing=missing)

    async def _answer(self, call: ToolCall) -> ToolResult:
        answer = self._results.get(call.tool.key, f"{call.tool.key}: done")
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer(**call.arguments)
            answer = await answer if inspect.isawaitable(answer) else answer
        result = as_result(answer)
        return replace(result, tokens=result.tokens or count_tokens(result.text))

    def _completion(self, request: CompleteRequest) -> Completion:
        if self._complete is None:
            raise InvalidInput("FakeRouting has no model: give complete=, a function of the CompleteRequest")
        return self._complete(request)


def _of_step(step: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for only this step, which are named like `s1.path`."""
    return {name.removeprefix(f"{step}."): value for name, value in arguments.items() if name.startswith(f"{step}.")}


class _FakeResources(Resources):
    """The resources that the activities of a worker use."""

    def __init__(self, fake: FakeRouting) -> None:
        router: Any = self
        super().__init__(lambda: router, results_in=lambda: Path("no-store"))
        self._fake = fake

    async def router(self) -> Any:
        return self

    async def route(self, request: RouteRequest) -> Decision:
        self._fake.routed.append(request)
        return self._fake._decision(request)  # noqa: SLF001

    async def record(self, query: str, **fields: Any) -> None:
        self._fake.recorded.append(RecordRequest(query=query, **fields))

    async def limited(self, decision: Decision) -> Decision:
        return decision

    async def execute(self, call: ToolCall, confirm: Confirm | None = None) -> ToolResult:
        self._fake.calls.append(call)
        check_arguments(call.tool, call.arguments)
        return await self._fake._answer(call)  # noqa: SLF001

    async def present(self, call: ToolCall) -> Tool:
        check_arguments(call.tool, call.arguments)
        return call.tool

    async def sync(self, request: SyncRequest) -> SyncReport:
        self._fake.synced.append(request)
        return SyncReport(tenant=request.tenant, servers=())


class _FakeStages(StageActivities):
    """The first stage finds nothing, with an open gate, and the last stage returns the Decision."""

    async def _find(self, given: RawValue, before: RawValue | None, activity: str) -> Findings:
        skips = (names.DETECT_EXPLICIT_SERVER, names.SEMANTIC_FALLBACK)
        return Findings(gate_open=True, skips=skips)

    @activity.defn(name=names.MERGE)
    async def merge(self, request: RawValue, before: RawValue = NOTHING, keyword_alone: str = "") -> Decision:
        async with working(request, RouteRequest) as asked:
            router: Any = await self.resources.router()
            decision: Decision = await router.route(asked)
            return decision


class _FakeActivities(Activities):
    stages = _FakeStages

    def __init__(self, fake: FakeRouting) -> None:
        super().__init__(_FakeResources(fake))
        self._fake = fake

    @activity.defn(name=names.PLAN)
    async def plan(self, given: RawValue) -> Plan:
        async with working(given, PlanRequest) as request:
            return self._fake._plan(request)  # noqa: SLF001

    @activity.defn(name=names.COMPLETE)
    async def complete(self, given: RawValue) -> Completion:
        async with working(given, CompleteRequest) as request:
            return self._fake._completion(request)  # noqa: SLF001
