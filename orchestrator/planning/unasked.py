"""What a part of a task tells of and does not ask for: no step carries it out, however well its tool fits.

"Order 12 was cancelled, refund ch_3" cancels nothing, and neither does "which orders were cancelled?".
"""

import re
from collections.abc import Container
from functools import lru_cache

from orchestrator.index.text import spaced, terms
from orchestrator.language.asides import without, without_asides
from orchestrator.language.modes import UNSAID, changes
from orchestrator.language.reports import Span, handed_on, questions
from orchestrator.language.sending import in_full
from orchestrator.language.statements import only_states
from orchestrator.language.told import told_in
from orchestrator.language.wanted import wanted
from orchestrator.language.words import MAX_CUT
from orchestrator.records.tool import Tool

_GREETING = r"\W*(?:(?:so|and|but|hi|hey|ok|okay|well)\W+)*"
_QUESTION = re.compile(
    rf"(?i){_GREETING}(?:"
    r"(?:how|when|where|why) (?:can|could|do|should|will|would) (?:i|we|one|you|the|it|they)\b"
    r"|(?:i (?:want|need|would like) (?:to |help )|help me (?:to )?)understand"
    r"|(?:do|did) you know (?:if|whether|how|why|when)\b"
    r"|(?:(?:can|could|will|would|may|might|do|does|is|are|what|if|suppose|assuming)\b|can[’']t)[^?]*[?？]\s*\Z)"
)
"""Asks how a thing is done, whether it may be, and what then; routing reads it as what it is about."""
_IN_GENERAL = r"(?:after|before|by mistake|if|mid-\w+|once|still|twice|when|without)\b"
"""In a question whether something may be, says that it is about the rules, and not about doing it."""
_REQUEST = re.compile(
    rf"(?i){_GREETING}(?:"
    rf"(?:can|could|may) (?:i|we) (?!even\b)(?!.*\b{_IN_GENERAL})"
    rf"|(?:can|could) (?!(?:an?|any|each|every|most|all|[a-z]+s)\b(?!\s#?[\w-]*\d))(?!.*\b{_IN_GENERAL})"
    r"[^?]{1,60}? be [a-z]+(?:ed|en|nt)\b"
    r"|(?:will|would|might) (?:we|somebody|someone|anyone)\b|would it be\b|is (?:it possible|there (?:a|any) way|any)\b"
    r"|do you mind\b|are you able\b|if you\b|what (?:about|if (?:we|you))\b)"
    r"|.*\b(?:please|(?:can|could|will|would|may|might)(?:n?['’]?t)? (?:you|(?:somebody|someone|anyone)(?! have\b))"
    r"|you (?:can|could|would|to|mind))\b"
)
"""A question that asks to do something."""


def is_only_stated(text: str, tool: Tool, before: str = "") -> bool:
    """Whether a part only tells how things are, where the tool changes something."""
    return changes(tool) and only_states(text, before)


def is_unasked(text: str, tool: Tool, before: str = "") -> bool:
    """Whether a part asks to be told, or tells of what a tool does, where that tool changes something, or asks somebody
    else for it.

    before: what stands before the part, of whose sentence a wish may be ("I want 12 cancelled" and "13 refunded").
    """
    if len(text) > MAX_CUT:
        return False
    if is_anothers(text, tool):
        return True
    return changes(tool) and (asks_to_be_told(text) or told_in(text, before).covers(tool))


def is_anothers(text: str, tool: Tool) -> bool:
    """Whether only what somebody else is asked to do by name ("ask Bob to restart it") shares words with a tool; or,
    where it changes something, what anybody is asked ("ask Bob why it was restarted")."""
    if not handed_on(text) and not questions(text):
        return False
    server, name = ({*terms(spaced(part))} for part in (tool.server, tool.name))
    own, full = server | name, in_full(text, names=())
    left, left_in_full = (without(said, _others(said, tool, own)) for said in (text, full))
    if left == text or not own.isdisjoint(terms(left_in_full)):
        return False
    return {*terms(tool.description)}.isdisjoint(terms(left))


def _others(text: str, tool: Tool, own: Container[str]) -> list[Span]:
    """From where to where a text says what somebody else is asked, or to do, who has no name that is this tool's."""
    asked = questions(text) if changes(tool) else ()
    return [*asked, *(span for whom, span in handed_on(text) if not any(term in own for term in terms(whom)))]


@lru_cache(maxsize=32)  # Asked of each match of a Decision.
def asks_to_be_told(text: str) -> bool:
    """Whether a part is a question, and none that asks to do something."""
    asked = without_asides(text)
    return wanted(asked) > UNSAID or bool(_QUESTION.match(asked) and not _REQUEST.match(asked))
