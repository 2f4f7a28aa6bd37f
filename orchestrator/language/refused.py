"""Refused deeds: what a task names as what is to stay undone, in an order, too ("refuse to merge it", "make sure nobody
merges it"). Each form is looked for in what stands before the deed, in its sentence."""

import re

_WRONG = r"(?:wrong|unwise|premature|unsafe|dangerous|risky|illegal|pointless|foolish|mistake)"
_UNWILLING = (
    r"(?<!n['’]t\s)(?<!\bnot\s)(?<!\bnever\s)(?<!\bnothing\s)\b"
    r"(?:refus(?:e[sd]?|ing)|declin(?:e[sd]?|ing)|hesitat(?:e[sd]?|ing)|neglect(?:s|ed|ing)?|fail(?:s|ed|ing)?|hate[sd]?"
    rf"|reluctant|unwilling|afraid|too (?:late|early|soon)|{_WRONG})\sto\s(?:\w+ly\s)?"
)
"""I hesitate to, it'd be a mistake to; but "don't hesitate to"."""
_DENYING = (
    r"\b(?:ignor|den|reject|declin|refus)(?:y|e[sd]?|ies|ied|s|ed|ing)\s(?:[\w'’]+\s){0,3}"
    r"(?:request|wish|demand|plea|attempt|proposal|plan)s?\s(?:to|of|for)\s"
)
"""Ignore his request to."""
_HINDERING = (
    r"\b(?:prevent|block|forbid|prohibit|ban|veto|oppos|resist|skip|omit)(?:s|es?|ed|ned|ped|ing|ning|ping)?\s"
    r"(?:(?:the|any|all|further)\s)?(?:[\w'’]+\sfrom\s)?"
)
"""Ban, prevent the, block Bob from."""
_KEEPING = r"\b(?:prevent|keep|stop|protect|hinder)\w*\s(?:[\w'’-]+\s){1,5}from\s(?:being\s|getting\s)?"
"""Keep the whole team from, prevent order 12 from being."""
_NOT = r"\b(?:is|are|was|were|be|does|do|must|should|may|shall)(?:\snot|n['’]t)\s(?:be\s|get\s)?(?:\w+ly\s)?"
"""Make sure it is not, it must not be."""
_BEFORE = re.compile(rf"(?i)(?:{_UNWILLING}|{_DENYING}|{_HINDERING}|{_KEEPING}|{_NOT})\Z")
_SURELY = re.compile(
    r"(?i)(?:(?:\bnot|n['’]t)\slet\s\w+\s(?:\w+\s)?|\bbefore (?:i|we|you)\s|\bforbid(?:s|den)?\s(?:[\w'’]+\s){1,2}to\s"
    r"|\bnot allowed to\s|\b(?:nobody|no one)\s(?:(?:else|ever|may|must|should|can|shall|will)\s){0,2})\Z"
)
"""Before what nobody is to do, or only later, whatever else is asked for: "don't let anyone merge it" may ask to
protect it, and surely not to merge it."""
_BEHIND = re.compile(rf"(?i)[^,.;:!?]*\s(?:is|was|would be|['’]d be)\s(?:\w+\s)?{_WRONG}\b")
"""Behind a deed that is its subject: "merging it would be a mistake"."""


def is_refused(ahead: str) -> bool:
    """Whether what stands before a deed refuses it, unless something is ordered behind it."""
    return _BEFORE.search(ahead) is not None


def is_surely_refused(ahead: str) -> bool:
    """The same, whatever is ordered behind it."""
    return _SURELY.search(ahead) is not None


def is_called_wrong(behind: str) -> bool:
    """Whether what stands behind a deed that begins a sentence says that it is a bad thing to do."""
    return _BEHIND.match(behind) is not None
