"""Verbs that name what they send: "text him" sends a text, "phone her" makes a call. Tools say it in full."""

import re

from orchestrator.language.clauses import MAX_CUT
from orchestrator.language.quoted import masked

_PERSON = r"(?:him|her|them|everyone|everybody|someone|somebody|(?:me|us)(?! nothing))\b|(?:my|our|his|their) \w"
_NUMBER = r"\+?\(?\d[\d ()-]{6,}"
_VERB = re.compile(
    rf"(?i)\b(?:(?:e-?mail|mail|text|sms|fax|dm) (?={_PERSON}|(?:the|all|every|each|both) \w"
    rf"|(?P<name>(?-i:[A-Z][a-z])))|(?:phone|ring) (?={_PERSON})|(?:text|dial) (?={_NUMBER}))"
)
_CALLS = frozenset({"phone", "ring", "dial"})
_BEGINS = re.compile(
    r"(?i)(?:\A|[.;!?:,](?=\s)|[\n()→•*]|(?<!\w)[-–]|[-=]>|&|\b(?:and|then|(?:can|could|would|will) you"
    r"|(?:i|we)(?:'d| would)?(?: also)? (?:want|need|like|have) to)\b)"
    r"\s*(?:(?:then|please|also|just|now|kindly),?\s+)*\Z"
)
"""What stands before an action; behind "the email", "check email" or "remind me to" is none."""
_LONGEST_BEFORE = 40
_TO_SOMEBODY = re.compile(r"[\w'’-]+ (?:[\"'“‘\d]|(?:that|about|the|an?|my|our|when|if|what|how|whether|saying)\b)")
"""A name and what is sent: "Email Bo the invoice" is no title, "Email Marketing" may be one."""


def in_full(text: str) -> str:
    """The text with what is done before each such verb: "send text him". Quotes and pasted documents stay."""
    if len(text) > MAX_CUT or not _VERB.search(text):
        return text
    said = masked(text)
    return _VERB.sub(lambda found: found.group() if _is_other(found, said) else _in_full(found), text)


def _in_full(found: re.Match[str]) -> str:
    return f"{'make phone call' if found.group().strip().lower() in _CALLS else 'send'} {found.group()}"


def _is_other(found: re.Match[str], said: str) -> bool:
    """Whether it stands where no action begins, in a quote, or may be a title."""
    before = said[max(0, found.start() - _LONGEST_BEFORE) : found.start()]
    if not said.startswith(found.group(), found.start()) or not _BEGINS.search(before):
        return True
    capitals = found["name"] is not None and found.group()[0].isupper()
    return capitals and not _TO_SOMEBODY.match(found.string, found.end())
