"""Words: the search terms of an identifier, a sentence or a schema."""

import pytest

from orchestrator.index.text import (
    card,
    corrections,
    facets,
    fields,
    parameter_text,
    spelt_out,
    split_words,
    terms,
)
from orchestrator.runtime.router import Router
from tests.catalogues import taking, tool


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("getUserProfile", ["get", "user", "profile", "getuserprofile"]),
        ("get_user_profile", ["get", "user", "profile"]),
        ("GitHub", ["git", "hub", "github"]),
        ("HTMLParser", ["html", "parser", "htmlparser"]),
        ("send_message_v2", ["send", "message", "v2"]),
        ("2FA", ["2fa"]),
        ("2FAToken", ["2fa", "token", "2fatoken"]),
        ("convertMP3ToWAV", ["convert", "mp3", "to", "wav", "convertmp3towav"]),
        ("aB1" * 40, ["ab1" * 40]),  # A hash is one word and not a hundred.
        ("the user’s don't", ["the", "user", "don"]),
    ],
)
def test_an_identifier_is_found_by_its_parts_and_as_a_whole(identifier: str, words: list[str]) -> None:
    assert list(split_words(identifier)) == words


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Searching the documents", "search document"),
        ("Übersetze naïve Café ﬁle", "Ubersetze naive Cafe file"),
        ("sla\u200bck me\u00adssage \ufeffpost", "slack message post"),
        ("создай новый файл", "создать новые файлы"),
        ("الرسائل", "رسائل"),
        ("αρχείο", "αρχεία"),
        ("repos K8S organised payments mtg", "repositories kubernetes organize pay meeting"),
    ],
)
def test_what_is_written_or_bent_in_another_way_is_one_term(asked: str, said: str) -> None:
    assert terms(asked) == terms(said)


def test_scripts_without_spaces_are_found_by_pairs_of_characters() -> None:
    assert terms("查询北京的天气") == ["查询", "询北", "北京", "京的", "的天", "天气"]
    assert set(terms("天气")) <= set(terms("北京天气API"))
    assert "api" in terms("北京天气API")


def test_parameters_are_searched_by_names_descriptions_and_choices_nested_ones_too() -> None:
    schema = {
        "type": "object",
        "properties": {
            "unit": {"enum": ["celsius", "kelvin", 3]},
            "guests": {"type": "array", "items": {"properties": {"mail": {"description": "where to write"}}}},
        },
    }
    assert parameter_text(schema) == "unit celsius kelvin guests mail where to write"


@pytest.mark.parametrize("schema", [None, {}, {"properties": []}, {"properties": {"x": 1}}, {"properties": {"x": []}}])
def test_a_schema_of_any_shape_can_be_read(schema: dict[str, object] | None) -> None:
    assert parameter_text(schema) in ("", "x")


def test_a_tool_is_searched_by_five_fields_and_embedded_as_one_text() -> None:
    mail = tool("gmail:sendEmail", "Send it now.", keywords=("letter",), input_schema=taking(to="receiver"))
    assert fields(mail) == [
        ("server", "gmail"),
        ("name", "sendEmail"),
        ("keywords", "letter"),
        ("description", "Send it now."),
        ("parameters", "to receiver"),
    ]
    for said in ("gmail", "send Email", "letter", "Send it now", "to receiver"):
        assert said in card(mail)


@pytest.mark.parametrize("word", ["app", "os", "dir", "temp", "bus", "pros", "news", "us", "its"])
def test_what_may_mean_something_else_stays_as_it_is(word: str) -> None:
    assert terms(word) in ([], [word])
    assert spelt_out(word) == word


def test_an_acronym_keeps_its_own_term_beside_those_of_its_words() -> None:
    assert terms("a PR") == ["pr", "pull", "request"]
    assert spelt_out("merge the PRs, umpire, CMS") == "merge the PRs pull request, umpire, CMS"


KNOWN = terms("refund the customer, translate a document, weather forecast, calendar, message messages")


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("custmer", "customer"),
        ("wheather", "weather"),
        ("trnslate", "translate"),
        ("messsage", "message"),
        ("customer", ""),
        ("qwxzptf", ""),
        ("doc", ""),
        ("кастомер", ""),
        ("custmer42", ""),
    ],
)
def test_one_slip_is_corrected_and_everything_else_stays(word: str, right: str) -> None:
    assert corrections([word], KNOWN) == ({word: right} if right else {})


async def test_a_decision_says_how_a_word_was_read(router: Router) -> None:
    decision = await router.route("refund the custmer")
    assert decision.matches[0].tool.key == "stripe:refund_charge"
    assert 'no tool has the word "custmer": it was read as "customer"' in decision.warnings


def test_a_title_is_read_as_the_description_that_is_missing() -> None:
    titled = tool("api:op_07", title="List the invoices of a customer")
    described = tool("api:op_07", "List the invoices of a customer")
    assert fields(titled) == fields(described)
    assert facets(titled) == facets(described)
