"""Mentioned deeds: what a task names and does not ask for, as it was done, is put off, denied or tried in vain.

"Order 12 was cancelled", "I'm thinking about cancelling it", "we decided not to merge", "the refund failed".
"""

import re

from orchestrator.language.refused import is_called_wrong, is_refused, is_surely_refused
from orchestrator.language.statements import SENTENCE_END, STATES, asks_all_the_same, is_wished
from orchestrator.language.verbs import may_act
from orchestrator.language.words import first_word

_PLEASE = re.compile(r"(?i)\A[^,.?!;]{0,60}\bplease\b")
"""Behind what was done, a wish: "order 12 cancelled please"."""
_PUT_OFF = re.compile(
    r"(?i)\b(?:stop|quit|cease|before|postpone|delay|defer|avoid|hold(?:ing)? off on|wait(?:ing)? with|from|instead of"
    r"|consider\w*|planning on|thanks for|(?<!how\s)(?<!what\s)about|(?:think|thought)\sof)\s(?:\w+ly\s)?\Z"
)
"""Before a deed that is not to be done now: "ping Ana about cancelling it", "ask me before sending it"."""
_KEPT = re.compile(
    r"(?i)(?:\b(?:not|never|no longer|cannot|against|(?:un)?able|(?:un)?sure|wonder|tried|forbidden|too early|no reason"
    r"|going|planning|considering|debating|thinking|thought|plans?|intends?|threatens?|used|allowed|nobody|no one"
    r"|mind about|(?:may|might|will)(?!\s(?:want|like|have)\b))\b"
    r"|n['’]t\b|['’]ll\b(?!\s(?:need|want|like|have)\b))(?:\s(?!(?:so|and|then)\b)[\w'’]+){0,5}\s\Z"
)
"""Before an action that is named and not to be done now: "we decided not to", "I will", "I no longer want to"."""
_FAILS = re.compile(
    r"(?i)\b(?:failed|fails|failing|broke|is broken|takes (?:forever|too long|ages)"
    r"|(?:does|did|do|is|was)(?:n['’]t| not) (?:work|respond|load|go through)\w*"
    r"|(?:could|can)(?:n['’]?t| ?not) be [a-z]+)\W*\Z"
)
_MAY_FAIL = ("fail", "broke", "takes", "not", "n't", "n’t", "nt be")
"""No text without one of these tells of a failure."""
_FAILS_ITSELF = re.compile(r"(?i)\W*[a-z]+\s(?:failed|fails|is failing|broke|is broken)\b")
_WHICH = re.compile(r"(?i)\b(?:that|which|who|what|if|when|once|because)\b")
"""What fails may be what is asked for: "restart the job that failed"."""


def is_mentioned(text: str, deed: re.Match[str], before: str = "") -> bool:
    """Whether a part of a task only mentions what this word of it names.

    before: what stands before the part, of whose sentence a wish may be ("I want 12 cancelled" and "13 refunded").
    """
    verb, sentence, ahead = deed.group().lower(), *_sentence_of(text, deed)
    if _fails(sentence):
        return True
    behind = text[deed.end() :]
    if verb.endswith("ing") and not ahead.strip() and is_called_wrong(behind):
        return True
    if not ahead.strip() and not verb.endswith("ed"):
        return False
    if is_surely_refused(ahead) or (is_refused(ahead) and not _orders(text, behind)):
        return True
    kept = STATES.match(sentence) and _KEPT.search(ahead)
    if (kept or (verb.endswith("ing") and _PUT_OFF.search(ahead))) and not _orders(text, behind):
        return True
    if not verb.endswith("ed"):
        return False
    return not (_PLEASE.match(behind) or is_wished(SENTENCE_END.split(f"{before} {ahead}")[-1]))


def stays_undone(text: str, deed: re.Match[str]) -> bool:
    """Whether a text mentions what this word of it names as what is not to be done."""
    _, ahead = _sentence_of(text, deed)
    return is_surely_refused(ahead) or is_refused(ahead) or is_called_wrong(text[deed.end() :])


def _sentence_of(text: str, deed: re.Match[str]) -> tuple[str, str]:
    """The sentence that a deed is named in, and what of it stands before the deed."""
    start, end = 0, len(text)
    for mark in SENTENCE_END.finditer(text):
        if mark.start() >= deed.end():
            end = mark.start()
            break
        start = mark.end()
    return text[start:end], text[start : deed.start()]


def _orders(text: str, behind: str) -> bool:
    """Whether something is asked for all the same, in so many words or behind the deed."""
    return asks_all_the_same(text) or any(may_act(first_word(said.strip())) for said in SENTENCE_END.split(behind)[1:])


def _fails(text: str) -> bool:
    """Whether a text tells that something failed, and orders nothing ("restart the job that failed")."""
    said = text.lower()
    if not any(sign in said for sign in _MAY_FAIL) or not _FAILS.search(text) or _WHICH.search(text):
        return False
    return not may_act(first_word(text)) or bool(_FAILS_ITSELF.match(text))
