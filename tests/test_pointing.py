"""Which parameter a value of the text belongs to: none is better than another's."""

from typing import Any

import pytest

from orchestrator.planning.arguments import extract
from tests.decisions import TEXT, schema

NUMBER = {"type": "number"}
DATE = {"type": "string", "format": "date"}
EMAIL = {"type": "string", "format": "email"}
EMAILS = {"type": "array", "items": EMAIL}
TEXTS = {"type": "array", "items": TEXT}
DAY = "2026-03-01"
"""Stands for any day; `DAY` in the texts."""


def test_a_name_that_two_parameters_share_names_the_one_whose_other_words_are_said() -> None:
    given = schema("group_id", "user_id", group_id=TEXT, user_id=TEXT)
    for text in ('add user id "u" to group id "g"', 'put into group "g" the user "u"'):
        assert extract(given, text).values == {"group_id": "g", "user_id": "u"}
    times = schema("end_time", "start_time", end_time=TEXT, start_time=TEXT)
    found = extract(times, "open it, start time 10:00, end time 11:30").values
    assert found == {"end_time": "11:30", "start_time": "10:00"}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('list the bugs by "Ann"', {"author": "Ann"}),
        ('file a bug in "acme/api" saying "It crashes"', {"body": "It crashes", "repo": "acme/api"}),
        ('file a bug saying "It crashes"', {"body": "It crashes"}),
    ],
)
def test_a_word_that_tells_what_a_quote_is_keeps_it_from_other_parameters(text: str, values: dict[str, str]) -> None:
    assert extract(schema("repo", repo=TEXT, body=TEXT, author=TEXT), text).values == values


@pytest.mark.parametrize(
    ("name", "text", "taken"),
    [
        ("since", "list what came since DAY", True),
        ("until", "list what came since DAY", False),
        ("closing_before", "list what was opened after DAY", False),
        ("closing_before", "list what closes before DAY", True),
        ("start_date", "starting DAY", True),
        ("start_date", "until DAY", False),
        ("end", "move its start to DAY", False),
        ("end", "move its end to DAY", True),
        ("due", "due on DAY", True),
        ("due", "the bill of DAY", False),
        ("birth_date", "who was here DAY", False),
        ("birth_date", "birth date DAY", True),
        ("date", "the orders of DAY", True),
    ],
)
def test_an_optional_date_is_taken_where_something_points_to_it(name: str, text: str, *, taken: bool) -> None:
    found = extract(schema(**{name: DATE}), text.replace("DAY", DAY)).values
    assert found == ({name: DAY} if taken else {})


def test_a_required_date_is_not_taken_from_where_the_opposite_is_said() -> None:
    assert extract(schema("since", since=DATE), f"what came before {DAY}").missing == ("since",)
    assert extract(schema("since", since=DATE), f"what came on {DAY}").values == {"since": DAY}


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        ({"duration_minutes": NUMBER}, "meet for 45 minutes", 45),
        ({"duration_minutes": NUMBER}, "meet for 2 hours", None),
        ({"timeout": NUMBER}, "set the timeout to 30 seconds", None),
        ({"timeout": {**NUMBER, "description": "Seconds to wait"}}, "set the timeout to 30 seconds", 30),
        ({"amount": NUMBER}, "refund 20% of it", None),
        ({"percent": NUMBER}, "give 20 % off", 20),
        ({"month": NUMBER}, "the sales of 6 months", None),
        ({"month": NUMBER}, "the sales of month 6", 6),
        ({"value": NUMBER, "unit": {"type": "string", "enum": ["hours", "days"]}}, "wait 6 hours", 6),
    ],
)
def test_a_number_is_taken_in_its_own_unit_alone(parameter: dict[str, Any], text: str, value: float | None) -> None:
    assert extract(schema(*parameter, **parameter), text).values.get(*list(parameter)[:1]) == value


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("the forecast of the next 5 days", {"days": 5}),
        ("for 3 days, 2 people", {"days": 3}),
        ("limit of 8", {"limit": 8}),
        ("set the limit to 8", {"limit": 8}),
        ("call back in 5 days", {}),
        ("what came 5 days ago", {}),
        ("limit 3 or limit 4", {}),
    ],
)
def test_an_optional_number_is_taken_where_it_is_named_or_counted(text: str, values: dict[str, int]) -> None:
    assert extract(schema(days=NUMBER, limit=NUMBER), text).values == values


def test_the_number_of_a_thing_is_no_amount() -> None:
    pay = schema("amount", amount=NUMBER, invoice=TEXT)
    assert extract(pay, "pay invoice 44").missing == ("amount",)
    assert extract(pay, "please pay 44").values == {"amount": 44}
    assert extract(schema("amount", amount=NUMBER), "refund 44", nouns=frozenset({"refund"})).values == {"amount": 44}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            "send it to ann@example.org, bo@example.org and cy@example.org with cc to di@example.org",
            {"to": ["ann@example.org", "bo@example.org", "cy@example.org"], "cc": ["di@example.org"]},
        ),
        ('note "T" with tags "a", "b" and "c"', {"title": "T", "tags": ["a", "b", "c"]}),
    ],
)
def test_a_list_is_taken_whole_and_no_further(text: str, values: dict[str, object]) -> None:
    notes = schema("title", title=TEXT, tags=TEXTS)
    assert extract(schema("to", to=EMAILS, cc=EMAILS) if "to" in values else notes, text).values == values


@pytest.mark.parametrize(
    ("text", "version"),
    [("deploy 2.0.1", "2.0.1"), ("roll out v2.0.1", "v2.0.1"), ("leave python 3.11.2", None)],
)
def test_a_version_is_what_is_acted_on_and_not_another_things(text: str, version: str | None) -> None:
    assert extract(schema("version", version=TEXT), text).values.get("version") == version


@pytest.mark.parametrize("name", ["file_id", "fileKey", "file_type", "path_prefix"])
def test_the_id_or_type_of_a_file_is_no_path(name: str) -> None:
    assert extract(schema(name, **{name: TEXT}), "export report.docx").missing == (name,)
    assert extract(schema(name, **{name: TEXT}), 'export "r1"').values == {name: "r1"}
