"""Reports and errands: what a task has somebody told ("email Bo that 88 is merged", "tell Ana we shipped it"), and
what is to be done later or by somebody else ("remind me to merge 88", "ask the team to restart it"). Neither asks for
what it names.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from orchestrator.language.people import INFORMING, MAILING, NAME, PEOPLE, SOMEBODY, one_of
from orchestrator.language.quoted import masked
from orchestrator.language.sending import SENDS_MESSAGE
from orchestrator.language.verbs import may_act
from orchestrator.language.words import MAX_CUT, first_word, words_in

SIGN = r"(?:[^,.;:!?\n]|[.:](?=\w))"
"""Of a part of a sentence; "notes.txt" and "9:30" are within one."""
STATE = (
    r"(?:[a-z]+n['’]t|is|are|was|were|has|have|had|does|did|gets?|got|becomes?|comes?|goes|fails?|passes|succeeds"
    r"|agrees?|says|wants?|exists?|shows|falls?|rises?|drops?|exceeds?|arrives?)"
)
_CALLS = " ".join((*INFORMING, *MAILING, "ask slack update"))
_SAYS = "answer comment post reply respond say write"
_CAUSES = "beg expect get need want"
_INFORMS = "inform notify tell warn"
_CALLED, _SAID, _CAUSED, _INFORMED = (one_of(*verbs.split()) for verbs in (_CALLS, _SAYS, _CAUSES, _INFORMS))
_SENT = rf"(?:{_CALLED}|{_SAID}|let|send)"
_HERE = re.compile(r"(?i)(?:\A|[^\w\s]|\b(?:and|then|to|please|also|now|kindly|you|just|so|or|send|should))\s*\Z")
"""Before what is a verb: "the text that I sent" tells nobody anything."""
_THEY = r"(?:i|we|he|she|it|they)(?:['’](?:m|s|re|ve|ll|d))?\s\w"
_THING = rf"(?:the|my|our|his|her|their)\s(?:(?!that\b|which\b|who\b)[\w#-]+\s){{1,4}}?(?:{STATE}|[a-z]{{3,}}ed)\b"
_WHAT = rf"(?:{_THEY}|{_THING}){SIGN}*"
_WHERE_TO = r"(?:about|and|as|asap|at|before|by|in|now|on|once|over|please|so|then|through|today|using|via|with)"
_KNOW = rf"let\s(?!me\b|us\b){SIGN}{{1,40}}?\sknow\s(?!{_WHERE_TO}\b)(?:that\s)?"
_ANSWER = "how if what when where whether which who why"
_THEY_DO = r"(?=(?:i|we|you|he|she|they)\b)"
_WHOM = rf"(?:{SOMEBODY}|(?P<name>{NAME}|{PEOPLE}))"
_WITH_NOTE = r"(?:add|leave|make|put|send|with|write)\s(?:\w+\s){0,3}?an?\s(?:e?mail|message|note|text)"


class _Form(NamedTuple):
    """One way to say it, and words of which a text has one of each, where it says it so."""

    pattern: re.Pattern[str]
    needed: tuple[frozenset[str], ...]


def _form(pattern: str, *needed: str) -> _Form:
    return _Form(re.compile(rf"(?i)\b{pattern}"), tuple(frozenset(words.split()) for words in needed))


_REPORTS = (
    _form(
        rf"{_SENT}\b(?:\s(?!me\b|us\b){SIGN}{{1,60}}?)?\sthat\s(?P<said>{SIGN}{{1,80}}?\s{STATE}\s{SIGN}*)",
        "that",
        f"{_CALLS} {_SAYS} let send",
    ),
    _form(
        rf"(?:(?P<here>{_CALLED}(?:\s(?:{PEOPLE}|{NAME}))?|note|{_SAID}(?:\s(?:back|down))?)|{_WITH_NOTE})"
        rf"(?:\s(?:about|at|below|beneath|in|on|there|to|under)\s{SIGN}{{1,50}}?)?\sthat\s(?P<said>{_WHAT})",
        "that",
        f"{_CALLS} {_SAYS} note",
    ),
    _form(rf"{_KNOW}(?P<said>{SIGN}+)", "let", "know"),
    _form(rf"(?P<here>{_CALLED})\s(?:{PEOPLE}|{NAME})\s(?P<said>{_THEY}{SIGN}*)", "i we he she it they", _CALLS),
    _form(
        rf"(?P<here>{_INFORMED})\s(?:{PEOPLE}|{NAME})\s(?P<said>{_THING}{SIGN}*)",
        _INFORMS,
    ),
    _form(
        rf"(?P<here>{_SENT})\b(?:\s(?!me\b|us\b){SIGN}{{1,60}}?)?\s(?:saying|to say|stating|announcing)\s"
        rf"(?P<said>\w+\s{SIGN}+)",
        "saying say stating announcing",
        f"{_CALLS} {_SAYS} let send",
    ),
    _form(rf"(?P<here>{_CALLED})\s(?:{PEOPLE}|{NAME})\s(?:because|since)\s(?P<said>{SIGN}+)", "because since", _CALLS),
    _form(rf"(?P<here>ask)\s{NAME}\s(?:if|whether)\s(?P<said>(?:s?he|they)\b{SIGN}*)", "ask"),
)
_QUESTIONS = (
    _form(rf"(?P<here>ask)\s{_WHOM}\s(?:{_ANSWER.replace(' ', '|')})\s(?P<said>{SIGN}+)", "ask", _ANSWER),
    _form(
        rf"(?P<here>{_INFORMED})\s{_WHOM}\s(?:how|what|when\s{_THEY_DO}|where|whether|which|who|why)\s?"
        rf"(?P<said>{SIGN}+)",
        _INFORMS,
        _ANSWER,
    ),
)
_RECORD = r"(?:bug|card|issue|ticket|to-?do|(?:asana|jira|linear|trello)\s(?:epic|story|task))"
_RECORDS = "bug card issue ticket todo do epic story task"
_MAKES_RECORD = rf"(?:add|create|file|log|make|open|raise)\s(?:an?|another)\s(?:[\w-]+\s){{0,3}}?{_RECORD}"
_FOR_IT = rf"(?:\s(?:for|in|on)\s{SIGN}{{1,30}}?)?"
_TO_ITS_PLACE = rf"(?P<said>(?P<deed>[a-z]+)\s{SIGN}*?)(?=\s(?:at|for|in|on)\s|(?!{SIGN}))"
_LATER = (
    _form(
        rf"(?:remind\s{SIGN}{{1,40}}?|reminder\s(?:{SIGN}{{1,40}}?\s)?)\bto\s(?P<said>[a-z]{SIGN}*)",
        "to",
        "remind reminder",
    ),
    _form(rf"{_MAKES_RECORD}{_FOR_IT}\sto\s{_TO_ITS_PLACE}", "to", _RECORDS),
    _form(rf"{_RECORD}{_FOR_IT}:\s{_TO_ITS_PLACE}", _RECORDS),
    _form(rf"{_MAKES_RECORD}\s(?:so|that|where)\s(?P<said>{SIGN}+)", "so that where", _RECORDS),
)
_NOT_TO = r"(?:\s(?:not|never))?\sto"
_DEED = rf"\s(?P<said>(?P<deed>[a-z]+)\s{SIGN}*)"
_ERRANDS = (
    _form(rf"(?:(?P<here>{_CALLED})|asking)\s(?:{PEOPLE}|(?P<name>{NAME})){_NOT_TO}{_DEED}", "to", f"{_CALLS} asking"),
    _form(
        rf"(?P<here>(?:write|reach out|get back)\sto)\s(?:{SOMEBODY}|(?P<name>{NAME})){_NOT_TO}{_DEED}",
        "to",
        "write reach get",
    ),
    _form(rf"{_CAUSED}\s(?!someb|someo)(?:{SOMEBODY}|(?P<name>{NAME})){_NOT_TO}{_DEED}", "to", _CAUSES),
    _form(rf"(?P<here>have)\s(?!them\b|someb|someo)(?:{SOMEBODY}|(?P<name>{NAME})){_DEED}", "have"),
)
_REASON = re.compile(rf"(?i)\b(?:because|since)\s(?P<said>(?:{_WHAT}|{SIGN}{{1,40}}?\s{STATE}\s{SIGN}*))")

_PLANNED = re.compile(
    r"(?i)(?:\b(?:will|shall|can|could|should|would|must|may|might|to)|['’](?:ll|d))\s(?:not\s|also\s|have to\s)?"
    r"(?P<deed>[a-z]+)"
)
"""What is told that somebody is to do: another verb behind "and" is theirs, too."""
_JOINT = re.compile(r"(?i)\s(?:and|then|but)\s(?:then\s|please\s|also\s)*")

Span = tuple[int, int]


@lru_cache(maxsize=32)  # A task and its parts are read for words, vectors, modes and plans.
def reports(text: str) -> tuple[Span, ...]:
    """From where to where a text says what somebody is told or asked, in no order."""
    asked = [found for found in _asked(text) if not found["name"] or _is_sent(found)]
    return tuple((found.start("said"), _end_of_report(found)) for found in (*_said(text, _REPORTS), *asked))


@lru_cache(maxsize=32)
def errands(text: str) -> tuple[Span, ...]:
    """From where to where a text says what somebody is reminded of or asked to do, in no order."""
    others = [found for found in _charged(text) if not found["name"] or _is_sent(found)]
    return tuple(found.span("said") for found in (*_said(text, _LATER), *others))


def handed_on(text: str) -> tuple[tuple[str, Span], ...]:
    """Names of who is asked to do something, and from where to where a text says what: of somebody, or of a server."""
    return tuple((found["name"], found.span("said")) for found in _charged(text) if found["name"])


def questions(text: str) -> tuple[Span, ...]:
    """From where to where a text says who, be it an assistant or a wiki, is asked what, or told how, when or why."""
    return tuple((found.end("here"), _end_of_report(found)) for found in _asked(text))


@lru_cache(maxsize=32)
def _asked(text: str) -> Sequence[re.Match[str]]:
    """Where it says who is asked what."""
    return _said(text, _QUESTIONS)


@lru_cache(maxsize=32)
def _charged(text: str) -> Sequence[re.Match[str]]:
    """Where it says who is asked to do what."""
    return _said(text, _ERRANDS)


def reasons(text: str) -> list[Span]:
    """From where to where a text says why: "because order 12 was cancelled"."""
    lowered = text.lower()
    said = "because" in lowered or "since" in lowered
    return [(found.start("said"), _end_of_report(found)) for found in _REASON.finditer(text)] if said else []


def _said(text: str, forms: Iterable[_Form]) -> list[re.Match[str]]:
    """Where the forms fit, and what is written as a verb is one."""
    words = words_in(text)
    may_fit = [form.pattern for form in forms if not any(map(words.isdisjoint, form.needed))]
    if not may_fit or len(text) > MAX_CUT:
        return []
    read = masked(text)
    return [found for pattern in may_fit for found in pattern.finditer(read) if _has_verbs(found)]


def _is_sent(found: re.Match[str]) -> bool:
    """Whether it is known that somebody is asked, and no server."""
    return found.string.endswith(SENDS_MESSAGE, 0, found.start())


def _end_of_report(found: re.Match[str]) -> int:
    """Where a report ends: before another order ("tell Ana I'm late and cancel the 3pm"), which is none where what is
    told goes on ("that we will cancel it and refund her")."""
    planned = _PLANNED.search(found.string, found.start("said"), found.end("said"))
    if planned and may_act(planned["deed"].lower()):
        return found.end("said")
    for joint in _JOINT.finditer(found.string, found.start("said"), found.end("said")):
        behind = found.string[joint.end() : found.end("said")]
        if may_act(first_word(behind)) and len(behind.split()) > 1:
            return joint.start()
    return found.end("said")


def _has_verbs(found: re.Match[str]) -> bool:
    """Whether what a pattern takes for verbs may be ones: where it sends, and what is to be done."""
    verbs, start = found.groupdict(), found.start()
    if verbs.get("here") and not _HERE.search(found.string[max(0, start - 20) : start]):
        return False
    return "deed" not in verbs or may_act(verbs["deed"].lower())
