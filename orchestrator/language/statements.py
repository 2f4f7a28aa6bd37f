"""Statements: parts of a task that tell how things are and order nothing."""

import re

from orchestrator.language.verbs import ACTIONS, may_act
from orchestrator.language.wishes import SENTENCE_END, is_wished, wishes
from orchestrator.language.words import first_word

STATES = re.compile(
    r"(?i)\W*(?:(?:so|and|but|as|because|since|well|maybe|perhaps|later|tomorrow|next \w+|at some point|sooner or later"
    r")\W+)*"
    r"(?:i|we|he|she|it|they|my|our|the|this|that|these|those|there|nobody|no one|some(?:one|body)|customers?|users?"
    r"|(?-i:(?!You\b)[A-Z][a-z]+)(?=\s(?:will|may|might|is|has|wants|plans)\b))(?:['’][a-z]+)?\s"
)
"""Tells how things are: its subject is not the one who is asked."""
_WORDS = re.compile(r"\w")
_SEGMENT = re.compile(r"[,;:–—…]\s+|\s(?:so|and|then|but)\s|\s\(|\s(?:--?|/)\s")
"""Where a part of a sentence begins that may be an order."""
_FINITE = (
    r"(?:is|are|was|were|am|has|have|had|does|did|do|will|would|(?-i:may)|might|cannot|can['’]t|[a-z]{2,}n['’]t|keeps?"
    r"|got|left|went|quit|said|says|wants|plans|claims|thinks|starts|ends|leaks|eats|fires|hangs|crashes|fails)\b"
)
"""A verb by which a statement is known from a thing ("the time in Rome")."""
_PAST = r"(?:began|bought|broke|built|came|forgot|found|gave|lost|made|paid|ran|saw|sent|sold|told|took|wrote)\b"
_HAS_FINITE = re.compile(rf"(?i)\b(?:{_FINITE}|{_PAST}|[a-z]{{3,}}ed\b)|['’](?:s|m|re|ve)\b")
_NAMED = re.compile(
    r"(?i)(?:(?:yesterday|today|just fyi|fyi|last \w+)[,:]?\s)?"
    r"(?:(?!(?:who(?:ever)?|which(?:ever)?|that|whether|if|how|what(?:ever)?|when|where|why|i|we|you|he|she|it|they)\b)"
    r"[\w'’#./-]+\s){1,4}?"
    rf"(?:(?:just|already|also|never|all)\s)?(?:{_FINITE}|{_PAST})|(?-i:[A-Z][a-z]+\s(?:just\s)?[a-z]{{3,}}ed\b)"
)
"""A subject without a pronoun or an article, and what it does: "Jane resigned", "Order 12 was shipped"."""
_NO_SUBJECT = re.compile(
    r"(?i)(?:what|which|who|why|how|when|where|if|please|could|can|would|let|make|show|tell|is|are|was|did|does|do|has|have"
    r"|will|you|all|see|go|and|then|so|but|not|say|mention|thank|any|anything|everything|every|each|once|after|before)\b"
)
"""Begins an order, a question, or what belongs to one."""
_NUMBERED = re.compile(r"(?i)(?:(?:pull|merge|purchase|work|sales)\s)?\w+\s#?[\w-]*\d")
"""What may be an action, and is a thing with a number: "order 12", "pull request 90"."""


def only_states(text: str, before: str = "") -> bool:
    """Whether a part of a task tells how things are and wishes nothing: "the api is stuck".

    before: what stands before the part, of whose sentence a wish may be ("I want 12 cancelled" and "13 refunded").
    """
    sentences = [said for said in SENTENCE_END.split(text) if _WORDS.search(said)]
    if not sentences or text.rstrip().endswith("?") or is_wished(SENTENCE_END.split(before)[-1]):
        return False
    return all(map(_is_stated, sentences))


def _is_stated(said: str) -> bool:
    said = said.strip()
    if _NO_SUBJECT.match(said) or wishes(said):
        return False
    if any(_begins_order(segment) for segment in _SEGMENT.split(said)[1:]):
        return False
    return bool(STATES.match(said) and _HAS_FINITE.search(said)) or _has_subject(said)


def _has_subject(said: str) -> bool:
    """Whether a sentence has a subject of its own: no pronoun, no article, and nothing that begins an order."""
    return bool(_NAMED.match(said)) and (not may_act(first_word(said)) or bool(_NUMBERED.match(said)))


def _begins_order(said: str) -> bool:
    word = first_word(said.rstrip(" .!)"))
    return word in ACTIONS or (may_act(word) and len(said.split()) > 1)
