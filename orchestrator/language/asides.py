"""Asides: what a task waits for ("once 88 is merged, cut a release"), and its reports and errands ("email Bo that 88 is
merged", "remind me to merge 88"). None of them asks for what it names.

Only what tells how things are to be: "if you find duplicates, delete them" and "after that, ..." have no condition.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from orchestrator.index.text import says
from orchestrator.language.modes import UNSAID
from orchestrator.language.quoted import masked
from orchestrator.language.reports import SIGN, STATE, errands, reports
from orchestrator.language.verbs import may_act
from orchestrator.language.wanted import wanted
from orchestrator.language.words import MAX_CUT, bare, first_word, words_in

_DOES = r"[a-z]{2,}(?:ed|[^s\W\d_]s)"
_SUBJECT = rf"(?!(?:i|you|we|that|this|possible|needed|necessary|so|not|applicable)\b(?!['’]s)){SIGN}{{1,120}}?"
_SURELY = r"(?:if|unless|once|as soon as)"
_WHEN = rf"(?:{_SURELY}|as long as|when|whenever|the moment|after|in case|provided(?:\sthat)?)"
_CONDITION = (
    rf"(?:only\s)?(?<!\beven\s)(?:{_WHEN}\s(?:(?:{_SUBJECT}\s)?(?:there|it|s?he|that)['’]s|{_SUBJECT}\s(?P<state>{STATE}))"
    rf"|{_SURELY}\s(?:{_SUBJECT}\s(?P<does>{_DOES})|(?:i|you|we)(?P<did>['’]ve|\s(?:have|[a-z]+ed)))\b(?!\sme\b))\b{SIGN}{{0,160}}?"
)
_ELSE = r"(?:otherwise|or else|if (?:not|so))"
_CUES = frozenset("if unless once as when whenever moment after case provided otherwise else".split())
"""Of which a condition has one."""
_BEGINS = (
    r"(?:\A(?:(?:hi|hey|hello|please|ok|okay)\b[^,.;:!?\n]{0,20})?\W{0,9}|[.!?;:\n]\W{0,9}|,?\s(?:and|but|then|so)\s)"
)
_AHEAD = re.compile(
    rf"(?i){_BEGINS}(?:(?:and|but|then|so|please)\s)*(?P<said>{_CONDITION})(?:,\s*|\s(?:then|[-–—])\s|:\s)"
    r"(?=(?P<task>(?:[^.;!?\n]|[.](?=\w))+\??))"
)
_BEHIND = re.compile(
    rf"(?i){_BEGINS}(?P<task>(?:[^.;:!?\n]|[.:](?=\w)){{3,120}}?),?\s"
    rf"(?=(?:only\s)?{_WHEN}\s)(?P<said>{_CONDITION})(?=[.;!](?!\w)|[,\n]|\Z)"
)
_INSTEAD = re.compile(rf"(?i)(?:\A|[,.;:!?\n][^\S\n]*(?:and\s|but\s)?)(?P<said>{_ELSE})(?=,?\s(?P<task>[^,.;:!?\n]+))")
"""A condition that was told before."""
_TOLD_THEN = frozenset("alert ask confirm ensure inform let notify remind tell update verify wait warn".split())
_TELLS_ME = re.compile(r"(?i)(?:alert|inform|notify|remind|update|warn)\s(?:me|us)\b")
_WATCHED = re.compile(r"(?i)\b(?:alarm|alert|automation|filter|monitor|notification|reminder|rule|trigger|webhook)s?\b")
"""What is made to look out for the condition itself."""


@dataclass(frozen=True, slots=True)
class Condition:
    """From where to where a text tells a condition, and where in it begins what is to be; the end, where it says only
    that there is something."""

    start: int
    state: int
    end: int


@lru_cache(maxsize=32)  # A task and its parts are read for words, vectors, modes and plans.
def conditions(text: str) -> tuple[Condition, ...]:
    """The conditions that a text tells, without the commas behind them, in order; none of one too long to be a task."""
    if len(text) > MAX_CUT or _CUES.isdisjoint(words_in(text)):
        return ()
    said = masked(text)
    found = [_condition(one) for one in _AHEAD.finditer(said) if _does(one["task"])]
    found += [_condition(one) for one in _BEHIND.finditer(said) if _does_alone(one["task"])]
    found += [Condition(*one.span("said"), one.end("said")) for one in _INSTEAD.finditer(said) if _does(one["task"])]
    apart: list[Condition] = []
    for one in sorted(found, key=lambda one: one.start):
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
    return tuple(apart)


def without_asides(text: str) -> str:
    """The text without its conditions and what it has somebody told; all of it where nothing would be left."""
    return without(text, asides(text))


def asides(text: str) -> list[tuple[int, int]]:
    """From where to where a text tells a condition, has something told or gives an errand, in no order."""
    return [*((one.start, one.end) for one in conditions(text)), *reports(text), *errands(text)]


def without_conditions(text: str) -> str:
    """The text without its conditions alone."""
    return without(text, [(one.start, one.end) for one in conditions(text)])


def without_states(text: str) -> str:
    """The text without what its conditions say of what they are about: of "once 88 is merged" only "88" stays. And
    without its errands."""
    return without(text, [*((one.state, one.end) for one in conditions(text)), *errands(text)])


def without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text without these; all of it where nothing would be left."""
    left, past = "", 0
    for start, end in sorted(spans):
        if start >= past:
            left, past = left + text[past:start], end
    if not past:
        return text
    left = (left + text[past:]).strip(" ,")
    return left if says(left, 1) else text


def _condition(found: re.Match[str]) -> Condition:
    state = max(found.start("state"), found.start("does"), found.start("did"))
    only_there = state < 0 or found.string[found.start("said") : state].rstrip().lower().endswith("there")
    return Condition(found.start("said"), found.end("said") if only_there else state, found.end("said"))


def _does(task: str) -> bool:
    """Whether something is to be done; who asks to be told something may well ask about the condition."""
    return may_act(first_word(task)) and wanted(task) <= UNSAID and not _TELLS_ME.match(bare(task))


def _does_alone(task: str) -> bool:
    """Whether something is to be done that neither tells of the condition behind it nor looks out for that."""
    return _does(task) and first_word(task) not in _TOLD_THEN and not _WATCHED.search(task)
