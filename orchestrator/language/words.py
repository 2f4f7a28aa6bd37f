"""Words of a text, by which a form of speech is ruled out before a pattern looks for it."""

import re
from functools import lru_cache

WORD = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=32)  # A task is asked about by each form that it may have.
def words_in(text: str) -> frozenset[str]:
    """The words of letters alone, in lower case: "don't e-mail OPS-12" has don, t, e, mail and ops."""
    return frozenset(WORD.findall(text.lower()))
