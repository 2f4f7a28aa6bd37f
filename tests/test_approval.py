"""Approval: without a person's approval, only tools that change nothing are called, unless the policy allows more."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, strategies as st
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.worker import UnsandboxedWorkflowRunner

from examples import own_approval
from orchestrator import (
    Annotations,
    Approval,
    Approve,
    Catalogue,
    Kind,
    OrchestratorPlugin,
    RunRequest,
    RunResult,
    StepProgress,
    StepStatus,
    Tool,
    ToolCall,
    ToolRouter,
)
from orchestrator.errors import UnknownSetting
from orchestrator.index.intent import READING_VERBS, reads_only
from orchestrator.trust.approval_rules import needs_approval
from tests.my_workflow import Waiting
from tests.runner import Runner, Serve, statuses
from tests.running import TENANT
from tests.temporal import replays, until_step, working
from tests.waiting import until

ASKED = StepStatus.NEEDS_APPROVAL
Tool(server="first", name="tool")  # Makes the checks of its fields, which hypothesis would count as slow generation.
FLAG = st.sampled_from([None, True, False])
VERBS = [*READING_VERBS, "create", "getaway", "GetUser", "and", "or", "delete", "リスト"]
TOOLS = st.builds(
    lambda server, words, sep, hints, label: Tool(
        server=server,
        name=sep.join(words),
        annotations=Annotations(read_only=hints[0], destructive=hints[1], idempotent=hints[2]),
        labels={"read_only": label} if label else {},
    ),
    server=st.sampled_from(["files", "get", "list", "x"]),
    words=st.lists(st.sampled_from([*VERBS, "user", "files"]), min_size=1, max_size=4),
    sep=st.sampled_from(["_", "-", " ", ""]),
    hints=st.tuples(FLAG, FLAG, FLAG),
    label=st.sampled_from(["", "true", "false", "yes", "no", "TRUE", "maybe"]),
)


@given(TOOLS, st.sampled_from(Approve))
def test_no_tool_passes_without_a_word_unless_it_is_known_to_read_or_the_policy_allows_it(
    tool: Tool, approve: Approve
) -> None:
    hints, label = tool.annotations, tool.labels.get("read_only", "").lower()
    told_to_change = hints.read_only is False or bool(hints.destructive) or label in ("false", "no")
    reads = reads_only(tool)
    assert not (reads and told_to_change)
    if not needs_approval(tool, approve):
        harmless = approve is Approve.DESTRUCTIVE and hints.destructive is False
        assert approve is not Approve.ALWAYS
        assert reads or harmless or approve is Approve.NEVER


@given(TOOLS, st.sampled_from(Approve))
def test_a_stricter_policy_never_lets_more_pass(tool: Tool, approve: Approve) -> None:
    strict = [Approve.ALWAYS, Approve.CHANGES, Approve.DESTRUCTIVE, Approve.NEVER]
    waits = [needs_approval(tool, policy) for policy in strict]
    assert waits == sorted(waits, reverse=True)
    assert needs_approval(tool) == needs_approval(tool, Approve.CHANGES)


@pytest.mark.parametrize(
    ("name", "hints", "label"),
    [
        ("erase_disk", Annotations(), ""),
        ("erase_disk", Annotations(destructive=True), "true"),
        ("erase_disk", Annotations(destructive=False, idempotent=True), ""),
        ("get_or_erase_disk", Annotations(), ""),
        ("get_disk", Annotations(read_only=False), ""),
        ("list_disk", Annotations(), "no"),
    ],
)
async def test_no_tool_that_is_not_known_to_read_is_reached_when_nobody_approves(
    serve: Serve, name: str, hints: Annotations, label: str
) -> None:
    labels = {"read_only": label} if label else {}
    tool = Tool(
        server="disks", name=name, description="Erase a disk", kind=Kind.BUILTIN, annotations=hints, labels=labels
    )
    calls: list[ToolCall] = []
    runner = await serve(OrchestratorPlugin(catalogue=Catalogue([tool]), executors={"builtin": calls.append}))
    waiting: Any = {"approve": "changes", "approval_timeout_s": 0.1}
    result, _ = await runner.run("Erase a disk", min_confidence=0.0, **waiting)
    assert statuses(result) == ["needs_approval"]
    assert calls == []


@pytest.mark.parametrize(
    ("approve", "ends"),
    [
        ("changes", ["done", "needs_approval", "needs_approval"]),
        ("destructive", ["done", "needs_approval", "needs_approval"]),
        ("always", ["needs_approval"] * 3),
        ("never", ["done"] * 3),
    ],
)
async def test_each_policy_lets_its_own_tools_pass(runner: Runner, approve: str, ends: list[str]) -> None:
    task = "Read the file a.txt and delete the file b.txt and add a note titled 'x'"
    result, _ = await runner.run(task, approve=approve, approval_timeout_s=0.1)
    assert statuses(result) == ends
    assert len(runner.local.calls) == ends.count("done")


@pytest.fixture
async def asking(runner: Runner) -> AsyncIterator[tuple[WorkflowHandle[Any, RunResult], StepProgress]]:
    """Start a run with the default policy, in which two steps wait for approval. Return the first of them."""
    request = RunRequest(task="Delete the file a.txt and add a note titled 'x'", tenant=TENANT)
    handle = await runner.begin("toolroute.run", request, result_type=RunResult)
    await until_step(handle, "s1", ASKED)
    yield handle, (await until_step(handle, "s2", ASKED)).steps[0]
    await replays(await handle.fetch_history())


async def test_a_word_lets_one_step_go_or_ends_it(
    runner: Runner, asking: tuple[WorkflowHandle[Any, RunResult], StepProgress]
) -> None:
    handle, step = asking
    assert (step.arguments, runner.local.calls) == ({"path": "a.txt"}, [])
    await handle.execute_update("toolroute.approve", {"step": "s2", "allowed": False})
    with pytest.raises(WorkflowUpdateFailedError):  # a word is final
        await handle.execute_update("toolroute.approve", Approval(step="s2", digest=step.digest))
    await handle.execute_update("toolroute.approve", Approval(step="s1", digest=step.digest, by="ada"))
    assert statuses(await asyncio.wait_for(handle.result(), 120)) == ["done", "refused"]
    assert runner.local.calls == [("delete_file", {"path": "a.txt"})]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ({"step": "s3", "digest": "0"}, "step='s3' does not wait for approval; waiting: s1, s2"),
        ({"step": "s1"}, "digest='': give the digest that the run's progress shows"),
        ({"step": "s1", "digest": "0" * 12}, "the call of files:delete_file by step s1 has another digest"),
        ({"stp": "s1"}, "step: Field required"),
        ({"step": "s1", "yes": True}, "unknown field 'yes'"),
        ("s1", "Input should be an object"),
    ],
)
async def test_a_word_on_anything_but_the_call_that_waits_is_refused(
    runner: Runner, asking: tuple[WorkflowHandle[Any, RunResult], StepProgress], word: Any, said: str
) -> None:
    handle, step = asking
    with pytest.raises(WorkflowUpdateFailedError) as failure:
        await handle.execute_update("toolroute.approve", word)
    assert said in str(failure.value.cause)
    assert (await until_step(handle, "s1", ASKED)).steps[0].digest == step.digest
    assert runner.local.calls == []
    await handle.terminate()


async def test_a_users_workflow_hears_the_word_of_its_own_run_only(serve: Serve) -> None:
    kept = {"workflow_runner": UnsandboxedWorkflowRunner(), "max_cached_workflows": 10}
    runner = await serve(None, Waiting, **kept)
    first, second = [await runner.begin(Waiting, f"Delete the file {name}.txt") for name in "ab"]
    digest = (await until_step(first, "s1", ASKED)).steps[0].digest
    other = (await until_step(second, "s1", ASKED)).steps[0].digest
    for word in (["s1", other], ["s2", ""], ["s1", digest]):
        await first.signal(Waiting.say, args=word)
    assert await asyncio.wait_for(first.result(), 120) == ["done"]
    assert await first.query(Waiting.words) == [False, False, True]
    assert (await until_step(second, "s1", ASKED)).steps[0].arguments == {"path": "b.txt"}
    await second.cancel()
    assert runner.local.calls == [("delete_file", {"path": "a.txt"})]


@pytest.mark.parametrize(
    ("hint", "label", "may"), [(None, "yes", True), (None, "no", False), (True, "no", False), (True, "", True)]
)
def test_a_call_of_what_is_labelled_to_only_read_may_be_repeated(hint: bool | None, label: str, may: bool) -> None:
    labels = {"read_only": label} if label else {}
    assert Tool(server="a", name="b", annotations=Annotations(read_only=hint), labels=labels).replayable is may


async def test_a_misspelt_setting_of_a_tool_router_names_the_one_meant() -> None:
    with pytest.raises(UnknownSetting, match="unknown setting 'tenent'; did you mean 'tenant'"):
        ToolRouter(tenent="org:1")  # type: ignore[call-arg]
    with pytest.raises(UnknownSetting, match="unknown setting 'aprove'; did you mean 'approve'"):
        await ToolRouter("org:1").run("x", aprove="never")  # type: ignore[call-arg]
    with pytest.raises(UnknownSetting, match="unknown setting 'task_que'; did you mean 'task_queue'"):
        await ToolRouter("org:1").route("x", task_que="never")  # type: ignore[call-arg]
    with pytest.raises(UnknownSetting, match="unknown setting 'retry_polcy'; did you mean 'retry_policy'"):
        ToolRouter("org:1", route_options={"retry_polcy": None})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(UnknownSetting, match="unknown setting 'executor'; did you mean 'executors'"):
        OrchestratorPlugin(executor={})  # type: ignore[call-arg]


async def test_the_example_of_own_handlers_answers_its_own_query_and_update(
    temporal_address: str, task_queue: str
) -> None:
    catalogue = Catalogue.of(own_approval.all_notes, own_approval.add_note, read_only=[own_approval.all_notes])
    client = await Client.connect(temporal_address, plugins=[OrchestratorPlugin(catalogue=catalogue)])
    async with working(client, task_queue, workflows=[own_approval.Desk]):
        desk = await client.start_workflow(
            own_approval.Desk.run, "add a note titled 'rent'", id=uuid4().hex, task_queue=task_queue
        )
        [step] = await until(lambda: desk.query(own_approval.Desk.questions))
        assert (step.tool, step.arguments) == ("add_note", {"title": "rent"})
        stale = Approval(step=step.step, digest="000000000000")
        assert await desk.execute_update(own_approval.Desk.decide, stale) is False
        answer = Approval(step=step.step, digest=step.digest)
        assert await desk.execute_update(own_approval.Desk.decide, answer) is True
        assert await desk.result() == "'rent' is noted"
    await replays(await desk.fetch_history(), [own_approval.Desk])
