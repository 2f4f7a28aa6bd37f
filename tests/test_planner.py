from dataclasses import replace

import pytest

from orchestrator.planning.planner import plan
from orchestrator.planning.seams import cut_task
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.records.tool import Match, Stage, Tool
from orchestrator.routing.router import Router
from tests.decisions import ADD_NOTE, CONVERT, DELETE, NOW, READ, decision, schema
from tests.timing import seconds

SORT = Tool(server="files", name="move_all", description="Move each into its folder")


def planned(task: str, **arguments: object) -> Plan:
    return plan(PlanRequest(decision=decision(task), arguments=dict(arguments)))


def told(made: Plan) -> list[tuple[str, dict[str, object], tuple[str, ...]]]:
    return [(step.tool, step.arguments, step.depends_on) for step in made.steps]


def test_one_task_is_one_step_with_the_recommended_tool() -> None:
    made = planned("What time is it in Europe/Berlin?")
    assert told(made) == [("time:get_current_time", {"timezone": "Europe/Berlin"}, ())]
    assert made.model == "none"
    assert "timezone" in made.steps[0].why


def test_then_makes_steps_that_wait() -> None:
    made = planned('Read the file notes/a.txt and then add a note titled "A, then B" with body "x"')
    assert told(made) == [
        ("files:read_file", {"path": "notes/a.txt"}, ()),
        ("notes:add_note", {"title": "A, then B", "body": "x"}, ("s1",)),
    ]


def test_and_makes_steps_side_by_side() -> None:
    made = planned("What is the time in Europe/Berlin and in Asia/Tokyo?")
    assert [step.arguments["timezone"] for step in made.steps] == ["Europe/Berlin", "Asia/Tokyo"]
    assert [step.depends_on for step in made.steps] == [(), ()]


def test_a_list_is_done_in_order() -> None:
    made = planned("1. read file a.txt\n2. convert time 14:30 from Europe/Berlin to Asia/Tokyo")
    assert [step.tool for step in made.steps] == ["files:read_file", "time:convert_time"]
    assert made.steps[1].arguments == {
        "time": "14:30",
        "source_timezone": "Europe/Berlin",
        "target_timezone": "Asia/Tokyo",
    }
    assert made.steps[1].depends_on == ("s1",)


def test_a_part_that_no_match_fits_says_so() -> None:
    made = planned("get the current time in UTC, then book a flight to Rome")
    assert [step.tool for step in made.steps] == ["time:get_current_time", ""]
    assert [step.task for step in made.unbound] == ["book a flight to Rome"]


def test_numbers_in_a_description_bind_no_step_and_one_in_a_name_does() -> None:
    rows = Tool(server="sheet", name="list_rows", description="At most 50 rows, on 2 pages")
    rules = Tool(server="rules", name="rule_50", description="Tell a rule")
    made = plan(PlanRequest(decision=decision("get the current time in UTC, then multiply 50 by 2", [NOW, rows])))
    assert [step.tool for step in made.steps] == ["time:get_current_time", ""]
    made = plan(PlanRequest(decision=decision("get the current time in UTC, then explain number 50", [NOW, rules])))
    assert [step.tool for step in made.steps] == ["time:get_current_time", "rules:rule_50"]


def test_a_further_decision_binds_what_was_left() -> None:
    first = planned("get the current time in UTC, then add a memo")
    assert first.unbound == () or first.unbound[0].task == "add a memo"
    first = planned("get the current time in UTC, then scribble a memo")
    second = plan(PlanRequest(decision=decision("scribble a memo", [ADD_NOTE]), first=first))
    assert second.unbound == first.unbound  # no word in common: binding it would be a guess
    assert second.id == first.id


def test_given_arguments_wait_for_the_further_decision_of_a_step_without_a_tool() -> None:
    scribble = replace(ADD_NOTE, server="memo", name="scribble_memo")
    given: dict[str, object] = {"title": "T", "titel": "X"}
    first = planned("get the current time in UTC, then scribble a memo", **given)
    assert (len(first.unbound), first.warnings) == (1, ())
    further = decision("scribble a memo", [scribble])
    second = plan(PlanRequest(decision=further, first=first, arguments=given))
    assert (second.unbound, second.warnings) == ((), ("no step takes the given titel",))


