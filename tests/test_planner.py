"""The plan without a model: at most one step per part, each bound to a match. Unclear arguments are missing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator import Catalogue, Decision, Match, Plan, Router, Stage, Tool
from tests.catalogues import tool
from tests.decisions import ADD_NOTE, CONVERT, DELETE, NOW, READ, READS, decision, plan_without_model, schema

MAX_CUT = 4_000
"""The most characters of a task that is planned."""


def of_parts(task: str, *parts: str, chances: Sequence[tuple[Tool, Sequence[float]]]) -> Decision:
    """A Decision for a task of these parts, with each tool's chance for each."""
    matches = tuple(Match(tool=tool, probability=0.9, for_parts=tuple(own)) for tool, own in chances)
    return replace(decision(task), matches=matches, parts=parts, recommended=(matches[0].tool.key,))


async def planned(found: Decision, **given: Any) -> Plan:
    return await plan_without_model(found, arguments=given)


TWO = 'Read the file notes/a.txt and then add a note titled "A"'
READ_AND_NOTE = of_parts(
    TWO, "Read the file notes/a.txt", 'add a note titled "A"', chances=[(READ, (0.9, 0.1)), (ADD_NOTE, (0, 0.8))]
)


async def test_one_task_is_one_step_with_the_recommended_tool() -> None:
    made = await planned(decision("What time is it in Europe/Berlin?"))
    (step,) = made.steps
    assert (step.tool, step.arguments, step.depends_on) == (NOW.key, {"timezone": "Europe/Berlin"}, ())
    assert "timezone: " in step.why
    other = await planned(replace(decision("What time is it?"), recommended=(CONVERT.key,)))
    assert other.steps[0].tool == CONVERT.key
    assert other.steps[0].missing == ("source_timezone", "time", "target_timezone")


async def test_each_part_goes_to_its_own_match() -> None:
    made = await planned(READ_AND_NOTE)
    assert [(step.tool, step.depends_on) for step in made.steps] == [(READ.key, ()), (ADD_NOTE.key, ("s1",))]
    assert made.steps[0].arguments == {"path": "notes/a.txt"}
    side_by_side = await planned(replace(READ_AND_NOTE, query=TWO.replace(" then", "")))
    assert [step.depends_on for step in side_by_side.steps] == [(), ()]


async def test_a_part_without_a_likely_match_has_no_tool() -> None:
    for chance, key in ((0.21, ADD_NOTE.key), (0.19, "")):
        matches = (READ_AND_NOTE.matches[0], replace(READ_AND_NOTE.matches[1], for_parts=(0.0, chance)))
        made = await planned(replace(READ_AND_NOTE, matches=matches))
        assert [step.tool for step in made.steps] == [READ.key, key]


async def test_a_part_without_action_joins_the_part_before_it() -> None:
    parts = ("I am in a hurry", 'add a note titled "A"', "it is about b.txt")
    found = of_parts(". ".join(parts), *parts, chances=[(ADD_NOTE, (0.1, 0.9, 0.2)), (READ, (0.1, 0.0, 0.4))])
    assert [step.tool for step in (await planned(found)).steps] == [ADD_NOTE.key]
    parts = ("the contents of a.txt", 'add a note titled "A"')
    found = of_parts(" and ".join(parts), *parts, chances=[(ADD_NOTE, (0.1, 0.9)), (READ, (0.5, 0.0))])
    assert [step.tool for step in (await planned(found)).steps] == [READ.key, ADD_NOTE.key]


async def test_a_condition_behind_a_list_is_not_dropped() -> None:
    of_repo = schema(repo={"type": "string"})
    pulls = tool("hub:list_pulls", "List the pulls of a repository", input_schema=of_repo, annotations=READS)
    issues = tool("hub:list_issues", "List the issues of a repository", input_schema=of_repo, annotations=READS)
    matches = (Match(tool=pulls, probability=0.9), Match(tool=issues, probability=0.5))
    task = 'list the issues and pulls of repo "acme/x" from last week'
    made = await planned(replace(decision(task), matches=matches, recommended=(pulls.key,)))
    assert [(step.tool, step.arguments) for step in made.steps] == [(pulls.key, {"repo": "acme/x"})]
    (warning,) = made.warnings
    assert "these words of the task: issues, last, week;" in warning
    assert "in a sentence of their own" in warning


