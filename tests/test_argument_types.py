"""An argument of a wrong type: the error names the parameter and says what to give."""

from collections.abc import Callable
from typing import Any

import pytest
from temporalio.common import RetryPolicy

from orchestrator import (
    Annotations,
    Capability,
    Catalogue,
    Connections,
    Decision,
    Delta,
    HttpExecutor,
    InvalidInput,
    McpConfig,
    Models,
    OpenApiExecutor,
    Options,
    OrchestratorPlugin,
    PlanRequest,
    Router,
    Source,
    Store,
    Tool,
    ToolRouter,
    UnknownSetting,
    preset,
    schedule_sync,
)
from tests.catalogues import sample
from tests.decisions import decision

ROUTER = Router(sample())
DECISION = decision("refund the charge")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Router(5), "catalogue=5: give a Catalogue, a path or a text"),
        (lambda: Router(sample(), capabilities=5), "capabilities=5: give a list"),
        (lambda: Router(sample(), servers="stripe"), "servers='stripe': give a list"),
        (lambda: Router(sample(), options={"gate": 1}), "options={'gate': 1}: give an Options"),
        (lambda: ROUTER.route("refund", limit="ten"), "limit='ten': give a whole number"),
        (lambda: ROUTER.route("refund", filters=["kind"]), r"filters=\['kind'\]: give a mapping"),
        (lambda: ROUTER.route("refund", conversation="hello"), "conversation='hello': give a list"),
        (lambda: ROUTER.record(DECISION, used=[], actor=5), "actor=5: give a text"),
        (lambda: ROUTER.record(DECISION, used=[], ok="yes"), "ok='yes': give True or False"),
        (lambda: ROUTER.restrict_to(["stripe"]), r"entries=\['stripe'\]: give a mapping"),
        (lambda: ToolRouter().call(DECISION, "a:b", ["x"]), r"arguments=\['x'\]: give a mapping"),
        (lambda: ToolRouter().run("refund", approval_timeout_s="soon"), "approval_timeout_s='soon': give a number"),
        (lambda: ToolRouter(route_options=3.5), "route_options=3.5: give a mapping of activity options"),
        (lambda: ToolRouter(5), "tenant=5: give a text"),
        (lambda: ToolRouter(plan_options={"task_queue": 5}), "task_queue=5: give a text"),
        (lambda: ToolRouter(call_options={"retry_policy": 3}), "retry_policy=3: give a RetryPolicy"),
        (
            lambda: ToolRouter(call_options={"retry_policy": RetryPolicy(maximum_attempts=-1)}),
            "maximum_attempts=-1.*: Maximum attempts cannot be negative; give another policy",
        ),
        (
            lambda: ToolRouter().call(DECISION, "a:b", start_to_close_timeout=5),
            "start_to_close_timeout=5: give a timedelta",
        ),
        (lambda: ToolRouter().approve(5), "step=5: give a text"),
        (lambda: PlanRequest(decision=DECISION, max_tokens=-1).validate(), "max_tokens=-1: give a number of tokens"),
        (lambda: OrchestratorPlugin(catalogue=[5]), r"catalogue=\[5\]: give a Catalogue"),
        (lambda: OrchestratorPlugin(catalogue="t.jsonl", executors=[len]), "executors=.*: give a mapping"),
        (lambda: OrchestratorPlugin(warm="two"), "warm='two': give a whole number"),
        (lambda: Catalogue(5), "tools=5: give a list, a path or a text"),
        (lambda: Catalogue.read(None), "path=None: give a path or a text"),
        (lambda: Catalogue.from_openapi(3.5), "document=3.5: give a mapping, a path or a text"),
        (lambda: OpenApiExecutor(["x"]), r"document=\['x'\]: give a mapping, a path or a text"),
        (lambda: HttpExecutor(None), "url=None: give a text"),
        (lambda: Models("gpt-5"), "options='gpt-5': give an Options"),
        (lambda: Store(5, embedder=len), "location=5: give a path or a text"),
        (lambda: Connections(None), "config=None: give a McpConfig, a mapping, a path or a text"),
        (lambda: preset(5), "name=5: give a text"),
        (lambda: schedule_sync("localhost", "org:a"), "client='localhost': give a Client"),
        (lambda: Router(sample(), servers=[5]), "servers has 5: give texts"),
        (lambda: Router(sample(), capabilities=[5]), "capabilities has 5: give Capability records"),
        (lambda: Router(stores=[Source(store=5)]), "store=5: give a folder, a URL or a Store"),
        (lambda: ROUTER.record(DECISION, used=[], source="me"), "source='me': give one of run, serve, api, import"),
        (lambda: ROUTER.with_catalogue(5), "catalogue=5: give a Catalogue"),
        (lambda: ROUTER.servers(5), "tenant=5: give a text"),
        (lambda: DECISION.delta(5), "previous=5: give the Decision or the Delta of the turn before"),
        (lambda: Delta.between(5, []), "seen=5: give a list"),
        (lambda: DECISION.to_json(definitions="openai"), "definitions='openai': give True or False"),
        (lambda: Decision.from_json(5), "data=5: give a mapping or a text"),
        (lambda: Capability(tool="f", phrases="ask now"), "phrases='ask now': give a tuple of texts"),
        (lambda: Annotations(read_only="false"), "read_only='false': give True, False or None"),
        (lambda: Tool(server="", name="x", relations=["a"]), r"relations=\['a'\]: give a tuple of Relation records"),
        (lambda: OrchestratorPlugin(stores=[5]), "stores has a int: give a list of folders"),
        (lambda: OrchestratorPlugin(catalogue="t.jsonl", embedder=5), "embedder is a int: give an Embedder"),
        (lambda: OrchestratorPlugin(catalogue="t.jsonl", models=5), "models=5: give a function that returns Models"),
        (lambda: OrchestratorPlugin(catalogue="t.jsonl", executors={5: len}), "executors has 5: give texts"),
        (lambda: HttpExecutor("http://x", timeout_s=-1), "timeout_s=-1: give seconds above 0"),
        (lambda: HttpExecutor("http://x", headers={"a": b"key"}), r"headers\['a'\] is a bytes: give a text"),
        (lambda: Models(Options(model="m"), tries=0), "tries=0: give 1 or more"),
        (lambda: McpConfig.of(5), "config=5: give a McpConfig, a mapping or a file's path"),
        (lambda: McpConfig.read(None), "path=None: give a path or a text"),
    ],
)
def test_a_wrong_type_names_its_parameter(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


def test_a_misspelt_interval_names_the_right_one() -> None:
    with pytest.raises(UnknownSetting, match="unknown setting 'evry'; did you mean 'every'"):
        schedule_sync(None, "org:a", evry=3)  # type: ignore[arg-type, call-arg]
