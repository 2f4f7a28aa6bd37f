"""Where a task falls into parts. More careful than the clauses that routing reads: each part may become a call.

Strong seams ("then", a numbered list, a new sentence) order the parts; weak ones ("and", a comma) leave them side by
side, and count only where the planner finds a different tool on each side. Quoted and pasted text is never cut, and
pasted text is no part of its own.
"""

import re
from dataclasses import dataclass, replace

from orchestrator.index.text import stem
from orchestrator.language.asides import Condition, conditions
from orchestrator.language.handed import handed_over
from orchestrator.language.lists import numbered
from orchestrator.language.negation import forbidden_places
from orchestrator.language.pleasantries import is_pleasantry, without_closing
from orchestrator.language.quoted import PASTED, QUOTE, unquoted
from orchestrator.language.reports import errands, handed_on, reports
from orchestrator.language.sentences import NO_END
from orchestrator.language.verbs import may_act
from orchestrator.language.words import MAX_CUT, asks_something, first_word

_THEN = (
    r"(?:(?:then|after\s+that(?!['’]|\s(?:is|has|was)\b)|afterwards?|finally|lastly)\b"
    r"|next\b(?!\s+(?:step|action|page|time|day|week|month|quarter|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b))"
)
"""Words of order; not "next week" or "next step", which are what is spoken of."""
# No seam is sought from within a run of blanks: thousands of empty lines cost no time.
_SEAM = re.compile(
    r"(?P<strong>"
    rf"(?:[,;.]|(?<!\s))\s+and\s+{_THEN},?\s+"
    rf"|[,;.]\s*{_THEN},?\s+"
    r"|(?<!\s)\s+then\s+"
    r"|(?<!\s)\s*(?:[-=]>|→)\s*"
    r"|(?:(?<!\s)\s++|(?<=\s)|^)(?:\d{1,2}[.)]|[-*•])\s+"
    rf"|[.!?;]\s+(?!{NO_END})(?=[A-Z\"“])|\n+"
    r")|(?P<weak>(?:,|(?<!\s)|(?<=\n))\s+and(?:\s+also)?\s+|,\s+(?:also\s+|plus\s+)?)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<=\S)[^\S\n]+(?=(?P<number>\d{1,2}[.)])\s)")
