"""Words: the search terms of an identifier, a sentence or a schema."""

from collections.abc import Sequence

import numpy as np
import pytest

from orchestrator import Catalogue, Router, Vectors
from tests.catalogues import taking, tool, understood
from tests.test_keyword import by_words


async def terms(text: str) -> set[str]:
    return set((await understood(text)).terms)


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("getUserProfile", "get user profil getuserprofil"),
        ("get_user_profile", "get user profil"),
        ("GitHub", "git hub github"),
        ("HTMLParser", "html parser htmlparser"),
        ("send_message_v2", "send messag v2"),
        ("2FA", "2fa two factor authent"),
        ("2FAToken", "2fa token 2fatoken two factor authent"),
        ("convertMP3ToWAV", "convert mp3 wav convertmp3towav"),
        ("the user\u2019s don't", "user"),
    ],
)
async def test_an_identifier_is_found_by_its_parts_and_whole(identifier: str, words: str) -> None:
    found = await understood(identifier, tool(f"a:{identifier}"))  # So its numbers are words of the catalogue.
    assert set(found.terms) == {*words.split()}


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
async def test_what_is_written_or_bent_in_another_way_is_one_term(asked: str, said: str) -> None:
    assert await terms(asked) == await terms(said)


async def test_scripts_without_spaces_are_found_by_pairs_of_characters() -> None:
    assert await terms("查询北京的天气") == {"查询", "询北", "北京", "京的", "的天", "天气"}
    assert await terms("天气") | {"api"} <= await terms("北京天气API")


@pytest.mark.parametrize("word", ["unit", "celsius", "kelvin", "guests", "mail", "write"])
async def test_nested_parameters_are_found_by_names_texts_and_choices(word: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "unit": {"enum": ["celsius", "kelvin", 3]},
            "guests": {"type": "array", "items": {"properties": {"mail": {"description": "where to write"}}}},
        },
    }
    decision = await by_words(word, tool("a:b", input_schema=schema))
    assert f"parameters: {word}" in decision.matches[0].why


@pytest.mark.parametrize("schema", [None, {}, {"properties": []}, {"properties": {"x": 1}}, {"properties": {"x": []}}])
async def test_a_schema_of_any_shape_can_be_read(schema: dict[str, object] | None) -> None:
    assert (await by_words("warm a room", tool("home:warm", "Warm a room", input_schema=schema))).recommended


async def test_a_users_embedder_reads_a_tool_as_one_text() -> None:
    class Recording:
        id, dimension, remote = "recording", 4, False
        asked: list[str] = []  # noqa: RUF012

        def embed(self, texts: Sequence[str]) -> Vectors:
            self.asked += texts
            return np.full((len(texts), 4), 0.5, np.float32)

    mail = tool("gmail:sendEmail", "Send it now.", keywords=("letter",), input_schema=taking(to="receiver"))
    async with Router(Catalogue([mail]), embedder=Recording()) as router:
        await router.warm()
    [text] = [text for text in Recording.asked if "letter" in text]
    for said in ("gmail", "send Email", "letter", "Send it now", "to receiver"):
        assert said in text


@pytest.mark.parametrize("word", ["app", "os", "dir", "temp", "bus", "pros", "news", "us", "its"])
async def test_what_may_mean_something_else_stays_as_it_is(word: str) -> None:
    found = await understood(f"list {word}")
    assert set(found.terms) <= {"list", word}
    assert found.texts == [f"list {word}"]


async def test_an_acronym_keeps_its_own_term_beside_those_of_its_words() -> None:
    assert await terms("a PR") == {"pr", "pull", "request"}
    assert (await understood("merge the PRs, umpire, CMS")).texts == ["merge the PRs pull request, umpire, CMS"]


KNOWN = tool("a:b", "refund the customer, translate a document, weather forecast, calendar, message messages")


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
async def test_one_slip_is_corrected_and_everything_else_stays(word: str, right: str) -> None:
    assert (await understood(f"show the {word}", KNOWN)).corrected == ({word: right} if right else {})


async def test_a_decision_says_how_a_word_was_read(router: Router) -> None:
    decision = await router.route("refund the custmer")
    assert decision.matches[0].tool.key == "stripe:refund_charge"
    assert 'no tool has the word "custmer": it was read as "customer"' in decision.warnings


async def test_a_title_is_read_as_the_description_that_is_missing() -> None:
    titled = tool("api:op_07", title="List the invoices of a customer")
    described = tool("api:op_07", "List the invoices of a customer")
    found = [(await by_words("list a customer's invoices", own)).matches[0] for own in (titled, described)]
    assert found[0].probability == found[1].probability > 0.5
