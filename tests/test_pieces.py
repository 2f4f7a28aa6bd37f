"""What of a text may be a value at all, and that no value is cut."""

from typing import Any

import pytest

from orchestrator.planning.arguments import extract
from orchestrator.planning.pieces import pieces
from tests.decisions import TEXT, schema

NUMBER = {"type": "number"}
NUMBERS = {"type": "array", "items": NUMBER}


def only(text: str, **parameter: Any) -> Any:
    """What the one required parameter gets; None where it gets nothing."""
    return extract(schema(*parameter, **parameter), text).values.get(*parameter)


@pytest.mark.parametrize(
    "text",
    [
        "pay 3 million",
        "pay 20 thousand",
        "pay minus 7",
        "pay it on May 5",
        "pay it by 5 June",
        "pay at 5 p.m.",
        "pay before 9 AM tomorrow",
        "pay 12 500",
        "pay 1,250.00",
        "pay between 20-30",
        "pay 20–30",
        "the film of 1999 gets 4.5",
        "pay a 5th",
    ],
)
def test_a_number_that_says_more_than_its_digits_is_not_cut_out(text: str) -> None:
    assert only(text, amount=NUMBER) is None


@pytest.mark.parametrize(
    ("text", "value"), [("pay $25.50", 25.5), ("pay -3", -3), ("pay −3 now", -3), ("pay 7, please", 7), ("pay 4.", 4)]
)
def test_a_plain_number_is_one(text: str, value: float) -> None:
    assert only(text, amount=NUMBER) == value


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("open (https://example.org/wiki/Oslo_(city)).", "https://example.org/wiki/Oslo_(city)"),
        ("open https://example.org/wiki/Murphy's_law!", "https://example.org/wiki/Murphy's_law"),
        ("see [here](https://example.org/a)", "https://example.org/a"),
        ("open 'https://example.org/a'", "https://example.org/a"),
    ],
)
def test_an_address_is_taken_whole(text: str, url: str) -> None:
    assert only(text, url=TEXT) == url


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("read report-2026-01-02.pdf", "report-2026-01-02.pdf"),
        ("read C:\\Users\\ann\\a.txt", "C:\\Users\\ann\\a.txt"),
        ("read NOTES.markdown", "NOTES.markdown"),
        ("read the minutes, e.g. the last ones", None),
        ("read it at 9 a.m. today", None),
        ("read example.org", None),
    ],
)
def test_a_path_is_taken_whole_and_what_only_looks_like_one_is_none(text: str, path: str | None) -> None:
    assert only(text, path=TEXT) == path


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("meet at 9:30 pm", []),
        ("meet at 9:30", ["time"]),
        ("on the branch release-2026-01-02", ["identifier"]),
        ("in UTC-05:00", []),
        ("at 2026-01-02 09:30", ["datetime"]),
        ("at 2026-01-02 09:30 pm", ["date"]),
    ],
)
def test_half_a_time_or_date_is_none(text: str, kinds: list[str]) -> None:
    assert [piece.kind for piece in pieces(text)] == kinds


@pytest.mark.parametrize(
    "text",
    [
        "write to everybody but ann@example.org",
        "write to all except ann@example.org",
        "don't write to ann@example.org",
        "not to ann@example.org",
        "leave it to somebody other than ann@example.org",
    ],
)
def test_what_is_left_out_is_no_value(text: str) -> None:
    assert only(text, email=TEXT) is None
    assert only(f"{text}, write to bo@example.org", email=TEXT) == "bo@example.org"


def test_a_quoted_address_or_time_may_be_any_text() -> None:
    assert only('search for "ann@example.org"', query=TEXT) == "ann@example.org"
    assert only('export node "1:23"', node_id=TEXT) == "1:23"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("ids=1,2,3", {"ids": [1, 2, 3]}),
        ("ids=1,2,limit=5", {"ids": [1, 2], "limit": 5}),
        ("(limit=5)", {"limit": 5}),
        ("limit=1,000", {}),
        ("get https://example.org/?limit=5", {}),
        ('say "set limit=5"', {}),
    ],
)
def test_what_stands_behind_an_equals_sign_is_taken_whole_and_from_the_task_itself(
    text: str, values: dict[str, object]
) -> None:
    assert extract(schema(ids=NUMBERS, limit={"type": "integer"}), text).values == values
