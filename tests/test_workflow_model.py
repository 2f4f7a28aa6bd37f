"""Runs with a language model, on a real Temporal server and over real HTTP, and runs without it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.testing import ActivityEnvironment

from orchestrator import Limits, Models, Options, PlanRequest, StepStatus, Turn
from orchestrator.activities.activities import Activities
from orchestrator.testing import NO_CREDIT, Billed, Fault, ScriptedModel, Slow
from tests.catalogues import tokens_of
from tests.decisions import decision
from tests.my_workflow import Apart, FollowUp
from tests.runner import Runner, Serve, statuses
from tests.running import LocalTools, plugin_over
from tests.temporal import activities_of, replays, until_step
from tests.waiting import until

ROUTE, PLAN, CALL, COMPLETE = "toolroute.route", "toolroute.plan", "toolroute.call_tool", "toolroute.complete"
KEY = "sk-test-never-in-a-history"
TASK = "Read the file a.txt and then add a note with what it says"

PLANNED = {"action": "plan", "reasons": ["two parts"], "confidence": 0.9}
ONE = {"action": "tool", "tool": "files:read_file", "arguments": '{"path": "a.txt"}', "confidence": 0.9}
STEPS = {
    "steps": [
        {"id": "s1", "task": "read it", "tool": "files:read_file", "arguments": '{"path": "a.txt"}'},
        {
            "id": "s2",
            "task": "note it",
            "tool": "notes:add_note",
            "arguments": '{"title": "A"}',
            "from_results": ["body"],
            "depends_on": ["s1"],
        },
    ]
}
FILLED = {"arguments": '{"body": "it says so"}', "why": "s1"}
NOWHERE = {"arguments": "{}", "missing": ["body"], "why": "the file is empty"}
WHOLE = {"title": "A", "body": "it says so"}


@dataclass
class Assisted:
    """Runs on a worker with a scripted model."""

    runner: Runner
    model: ScriptedModel

    async def run(self, task: str = TASK, **settings: Any) -> Any:
        result, handle = await self.runner.run(task, **settings)
        history = await handle.fetch_history()
        assert not any(KEY.encode() in event.SerializeToString() for event in history.events)
        return result, handle


@asynccontextmanager
async def assisted(serve: Serve, replies: Any, **options: Any) -> AsyncIterator[Assisted]:
    local = LocalTools()
    async with ScriptedModel(replies, key=KEY) as model:
        settings = Options(model="m", model_url=model.url, **options)
        made = plugin_over(local, options=settings, models=lambda: Models(settings, api_key=KEY))
        runner = await serve(made, Apart, FollowUp)
        runner.local = local
        yield Assisted(runner, model)


async def test_results_feed_later_arguments_and_all_that_was_used_is_settled(serve: Serve) -> None:
    script = [
        Billed(PLANNED, input=500, output=20, cached=100),
        Billed(STEPS, input=600, output=80),
        Billed(FILLED, input=200, output=15),
        Billed("It is noted.", input=300, output=5),
    ]
    async with assisted(serve, script) as at:
        result, handle = await at.run()
        assert await activities_of(handle) == [ROUTE, PLAN, CALL, COMPLETE, CALL, COMPLETE]
    assert at.runner.local.calls[1] == ("add_note", WHOLE)
    assert [(str(step.status), step.arguments) for step in result.steps] == [("done", {}), ("done", WHOLE)]
    assert (result.answer, result.plan.model, result.warnings) == ("It is noted.", "m", ())
    assert "read_file a.txt" in at.model.asked[2].text
    read, note = (step.tokens for step in result.steps)
    assert note > 215
    assert result.budget.settled == 1_200 + read + note + 305
    assert result.budget.reserved == 0


async def test_a_person_approves_the_arguments_that_a_model_filled(serve: Serve) -> None:
    """Also in the execution that the run continues as, which asks the model nothing again."""
    async with assisted(serve, [PLANNED, STEPS, FILLED, "It is noted."]) as at:
        handle = await at.runner.start(TASK, approve="changes", steps_per_run=1)
        latest = at.runner.client.get_workflow_handle(handle.id)
        progress = await until_step(latest, "s2", StepStatus.NEEDS_APPROVAL)
        assert [step.arguments for step in progress.steps] == [{}, WHOLE]
        assert progress.budget.reserved == 0  # a person may take a day
        await latest.execute_update("toolroute.approve", {"step": "s2", "digest": progress.steps[1].digest})
        result = await asyncio.wait_for(handle.result(), 150)
    assert at.runner.local.calls[1] == ("add_note", WHOLE)
    assert (statuses(result), result.answer) == (["done", "done"], "It is noted.")
    assert (at.model.left, len(at.model.asked)) == (0, 4)


async def test_a_task_that_needs_no_tool_is_answered_without_one(serve: Serve) -> None:
    said = {"action": "answer", "answer": "Four.", "reasons": ["sums"], "confidence": 1}
    async with assisted(serve, [Billed(said, input=90, output=9)]) as at:
        result, handle = await at.run("Read me what 2 and 2 is")
        assert await activities_of(handle) == [ROUTE, PLAN]
    assert (result.answer, result.steps, result.budget.settled) == ("Four.", (), 99)


async def test_what_routing_asked_a_model_is_settled_in_the_budget(serve: Serve) -> None:
    said = {"action": "answer", "answer": "Four.", "reasons": ["sums"], "confidence": 1}
    script = [Billed({"needs": ["Read a file"]}, input=40, output=4), Billed(said, input=90, output=9)]
    async with assisted(serve, script, understand="model") as at:
        result, _ = await at.run("Read me what 2 and 2 is")
    assert (result.decision.needs, result.budget.settled) == (("Read a file",), 143)


@pytest.mark.parametrize(("fault", "tries"), [(Fault(500), 3), (Fault(401), 1), (NO_CREDIT, 1)])
async def test_a_run_goes_on_without_a_model_that_fails(fault: Fault, tries: int, serve: Serve) -> None:
    async with assisted(serve, lambda _: fault) as at:
        result, handle = await at.run("Read the file a.txt")
        assert await activities_of(handle) == [ROUTE, PLAN, CALL]
    assert len(at.model.asked) == tries
    assert (result.plan.model, result.answer, len(result.warnings)) == ("none", "read_file a.txt", 1)


@pytest.mark.slow
async def test_a_model_slower_than_the_plan_may_take_is_tried_three_times_and_then_done_without(serve: Serve) -> None:
    async with assisted(serve, lambda _: Slow(9, "late")) as at:
        queue = at.runner.task_queue
        _, (answer, warning) = await at.runner.execute(Apart, "Read the file a.txt", queue, queue, 6.0)
    assert (answer, len(at.model.asked)) == ("read_file a.txt", 3)
    assert "made no plan within 5.4 seconds: raise the timeout in plan_options" in warning


async def test_a_plan_whose_attempts_were_lost_asks_no_model_any_more() -> None:
    async with ScriptedModel([]) as model:
        plugin = plugin_over(models=lambda: Models(Options(model="m", model_url=model.url), api_key=KEY))
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, attempt=4)
        request = DataConverter.default.payload_converter.to_payload(PlanRequest(decision=decision(TASK)))
        plan = await environment.run(Activities(plugin.resources).plan, RawValue(request))
    assert model.asked == []
    assert plan.warnings[0] == "decided without a model: 3 attempts lost their worker or ran out of time"


async def test_temporal_waits_as_long_as_the_endpoint_asked(serve: Serve) -> None:
    async with assisted(serve, [Fault(429, retry_after=2), ONE, "It says so."]) as at:
        began = time.monotonic()
        result, _ = await at.run("Read the file a.txt")
        assert time.monotonic() - began >= 2
    assert (result.answer, len(at.model.asked)) == ("It says so.", 3)


async def test_what_the_results_do_not_give_is_needed_from_the_user(serve: Serve) -> None:
    async with assisted(serve, [PLANNED, STEPS, NOWHERE, "The note lacks its body."]) as at:
        result, _ = await at.run(approve="changes")
    assert statuses(result) == ["done", "needs_input"]
    assert result.steps[1].reason == "missing: s2.body; the results of earlier steps do not have these values"
    assert result.steps[1].tokens > 0
    assert "needs input: missing: s2.body" in at.model.asked[3].text


WRONG = Billed({"arguments": '{"body": 3}', "why": ""}, input=100, output=11)


@pytest.mark.parametrize(("repair", "took"), [(WRONG, 222), (Fault(404), 111)])
async def test_what_a_model_took_in_vain_is_settled_too(serve: Serve, repair: Any, took: int) -> None:
    script = [PLANNED, STEPS, WRONG, repair, Billed("", input=50, output=5)]
    async with assisted(serve, script) as at:
        result, _ = await at.run()
    assert statuses(result) == ["done", "needs_input"]
    assert result.steps[1].tokens == took
    assert result.budget.settled == result.plan.usage.total + sum(step.tokens for step in result.steps) + 55


async def test_a_run_cancelled_while_arguments_are_filled_calls_nothing_more(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The activity ends, too, before the worker stops.

    A worker that stops while an activity reports its end may wait for ever: https://github.com/temporalio/sdk-rust/issues/1537.
    """
    ask, dropped = Models.ask, asyncio.Event()

    async def asks(*given: Any, **settings: Any) -> Any:
        try:
            return await ask(*given, **settings)
        except asyncio.CancelledError:
            dropped.set()
            raise

    monkeypatch.setattr(Models, "ask", asks)
    async with assisted(serve, [PLANNED, STEPS, Slow(20, "late")]) as at:
        handle = await at.runner.start(TASK)
        await until(lambda: len(at.model.asked) >= 3)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), 120)
        await asyncio.wait_for(dropped.wait(), 150)
        progress = await handle.query("toolroute.progress")
        await replays(await handle.fetch_history())
    assert [step["status"] for step in progress["steps"]] == ["done", "cancelled"]
    assert [name for name, _ in at.runner.local.calls] == ["read_file"]


