"""Told deeds: what a text only tells of, by the verb of the tool that would do it.

"Order 12 was cancelled, refund ch_3" cancels nothing, and neither does "tell Ana I cancelled the meeting".
"""

import re
from collections.abc import Iterable, Iterator

from orchestrator.language.asides import asides, without_asides
from orchestrator.language.everyday import ACTIONS
from orchestrator.language.mentioned import is_mentioned
from orchestrator.language.modes import CHANGING, CHANGING_TERMS
from orchestrator.language.reports import Span, handed_on, reasons
from orchestrator.models import Tool
from orchestrator.text import spaced, stem, terms

_WORD = re.compile(r"[A-Za-z]+")


def is_told(text: str, tool: Tool, before: str = "") -> bool:
    """Whether a text has the verb of a tool, and only mentions what it does, or has it in what somebody is told or is
    to do, or in a reason.

    before: what stands before the text, of whose sentence a wish may be ("I want 12 cancelled" and "13 refunded").
    """
    verb = verb_of(tool)
    said = [word for word in _WORD.finditer(text) if verb and stem(word.group().lower()) == verb]
    if not said:
        return False
    own = set(terms(spaced(tool.name))) - {verb}
    beside = asides(text) if own.isdisjoint(terms(without_asides(text))) else []
    beside += [*reasons(text), *_of_others(text, tool)]
    return all(_within(word, beside) or is_mentioned(text, word, before) for word in said)


def told_verbs(text: str, before: str = "") -> frozenset[str]:
    """The stems of the changing verbs that a text has and may only tell of; `is_told` knows for which tools."""
    deeds = [(verb, word) for word in _WORD.finditer(text) if (verb := stem(word.group().lower())) in CHANGING_TERMS]
    if not deeds:
        return frozenset()
    beside = [*asides(text), *reasons(text), *(span for _, span in handed_on(text))]
    asked = {verb for verb, word in deeds if not (_within(word, beside) or is_mentioned(text, word, before))}
    return frozenset(verb for verb, _ in deeds) - asked


def _within(word: re.Match[str], spans: Iterable[Span]) -> bool:
    return any(start <= word.start() < end for start, end in spans)


def _of_others(text: str, tool: Tool) -> Iterator[Span]:
    """From where to where a text says what somebody is asked to do, unless the tool's own server is what it asks."""
    own = set(terms(spaced(f"{tool.server} {tool.name}")))
    return (span for name, span in handed_on(text) if own.isdisjoint(terms(name)))


def verb_of(tool: Tool) -> str:
    """The stem of the verb that a tool's name begins or ends with; "" where neither changes anything."""
    own = set(spaced(tool.server).lower().split())
    words = [word for word in spaced(tool.name).lower().split() if word not in own] or [""]
    if words[0] in CHANGING:
        return stem(words[0])
    return stem(words[-1]) if words[-1] in CHANGING & ACTIONS else ""