def test_nothing_good_enough_plans_nothing() -> None:
    made = plan(PlanRequest(decision=decision("hum a tune", stage=Stage.NONE)))
    assert made.steps == ()
    assert "nothing is called" in made.reasons[0]


def test_a_weak_decision_plans_nothing_and_says_how_sure_it_is() -> None:
    best = Match(tool=READ, score=0.9, words={"name": ("file",)})
    weak = replace(decision("hum a file"), confidence=0.2, matches=(best,))
    made = plan(PlanRequest(decision=weak))
    assert made.steps == ()
    assert "only 20% sure (needed: 30%)" in made.reasons[0]
    assert plan(PlanRequest(decision=weak, min_confidence=0.1)).steps


@pytest.mark.parametrize(
    ("task", "tools", "needed"),
    [
        ("hum a tune", [NOW], 0.4),
        ("tidy up", [ADD_NOTE], 0.4),  # The title is asked for first, so nothing is done yet.
        ("tidy up", [SORT], 0.7),
        ("tidy up 'Inbox', no wait, 'Drafts'", [ADD_NOTE], 0.7),  # One title is meant.
    ],
)
def test_a_tool_that_no_word_of_the_task_names_is_called_only_when_routing_is_sure(
    task: str, tools: list[Tool], needed: float
) -> None:
    by_meaning = decision(task, tools)
    unsure = plan(PlanRequest(decision=replace(by_meaning, confidence=needed - 0.01)))
    assert f"(needed: {needed:.0%})" in unsure.reasons[0]
    assert "is the best match" not in plan(PlanRequest(decision=replace(by_meaning, confidence=needed))).reasons[0]


@pytest.mark.parametrize("joint", [" and ", ", then "])
def test_what_is_told_somebody_is_a_step_of_its_own_where_nothing_sends_it(joint: str) -> None:
    told_of = "let Bo know that note 'B' was deleted"
    drop = Tool(server="notes", name="delete_note", description="Delete a note", input_schema=DELETE.input_schema)
    made = plan(PlanRequest(decision=decision(f"delete note 'A'{joint}{told_of}", [drop])))
    assert [(step.tool, step.task) for step in made.steps] == [
        ("notes:delete_note", "delete note 'A'"),
        ("", told_of),
    ]


def test_a_close_second_whose_arguments_are_all_there_goes_first() -> None:
    task = "What time is it in Europe/Berlin?"
    assert plan(PlanRequest(decision=decision(task, [CONVERT, NOW]))).steps[0].tool == "time:get_current_time"
    lost = plan(PlanRequest(decision=decision("What time is it?", [CONVERT, NOW]))).steps[0]
    assert (lost.tool, lost.missing) == ("time:convert_time", ("source_timezone", "time", "target_timezone"))


def test_what_is_not_in_the_task_is_missing() -> None:
    made = plan(PlanRequest(decision=decision("convert the time for me", [READ])))
    assert made.steps[0].missing == ("path",)
    assert made.steps[0].arguments == {}


def test_arguments_of_the_user_go_first_by_name_or_by_step() -> None:
    made = planned("Read the file a.txt and then add a note", **{"title": "T", "s1.path": "b.txt"})
    assert [step.arguments for step in made.steps] == [{"path": "b.txt"}, {"title": "T"}]


def test_given_arguments_that_no_step_takes_are_told_and_those_that_one_takes_are_not() -> None:
    made = planned("Read the file a.txt and then add a note", **{"title": "T", "s1.path": "b.txt"})
    assert made.warnings == ()
    made = planned("Read the file a.txt and then add a note", **{"titel": "T", "s9.path": "b.txt", "title": "T"})
    assert made.warnings == ("no step takes the given titel, s9.path",)
    made = planned("Read the file a.txt", **{"s1.pth": "b.txt"})
    assert made.warnings == ("no step takes the given s1.pth",)