async def test_a_part_left_out_is_no_step(router: Router) -> None:
    for task in ("list the s3 objects, don't delete any", "- don't delete the object\n- list the s3 objects"):
        made = await planned(await router.route(task))
        assert [step.tool for step in made.steps] == ["s3:list_objects"], task
    for task in ("don't delete the s3 object", '"don\'t delete the s3 object"'):
        made = await planned(await router.route(task))
        assert made.steps == ()
        assert "nothing is called" in made.reasons[0]
    found = await planned(decision("read a file, not b.txt", [READ]))
    assert (found.steps[0].arguments, found.steps[0].missing) == ({}, ("path",))


@pytest.mark.parametrize(
    ("task", "path"),
    [
        ("read the text file, under no circumstances /etc/x", None),
        ("The secret is in /etc/x. Read the text file.", None),
        ("Read the text file. The path /etc/x is off limits.", None),
        ("read what has to change but not commit yet in /etc/x", None),
        ("read /tmp/y but not /etc/x", "/tmp/y"),
        ("don't read /etc/x but read /tmp/y", "/tmp/y"),
        ("the text in /tmp/y", "/tmp/y"),
    ],
)
async def test_arguments_come_from_the_sentence_of_the_action(task: str, path: str | None) -> None:
    async with Router(Catalogue([READ, ADD_NOTE])) as router:
        steps = (await planned(await router.route(task))).steps
    assert {step.tool for step in steps} == {READ.key}
    for step in steps:
        assert (step.arguments, step.missing) == (({"path": path}, ()) if path else ({}, ("path",)))


@pytest.mark.parametrize(
    "task", ["You must never delete the file a.txt", "We do not delete the file a.txt", "By no means delete a.txt"]
)
async def test_what_a_negation_stands_before_is_planned_for_reading_tools_alone(task: str) -> None:
    assert (await planned(decision(task, [DELETE]))).steps == ()
    assert "the task begins with a negation" in (await planned(decision(task, [DELETE]))).reasons[0]
    assert [step.tool for step in (await planned(decision(task, [READ]))).steps] == [READ.key]


