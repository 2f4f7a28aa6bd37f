"""What a task waits for or depends on is not asked for, so no tool is called for it."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.language.asides import conditions, without_asides
from orchestrator.planning.planner import plan
from orchestrator.planning.seams import cut_task
from orchestrator.records.plan import Plan, PlanRequest
from orchestrator.routing.router import Router
from orchestrator.routing.understand import understand
from tests.catalogues import tool
from tests.decisions import decision
from tests.timing import seconds


@pytest.mark.parametrize(
    ("task", "condition"),
    [
        ("Once 88 is merged, cut a release", "Once 88 is merged"),
        ("When the invoice is paid, tell finance in slack", "When the invoice is paid"),
        ("If the refund was approved, email the customer", "If the refund was approved"),
        ("email the customer if the refund was approved", "if the refund was approved"),
        ("cut a release once 88 is merged, then tell Bo", "once 88 is merged"),
        ("if it fails, restart it", "if it fails"),
        ("If there's an open PR, please close it", "If there's an open PR"),
        ("List the pods. If nobody has answered, then ping Ana", "If nobody has answered"),
        ("Check the PR and once it's merged, cut a release", "once it's merged"),
        ("merge 88 unless the build is red", "unless the build is red"),
        ("Unless he objects, deactivate the account", "Unless he objects"),
        ("Comment on it where it is bad, otherwise merge it", "otherwise"),
        ("Is it up? If not, restart it", "If not"),
        ("See whether the build is green. If so merge 88", "If so"),
        (
            "If the deal is won and the contract is signed, create an invoice",
            "If the deal is won and the contract is signed",
        ),
    ],
)
def test_a_condition_stands_before_or_behind_what_is_to_be_done(task: str, condition: str) -> None:
    assert [task[one.start : one.end] for one in conditions(task)] == [condition]


@pytest.mark.parametrize(
    "task",
    [
        "After that, send a mail",
        "If possible, filter the rows",
        "If you find duplicates, delete them",
        "tell me if the refund was approved",
        "Once the order is placed, could you update me on its progress?",
        "create an alert if the load exceeds 90",
        "When is the meeting with Bo, and where?",
        "What happens if the card is declined?",
        "list customers after the trial has ended",
        "refresh the page even if it was refreshed yesterday",
        "after my curl show me the logs",
        'add a note "if it is late, cancel the order"',
        "If the card was declined, what does the customer see?",
    ],
)
def test_what_is_asked_for_or_looked_out_for_is_none(task: str) -> None:
    assert conditions(task) == ()


def test_its_words_count_little_and_what_it_is_about_half_and_neither_is_in_the_vector() -> None:
    task = understand("Once pull request 88 is merged, cut a release")
    assert (task.terms["merg"], task.terms["88"], task.terms["releas"]) == (0.1, 0.5, 1)
    assert task.texts == ["cut a release"]


def test_what_somebody_is_told_counts_half() -> None:
    task = understand("email Bo that order 12 was cancelled")
    assert (task.terms["cancel"], task.terms["bo"]) == (0.5, 1)
    assert without_asides("tell me that order 12 was cancelled") == "tell me that order 12 was cancelled"


def test_what_somebody_is_reminded_of_counts_a_tenth() -> None:
    for text in ("remind Bo on Friday to merge 88", "set a reminder to merge 88", "add a reminder for me to merge 88"):
        task = understand(text)
        assert task.terms["merg"] == 0.1
        assert "merge" not in task.texts[0]
    assert without_asides("remind me what we agreed on") == "remind me what we agreed on"


def test_it_is_no_part_of_its_own() -> None:
    parts = [part.text for part in cut_task("Check PR 12, and once it is merged, cut a release and tell Bo")]
    assert parts == ["Check PR 12", "once it is merged, cut a release", "tell Bo"]


HUB = Catalogue(
    [
        tool("hub:merge_pull_request", "Merge a pull request."),
        tool("hub:create_release", "Create a release from a tag."),
        tool("pay:refund_charge", "Refund a charge, in full or in part."),
        tool("mail:send_email", "Send an email to a customer."),
    ]
)


@pytest.mark.parametrize(
    ("task", "called"),
    [
        ("Once pull request 88 is merged, create a release", "hub:create_release"),
        ("create a release once pull request 88 is merged", "hub:create_release"),
        ("If the charge was refunded, email the customer", "mail:send_email"),
        ("Once it is merged, create a release", "hub:create_release"),
    ],
)
async def test_nothing_is_called_for_a_condition_and_the_plan_says_that_it_is_not_checked(
    task: str, called: str
) -> None:
    made = await _planned(task)
    assert [step.tool for step in made.steps] == [called]
    assert "no step checks" in made.warnings[0]


async def test_what_it_names_may_be_what_is_done_with() -> None:
    made = await _planned("Once pull request 88 has been approved, merge it")
    assert [step.tool for step in made.steps] == ["hub:merge_pull_request"]


async def _planned(task: str) -> Plan:
    async with Router(HUB) as router:
        return plan(PlanRequest(decision=await router.route(task)))


def test_a_document_tells_no_condition_and_takes_no_time() -> None:
    pasted = "Once it is merged, cut a release. " * 3_000
    assert conditions(pasted) == ()
    assert without_asides(pasted) == pasted
    assert seconds(lambda: [plan(PlanRequest(decision=decision(pasted)))]) < 1


@pytest.mark.parametrize(
    "text",
    [
        "if a " * 800,
        "if a is b " * 400,
        "once " + "x " * 1900 + ", cut it",
        "do x if " * 500,
        "can once a is and ？not " * 200,
        "otherwise " + "\n" * 3900,
    ],
)
def test_a_long_text_takes_no_time(text: str) -> None:
    assert seconds(lambda: [list(conditions(text[:4000]))]) < 0.5