def test_given_arguments_that_the_tool_cannot_take_are_told_and_those_that_it_can_are_not() -> None:
    task = "Wait, and then read the file a.txt"
    wait = Tool(
        server="plain",
        name="wait",
        description="Wait some seconds",
        input_schema=schema(
            "seconds", seconds={"type": "integer"}, place={"enum": ["here", "there"]}, until={"type": "string"}
        ),
    )
    own = decision(task)
    waits = replace(own, matches=(Match(tool=wait, score=0.9), *own.matches))
    given = {"place": "here", "path": "b.txt", "s1.seconds": "3"}
    assert plan(PlanRequest(decision=waits, arguments=given)).warnings == ()
    given = {"place": "nowhere", "path": "b.txt", "s1.seconds": "soon"}
    faults = "place: 'nowhere' is not one of ['here', 'there']; seconds: 'soon' is not of type 'integer'"
    told = f"what is given for s1 does not fit plain:wait: {faults}; it takes: seconds, place, until"
    assert plan(PlanRequest(decision=waits, arguments=given)).warnings == (told,)


def test_what_a_plan_leaves_out_of_a_long_task_is_a_warning() -> None:
    made = planned(", then ".join(f"read the file a{number}.txt" for number in range(25)))
    assert len(made.steps) == 20
    assert made.warnings == ("only the first 20 of 25 parts are planned: give the rest as another task",)


def test_equal_requests_give_equal_plans_and_a_salt_keeps_workflows_apart() -> None:
    one, other = (planned("What time is it in UTC?") for _ in range(2))
    salted = plan(PlanRequest(decision=decision("What time is it in UTC?"), salt="other"))
    assert one == other
    assert salted.id != one.id


@pytest.mark.parametrize(
    "task",
    [
        "don't delete the s3 object, list the objects of the bucket",
        "do not delete any object. List the s3 objects.",
        "list the s3 objects and don't delete the object",
        "list the s3 objects then do not delete the object",
        "instead of deleting the object, list the s3 objects",
        "don't create, copy or delete an object; only list the s3 objects",
        "- don't delete the object\n- list the s3 objects",
        "1. list the s3 objects 2. don't delete an object",
    ],
)
async def test_a_forbidden_action_is_no_step(router: Router, task: str) -> None:
    made = plan(PlanRequest(decision=await router.route(task)))
    assert [step.tool for step in made.steps] == ["s3:list_objects"]


async def test_a_task_that_only_forbids_calls_nothing_and_says_why(router: Router) -> None:
    made = plan(PlanRequest(decision=await router.route("don't delete the s3 object")))
    assert made.steps == ()
    assert made.reasons == ("the task says only what is not to be done; nothing is called",)


async def test_a_task_in_quotation_marks_is_planned_as_without_them(router: Router) -> None:
    made = plan(PlanRequest(decision=await router.route('"list the s3 objects, don\'t delete any"')))
    none = plan(PlanRequest(decision=await router.route('"don\'t delete the s3 object"')))
    assert told(made) == [("s3:list_objects", {}, ())]  # The task was called with as the name of a bucket.
    assert made.steps[0].task == "list the s3 objects"
    assert none.reasons == ("the task says only what is not to be done; nothing is called",)


