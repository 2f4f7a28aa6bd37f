"""Verbs that send without saying so: "text him" sends a text, "phone her" makes a call, and what is to be told or asked
of somebody is a message. Tools say it in full."""

import re
from collections.abc import Callable, Container

from orchestrator.index.text import terms
from orchestrator.language.people import INFORMING, MAILING, NAME, SOMEBODY, one_of
from orchestrator.language.quoted import masked
from orchestrator.language.words import MAX_CUT, words_in

_PERSON = r"(?:him|her|them|everyone|everybody|someone|somebody|(?:me|us)(?! nothing))\b|(?:my|our|his|their) \w"
_IT_TO = r"(?:it|this|that|these|those) (?:[a-z]+ )?to\b"
_NUMBER = r"\+?\(?\d[\d ()-]{6,}"
_VERB = re.compile(
    rf"(?i)\b(?:{one_of(*MAILING)} (?={_PERSON}|(?:the|all|every|each|both) \w|{_IT_TO}"
    rf"|(?P<name>(?-i:[A-Z][a-z])))|(?:phone|ring) (?={_PERSON})|(?:text|dial) (?={_NUMBER}))"
)
_SAID = (
    r"\s(?:[\"'“‘\d]|(?:a|about|an|for|he|how|i|if|it|my|our|saying|she|that|the|they|to|we|what|when|whether|which|why|you)"
    r"\b)"
)
_TELLS = re.compile(
    rf"(?i)\b(?:(?P<let>let)|(?P<ask>ask)|(?P<to>(?:write|reach out|get back)\sto)|{one_of(*INFORMING)})"
    rf"\s(?:{SOMEBODY}|(?P<named>(?:my|our|his|her|their)\s[a-z]+|{NAME}))"
    rf"(?(let)\sknow\b|(?(to)(?={_SAID}|\s?[.,;!?\n]|\Z)|(?={_SAID})))"
)
SENDS_MESSAGE = "send message: "
"""Behind it stands who is told or asked: somebody, and no server."""
_CALLS = frozenset({"phone", "ring", "dial"})
_CUES = _CALLS | frozenset((*INFORMING, *MAILING, *"ask get let reach write".split()))
"""Of which a text has one that says any of these."""
_BEGINS = re.compile(
    r"(?i)(?:\A|[.;!?:,](?=\s)|[\n()→•*]|(?<!\w)[-–]|[-=]>|&|\b(?:and|then|(?:can|could|would|will) you"
    r"|(?:i|we)(?:'d| would)?(?: also)? (?:want|need|like|have) to)\b)"
    r"\s*(?:(?:then|please|also|just|now|kindly),?\s+)*\Z"
)
"""What stands before an action; behind "the email", "check email" or "remind me to" is none."""
_TO_DO = re.compile(
    r"(?i)\s(?:to|if|whether|why|(?:how|when|where|which|who)\b[^.?!\n]{0,40}?\s(?:to|we|you|he|she|they))\b"
)
_LONGEST_BEFORE = 40
_TO_SOMEBODY = re.compile(r"[\w'’-]+ (?:[\"'“‘\d]|(?:that|about|the|an?|my|our|when|if|what|how|whether|saying)\b)")
"""A name and what is sent: "Email Bo the invoice" is no title, "Email Marketing" may be one."""


def in_full(text: str, names: Container[str] | None = None) -> str:
    """The text with what is done before each such verb: "send text him". Quotes and pasted documents stay.

    names: the stemmed terms of a catalogue's names, which are nobody's; without them none is told from a thing's.
    """
    if len(text) > MAX_CUT or _CUES.isdisjoint(words_in(text)):
        return text
    full = _put_before(_VERB, text, lambda found: "" if _may_be_title(found) else _sent_by(found))
    return _put_before(_TELLS, full, lambda found: _told_by(found) if _is_somebody(found, names) else "")


def _put_before(verb: re.Pattern[str], text: str, done: Callable[[re.Match[str]], str]) -> str:
    """The text with this before each of the verbs that begins an action outside quotes."""
    if not verb.search(text):
        return text
    said = masked(text)
    return verb.sub(lambda found: f"{done(found) if _acts(found, said) else ''}{found.group()}", text)


def _acts(found: re.Match[str], said: str) -> bool:
    """Whether an action begins with it, and no quote has it."""
    before = said[max(0, found.start() - _LONGEST_BEFORE) : found.start()]
    return said.startswith(found.group(), found.start()) and bool(_BEGINS.search(before))


def _sent_by(found: re.Match[str]) -> str:
    return "make phone call " if found.group().strip().lower() in _CALLS else "send "


def _told_by(found: re.Match[str]) -> str:
    return "send channel message: " if "#" in found.group() else SENDS_MESSAGE


def _may_be_title(found: re.Match[str]) -> bool:
    capitals = found["name"] is not None and found.group()[0].isupper()
    return capitals and not _TO_SOMEBODY.match(found.string, found.end())


def _is_somebody(found: re.Match[str], names: Container[str] | None) -> bool:
    """Whether who is told is a person or a group: by a name that is no acronym and that no tool or server has. Who is
    asked about something may be an assistant, or a place where it stands."""
    named = found["named"]
    if named is None:
        whom = found.group().split()[1]
        return names is None or not whom.isalpha() or all(term not in names for term in terms(whom))
    if names is None or named.isupper() or any(term in names for term in terms(named)):
        return False
    return not found["ask"] or named[0].islower() or _TO_DO.match(found.string, found.end()) is not None
