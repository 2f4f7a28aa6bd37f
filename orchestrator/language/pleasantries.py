"""Pleasantries: greetings, thanks and what only says that one has heard; nothing is to be done for them."""

import re

_GREETING = (
    r"(?:hi|hiya|hello|hey|dear|greetings|good (?:morning|afternoon|evening|day)|morning|hallo|hola|bonjour|moin"
    r"|guten (?:morgen|tag|abend))"
)
_HEARD = (
    r"(?:got it|ok(?:ay)?|great|perfect|cool|nice|awesome|excellent|wonderful|sounds good|sure(?: thing)?|alright"
    r"|all (?:right|good|set|clear)|right|fine|yes|yep|yeah|no (?:problem|worries)|understood|makes sense|good|super"
    r"|noted|well done|good (?:job|work)|nice (?:one|work|job)|never mind)"
)
_THANKS = (
    r"(?:(?:many )?(?:thanks|thank you|thx|ty|cheers|merci|danke|gracias|much appreciated)"
    r"(?: (?:a lot|so much|very much|again|in advance|everyone|all|team|mate|for (?:that|this|it|everything)))?"
    r"|(?:best|kind|warm) (?:regards|wishes)|regards|sincerely)"
)
_WHOM = r"(?:,? (?:there|all|team|everyone|everybody|folks|guys|mate|sir|madam|again|assistant|(?-i:[A-Z][a-z]+)))?"
_PLEASANTRY = re.compile(rf"(?i)\W*(?:(?:{_GREETING}{_WHOM}|{_HEARD}|{_THANKS}{_WHOM})(?:\W+|\Z))+")
_ONLY_THANKS = re.compile(rf"(?i)\W*{_THANKS}{_WHOM}\W*")
_CLOSING = re.compile(rf"(?i)(?<=[.!?\n])\s{{0,9}}(?:{_THANKS}{_WHOM}(?:[^\w\n]+|\Z))+\Z")
_LONGEST = 80


def is_pleasantry(text: str) -> bool:
    """Whether a text is nothing else."""
    return len(text) <= _LONGEST and _PLEASANTRY.fullmatch(text) is not None


def without_closing(text: str) -> str:
    """The text without the thanks and the name that it ends with, behind its last sentence."""
    return _CLOSING.sub("", text)


def is_thanks(text: str) -> bool:
    """Whether a text is only thanks or a closing; "cool" and "fine" behind a comma may belong to a list."""
    return len(text) <= _LONGEST and _ONLY_THANKS.fullmatch(text) is not None
