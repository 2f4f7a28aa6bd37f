"""Identified: what a task says the identifier of itself ("order 4711"), so that no tool has to give it."""

import re
from itertools import islice

from orchestrator.index.text import terms

_NUMBER = re.compile(r"(?<!\S)\S*?\d\S*")
_MOST_NUMBERS, _NEAR = 50, 60
"""Numbers of a task that are looked at, as more are a table's; characters before each."""
_ABBREVIATED = frozenset(("", "no", "nr"))
"""What may stand between a thing and its number: "order no. 4711", "order # 4711"."""
_BY_IDENTIFIER = re.compile(
    r"\b(?:ids?|uids?|guids?|uuids?|keys?|slugs?)\b(?:\W{1,3}(?:of|for)(?:\W{1,3}\w{1,40}){1,3}?)?"
    r"(?:\W{1,3}(?:is|are|was|number))?\W{1,3}\w{0,40}\d",
    re.IGNORECASE,
)
"""An identifier that is called one: "the card with id card_34", "the ID of the series is tt12"."""


def identified_in(task: str) -> frozenset[str]:
    """The terms of what a task identifies itself: by a number right behind it ("order 4711", "channel C0142"), as most
    identifiers have one; of all that it says, where it calls one an identifier."""
    if _BY_IDENTIFIER.search(task):
        return frozenset(terms(task))
    found: set[str] = set()
    for number in islice(_NUMBER.finditer(task), _MOST_NUMBERS):
        near = task[max(number.start() - _NEAR, 0) : number.start()].split()
        before = [word for word in near if word.lower().strip("#.:") not in _ABBREVIATED]
        found.update(terms(number[0]))
        if before and terms(before[-1]):  # "Bob by 5 pm" says nothing of Bob.
            found.update(terms(" ".join(before[-2:])))
    return frozenset(found)
