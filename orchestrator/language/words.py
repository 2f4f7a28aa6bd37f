"""Words of a text: those by which a form of speech is ruled out before a pattern looks for it, and the first."""

import re
from functools import lru_cache

MAX_CUT = 4_000
"""A longer query is a pasted document: context, not a list of tasks."""

WORD = re.compile(r"[^\W\d_]+")
_FILLER = re.compile(
    r"(?:(?:and|then|after that|afterwards|finally|lastly|next|first(?:ly)?|second(?:ly)?|third(?:ly)?|also|please"
    r"|kindly|just|now|so|can you|could you|would you|will you|you should|help me|let's|let me"
    r"|i(?: also)? (?:need|want) (?:you )?to|i(?: would|'d)(?: also)? like (?:you )?to|i have to)\b[,:]?\s*)+",
    re.IGNORECASE,
)
QUESTION_WORDS = frozenset("what who whom whose when where why how which is are does do did was were".split())


@lru_cache(maxsize=32)  # A task is asked about by each form that it may have.
def words_in(text: str) -> frozenset[str]:
    """The words of letters alone, in lower case: "don't e-mail OPS-12" has don, t, e, mail and ops."""
    return frozenset(WORD.findall(text.lower()))


def first_word(part: str) -> str:
    """The word that a part begins with, in lower case, behind "then", "please", "I need to" and the like."""
    return bare(part).partition(" ")[0].lower().strip(",:.;")


def bare(part: str) -> str:
    """The part without "then", "please", "I need to" and the like before it."""
    filler = _FILLER.match(part)
    return part[filler.end() :] if filler else part


def asks_something(part: str) -> bool:
    """Whether it is a question."""
    return part.rstrip().endswith("?") or bare(part).partition(" ")[0].lower() in QUESTION_WORDS
