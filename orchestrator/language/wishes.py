"""Wishes: what asks for something without an order, as "I want it cancelled" or "would be great if it was"."""

import re

SENTENCE_END = re.compile(r"[.?!;…](?!\S)|[。！？；\n]")
"""A dot within a name or a number ends nothing."""
_WISHED = re.compile(
    r"(?i)\b(?:(?:be|being|get|getting)\s+(?:\w+\s+)?\Z"
    r"|(?:make sure|ensure|get|see (?:to it )?(?:that|to)|if you)\b.*\Z"
    r"|(?:i|we|you|they)(?:['’]d|\swould)?\s(?:want|need|like|love)\b.*\Z"
    r"|would\s(?:like|love|prefer)\b.*\Z"
    r"|(?<!i\s)(?<!we\s)(?<!you\s)(?<!they\s)(?:wants?|needs?|have)\b.*\Z"
    r"|(?:can|could|may|would|will) (?:i|we|you) (?:please )?have\b.*\Z"
    r"|(?:great|good|nice|lovely|glad|happy|grateful)\s(?:if|to)\b.*\Z|appreciate\b.*\Z|time (?:it|that|for)\b.*\Z)"
)
"""Before what was done that asks for it: "I want it cancelled"; but not "we have cancelled it"."""
_DENIED = re.compile(r"(?i)(?:\b(?:not|never|nobody|no one)\b|n['’]t\b).*\Z")
_ASKED = re.compile(
    r"(?i)\b(?:please|for me|wondering|you to|(?:can|could|would) you|if you (?:can|could|would|will)"
    r"|need (?:it|this|that|to))\b"
)
"""Asks for it all the same."""
_WISHES = re.compile(
    r"(?i)\b(?:wants?|needs?)\s(?!to (?:know|see|find|hear)\b)"
    r"(?:(?!(?:status|proof|why|how|when|of)\b)[\w#'’-]+\s){0,5}?(?:to\b(?!\sknow)|[a-z]+(?:ed|ing|en)\b)"
    r"|\b(?:aim|ask|goal|job|objective|request|task)\sis\s(?:to|that|for)\b"
    r"|\b(?:is|are) (?:asking|requesting) (?:for|to)\b|\b(?:is|are) to be [a-z]+(?:ed|en)\b(?!\sby\b)"
    r"|\brequest\w*\sthat\b|\b(?:happy|fine|glad|okay|ok) for\b|\btold (?:me|us) to\b|\bthis is to\b"
    r"|\b(?:boss|ceo|client|cto|customer|he|lead|manager|she|they|(?-i:[A-Z][a-z]+))\s(?:said|says|wrote)\sto\b"
    r"|\b(?:i|we)(?:['’]d|\s[\w'’]+)?\s(?:want|need|like|love|wish|hope)\b"
    r"|\b(?:need|like|love|looking (?:for|to)|trying to|hoping (?:for|to)|should|must|ought|(?:have|has) to|had better"
    r"|(?:asked|asks|requested|requests)\s(?:that\s)?(?:me|us|we)\b|so (?:it|they|he|she) can|ready to be"
    r"|let(?:['’]s| us)|(?:it['’]s|it is|about|high) time|would be|be (?:glad|great|nice|good|happy)|appreciate)\b"
)


def wishes(said: str) -> bool:
    """Whether a sentence asks for something, in whatever words."""
    return bool(_ASKED.search(said) or _WISHES.search(said))


def asks_all_the_same(text: str) -> bool:
    """Whether a text that mentions a deed asks for it in so many words ("... please")."""
    return bool(_ASKED.search(text))


def is_wished(ahead: str) -> bool:
    """Whether what stands before a deed that was done, in its sentence, asks for it."""
    return bool(_WISHED.search(ahead)) and not _DENIED.search(ahead)
