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
_WORD = r"(?!(?:not|never)\b)[\w#'’./-]+"
_BE_DONE = rf"(?:{_WORD}\s){{1,6}}?be\s[a-z]+(?:ed|en)\b(?!\sby\b)"
_THING = (
    rf"(?:it|(?:the|this|that|my|our|his|her|their)\s{_WORD}(?:\s{_WORD}){{0,3}}?"
    r"|(?!(?:if|whether|that|when|how)\b)(?:[a-z]+\s){1,2}#?[\w-]*\d[\w-]*)"
)
"""What somebody has in hand, or one with a number; "orders can be cancelled" is said of all."""
_REQUESTED = re.compile(
    r"(?i)(?:(?<!never\s)(?<!nobody\s)(?<!not\s)(?<!n['’]t\s)\b"
    r"(?:(?:asked|asks|requested|requests)\s(?:that\s)?(?:me|us|we|(?<=that\s)i)\b"
    r"(?!\s(?:about|how|if|what|when|where|whether|which|who|why)\b)"
    rf"|(?:ask\w*|request\w*|is required)\sthat\s{_BE_DONE}"
    rf"|(?:ask\w*\sfor|request(?:ed|ing))\s(?:{_WORD}\s){{1,6}}?to be\b)"
    rf"|\b(?:i|we)(?:['’]d|\swould)?\s(?:ask|propose|recommend|suggest)\s(?:that\s)?(?:we\b|{_BE_DONE})"
    rf"|\A\W*{_THING}\scan (?:now |also )?be [a-z]+(?:ed|en)(?:\s(?:now|too|as well))?\W*\Z)"
)
"""Says that somebody asks for it ("they asked for it to be cancelled"), or that it is free to be done."""
_WISHES = re.compile(
    r"(?i)\b(?:wants?|needs?)\s(?!to (?:know|see|find|hear)\b)"
    r"(?:(?!(?:status|proof|why|how|when|of)\b)[\w#'’-]+\s){0,5}?(?:to\b(?!\sknow)|[a-z]+(?:ed|ing|en)\b)"
    r"|\b(?:aim|ask|goal|job|objective|request|task)\sis\s(?:to|that|for)\b"
    r"|\b(?:is|are) (?:asking|requesting) (?:for|to)\b|\b(?:is|are) to be [a-z]+(?:ed|en)\b(?!\sby\b)"
    rf"|\b(?:happy|fine|glad|okay|ok) for\s(?:{_WORD}\s){{1,5}}?to\b|\btold (?:me|us) to\b|\bthis is to\b"
    r"|\b(?:boss|ceo|client|cto|customer|he|lead|manager|she|they|(?-i:[A-Z][a-z]+))\s(?:said|says|wrote)\sto\b"
    r"|\b(?:i|we)(?:['’]d|\s[\w'’]+)?\s(?:want|need|like|love|wish|hope)\b"
    r"|\b(?:need|like|love|looking (?:for|to)|trying to|hoping (?:for|to)|should|must|ought|(?:have|has) to|had better"
    r"|so (?:it|they|he|she) can|ready to be"
    r"|let(?:['’]s| us)|(?:it['’]s|it is|about|high) time|would be|be (?:glad|great|nice|good|happy)|appreciate)\b"
)


def wishes(said: str) -> bool:
    """Whether a sentence asks for something, in whatever words."""
    return any(sought.search(said) for sought in (_ASKED, _WISHES, _REQUESTED))


def asks_all_the_same(text: str) -> bool:
    """Whether a text that mentions a deed asks for it in so many words ("... please")."""
    return bool(_ASKED.search(text))


def is_wished(ahead: str) -> bool:
    """Whether what stands before a deed that was done, in its sentence, asks for it."""
    return bool(_WISHED.search(ahead)) and not _DENIED.search(ahead)