async def test_limits_without_room_for_a_model_do_without_it_and_say_so(serve: Serve) -> None:
    async with assisted(serve, [ONE]) as at:
        result, _ = await at.run("Read the file a.txt", limits=Limits(max_total_tokens=1))
        assert (statuses(result), at.model.asked) == (["refused"], [])
        assert result.warnings == (
            "decided without a model: the run's limits are too low for any step: raise max_total_tokens",
        )
        result, _ = await at.run("Read the file a.txt", limits=Limits(reserve_for_synthesis=500))
    assert result.answer == "read_file a.txt"
    assert "reserve_for_synthesis=500" in result.warnings[0]


@pytest.mark.parametrize(("needed", "status"), [(0.3, "done"), (0.9999, "failed")])
async def test_a_further_route_must_be_as_sure_as_the_first_and_its_arguments_come_from_the_model(
    serve: Serve, needed: float, status: str
) -> None:
    steps = {"steps": [STEPS["steps"][0], {"id": "s2", "task": "delete the file", "tool": "", "depends_on": ["s1"]}]}
    replies = [{**PLANNED, "confidence": 1.0}, steps, {"arguments": '{"path": "b.txt"}'}, "Gone."]
    async with assisted(serve, replies) as at:
        result, handle = await at.run(min_confidence=needed)
        further = [ROUTE, PLAN, ROUTE, PLAN, CALL]
        assert await activities_of(handle) == [*further, *([COMPLETE, CALL] if status == "done" else []), COMPLETE]
    assert len(result.extra_routes) == 1
    assert statuses(result) == ["done", status]
    assert (("delete_file", {"path": "b.txt"}) in at.runner.local.calls) is (status == "done")


