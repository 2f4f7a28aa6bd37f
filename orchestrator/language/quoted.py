"""Quoted text: what a task cites or pastes (a message, code, another's mail) asks for nothing and forbids nothing.

A task that is quoted as a whole cites nothing.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from orchestrator.index.text import says
from orchestrator.language.handed import handed_over, is_noted
from orchestrator.language.pasted import ANNOUNCED, BEGINS, FORMS, SAID

LEAST_SAID = 2
"""Terms beside its messages that make a text a task."""
LEAST_OF_PART = 1
"""The same of a part: beside it stands the rest of the task."""

_OPENING = re.compile(r"[\"'‘`“„«](?<!\w[\"'‘])")
_BEGINS = re.compile(BEGINS, re.MULTILINE)
# Each kind ends at the next sign of its kind, so that one without its pair costs no time.
_INLINE = (
    r"(?:(?<!\w)\"(?:[^\"]|(?<=\s)\"(?=\S)[^\"]+\"(?!\w))++\"(?!\w)|“[^“”]+”|„[^„“”]+[“”]|«[^«»]+»"
    r"|(?<!\w)'(?=\S)(?:[^'\n]|\n(?!\n)|(?<=\w)'(?=\w))+'(?!\w)|‘(?:[^‘’\n]|\n(?!\n)|(?<=\w)’(?=\w))+’)"
)
QUOTE = re.compile(rf"{_INLINE}|`[^`]+`")
"""Any quoted text with its marks, one sign at each end."""
PASTED = re.compile(
    rf"\A(?:(?:{ANNOUNCED})?(?:{FORMS})\s{{0,9}})+|(?:\s{{0,9}}(?:{ANNOUNCED})?(?:{FORMS}))+", re.MULTILINE
)
"""What is pasted, with what announces it and the space between it and what stands before; at the beginning, and what
stands behind."""
# A quote that stands where a part begins is the task itself.
_QUOTED = re.compile(
    r"(?:(?<=[:=({\[])|(?<=:\n)|(?<=[\w:][^\S\n])(?<!\band\s)(?<!\bthen\s))" + rf"{_INLINE}|{FORMS}|`[^`\n]+`",
    re.MULTILINE,
)
_TOOLS = "agent command function integration job pipeline prompt routine server skill tool workflow".split()
_TITLED = "".join(rf"(?<!\b{kind} )" for kind in _TOOLS) + "(?:named|called)"
"""What a thing is called, but a tool."""
_ASKED = r"(?![^\"'“„«‘`]{0,60}\b(?:question|query|prompt|riddle)|\sthis\b)"
"""Behind "answer": a quote that is no question."""
_MESSAGE = (
    r"(?P<lead>\b(?:add|saying|titled|entitled|translate|post|text|subject|title|body|comment|caption|summary"
    r"|mention(?:s|ing)?|contain(?:s|ing)?|doc|document|page|folder|spreadsheet|presentation"
    rf"|(?<!error )(?<!user )message|{_TITLED}|(?:reply|respond) with"
    r"|search\s[^.!?;\n\"'“„«‘`]{1,60}\sfor)\s"
    r"|(?:\A|[.!?;,\n]\s|\n|\b(?:and|then|please|you|to)\s)"
    r"(?:(?:send|forward|write|draft|compose|text|sms|email|mail|message|post|announce|tell|notify|comment|translate|rephrase"
    r"|paraphrase|proofread|reword|rewrite|shorten|summari[sz]e)"
    r"(?!\sme\b)"
    rf"|(?:answer|reply|respond){_ASKED}"
    r"|(?:create|make|add|open|file|log|raise|schedule)\s(?:an?|another|new))"
    r"\b(?:[^.!?;\n\"'“„«‘`]|\.\b){0,80}[\s(](?<!\ba\s)(?<!\ban\s)(?<!\bthe\s)(?<!\bmy\s)(?<!\bour\s)"
    r"|(?P<reported>\b(?:writes|wrote|says|said|complains|complained|reports|reported"
    r"|(?:ticket|e?mail|message|letter|complaint|review|feedback)\sfrom\s[\w\s]{1,30}):\s))"
    rf"{_INLINE}"
)
"""What is written, posted or translated, and what a thing is called. Other quotes may be the task itself ("the user
asked 'what is due'")."""
_QUOTED_MESSAGE = re.compile(_MESSAGE, re.IGNORECASE)
_ANY_MESSAGE = re.compile(rf"{_MESSAGE}|(?-i:{SAID})", re.IGNORECASE | re.MULTILINE)
_TRANSLATE = re.compile(
    r"(?i)(?:please\s+)?(?:translate|paraphrase|proofread|rephrase|reword|rewrite|shorten|summari[sz]e)\b"
)
"""What says of any quote behind it that it is no task."""
_POINTS = re.compile(
    r"(?i)(?:\A|[.!?,\n]\s{0,9}|\b(?:and|please|(?:can|could|will|would) you)\s)(?:please\s)?"
    r"(?:(?:take care of|deal with|do|handle|look (?:into|at|after)|see to)\s(?:this|it|that|him|her|them)"
    r"|do (?:so|(?:as|what) (?:he|she|they) (?:asks?|wants?|says?))|see below|fyi)\b"
)
"""What makes the message itself the task: "can you take care of this?"."""
_FORBIDS = re.compile(r"(?i)\b(?:(?:do|must|should)(?:\snot|n['’]?t)|never|nobody|not\s(?:to\s)?do)\b")
_END = re.compile(r"[.!?\n]")
_WITH_IT = re.compile(
    r"(?i)(?<!n['’]t )(?<!not )(?<!never )\b(?:forward|look up|post|proofread|read|rephrase|reword|rewrite"
    r"|search(?: the web)? for|send|shorten|summari[sz]e|translate) (?:it|this|that)\b"
)
"""What passes the message on as it is, and leaves what it says undone."""
_MOST = 20
"""A text that says of more what somebody wrote is a record of that."""
_ORDERS = re.compile(
    r"(?i)\?|\b(?:please|(?:can|could) you|let['’]s|(?:answer|reply|respond|tell|write) (?:to )?(?:her|him|them))\b"
)
_OUTSIDE = re.compile(r"[^\WQ]")
_WHOLE = re.compile(
    r"(?:\"[^\"]+\"|“[^“”]+”|„[^„“”]+[“”]|«[^«»]+»|(?P<ticks>`+)(?!\w+\n)[^`]+(?P=ticks)"
    r"|'(?:[^']|(?<=\w)'(?=\w))+'|‘(?:[^‘’]|(?<=\w)’(?=\w))+’)[.!?]?"
)


def unquoted(text: str) -> str:
    """The text without the marks around it, where one pair of them holds all of it: that is the task itself.

    A fence that names its language holds code.
    """
    return text.rstrip(".!?")[1:-1].strip("`").strip() if _WHOLE.fullmatch(text) else text


def without_messages(text: str, least: int = LEAST_SAID) -> str:
    """The text without what a program said and the quotes that it says are messages, titles and the like; all of it
    where too little is left to be a task, which `least` terms are."""
    return "".join(said for said, _ in _messages(text, least))


def with_messages_masked(text: str) -> str:
    """The text with a letter for each sign of those quotes, so that every other sign stays in its place."""
    return "".join(said + "Q" * len(message) for said, message in _messages(text, LEAST_SAID))


@lru_cache(maxsize=32)  # A task and its parts are read for words and vectors, and for the servers that they name.
def _messages(text: str, least: int) -> Sequence[tuple[str, str]]:
    """The text in turns: what it says itself, and the message behind that."""
    if (given := handed_over(text)) and not is_noted(text, *given):
        begin, end = given
        *turns, (last, _) = _messages(text[:begin], 1)
        return [*turns, (last, text[begin:end]), *_messages(text[end:], 1)]
    pasted = _may_paste(text)
    if not pasted and not _OPENING.search(text):
        return [(text, "")]
    turns, past, contexts = [], 0, set(reported(text))
    for found in _ANY_MESSAGE.finditer(text) if pasted else _quotes(text):
        if found["reported"] and found.span() not in contexts:
            continue
        start = max(found.start(), found.end("lead"))
        turns.append((text[past:start], text[start : found.end()]))
        past = found.end()
    turns.append((text[past:], ""))
    least = 1 if _TRANSLATE.match(text) else least
    own = _POINTS.sub("", "".join(said for said, _ in turns))
    return turns if past and says(own, least) else [(text, "")]


def reported(text: str) -> list[tuple[int, int]]:
    """From where to where a text holds what somebody else wrote, with who did, beside what it asks for itself."""
    return [found.span() for found, is_context in _reports(text) if is_context]


def cited(text: str) -> list[tuple[int, int]]:
    """From where to where a text quotes what somebody else wrote, where that is passed on or is the task."""
    reports = _reports(text)
    some = reports if len(reports) <= _MOST else ()
    cites = (found for found, is_context in some if not is_context or _WITH_IT.search(_beside(found)))
    return [(found.end("reported"), found.end()) for found in cites]


@lru_cache(maxsize=32)  # Asked of each match of a Decision.
def _reports(text: str) -> Sequence[tuple[re.Match[str], bool]]:
    """What somebody else wrote, and whether that is only context; of many quotes each is."""
    found = [one for one in _quotes(text) if one["reported"]]
    return [(one, len(found) > _MOST or _is_context(one)) for one in found]


@lru_cache(maxsize=32)
def _quotes(text: str) -> Sequence[re.Match[str]]:
    """The messages and titles that a text quotes, and what it says somebody else wrote."""
    return tuple(_QUOTED_MESSAGE.finditer(text)) if _OPENING.search(text) else ()


def _is_context(found: re.Match[str]) -> bool:
    """Whether something is asked for or forbidden beside what somebody wrote; else that is the task, as where it is
    pointed at."""
    rest = _beside(found)
    if points := _POINTS.search(rest):
        *_, sentence = _END.split(rest[: points.end()])
        return _FORBIDS.search(f"{sentence} {rest[points.end() :]}") is not None
    return bool(_ORDERS.search(rest) or _FORBIDS.search(rest))


def _beside(found: re.Match[str]) -> str:
    return f"{found.string[: found.start()]} . {found.string[found.end() :]}"


@lru_cache(maxsize=32)  # A task and each part of it are read by many, who must not take a quote for their own.
def masked(text: str) -> str:
    """The text with a letter for each sign that it quotes, pastes or is signed with; the text where that is all of it.

    What is quoted then reads as one word, and every other sign stays in its place.
    """
    if given := handed_over(text):
        begin, end = given
        return f"{masked(text[:begin])}{'Q' * (end - begin)}{masked(text[end:])}"
    if not _OPENING.search(text) and not _may_paste(text):
        return text
    said = _QUOTED.sub(lambda found: "Q" * len(found.group()), text)
    return said if _OUTSIDE.search(said) else text


def _may_paste(text: str) -> bool:
    """Whether a line begins like something pasted; of most texts only the first line's beginning is looked at."""
    return bool(_BEGINS.search(text) if "\n" in text else _BEGINS.match(text))
