"""What a part of a task tells of and does not ask for: no step carries it out, however well its tool fits.

"Order 12 was cancelled, refund ch_3" cancels nothing, and neither does "which orders were cancelled?".
"""

import re
from functools import lru_cache

from orchestrator.language.asides import asides, without_asides
from orchestrator.language.clauses import MAX_CUT
from orchestrator.language.everyday import ACTIONS
from orchestrator.language.modes import CHANGES, CHANGING, UNSAID, done_by
from orchestrator.language.wanted import wanted
from orchestrator.models import Tool
from orchestrator.text import spaced, stem, terms

_WORD = re.compile(r"[A-Za-z]+")
_WISHED = re.compile(
    r"(?i)\b(?:(?:be|being|get|getting)\s+(?:\w+\s+)?\Z|(?:make sure|ensure|get|see (?:that|to))\b[^.?!;]*\Z"
    r"|(?:i|we|you|they)(?:['’]d|\swould)?\s(?:want|need|like|love)\b[^.?!;]*\Z"
    r"|(?<!i\s)(?<!we\s)(?<!you\s)(?<!they\s)(?:wants?|needs?|have)\b[^.?!;]*\Z)"
)
"""Before what was done that asks for it: "I want it cancelled"; but not "we have cancelled it"."""
_DENIED = re.compile(r"(?i)(?:\b(?:not|never|nobody|no one)\b|n['’]t\b)[^.?!;]*\Z")
_CONSIDERED = re.compile(
    r"(?i)\b(?:consider\w*|(?:think|thought|wonder|talk|worr)\w*\s(?:about|of)|planning\s(?:on|of)|wait\w*\s(?:on|for))\s(?:\w+\s)?\Z"
)
"""Before a deed that is only thought of: "I'm thinking about cancelling it"."""
_BARRED = re.compile(
    r"(?i)(?:\b(?:nobody|no one)\s(?:should|may|must|can|is (?:allowed )?to)|(?:\bnot|n['’]t)\slet\s\w+)\s(?:\w+\s)?\Z"
)
"""Before what nobody is to do: "don't let anyone merge it" may ask to protect it, and surely not to merge it."""
_SENTENCE_END = re.compile(r"[.?!;\n]")


def is_unasked(text: str, tool: Tool, before: str = "") -> bool:
    """Whether a part asks to be told, or tells of what a tool does as done, where that tool changes something.

    before: what stands before the part, of whose sentence a wish may be ("I want 12 cancelled" and "13 refunded").
    """
    if done_by(tool) != CHANGES or len(text) > MAX_CUT:
        return False
    return _asks_to_be_told(text) or is_told(text, tool, before)


def is_told(text: str, tool: Tool, before: str = "") -> bool:
    """Whether a part has the verb of a tool, and only as what was done, is thought of, or somebody is reminded of."""
    verb = verb_of(tool)
    said = [word for word in _WORD.finditer(text) if verb and stem(word.group().lower()) == verb]
    if not said:
        return False
    ahead = _SENTENCE_END.split(before)[-1]
    named = set(terms(spaced(tool.name)))
    beside = [(start, end) for start, end in asides(text) if named <= set(terms(text[start:end]))]
    return all(
        any(start <= word.start() < end for start, end in beside)
        or _is_only_named(word.group().lower(), f"{ahead} {text[: word.start()]}")
        for word in said
    )


def verb_of(tool: Tool) -> str:
    """The stem of the verb that a tool's name begins or ends with; "" where neither changes anything."""
    own = set(spaced(tool.server).lower().split())
    words = [word for word in spaced(tool.name).lower().split() if word not in own] or [""]
    if words[0] in CHANGING:
        return stem(words[0])
    return stem(words[-1]) if words[-1] in CHANGING & ACTIONS else ""


@lru_cache(maxsize=32)  # Asked of each match of a Decision.
def _asks_to_be_told(text: str) -> bool:
    return wanted(without_asides(text)) > UNSAID


def _is_only_named(verb: str, before: str) -> bool:
    """Whether what a tool does is named by its verb as done or as thought of, and not wished."""
    if verb.endswith("ed"):
        return not _is_wished(before)
    return bool(_CONSIDERED.search(before) if verb.endswith("ing") else _BARRED.search(before))


def _is_wished(before: str) -> bool:
    return bool(_WISHED.search(before)) and not _DENIED.search(before)
