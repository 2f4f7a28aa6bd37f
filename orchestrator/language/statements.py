"""Statements: parts of a task that tell how things are and order nothing; and wishes, which ask for something without
an order, as "I want it cancelled" or "would be great if it was"."""

import re

from orchestrator.language.verbs import ACTIONS, may_act
from orchestrator.language.words import first_word

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


def wishes(said: str) -> bool:
    """Whether a sentence asks for something, in whatever words."""
    return any(sought.search(said) for sought in (_ASKED, _WISHES, _REQUESTED))


def asks_all_the_same(text: str) -> bool:
    """Whether a text that mentions a deed asks for it in so many words ("... please")."""
    return bool(_ASKED.search(text))


def is_wished(ahead: str) -> bool:
    """Whether what stands before a deed that was done, in its sentence, asks for it."""
    return bool(_WISHED.search(ahead)) and not _DENIED.search(ahead)
