"""What a task does without, in a part of its own beside it: "no web search", "no sending", "not an email".

Mostly "no" tells a trait or a complaint ("a pizza, no onions", "no call, call again"), so little of it forbids.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from orchestrator.language.clauses import end_of_part
from orchestrator.language.verbs import ACTIONS, may_act
from orchestrator.language.words import first_word

Span = tuple[int, int]

_INSTEAD = r"\s(?:just|only)\b"
_PART = rf"no\s(?:(?!\s[-–—]\s|{_INSTEAD})[^,.;!?()\n])+"
_PARTS = re.compile(
    r"(?i)(?:\A[\s,.;]*(?:please\s)?|[,.;!?]\s{1,9}|\n\s{0,9}|\s[-–—]\s|\s\()"
    rf"(?P<parts>{_PART}(?:(?:[,.;!]\s*|\s[-–—]\s){_PART})*)"
)
"""Parts beside each other that say what is not there or not wanted: "no slack, no email"."""
_DEED = re.compile(
    r"(?i)\bno\s+(?:(?!(?:need|longer|one|to|do|dont|not|never)\b)(?P<which>[a-z]+)\s+)?"
    r"(?P<deed>(?P<had>email|mail|message|sms|call|notification|post|tweet|commit|invite)"
    r"|search|push|edit|delete|restart"
    r"|(?P<made>alert|checkout|comment|deployment|draft|envelope|event|incident|invitation|invoice|issue|meeting|merge"
    r"|payment|pickup|receipt|refund|release|reminder|reply|report|reservation|review|sequence|task|ticket|transfer)"
    r"|(?P<doing>[a-z]+ing))(?P<many>es|s)?(?P<to>\sto\s(?P<whom>[^\W\d_]+)[^,.;!]{0,40}?)?"
    r"(?P<firm>\s+(?:(?P<please>please)|(?P<now>(?P<yet>yet)|at all|for now)|needed|necessary|required))?"
    r"(?=\s*(?:[,.;!]|[-–—]\s|\Z))"
)
"""What tools do, and hardly ever a trait of a thing ("no onions"); `had` may be one ("contacts, no email"), and so may
what is `made`, but where it is said that it is not wanted ("no event please"); `yet` tells that one is missing."""
ANOTHER = r"(?:an?|(?:as|in|on)\san?(?!\snew\b)|by)"
_OTHER = re.compile(
    r"(?i)(?:(?:(?:[,;]|\s[-–—]|\san?\s\w+(?:\s\w+)?)\s|\()(?P<not>not)|\b(?:instead of|rather than))"
    rf"\s{ANOTHER}\s(?=\w)"
)
"""Before what a task wants another thing than: "send a text, not an email"."""
_DROPPED = re.compile(
    r"(?i)(?:\A[\s,.;]*|[,.;!?]\s{1,9}|\n\s{0,9})"
    r"(?P<dropped>(?:never ?mind|forget about)\s(?!(?:to|that|this|it|how|what|why|when)\b)[^,.;:!?\n–—]{1,80}?)"
    r"(?=[,.;!]|\s[-–—]\s)"
)
"""What a task goes on from: "never mind the invoice, just show the balance"."""
RELATING = r"who|that|which|whose|why|how|when|where|if"
_SENTENCE = re.compile(r"[.;!?\n]")
_BESIDE = re.compile(rf"(?i)(?P<stop>\s*(?:[.;!)\n]\s*|\Z))|(?P<just>(?:,|\s[-–—])?{_INSTEAD})|,\s|\s[-–—]\s+")
"""What stands between the parts and the next one."""
_DESCRIBES = re.compile(rf"(?i):|\b(?:with|without|has|have|having|is|are|was|were|{RELATING})\b")
_ASKS = re.compile(r"(?i)(?:what|who|whom|whose|where|when|which|how)\b")
_SEEKING = frozenset("choose count filter find get list locate look pick search select show".split())
_WANTS = re.compile(r"(?i)(?:i|we|they|he|she)(?:['’]d|\swould)?\s(?:want|need|like|prefer)s?\s(?!to\b)")
_MEANT = re.compile(r"(?i)\b(?:it|them)\b")
_ONE = re.compile(r"(?i)\bone(?=\s*(?:[,.;:!?]|\Z)|\s(?:about|at|by|for|from|in|now|on|to|with)\b)")
"""What a task wants because there is none: "no email yet, send one to Bo"."""


def doing(verbs: Iterable[str]) -> frozenset[str]:
    """What these verbs are called as deeds: "deleting" of "delete"."""
    return frozenset(f"{stem}ing" for verb in verbs for stem in (verb, verb.removesuffix("e"), verb + verb[-1]))


DOING = doing(ACTIONS)
"""What is clearly a deed, and no thing ("shipping address")."""


def done_without(said: str) -> Iterator[Span]:
    """From where to where the text says what its task does without; one may stand in another."""
    for found in _PARTS.finditer(said):
        start, end = found.span("parts")
        deeds = [deed for deed in _DEED.finditer(said, start, end) if _is_deed(deed)]
        if deeds and _is_beside_a_task(deeds, said[max(0, start - 300) : start], said[end : end + 300]):
            yield from ((deed.start(), end_of_part(said, deed.end("deed"))) for deed in deeds)
    for dropped in _DROPPED.finditer(said):
        start, end = dropped.span("dropped")
        if _is_beside_a_task((), "", said[end : end + 300]):
            yield start, end
    for other in _OTHER.finditer(said):
        start = max(other.start("not"), other.start())
        if _wants_another(said, start, other):
            yield start, end_of_part(said, other.end())


def _is_deed(deed: re.Match[str]) -> bool:
    """Whether a tool does it, and is told not to: "no sending" but "no living room", "no task needed" but "no task"."""
    if deed["doing"]:
        return not deed["which"] and deed["doing"].lower() in DOING
    return bool((deed["firm"] and not deed["yet"]) or not deed["made"])


def _wants_another(said: str, start: int, other: re.Match[str]) -> bool:
    """Whether an action is asked for before, or behind "instead of an email, "; and nothing is sought or described."""
    task = _last_sentence(said[max(0, start - 300) : start])
    if task or other["not"]:
        wants = _WANTS.match(task) and not _DESCRIBES.search(task)
        return bool(wants) or (_acts(task) and first_word(task) not in _SEEKING)
    return may_act(first_word(said[end_of_part(said, other.end()) :][:300].lstrip(", ")))


def _is_beside_a_task(deeds: Sequence[re.Match[str]], before: str, behind: str) -> bool:
    """Whether the parts stand beside a task, and are no trait or complaint ("no call, call again")."""
    beside = _BESIDE.match(behind)
    if beside is None or any(deed["to"] and may_act(deed["whom"].lower()) for deed in deeds):  # "no message to show"
        return False
    begins = beside["just"] is not None or _begins_a_task(deeds, behind[beside.end() :])
    if not before.strip(" ,.;"):
        return begins
    return (begins or beside["stop"] is not None) and _follows(deeds, before)


def _begins_a_task(deeds: Sequence[re.Match[str]], behind: str) -> bool:
    """Whether a task begins behind the parts, and no second try of the same or of what is missing."""
    task = _SENTENCE.split(behind)[0]
    again = re.search(rf"(?i)\b(?:{'|'.join(('again', *(deed['deed'] + '[a-z]*' for deed in deeds)))})\b", task)
    missing = _ONE.search(task) or any(deed["had"] and deed["yet"] for deed in deeds)
    return not (again or missing) and (may_act(first_word(task)) or bool(_ASKS.match(task)))


def _follows(deeds: Sequence[re.Match[str]], before: str) -> bool:
    """Whether a task stands before the parts, and nothing that may lack what they name."""
    task = _last_sentence(before)
    asks = bool(_ASKS.match(task))
    seeks = asks or (first_word(task) in _SEEKING and not _MEANT.search(task))
    return (asks or _acts(task)) and not (seeks and any(_may_be_trait(deed) for deed in deeds))


def _may_be_trait(deed: re.Match[str]) -> bool:
    """Whether what is sought may lack it: "contacts, no email", "a flat, no payment needed"."""
    if deed["made"]:
        return not deed["please"]
    return bool(deed["had"]) and bool(deed["now"] or not (deed["which"] or deed["many"] or deed["firm"]))


def _last_sentence(text: str) -> str:
    return _SENTENCE.split(text.rstrip(" \n.;!?("))[-1].strip()


def _acts(task: str) -> bool:
    """Whether a sentence asks for an action, and describes nothing."""
    return may_act(first_word(task)) and not _DESCRIBES.search(task)