async def test_no_tool_takes_the_place_of_the_best_because_a_quoted_message_speaks_of_it(router: Router) -> None:
    task = "post 'refund the charge and book a desk' to the slack channel"
    made = plan(PlanRequest(decision=await router.route(task)))
    assert [step.tool for step in made.steps] == ["slack:post_message"]


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("refund the charge ch_1 -> send an email to Ana", ["refund the charge ch_1", "send an email to Ana"]),
        ("rename notes.txt -> todo.txt", ["rename notes.txt -> todo.txt"]),
        ("Refund it. Lastly, send an email to Ana", ["Refund it", "send an email to Ana"]),
        ("list my files", ["list my files"]),
        ('say "one and two, then three"', ['say "one and two, then three"']),
        ("post 'Ana's part, then Bo's' to all", ["post 'Ana's part, then Bo's' to all"]),
        ("name it „eins, dann zwei“", ["name it „eins, dann zwei“"]),
        ("say 'one\ntwo, then three' to all", ["say 'one\ntwo, then three' to all"]),
        ("a long list e.g. this one", ["a long list e.g. this one"]),
        ("update it, next step call Ann, next week", ["update it", "next step call Ann", "next week"]),
        ("update it, next call Ann", ["update it", "call Ann"]),
        ("Read it. Then send it.", ["Read it", "send it."]),
        ("fetch it; afterwards please delete it", ["fetch it", "delete it"]),
        ("- buy milk\n- buy bread", ["buy milk", "buy bread"]),
        (
            "Lee wrote:\n> Cancel it. Then refund it.\nDraft a reply",
            ["Lee wrote:\n> Cancel it. Then refund it.", "Draft a reply"],
        ),
        (
            "why does it fail?\n```\nsend()\n\nstop()\n```\nreview it",
            ["why does it fail?\n```\nsend()\n\nstop()\n```", "review it"],
        ),
        (
            "at a.B(C.java:4)\nat a.D(C.java:5)\n\nopen an issue",
            ["at a.B(C.java:4)\nat a.D(C.java:5)\n\nopen an issue"],
        ),
        ("List the pods. Email Bo\n--\nAna. Sales", ["List the pods", "Email Bo\n--\nAna. Sales"]),
        ("mark it (see B2) as done and email Ana", ["mark it (see B2) as done", "email Ana"]),
        (
            "Here is the log:\n10:11:12 x and y\n\nopen an issue",
            ["Here is the log:\n10:11:12 x and y\n\nopen an issue"],
        ),
        ("$ x get\nStart: 10\nUpdate: no\n\nopen an issue", ["$ x get\nStart: 10\nUpdate: no\n\nopen an issue"]),
        ("open an issue.\nMy log:\n10:11:12 x and y", ["open an issue.\nMy log:\n10:11:12 x and y"]),
        (
            "Summarize this log:\n10:11:12 x and y\n\nopen an issue",
            ["Summarize this log:\n10:11:12 x and y", "open an issue"],
        ),
        (
            "$ ls\r\nREADY STATUS\r\n\r\nOps need to know\r\nopen an issue",
            ["$ ls\nREADY STATUS\n\nOps need to know", "open an issue"],
        ),
        ("find contacts - no email, no phone, then count them", ["find contacts - no email, no phone", "count them"]),
        ("Who is on call in Oslo? No phone", ["Who is on call in Oslo? No phone"]),
        ("Close ticket 8. Then email Ana", ["Close ticket 8", "email Ana"]),
        ("Read it. After that's done, send it", ["Read it", "After that's done, send it"]),
        ("Close ticket 1. Then close ticket 2. Tell Ana", ["Close ticket 1", "close ticket 2", "Tell Ana"]),
        ("who booked room 5) and until when", ["who booked room 5)", "until when"]),
        ("do this: 1) close ticket 8. 2) email Ana", ["do this:", "close ticket 8.", "email Ana"]),
        ("Zimmer vom 3. bis 7. Juli buchen", ["Zimmer vom 3. bis 7. Juli buchen"]),
    ],
)
def test_seams(task: str, parts: list[str]) -> None:
    assert [part.text for part in cut_task(task)] == parts


@pytest.mark.parametrize("blank", ["\n", " ", "\t", "\r\n", " \n", "\n  "])
def test_blanks_all_over_a_task_cost_no_time(blank: str) -> None:
    task = f"list the bugs{blank * (3_900 // len(blank))}email Ana"
    # It takes up to 70 ms; sought from within runs of blanks, seams took minutes.
    assert seconds(lambda: cut_task(task), runs=3) < 1


def test_a_hostile_text_takes_no_time() -> None:
    texts = ("a.b" * 30_000, "a/" * 50_000, '"' * 100_000, " '" * 50_000, "and then " * 10_000, "1:2-" * 25_000)
    assert seconds(lambda: [planned(text) for text in texts]) < 5
