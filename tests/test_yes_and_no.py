"""What a turn says to the one before: yes to an offer, no, or a remark that asks for nothing."""

import pytest

from orchestrator.records.request import Turn
from orchestrator.records.tool import Stage
from orchestrator.routing.conversation import Meant, meant
from orchestrator.routing.router import Router
from tests.test_conversation import keys

OFFER = [Turn(text="the api is down"), Turn(text="Do you want me to restart the api?", role="assistant")]
DONE = [Turn(text="refund ch_1", tools=("pay:refund",)), Turn(text="I refunded ch_1.", role="assistant")]


@pytest.mark.parametrize(
    "said", ["yes", "y", "absolutely", "ok do it", "great, do that", "thanks, please do", "sounds good", "👍"]
)
def test_a_yes_in_its_many_forms_means_the_offer(said: str) -> None:
    assert meant(said, OFFER, {"restart"}).text == "restart the api"


@pytest.mark.parametrize(
    "said",
    [
        "I can restart the api for you. Is that ok?",
        "I'm about to restart the api for you. Continue?",
        "Shall I restart the api for you?",
        "Would you like me to restart the api for you?",
    ],
)
def test_an_offer_has_many_forms(said: str) -> None:
    assert meant("yes", [Turn(text="the api is down"), Turn(text=said, role="assistant")]).text == (
        "restart the api for you"
    )


@pytest.mark.parametrize(
    "said", ["ok", "ok thanks", "it worked", "that's all, thanks", "that was wrong", "wow", "bye", "I'll check it"]
)
def test_a_remark_on_what_was_done_asks_for_nothing(said: str) -> None:
    assert meant(said, DONE) == Meant(said, asks=False)


@pytest.mark.parametrize(
    "said",
    ["skip it", "hmm", "it's fine as it is", "leave it as it is", "nein", "pas encore", "maybe later", "keep it"],
)
def test_a_refused_offer_asks_for_nothing(said: str) -> None:
    assert meant(said, OFFER) == Meant(said, asks=False)


@pytest.mark.parametrize(
    "said",
    [
        "That was quick. What's the weather in Oslo?",
        "It works. Who is on call tonight?",
        "That's all good, now for order 1002",
        "That's bad. The customer wants a refund for charge ch_33",
        "it looks good - mail it to anna@x.com",
        "I'll need a parking space too",
        "Can it be moved to 4pm?",
        "do it again",
    ],
)
def test_what_says_more_than_a_remark_asks_for_something(said: str) -> None:
    assert meant(said, DONE).asks


def test_an_answer_to_a_question_is_no_remark() -> None:
    turns = [Turn(text="return order 12"), Turn(text="What's the reason?", role="assistant")]
    assert meant("It is the wrong size", turns).asks


@pytest.mark.parametrize(
    "said",
    [
        "Please confirm that you want me to cancel order 1001.",
        'Reply "yes" to confirm.',
        "I will cancel order 1001 if you agree.",
        "I'm going to cancel order 1001. Is that ok?",
    ],
)
def test_a_yes_to_what_is_to_be_confirmed_means_the_request(said: str) -> None:
    turns = [Turn(text="cancel order 1001"), Turn(text=said, role="assistant")]
    assert meant("yes", turns).text == "cancel order 1001"


def test_a_remark_before_an_action_is_none() -> None:
    assert meant("that was wrong, cancel it", DONE).asks
    assert meant("thanks, now refund ch_8", DONE) == Meant("thanks, now refund ch_8")


async def test_what_is_taken_back_is_not_done_again(router: Router) -> None:
    turns = [Turn(text="post hello to #eng", tools=("slack:post_message",))]
    found = await router.route("undo that", conversation=turns)
    assert "slack:post_message" not in keys(found)


async def test_a_remark_recommends_nothing_and_says_so(router: Router) -> None:
    turns = [Turn(text="post hello to #eng", tools=("slack:post_message",)), Turn(text="Posted.", role="assistant")]
    found = await router.route("it worked", conversation=turns)
    assert (found.stage, found.recommended) == (Stage.NONE, ())
    assert found.warnings[-1].startswith("the turn asks for nothing")
