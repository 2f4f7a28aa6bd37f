"""The LLM route and the model's plan, over HTTP, and the plain answers if no model answers."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator import Action, Models, NamedServer, Options, Plan, PlanRequest, Turn, Usage, choose_action, make_plan
from orchestrator.errors import ModelUnavailable
from orchestrator.testing import Billed, Fault, Refusal, ScriptedModel
from tests.catalogues import tokens_of
from tests.decisions import CONVERT, DELETE, READ, decision, plan_without_model

TASK = "Read the file a.txt and add a note with what it says"


def models(server: ScriptedModel, **given: Any) -> Models:
    return Models(Options(model="m", model_url=server.url), api_key="k", **{"tries": 1, **given})


def chosen(action: str, **given: Any) -> dict[str, Any]:
    return {"action": action, "reasons": ["because"], "confidence": 0.9, **given}


def step(number: int, tool: str, arguments: str = "{}", **given: Any) -> dict[str, Any]:
    return {"id": f"s{number}", "task": f"part {number}", "tool": tool, "arguments": arguments, **given}


READ_STEP = step(1, "files:read_file", '{"path": "a.txt"}', why="it reads")
NOTE_STEP = step(2, "notes:add_note", '{"title": "A"}', from_results=["body"], depends_on=["s1"])


async def planned(*replies: Any, query: str = TASK, **given: Any) -> tuple[Plan, ScriptedModel]:
    async with ScriptedModel(replies) as server:
        options = Options(model="big", model_route="small", model_url=server.url)
        async with Models(options, api_key="k", tries=1) as client:
            made = await make_plan(client, PlanRequest(decision=decision(query), **given))
    return made, server


# --- the LLM route


async def test_a_model_chooses_among_the_matches_alone() -> None:
    script = [
        Billed(chosen("answer", answer="Four."), input=50, output=5, cached=10),
        chosen("tool", tool="files:read_file", arguments='{"path": "a.txt"}'),
        chosen("plan"),
        chosen("none"),
    ]
    async with ScriptedModel(script) as server, models(server) as client:
        found = [await choose_action(client, decision("2 + 2?", [READ, CONVERT])) for _ in range(4)]
    assert [choice.action for choice in found] == [Action.ANSWER, Action.TOOL, Action.PLAN, Action.NONE]
    assert (found[0].answer, found[0].usage) == ("Four.", Usage(input=50, output=5, cached=10))
    assert (found[1].tool, found[1].arguments) == ("files:read_file", {"path": "a.txt"})
    assert {choice.model for choice in found} == {"m"}
    asked = server.asked[0].text
    assert "files:read_file" in asked
    assert "time:convert_time" in asked
    assert "notes:add_note" not in asked


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (chosen("tool", tool="files:format_disk"), "not one of the listed tools: time:get_current_time"),
        (chosen("tool", tool="files:read_file", arguments='{"path": 3}'), "3 is not of type 'string'"),
        (chosen("tool", tool="files:read_file", arguments="a.txt"), "not JSON"),
        (chosen("tool", tool="notes:add_note", arguments='{"title": "{{s1.result}}"}'), "placeholder"),
        (chosen("answer"), "put it in `answer`"),
        (chosen("plan", confidence=7), "give 0 to 1"),
    ],
)
async def test_a_wrong_choice_is_mended_once(wrong: dict[str, Any], named: str) -> None:
    async with ScriptedModel([wrong, chosen("plan")]) as server, models(server) as client:
        assert (await choose_action(client, decision(TASK))).action is Action.PLAN
    assert named in server.asked[1].text


# --- the plan


async def test_a_plan_leaves_late_arguments_to_results() -> None:
    first, second = (
        Billed(chosen("plan"), input=100, output=10),
        Billed({"reasons": ["two parts"], "steps": [READ_STEP, NOTE_STEP]}, input=200, output=50, cached=90),
    )
    made, server = await planned(first, second)
    read, note = made.steps
    assert [asked.model for asked in server.asked] == ["small", "big"]
    assert made.choice is not None
    assert made.choice.model == "small"
    assert (read.tool, read.arguments, read.late, read.missing) == ("files:read_file", {"path": "a.txt"}, (), ())
    assert (note.arguments, note.late, note.depends_on) == ({"title": "A"}, ("body",), ("s1",))
    assert (made.model, made.reasons, made.warnings) == ("big", ("because", "two parts"), ())
    assert made.usage == Usage(input=300, output=60, cached=90)


async def test_a_plan_may_use_the_prompts_tool_names_and_arguments_as_objects() -> None:
    drafted = {**READ_STEP, "tool": "files__read_file", "arguments": {"path": "a.txt"}}
    made, server = await planned(chosen("plan", arguments=None), {"reasons": [], "steps": [drafted]})
    assert [(s.tool, s.arguments) for s in made.steps] == [("files:read_file", {"path": "a.txt"})]
    made, server = await planned(chosen("tool", tool="files__read_file", arguments={"path": "a.txt"}))
    assert [(s.tool, s.arguments) for s in made.steps] == [("files:read_file", {"path": "a.txt"})]
    assert len(server.asked) == 1, "nothing is asked again"


async def test_one_tool_is_one_step() -> None:
    made, server = await planned(chosen("tool", tool="files:read_file"))
    assert [(s.id, s.tool, s.missing) for s in made.steps] == [("s1", "files:read_file", ("path",))]
    assert len(server.asked) == 1
    answered, _ = await planned(chosen("answer", answer="Four."))
    assert (answered.steps, answered.choice and answered.choice.answer) == ((), "Four.")
    none, _ = await planned(chosen("none"))
    assert (none.steps, none.reasons, none.model) == ((), ("because",), "small")
    unsure, server = await planned(chosen("plan", confidence=0.2))
    assert (unsure.steps, len(server.asked)) == ((), 1)
    assert "the confidence of small is 20%, but a plan needs 30%" in unsure.reasons[-1]


async def test_given_arguments_go_before_the_models() -> None:
    given = {"s1.path": "b.txt", "body": "mine"}
    own = [{**READ_STEP, "id": "read"}, {**NOTE_STEP, "id": "note", "depends_on": ["read", "read"]}]
    made, server = await planned(chosen("plan"), {"steps": own}, arguments=given)
    assert [(s.id, s.depends_on) for s in made.steps] == [("s1", ()), ("s2", ("s1",))]
    assert [s.arguments for s in made.steps] == [{"path": "b.txt"}, {"title": "A", "body": "mine"}]
    assert made.steps[1].late == ()
    assert '"s1.path":"b.txt"' in server.asked[0].text


async def test_a_long_given_argument_reaches_its_step_whole() -> None:
    body = "pasted text " * 25_000
    made, server = await planned(chosen("plan"), {"steps": [READ_STEP, NOTE_STEP]}, arguments={"body": body})
    assert made.steps[1].arguments["body"] == body
    for asked in server.asked:
        assert tokens_of(asked.body["messages"][1]["content"]) <= 6_000
        assert "### files:read_file" in asked.text
        assert "[cut: " in asked.text


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([step(1, "files:format_disk")], "step s1: tool 'files:format_disk' is not one of the listed tools"),
        ([step(1, "files:read_file", '{"path": 3}')], "3 is not of type 'string'"),
        ([step(1, "files:read_file", depends_on=["s9"])], "depends_on 's9' is not the id of a step"),
        ([{**READ_STEP, "depends_on": ["s2"]}, NOTE_STEP], "circle: s"),
        ([READ_STEP, READ_STEP], "two steps have the same id"),
        ([step(n, "files:read_file", '{"path": "a"}') for n in range(21)], "21 steps: at most 20"),
        ([], "steps is empty"),
        ([READ_STEP, {**NOTE_STEP, "from_results": ["colour"]}], "'colour' is not a parameter of notes:add_note"),
    ],
)
async def test_a_wrong_plan_goes_back_once_with_what_is_wrong(steps: list[Any], named: str) -> None:
    made, server = await planned(chosen("plan"), {"steps": steps}, {"steps": [READ_STEP]})
    assert named in server.asked[2].text
    assert [s.tool for s in made.steps] == ["files:read_file"]
    refused, server = await planned(chosen("plan"), {"steps": steps}, {"steps": steps})
    assert refused.model == "none"
    assert refused.steps == (await plan_without_model(decision(TASK))).steps
    assert named.replace("step s1: ", "") in refused.warnings[0]
    assert refused.usage.total > 0
    assert len(server.asked) == 3


async def test_a_step_without_a_tool_is_bound_later() -> None:
    first, server = await planned(chosen("plan"), {"steps": [READ_STEP, step(2, "", depends_on=["s1"])]})
    assert [s.id for s in first.unbound] == ["s2"]
    first = replace(first, steps=(first.steps[0], replace(first.steps[1], task="delete the file")))
    async with models(server) as client:
        again = await make_plan(client, PlanRequest(decision=decision("delete the file", [DELETE]), first=first))
    assert (again.steps[1].tool, again.steps[1].late, again.steps[1].missing) == ("files:delete_file", ("path",), ())
    assert again.model == "big"


async def test_what_a_follow_up_leans_on_is_read_before_it() -> None:
    turns = (
        Turn(text="read the file a.txt", tools=("files:read_file",)),
        Turn(text="It says hello.", role="assistant"),
    )
    long = (Turn(text="never read"), *[Turn(text="word " * 5_000)] * 6)
    made, server = await planned(chosen("plan"), {"steps": [READ_STEP]}, query="now b.txt", conversation=turns)
    assert made.task == "now b.txt"
    named = "- user: read the file a.txt\n- assistant: It says hello.\n\nThe task now: now b.txt"
    assert [named in asked.text for asked in server.asked] == [True, True]
    _, server = await planned(chosen("none"), query="now b.txt", conversation=long)
    assert "The task now: now b.txt" in server.asked[0].text
    assert "never read" not in server.asked[0].text
    assert server.asked[0].text.count("word ") < 2_000


async def test_a_model_never_replaces_a_named_server() -> None:
    named = NamedServer(said="files-old")
    found = replace(decision("delete the file a.txt", [DELETE]), named_servers=(named,))
    reply = chosen("tool", tool="files:delete_file", arguments='{"path": "a.txt"}')
    async with ScriptedModel([reply]) as server, models(server) as client:
        made = await make_plan(client, PlanRequest(decision=found))
    assert (made.steps, len(made.needs_input)) == ((), 1)
    assert repr(named.said) in made.needs_input[0]


# --- without a model


async def test_without_a_model_the_plan_is_the_planners() -> None:
    made = await plan_without_model(decision("Read the file a.txt"))
    assert made.model == "none"
    [warning] = made.warnings
    assert "time:get_current_time does not use these words of the task: file, a.txt" in warning


@pytest.mark.parametrize("fault", [Fault(500), Fault(401), Fault(429), "prose", chosen("tool", tool="nope")])
async def test_a_failing_model_leaves_the_planners_plan(fault: Any) -> None:
    made, _ = await planned(fault, fault)
    assert made.model == "none"
    assert made.steps == (await plan_without_model(decision(TASK))).steps
    assert made.warnings[0].startswith("decided without a model: ")
    async with ScriptedModel([fault, fault]) as server, models(server) as client:
        choice = await choose_action(client, decision(TASK))
    assert (choice.model, choice.answer, len(choice.warnings)) == ("none", "", 1)


@pytest.mark.parametrize("fault", [Fault(503), Fault(404), Refusal(), "prose"])
async def test_the_choices_tokens_count_without_a_plan(fault: Any) -> None:
    made, _ = await planned(Billed(chosen("plan"), input=5_000, output=100), fault, fault)
    assert made.usage.total >= 5_100


async def test_a_declined_task_is_not_planned() -> None:
    made, _ = await planned(Refusal("that would harm someone"))
    assert (made.steps, made.model) == ((), "big")
    assert made.reasons == ("the model refused the question: that would harm someone",)
    async with ScriptedModel([Refusal("no")]) as server, models(server) as client:
        assert (await choose_action(client, decision(TASK))).action is Action.NONE


async def test_whoever_wants_to_try_again_gets_the_error() -> None:
    async with ScriptedModel([Fault(500)]) as server, models(server) as client:
        with pytest.raises(ModelUnavailable):
            await make_plan(client, PlanRequest(decision=decision(TASK)), give_up=lambda error: not error.retry)