async def test_a_follow_up_is_planned_from_what_was_said_before_it(serve: Serve) -> None:
    turns = [Turn(text="Read the file a.txt", tools=("files:read_file",)), Turn(text="It is empty.", role="assistant")]
    one = {**ONE, "arguments": '{"path": "b.txt"}'}
    async with assisted(serve, [one, "It says so.", one]) as at:
        result, _ = await at.run("same for b.txt", conversation=tuple(turns))
        plan = await at.runner.execute(FollowUp, "same for b.txt", turns)
    assert result.answer == "It says so."
    assert [step.arguments for step in plan.steps] == [{"path": "b.txt"}]
    told = "- user: Read the file a.txt\n- assistant: It is empty.\n\nThe task now: same for b.txt"
    assert [told in asked.text for asked in at.model.asked] == [True, False, True]


async def test_a_model_that_takes_more_than_it_may_is_asked_no_more_and_the_budget_says_so(serve: Serve) -> None:
    async with assisted(serve, [Billed(PLANNED, input=120_000, output=200)]) as at:
        result, _ = await at.run()
        assert len(at.model.asked) == 1
        assert "was not asked: only 0 tokens of the budget are left" in result.warnings[0]
        assert "budget overrun: planning used 120,200 tokens, but only 79,999 were reserved" in result.budget.warnings


async def test_a_model_is_asked_for_no_more_than_the_run_leaves_it(serve: Serve) -> None:
    async with assisted(serve, [ONE]) as at:
        limits = Limits(max_total_tokens=2_800, max_tokens_per_step=600, reserve_for_synthesis=0)
        await at.run("Read the file a.txt", limits=limits)
    [asked] = at.model.asked
    assert tokens_of(asked.text) + asked.body["max_tokens"] <= 2_200
