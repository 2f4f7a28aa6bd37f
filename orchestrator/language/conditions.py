"""Conditions: what a task waits for or depends on, and does not ask for: "once 88 is merged, cut a release".

Only what tells how things are to be: "if you find duplicates, delete them" and "after that, ..." have no condition.
"""

import re
from collections.abc import Iterator

from orchestrator.language.clauses import asks_something, first_word
from orchestrator.language.everyday import may_act
from orchestrator.language.modes import TELLING
from orchestrator.language.quoted import masked
from orchestrator.text import says

Span = tuple[int, int]

_STATE = (
    r"(?:[a-z]+n['’]t|is|are|was|were|has|have|had|does|did|gets?|got|becomes?|comes?|goes|fails?|passes|succeeds"
    r"|agrees?|says|wants?|exists?|shows|falls?|rises?|drops?|exceeds?|arrives?)"
)
_SUBJECT = r"(?!(?:i|you|we|that|this|possible|needed|necessary|so|not|applicable)\b(?!['’]s))[^,.;:!?\n]{1,80}?"
_WHEN = r"(?:if|once|as soon as|when|whenever|the moment|after|in case|provided(?:\sthat)?)"
_CONDITION = (
    rf"(?:only\s)?(?<!\beven\s){_WHEN}\s(?:{_SUBJECT}\s)?"
    rf"(?:there['’]s|it['’]s|s?he['’]s|that['’]s|{_SUBJECT}\s{_STATE})\b[^,.;:!?\n]*"
)
_CUE = re.compile(rf"(?i)\b{_WHEN}\s")
_AHEAD = re.compile(
    rf"(?i)(?:\A\W*|[.!?;:\n]\W*|,?\s(?:and|but|then|so)\s)(?:(?:and|but|then|so|please)\s)*(?P<said>{_CONDITION}),\s*"
    r"(?=(?P<task>[^.;!?\n]+\??))"
)
_BEHIND = re.compile(
    r"(?i)(?:\A\W*|[.!?;:\n]\W*|,?\s(?:and|but|then|so)\s)(?P<task>[^.;:!?\n]{3,120}?),?\s"
    rf"(?=(?:only\s)?(?:if|once|as soon as|after)\s)(?P<said>{_CONDITION})(?=[.;!,\n]|\Z)"
)
_TOLD_THEN = frozenset("alert ask confirm ensure inform let notify remind tell update verify wait warn".split())
_WATCHED = re.compile(r"(?i)\b(?:alarm|alert|automation|filter|monitor|notification|reminder|rule|trigger|webhook)s?\b")
"""What is made to look out for the condition itself."""


def conditions(text: str) -> Iterator[Span]:
    """From where to where a text tells a condition, without the comma behind it; in order."""
    if not _CUE.search(text):
        return
    said = masked(text)
    found = [one.span("said") for one in _AHEAD.finditer(said) if _does(one["task"])]
    found += [one.span("said") for one in _BEHIND.finditer(said) if _does_alone(one["task"])]
    past = 0
    for start, end in sorted(found):
        if start >= past:
            past = end
            yield start, end


def without_conditions(text: str, least: int) -> str:
    """The text without its conditions; all of it where less than `least` terms would be left."""
    left, past = "", 0
    for start, end in conditions(text):
        left, past = left + text[past:start], end
    left = (left + text[past:]).strip(" ,") if past else text
    return left if says(left, least) else text


def _does(task: str) -> bool:
    """Whether something is to be done; who asks to be told something may well ask about the condition."""
    verb = first_word(task)
    return may_act(verb) and verb not in TELLING and not asks_something(task)


def _does_alone(task: str) -> bool:
    """Whether something is to be done that neither tells of the condition behind it nor looks out for that."""
    return _does(task) and first_word(task) not in _TOLD_THEN and not _WATCHED.search(task)
