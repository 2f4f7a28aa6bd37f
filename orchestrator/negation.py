"""Negated actions: "don't delete anything, only list the objects" asks for no deleting, so no leg may read those words.

Which servers a task leaves out is another question: `stages/explicit.py`.
"""

import re

from orchestrator.everyday import may_act

_REST = r"[^,.;:!?\n]*?(?=[,.;:!?\n]|\s(?:but|just|only|instead|then|rather|simply)\b|$)"
"""To the end of the part: a mark, or a word that says what is wanted in its place."""
_FORBIDDEN = re.compile(
    r"(?:(?<=[,.;:!?\n])\s*|^|(?<=\band\s)|(?<=\bbut\s)|(?<=\bplease\s))"
    r"(?:(?:please|and|but|also)\s+){0,3}"
    r"(?:don['’]t|do not|never|must not|should not)\s+(?:ever\s+)?(?P<action>[a-z]+)\b" + _REST,
    re.IGNORECASE,
)
_WITHOUT = re.compile(r"\bwithout\s+[a-z]+ing\b" + _REST, re.IGNORECASE)
_NOTHING = re.compile(r"\b(?P<action>[a-z]+)\s+nothing\b", re.IGNORECASE)
_CUE = re.compile(r"don['’]t|do not|never|must not|should not|without|nothing", re.IGNORECASE)


def without_negated(text: str) -> str:
    """The text without the actions that it forbids; the whole text where nothing else is left."""
    if not _CUE.search(text):
        return text
    left = _FORBIDDEN.sub(_dropped, text)
    left = _NOTHING.sub(_dropped, _WITHOUT.sub(" ", left))
    return left.lstrip(" ,.;:!?\n") or text


def _dropped(found: re.Match[str]) -> str:
    """Nothing of a forbidden action; "don't forget to" and "don't worry" forbid none."""
    return " " if may_act(found["action"].lower()) else found.group()
