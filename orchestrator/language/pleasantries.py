"""Pleasantries: greetings, thanks and what only says that one has heard; nothing is to be done for them.

`is_pleasantry` is for a part of a task, where a sentence or an order of its own stands. `without_closing` is for the
task's end: also behind a comma, where "cool" may belong to a list and thanks do not, and with the name of who signs.
"""

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
    r"(?: (?:a lot|so much|very much|again|in advance|for (?:that|this|it|everything)))?"
    r"|(?:best|kind|warm) (?:regards|wishes)|regards|sincerely)"
)
_WHOM = r"(?:,? (?:there|all|team|everyone|everybody|folks|guys|mate|sir|madam|assistant|(?-i:[A-Z][a-z]+)))?"
_PLEASANTRY = re.compile(rf"(?i)\W*(?:(?:{_GREETING}{_WHOM}|{_HEARD}|{_THANKS}{_WHOM})(?:\W+|\Z)){{1,6}}")
_CLOSING = re.compile(rf"(?i)(?<=[.,!?\n])\s{{0,9}}(?:{_THANKS}{_WHOM}(?:[^\w\n]{{1,9}}|\Z)){{1,3}}\Z")
_LONGEST = 80


def is_pleasantry(text: str) -> bool:
    """Whether a text is nothing else."""
    return len(text) <= _LONGEST and _PLEASANTRY.fullmatch(text) is not None


def without_closing(text: str) -> str:
    """The text without the thanks and the name that it ends with; quotes are to be masked before."""
    return _CLOSING.sub("", text)
