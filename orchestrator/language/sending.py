"""Verbs that name what they send: "text him" sends a text, "phone her" makes a call. Tools say it in full."""

import re

_PERSON = r"(?:him|her|them|me|us|everyone|everybody|someone|somebody)\b|(?:my|our|his|their)\s\w"
_NUMBER = r"\+?\(?\d[\d ()-]{6,}"
_VERB = re.compile(
    rf"(?i)\b(?:(?P<sent>e-?mail|mail|text|sms|fax|dm)\s"
    rf"(?={_PERSON}|{_NUMBER}|(?:the|all|every|each|both)\s\w|(?P<name>(?-i:[A-Z][a-z])))"
    rf"|(?:phone|ring)\s(?={_PERSON})|dial\s(?={_PERSON}|{_NUMBER}))"
)
_BEGINS = re.compile(
    r"(?i)(?:\A|[.;!?:,\n()→•*]|(?<!\w)[-–]|[-=]>|\b(?:and|then|or|to|you|please|also|just|now|but)|&)\s*\Z"
)
"""What stands before an action; behind "the email" or "check email" is none."""
_LONGEST_BEFORE = 12
_TO_SOMEBODY = re.compile(r"[\w'’-]+\s(?:[\"'“‘\d]|(?:that|about|the|an?|my|our|when|if|what|how|whether|saying)\b)")
"""A name and what is sent: "Email Bo the invoice" is no title, "Email Marketing" may be one."""


def in_full(text: str) -> str:
    """The text with what is done before each such verb: "send text him"."""
    return _VERB.sub(_in_full, text)


def _in_full(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - _LONGEST_BEFORE) : found.start()]
    if not _BEGINS.search(before) or _may_be_title(found):
        return found.group()
    return f"{'send' if found['sent'] else 'make phone call'} {found.group()}"


def _may_be_title(found: re.Match[str]) -> bool:
    capitals = found["name"] is not None and found["sent"][0].isupper()
    return capitals and not _TO_SOMEBODY.match(found.string, found.end())