_UNSAID = re.compile(
    r"(?:[\s\0,.;:!?()*•-]|\d[.)]|\b(?:and|but|then|please|so|just)\b"
    r"|\b(?:once|when|after) (?:you(?:['’]re| are)|(?:that|this|it)(?:['’]s| is)) (?:done|finished|ready)\b)*",
    re.IGNORECASE,
)
"""What stands besides in a part that only forbids, and in one that only says when."""
_LACKING = re.compile(r"no\s+(?!need\b)[\w-]+(?:\s[\w-]+)?[.!]?", re.IGNORECASE)
"""A part that only says what the part before lacks: "find contacts - no email"."""
_AT_HAND = re.compile(
    r"\s*(?:(?:there(?:['’]s|\s(?:is|are|was|were))\s|(?:i|we)(?:\shave|['’]ve(?:\sgot)?)\s)?no\s+(?!need\b)\w"
    r"|(?:here(?:['’]s|\s(?:is|are))|this is|these are|attached (?:is|are))\s)[^,.;!?\n]*",
    re.IGNORECASE,
)
"""What a sentence begins with that belongs to the part behind it: what is missing or at hand."""
_DID = (
    r"(?:i|we|you|he|she|they)(?:['’]ve|\s(?:have|has|already|just))*\s(?:bought|broke|brought|built|did|forgot|found|gave"
    r"|got|held|kept|left|lost|made|met|paid|put|ran|saw|sent|set|shut|sold|spoke|told|took|went)\b[^,.;!?\n]*"
)
_TOLD = re.compile(
    rf"{_DID}|"
    r"(?:(?!\b(?:want|would|could|please)\b|\s(?:who|which|that|what|why|whether|if|how|where)\b)[^,.;!?\n])*"
    r"(?:n['’]t|\b(?:not|wrote|writes|said|says))\b(?!\s(?:forget|hesitate)\b)[^,.;!?\n]*",
    re.IGNORECASE,
)
"""The same where it neither acts nor asks, and no order follows ("then"): what is not so, or what somebody says. "Ana
hasn't answered" tells; "the users who haven't answered" are sought."""
_READY = re.compile(r"[^,.;!?\n]*\b(?:go ahead|feel free|be so kind|try|go)", re.IGNORECASE)
"""The same right before "and"."""
_UNWANTED = "\0"
"""Stands for each sign of what is forbidden."""
_STOP = re.compile(r"[.;]\s+")
_ARROW = re.compile(r"\s*(?:[-=]>|→)\s*")
_ASKED = frozenset("?？")
_ORDER = re.compile(_THEN, re.IGNORECASE)
_POLITE = re.compile(
    rf"^(?:{_THEN}|(?:please|also|first(?!\sname)|firstly|second|kindly|now|so(?!\s(?:that|far)\b))\b)[,\s]*",
    re.IGNORECASE,
)
_QUESTION = frozenset(("what", "who", "when", "where", "which", "how", "is", "are", "do", "does", "did", "can", "tell"))


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the task, the seam before it ("" for the first, `strong` or `weak`) and how that seam was written."""

    text: str
    joint: str = ""
    seam: str = ""

    @property
    def strong(self) -> bool:
        return self.joint != "weak"

    @property
    def sequential(self) -> bool:
        """Whether the part comes after the ones before it."""
        return self.joint == "strong"

    @property
    def imperative(self) -> bool:
        """Whether the part may begin with something to do: no stop word first, and something after it."""
        words = self.text.split()
        first = words[0].lower().strip(",.") if words else ""
        return len(words) > 1 and (bool(stem(first)) or first in _QUESTION) and not words[0][:1].isdigit()

    def joined(self, other: "Part") -> "Part":
        """Both parts as one, written as they stood in the task."""
        seam = other.seam.lstrip("?？") if self.text.endswith(("?", "？")) else other.seam
        return replace(self, text=f"{self.text}{seam}{other.text}")


def cut_task(task: str) -> list[Part]:
    """The parts in order, without those that only forbid an action.

    One part, the whole, for a task without seams or too long to be a list of things to do.
    """
    task = unquoted(task.replace("\r\n", "\n").strip())
    whole = Part(text=task)
    if len(task) > MAX_CUT or is_pleasantry(task):
        return [whole]
    masked = without_closing(_masked(task))
    task, masked = task[: len(masked)], _joined_to_numbers(masked)
    for begin, end in forbidden_places(task):
        masked = f"{masked[:begin]}{_UNWANTED * (end - begin)}{masked[end:]}"
    parts: list[Part] = []
    start, joint, written, waits = 0, "", "", conditions(task)
    told = (*reports(task), *errands(task), *(said for _, said in handed_on(task)))
    for seam in _SEAM.finditer(masked):
        at = seam.start()
        if any(begin < at < end for begin, end in told) or any(
            _within(at, condition, masked[start : condition.start]) for condition in waits
        ):
            continue
        begins, said = written.strip() in ".!?;", masked[start : seam.start()]
        if (begins and _is_said_first(said, seam.group())) or _goes_on(said, seam):
            continue
        if not _says_nothing(masked, start, seam.start(), joint):
            asked = "?" if seam.group().lstrip()[:1] in _ASKED else ""
            _add(parts, f"{task[start : seam.start()]}{asked}", joint, written)
        start, joint, written = seam.end(), "strong" if seam.group("strong") else "weak", seam.group()
    if not _says_nothing(masked, start, len(masked), joint) or not (parts or _UNWANTED in masked):
        _add(parts, task[start:], joint, written)
    return parts if parts or _UNWANTED in masked else [whole]


def _masked(task: str) -> str:
    """The task with a letter for each sign that it hands over, pastes or quotes."""
    masked = task
    if given := handed_over(task):
        begin, end = len(task[: given[0]].rstrip()), given[1]
        masked = f"{task[:begin]}{'x' * (end - begin)}{task[end:]}"
    for kind in (PASTED, QUOTE):
        masked = kind.sub(lambda match: "x" * len(match.group()), masked)
    return masked


def _says_nothing(masked: str, start: int, end: int, joint: str) -> bool:
    """Whether nothing is left of a part but what is forbidden, words of order and pleasantries."""
    if _UNSAID.fullmatch(masked, start, end):
        return True
    return joint != "weak" and is_pleasantry(masked[start:end])


def _within(place: int, condition: Condition, before: str) -> bool:
    """Whether a seam is inside a condition, or behind one that the part begins with: it belongs to what it is of."""
    at_end = place == condition.end and _UNSAID.fullmatch(before) is not None
    return condition.start < place < condition.end or at_end


def _joined_to_numbers(masked: str) -> str:
    """The text without the blanks before numbers that no item begins with: "close ticket 8. Then ..."."""
    items = {mark.start(1) for mark in numbered(masked)}

    def joined(blank: re.Match[str]) -> str:
        return blank.group() if blank.start("number") in items else "#" * len(blank.group())

    return _NUMBER.sub(joined, masked)


def _is_said_first(said: str, seam: str) -> bool:
    """Whether the beginning of a sentence is nothing to do, but belongs to what stands behind it."""
    if "\n" in seam or "?" in seam:
        return False
    if _AT_HAND.fullmatch(said):
        return True
    told = not _ORDER.search(seam) and _TOLD.fullmatch(said)
    ready = seam.strip().lower() == "and" and _READY.fullmatch(said)
    return bool(told or ready) and not (may_act(first_word(said)) or asks_something(said))


def _goes_on(said: str, seam: re.Match[str]) -> bool:
    """Whether a sentence, of which so much is said before the seam, goes on behind it: behind a full stop in lower case
    but between two actions ("e.g. this"; the pattern ignores case), and behind an arrow before no action ("rename
    a.txt -> b.txt")."""
    rest = seam.string[seam.end() : seam.end() + 100]
    if _STOP.fullmatch(seam.group()) and rest[:1].islower():
        return not (_acts(said) and _acts(rest))
    return _ARROW.fullmatch(seam.group()) is not None and not _acts(rest)


def _acts(text: str) -> bool:
    """Whether a text begins with an action that it says something of."""
    return may_act(first_word(text)) and len(text.split()) > 1


def _add(parts: list[Part], text: str, joint: str, seam: str) -> None:
    cleaned = _POLITE.sub("", text.strip(" \t\n,;")).strip()
    if parts and _LACKING.fullmatch(cleaned):
        parts[-1] = parts[-1].joined(Part(cleaned, joint, seam))
    elif cleaned:
        parts.append(Part(cleaned, joint, seam) if parts else Part(cleaned))
