"""What a task only mentions is told apart from what it asks for."""

import re

import pytest

from orchestrator.language.mentioned import is_mentioned


def mentioned(text: str, before: str = "") -> bool:
    """Of the one word of the text that stands in brackets."""
    plain = text.replace("[", "").replace("]", "")
    start = text.index("[")
    deed = re.compile(r"\w+").match(plain, start)
    assert deed is not None
    return is_mentioned(plain, deed, before)


@pytest.mark.parametrize(
    "text",
    [
        "order 12 was [cancelled]",
        "I'm thinking about [cancelling] it",
        "let me know before [deleting] anything",
        "stop [sending] mails to Bob",
        "we decided not to [merge] it",
        "I no longer want to [cancel] my order",
        "I'll [restart] it myself",
        "Bob will [restart] the server",
        "I can't [cancel] my order",
        "nobody should [restart] it",
        "don't let anyone [merge] it",
        "the [refund] failed",
        "[merging] it failed",
        "the [cancel] button doesn't work",
        "before I [deactivate] the user, show her groups",
        "refuse to [merge] it",
        "prevent [merging] it",
        "make sure nobody [merges] it",
        "it would be wrong to [merge] it",
        "I hesitate to [merge] it",
        "prevent Bob from [merging] it",
        "ban [deploys] of service api",
        "ignore the request to [refund] order 12",
        "I forbid you to [merge] it",
        "you are not allowed to [merge] it",
        "make sure it is not [merged]",
        "keep Bob from [merging] it",
        "prevent order 12 from being [cancelled]",
        "[merging] it would be a mistake",
    ],
)
def test_what_is_done_put_off_or_denied_is_only_mentioned(text: str) -> None:
    assert mentioned(text)


@pytest.mark.parametrize(
    "text",
    [
        "[cancel] order 12",
        "I want it [cancelled]",
        "order 12 [cancelled] please",
        "it'd be nice if you [cancelled] it",
        "can I have a desk [booked] for Friday",
        "I'll need you to [cancel] order 12",
        "I can't find it, could you [cancel] order 12",
        "I plan to [book] a flight to Rome. Use my card",
        "[restart] the job that failed",
        "[refund] charge ch_33, the payment failed",
        "[cancel] order 1001, it could not be delivered",
        "[mute] monitor 12, it keeps failing",
        "would you mind [cancelling] it",
        "see to it that it is [cancelled]",
        "if Bob refuses, [cancel] order 12",
        "Ana objected, [cancel] it anyway",
        "I refused last week but now [cancel] it",
        "don't block order 12, [ship] it",
        "nobody answered and so [cancel] it",
        "don't hesitate to [merge] it",
        "never fail to [refund] order 12",
        "the band wants to [cancel] order 12",
        "Barry would like to [cancel] order 12",
        "in order to prevent a double charge [refund] order 12",
        "provided nobody objects [merge] it",
        "if it's not too late [cancel] order 12",
        "I'm afraid you have to [cancel] order 12",
        "correct the mistake by [refunding] order 12",
    ],
)
def test_what_is_asked_for_is_not(text: str) -> None:
    assert not mentioned(text)


def test_a_wish_reaches_over_its_sentence() -> None:
    assert not mentioned("13 [cancelled]", before="I want 12 refunded and ")
    assert mentioned("13 [cancelled]", before="I want 12 refunded. ")