async def test_too_long_a_task_is_not_planned() -> None:
    assert (await planned(decision("read it".ljust(MAX_CUT, "a")))).steps
    made = await planned(decision("read it".ljust(MAX_CUT + 1, "a")))
    assert made.steps == ()
    assert f"limit {MAX_CUT:,}" in made.reasons[0]
    assert (
        await planned(decision("read it " + "\u0958" * (MAX_CUT // 2)))
    ).steps == ()  # Twice as long once it is clean.


async def test_too_low_a_confidence_plans_nothing() -> None:
    none = await planned(decision("hum a tune", stage=Stage.NONE))
    assert (none.steps, "nothing is called" in none.reasons[0]) == ((), True)
    weak = replace(decision("read a file"), confidence=0.2)
    assert (await planned(weak)).steps == ()
    assert "is 20%, but a plan needs 30%" in (await planned(weak)).reasons[0]
    assert (await plan_without_model(weak, min_confidence=0.1)).steps


async def test_given_arguments_go_first_and_misfits_are_warned_of() -> None:
    made = await planned(READ_AND_NOTE, **{"title": "T", "s1.path": "b.txt"})
    assert [step.arguments for step in made.steps] == [{"path": "b.txt"}, {"title": "T"}]
    assert made.warnings == ()
    assert (await planned(READ_AND_NOTE, **{"titel": "T", "s9.path": "b"})).warnings == (
        "the argument titel, s9.path was not used: no step's tool has a parameter of that name",
    )
    place = {"enum": ["here", "there"]}
    wait = Tool(server="a", name="wait", input_schema=schema("seconds", seconds={"type": "integer"}, place=place))
    assert (await planned(decision("wait", [wait]), place="here", seconds="3")).warnings == ()
    (warning,) = (await planned(decision("wait", [wait]), place="nowhere", seconds="soon")).warnings
    assert warning.startswith("the arguments for step s1 do not match the tool's schema: a:wait: ")
    assert "'nowhere' is not one of" in warning


async def test_a_further_decision_binds_steps_without_a_tool() -> None:
    first = await planned(READ_AND_NOTE, title="T", titel="X")
    gap = replace(first, steps=(first.steps[0], replace(first.steps[1], tool="", arguments={})), warnings=())
    further = decision("add a note", [ADD_NOTE])
    made = await plan_without_model(further, first=gap, arguments={"title": "T"})
    assert (made.id, made.unbound) == (gap.id, ())
    assert (made.steps[1].tool, made.steps[1].arguments) == (ADD_NOTE.key, {"title": "T"})
    weak = await plan_without_model(replace(further, confidence=0.1), first=gap, arguments={"title": "T"})
    assert weak.unbound == gap.unbound


async def test_parts_left_out_of_a_long_task_are_warned_of(router: Router) -> None:
    names = [f"read the file a{number}.txt" for number in range(25)]
    chances = [(READ, [0.9, *[0.8] * 24]), (ADD_NOTE, [0.0, 0.9, *[0.0] * 23])]
    made = await planned(of_parts(", then ".join(names), *names, chances=chances))
    assert len(made.steps) == 20
    assert made.warnings[0] == "only the first 20 of 25 parts are planned: give the rest in a second task"
    many = [f"list the objects of bucket b{number}" for number in range(11)]
    made = await planned(await router.route(". ".join(many)))
    assert len(made.steps) == 8
    assert made.warnings[0] == (
        f"the last step has 4 parts, and only {many[7]!r} is planned: give the rest in a second task"
    )


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("list the receivables that are older than 60 days", "older, 60, days"),
        ("list the receivables that are older than sixty days", "older, sixty, days"),
        ("list the open receivables", "open"),
        ("list half of the receivables, if Ana asks", "half, Ana, asks"),
        ("list the receivables without the cancelled items", "without, cancelled, items"),
        ("list the receivables in the currency EUR", "EUR"),
        ("list the aged receivables", ""),
        ('list the receivables with the currency "EUR"', ""),
    ],
)
async def test_words_that_no_argument_takes_are_named(task: str, words: str) -> None:
    aged = Tool(server="books", name="aged_receivables", input_schema=schema(currency={"type": "string"}))
    warnings = [warning.partition("; ")[0] for warning in (await planned(decision(task, [aged]))).warnings]
    named = f"step s1: the call of books:aged_receivables does not use these words of the task: {words}"
    assert warnings == ([named] if words else [])
    assert (await planned(decision("list the receivables", [aged]))).warnings == ()


async def test_equal_requests_give_equal_plans_and_a_salt_keeps_workflows_apart() -> None:
    one, other = [await planned(decision("What time is it in UTC?")) for _ in range(2)]
    assert one == other
    assert (await plan_without_model(decision("What time is it in UTC?"), salt="other")).id != one.id


def dropping(*servers: str) -> Catalogue:
    """Servers that drop and list tables, each in the same words."""
    table = schema("table", table={"type": "string"})
    drop = (Tool(server=s, name="drop_table", description="Drop a table.", input_schema=table) for s in servers)
    return Catalogue([*drop, *(Tool(server=s, name="list_tables", description="List all tables.") for s in servers)])


async def test_a_known_server_without_a_fitting_tool_is_not_replaced_either() -> None:
    async with Router(Catalogue([*dropping("stripe-live"), ADD_NOTE])) as router:
        made = await planned(await router.route("use the notes mcp to drop the table"))
    (question,) = made.needs_input
    assert question.startswith(
        "the task names the server 'notes', but no tool of that server matches; stripe-live:drop"
    )
    assert made.steps == ()


async def test_a_verb_of_a_match_begins_a_step(router: Router) -> None:
    made = await planned(await router.route("cancel the order 4711 and refund charge ch_3PqX"))
    assert [step.tool for step in made.steps] == ["shopify:cancelOrder", "stripe:refund_charge"]
    assert [step.arguments for step in made.steps] == [{"orderId": "4711"}, {"charge": "ch_3PqX"}]
