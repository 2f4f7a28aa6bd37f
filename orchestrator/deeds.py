"""What tools do and a task does without: "no web search", "no emails", as a part of its own beside the task."""

import re

from orchestrator.clauses import first_word
from orchestrator.everyday import may_act

_INSTEAD = r"(?:,|\s[-–—])?\s(?:just|only)\b"
DEED = (
    r"no\s+(?:(?!(?:need|longer|one|to|do|dont|not|never)\b)(?P<which>[a-z]+)\s+)?"
    r"(?P<deed>(?P<had>email|mail|message|sms|call|notification|post|tweet|commit|invite)"
    r"|search|push|edit|delete|restart)(?P<many>es|s)?"
    r"(?=(?P<to>\sto\s(?P<whom>[^\W\d_]+)[^,.;:!?()\n]{0,40}?)?(?P<please>\s+(?:please|needed|necessary|required))?"
    rf"(?:\s*(?:[,.;!)\n]|[-–—]\s|\Z)|{_INSTEAD}))"
)
"""What tools do, and hardly ever a trait of a thing ("no onions"); `had` may be one ("contacts, no email")."""
RELATING = r"who|that|which|whose|why|how|when|where|if"
_JUST = re.compile(f"(?i){_INSTEAD}")
_APART = re.compile(r"(?:[,.;!?]\s+|\n\s*|\s[-–—]\s+|\s\()\Z")
_SENTENCE = re.compile(r"[.;!?\n]")
_BESIDE = re.compile(r"(?i)(?:(?P<stop>\s*(?:[.;!)\n]\s*|\Z))|,\s(?P<no>no\s)?|\s[-–—]\s+)")
"""What stands between the part and the next one."""
_PARTS = re.compile(r"(?i)(?:(?:please\s+)?no\s+\w+(?:\s\w+)?(?:[,.;!]\s*|\s[-–—]\s))*")
"""Parts that say what else the task does without: "no slack, no email, ..."."""
_DESCRIBES = re.compile(rf"(?i):|\b(?:with|without|has|have|having|is|are|was|were|{RELATING})\b")
_ASKS = re.compile(r"(?i)(?:what|who|whom|whose|where|when|which|how)\b")
_ASKED = re.compile(r"\)\?|\?\s\Z|\s\(\Z")
_SEEKING = frozenset("choose count filter find get list locate look pick search select show".split())
_MEANT = re.compile(r"(?i)\b(?:it|them)\b")


def does_without(head: re.Match[str]) -> bool:
    """Whether a task does without this DEED; not where it may be a trait or a complaint ("no call, call again")."""
    end = max(head.end(), head.end("to"), head.end("please"))
    before, behind = head.string[max(0, head.start() - 300) : head.start()], head.string[end : end + 300]
    if head["to"] and may_act(head["whom"].lower()):  # "no message to show"
        return False
    just = bool(_JUST.match(behind))
    if _PARTS.fullmatch(before.lstrip(" ,.;")):
        return just or _begins_a_task(head, behind)
    beside = _BESIDE.match(behind)
    ends = just or (beside is not None and (beside["stop"] is not None or beside["no"]))
    return bool(_APART.search(before) and (ends or _begins_a_task(head, behind))) and _follows(head, before, behind)


def _follows(head: re.Match[str], before: str, behind: str) -> bool:
    """Whether a task stands before the part, and nothing that may lack what it names."""
    task = _SENTENCE.split(before.rstrip(" \n.;!?("))[-1].strip()
    asks, first = bool(_ASKS.match(task)), first_word(task)
    seeks = asks or (first in _SEEKING and not _MEANT.search(task))
    if seeks and head["had"] and not (head["which"] or head["many"] or head["please"]):
        return False
    if asks:
        return bool(_ASKED.search(before) or _ASKED.match(behind))
    return may_act(first) and not _DESCRIBES.search(task)


def _begins_a_task(head: re.Match[str], behind: str) -> bool:
    """Whether a task begins behind the part, and no second try of the same."""
    if (beside := _BESIDE.match(behind)) is None:
        return False
    start = beside.start("no") if beside["no"] else beside.end()
    parts = _PARTS.match(behind, start)
    task = _SENTENCE.split(behind[parts.end() if parts else start :])[0]
    again = re.search(rf"(?i)\b(?:again|{head['deed']}\w*)\b", task)
    return not again and (may_act(first_word(task)) or bool(_ASKS.match(task)))
