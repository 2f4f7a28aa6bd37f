"""Listed values: which word of a task is one, and which only looks like one."""

import pytest

from orchestrator.planning.arguments import extract
from orchestrator.planning.choices import nouns_of
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from orchestrator.records.tool import Tool
from tests.decisions import TEXT, decision, schema


def listed(*values: str) -> dict[str, object]:
    return {"type": "string", "enum": list(values)}


TEAM = listed("red", "blue")
BILLS = Tool(
    server="books",
    name="list_bills",
    input_schema=schema(
        status=listed("open", "overdue", "paid", "under_review", "all"),
        team=TEAM,
        rival=TEAM,
        sort_by=listed("date", "amount"),
        order=listed("newest", "oldest"),
        bill_type=listed("invoice", "receipt"),
        risk_level=listed("low", "high"),
        currency=listed("EUR", "US"),
        export=listed("png", "pdf"),
    ),
)
TITLED = Tool(server="books", name="find_bill", input_schema=schema(status=listed("open", "overdue"), title=TEXT))


@pytest.mark.parametrize(
    ("task", "values"),
    [
        # beside the name
        ("list the bills with status overdue", {"status": "overdue"}),
        ("list bills, status: Open", {"status": "open"}),
        ("list bills whose status is under review", {"status": "under_review"}),
        ("list the high-risk bills", {"risk_level": "high"}),
        ("show bills of a low level", {"risk_level": "low"}),
        ("list bills sorted by amount", {"sort_by": "amount"}),
        ("list bills ordered by newest", {"order": "newest"}),
        ("list the bills of team red", {"team": "red"}),
        ('list the bills with status "paid"', {"status": "paid"}),
        # at the noun
        ("show the Overdue bills", {"status": "overdue"}),
        ("open the open bills", {"status": "open"}),
        ("overdue bills of Acme", {"status": "overdue"}),
        ("which bills are under review?", {"status": "under_review"}),
        ("list all paid bills", {"status": "paid"}),
        ("show me the bills that are still open", {"status": "open"}),
        ("list the bills which were overdue in May", {"status": "overdue"}),
        ('which bills of "Acme" are still open?', {"status": "open"}),
        ("list all bills", {"status": "all"}),
        # set apart, behind "as", of a kind, no ordinary word
        ("list the bills of Acme (overdue)", {"status": "overdue"}),
        ("list the bills of Acme from May, overdue", {"status": "overdue"}),
        ("give me the bills of May as a pdf", {"export": "pdf"}),
        ("find an invoice from Acme", {"bill_type": "invoice"}),
        ("list the bills in EUR", {"currency": "EUR"}),
        ("list what is under_review", {"status": "under_review"}),
    ],
)
def test_an_optional_value_is_taken_where_the_task_states_it(task: str, values: dict[str, str]) -> None:
    assert extract(BILLS.input_schema, task, nouns=nouns_of(BILLS)).values == values


@pytest.mark.parametrize(
    "task",
    [
        "please open the bills",
        "open bills of Acme",
        "we want to open bills faster",
        "investigate high postage on the bills",
        "list bills about the low season",
        "list the bills, and tell whoever paid them",
        "list the bills of the red car",
        "list the red bills",
        "list the open and the overdue bills",
        "list bills with status open or paid",
        "list the bills that are not overdue",
        "list the bills that aren't open",
        "list bills that are anything other than paid",
        "list all the payments except overdue ones",
        'find the bill "overdue"',
        "show overdue/a.txt",
        "list the long-overdue bills",
        "list the bills of branch=open",
        "list the bills for plums, high, apples, pears",
        "tell us the bills of May",
        "list the bills by hand, the receipt printer is broken",
        "the bills are open to discussion, list them",
    ],
)
def test_an_ordinary_word_is_no_optional_value(task: str) -> None:
    assert extract(BILLS.input_schema, task, nouns=nouns_of(BILLS)).values == {}


def test_a_quoted_value_is_one_unless_it_may_be_any_text_or_a_name() -> None:
    assert extract(BILLS.input_schema, 'show me whatever is "overdue"').values == {"status": "overdue"}
    assert extract(TITLED.input_schema, 'show me whatever is "overdue"', nouns=nouns_of(TITLED)).values == {}
    told = extract(TITLED.input_schema, 'show the "open" bill titled "A"', nouns=nouns_of(TITLED)).values
    assert told == {"status": "open", "title": "A"}


@pytest.mark.parametrize(
    ("values", "task", "value"),
    [
        (("celsius", "kelvin"), "in Celsius please", "celsius"),
        (("celsius", "kelvin"), "not in kelvin, rather celsius", "celsius"),
        (("celsius", "kelvin"), 'in "kelvin"', "kelvin"),
        (("celsius", "kelvin"), "celsius or kelvin", None),
        (("celsius", "kelvin"), 'a note on "celsius and others"', None),
        (("start", "stop"), "stop the service", "stop"),
        (("low", "high"), "high priority, as disks run low", "high"),
        (("low", "high"), "create a ticket, don't forget the high priority", "high"),
        (("it", "en"), "translate it for me", None),
        (("US", "NO"), "tell us the holidays", None),
        (("US", "NO"), "tell us the holidays of NO", "NO"),
    ],
)
def test_a_required_value_is_the_one_that_is_stated_or_else_the_only_one(
    values: tuple[str, ...], task: str, value: str | None
) -> None:
    assert extract(schema("priority", priority=listed(*values)), task).values.get("priority") == value


def test_one_word_is_not_taken_for_two_parameters() -> None:
    units = listed("km", "mi")
    given = schema("from_unit", "to_unit", from_unit=units, to_unit=units)
    assert extract(given, "how far is it in km").missing == ("from_unit", "to_unit")


def test_a_plan_takes_what_is_said_of_its_tools_noun_alone() -> None:
    def arguments(task: str) -> dict[str, object]:
        return plan(PlanRequest(decision=decision(task, [BILLS]))).steps[0].arguments

    assert arguments("list the overdue bills") == {"status": "overdue"}
    assert arguments("list the bills of overdue parcels") == {}
