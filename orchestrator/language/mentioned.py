"""Mentioned deeds: what a task names and does not ask for, as it was done, is put off, denied or tried in vain.

"Order 12 was cancelled", "I'm thinking about cancelling it", "we decided not to merge", "the refund failed".
"""

import re

from orchestrator.language.clauses import first_word
from orchestrator.language.everyday import may_act

_SENTENCE_END = re.compile(r"[.?!;](?!\S)|\n")
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
_PLEASE = re.compile(r"(?i)\A[^,.?!;]{0,60}\bplease\b")
"""Behind what was done, a wish: "order 12 cancelled please"."""
_PUT_OFF = re.compile(
    r"(?i)\b(?:stop|quit|cease|before|postpone|delay|defer|avoid|hold(?:ing)? off on|wait(?:ing)? with|from|instead of"
    r"|consider\w*|planning on|thanks for|(?<!how\s)(?<!what\s)about|(?:think|thought)\sof)\s(?:\w+ly\s)?\Z"
)
"""Before a deed that is not to be done now: "ping Ana about cancelling it", "ask me before sending it"."""
_STATES = re.compile(
    r"(?i)\W*(?:(?:so|and|but|as|because|since|well|maybe|perhaps|later|tomorrow|next \w+|at some point|sooner or later"
    r")\W+)*"
    r"(?:i|we|he|she|it|they|my|our|the|this|that|these|those|there|nobody|no one|some(?:one|body)|customers?|users?"
    r"|(?-i:(?!You\b)[A-Z][a-z]+)(?=\s(?:will|may|might|is|has|wants|plans)\b))(?:['’][a-z]+)?\s"
)
"""Tells how things are: its subject is not the one who is asked."""
_WORDS = re.compile(r"\w")
_SEGMENT = re.compile(r"[,;:–—]\s+|\s(?:so|and|then|but)\s")
_KEPT = re.compile(
    r"(?i)(?:\b(?:not|never|no longer|cannot|against|(?:un)?able|(?:un)?sure|wonder|tried|forbidden|too early|no reason"
    r"|going|planning|considering|debating|thinking|thought|plans?|intends?|threatens?|used|allowed|nobody|no one"
    r"|mind about|(?:may|might|will)(?!\s(?:want|like|have)\b))\b"
    r"|n['’]t\b|['’]ll\b(?!\s(?:need|want|like|have)\b))(?:\s(?!(?:so|and|then)\b)[\w'’]+){0,5}\s\Z"
)
"""Before an action that is named and not to be done now: "we decided not to", "I will", "I no longer want to"."""
_ASKED = re.compile(
    r"(?i)\b(?:please|for me|wondering|you to|(?:can|could|would) you|if you (?:can|could|would|will)"
    r"|need (?:it|this|that|to))\b"
)
"""Asks for it all the same."""
_WISHES = re.compile(
    r"(?i)\b(?:wants?|needs?)\s(?:\w+\s)?(?:to\b(?!\sknow)|[a-z]+(?:ed|ing|en)\b)|\b(?:i|we)(?:['’]d|\s[\w'’]+)?\s(?:want|need|like|love|wish|hope)\b"
    r"|\b(?:need|like|love|looking (?:for|to)|trying to|hoping (?:for|to)|should|must|ought|(?:have|has) to|had better"
    r"|(?:asked|asks|requested|requests)\s(?:that\s)?(?:me|us|we)\b|so (?:it|they|he|she) can|ready to be"
    r"|let(?:['’]s| us)|(?:it['’]s|it is|about|high) time|would be|be (?:glad|great|nice|good|happy)|appreciate)\b"
)
_FINITE = (
    r"(?:is|are|was|were|am|has|have|had|does|did|do|will|would|(?-i:may)|might|cannot|can['’]t|[a-z]{2,}n['’]t|keeps?|got|left"
    r"|went|quit|said|says|wants|plans|claims|thinks|starts|ends|leaks|eats|fires|hangs|crashes|fails)\b"
)
"""A verb by which a statement is known from a thing ("the time in Rome")."""
_PAST = r"(?:began|bought|broke|built|came|forgot|found|gave|lost|made|paid|ran|saw|sent|sold|told|took|wrote)\b"
_HAS_FINITE = re.compile(rf"(?i)\b(?:{_FINITE}|{_PAST}|[a-z]{{3,}}ed\b)|['’](?:s|m|re|ve)\b")
_NAMED = re.compile(
    r"(?i)(?:(?:yesterday|today|just fyi|fyi|last \w+)[,:]?\s)?"
    r"(?:(?!(?:who(?:ever)?|which(?:ever)?|that|whether|if|how|what(?:ever)?|when|where|why|i|we|you|he|she|it|they)\b)[\w'’#./-]+\s){1,4}?"
    rf"(?:(?:just|already|also|never|all)\s)?(?:{_FINITE}|{_PAST})|(?-i:[A-Z][a-z]+\s(?:just\s)?[a-z]{{3,}}ed\b)"
)
"""A subject without a pronoun or an article, and what it does: "Jane resigned", "Order 12 was shipped"."""
_NO_SUBJECT = re.compile(
    r"(?i)(?:what|which|who|why|how|when|where|if|please|could|can|would|let|make|show|tell|is|are|was|did|does|do|has|have"
    r"|will|you|all|see|go|and|then|so|but|not|say|mention|thank|any|anything|everything|every|each|once|after|before)\b"
)
_NUMBERED = re.compile(r"(?i)\w+\s#?[\w-]*\d")
"""What may be an action, and is a thing with a number: "order 12"."""
_LET = re.compile(r"(?i)(?:\bnot|n['’]t)\slet\s\w+\s(?:\w+\s)?\Z|\bbefore (?:i|we|you)\s\Z")
"""Before what nobody is to do, or only later: "don't let anyone merge it" may ask to protect it, and surely not to
merge it."""
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


def only_states(text: str, before: str = "") -> bool:
    """Whether a part of a task tells how things are and wishes nothing: "the api is stuck".

    before: what stands before the part, of whose sentence a wish may be ("I want 12 cancelled" and "13 refunded").
    """
    sentences = [said for said in _SENTENCE_END.split(text) if _WORDS.search(said)]
    if not sentences or text.rstrip().endswith("?") or _is_wished(_SENTENCE_END.split(before)[-1]):
        return False
    return all(map(_states, sentences))


def _states(said: str) -> bool:
    said = said.strip()
    if _NO_SUBJECT.match(said) or _ASKED.search(said) or _WISHES.search(said):
        return False
    if any(_begins_order(segment) for segment in _SEGMENT.split(said)[1:]):
        return False
    return bool(_STATES.match(said) and _HAS_FINITE.search(said)) or _tells_of_one(said)


def _tells_of_one(said: str) -> bool:
    """Whether a sentence has a subject of its own: no pronoun, no article, and nothing that begins an order."""
    return bool(_NAMED.match(said)) and (not may_act(first_word(said)) or bool(_NUMBERED.match(said)))


def _begins_order(said: str) -> bool:
    return may_act(first_word(said)) and len(said.split()) > 1


def is_mentioned(text: str, deed: re.Match[str], before: str = "") -> bool:
    """Whether a part of a task only mentions what this word of it names.

    before: what stands before the part, of whose sentence a wish may be ("I want 12 cancelled" and "13 refunded").
    """
    verb, sentence, ahead = deed.group().lower(), *_sentence_of(text, deed)
    if _fails(sentence):
        return True
    if not ahead.strip() and not verb.endswith("ed"):
        return False
    if _LET.search(ahead):
        return True
    behind = text[deed.end() :]
    kept = _STATES.match(sentence) and _KEPT.search(ahead)
    if (kept or (verb.endswith("ing") and _PUT_OFF.search(ahead))) and not _orders(text, behind):
        return True
    if not verb.endswith("ed"):
        return False
    return not (_PLEASE.match(behind) or _is_wished(_SENTENCE_END.split(f"{before} {ahead}")[-1]))


def _sentence_of(text: str, deed: re.Match[str]) -> tuple[str, str]:
    """The sentence that a deed is named in, and what of it stands before the deed."""
    start, end = 0, len(text)
    for mark in _SENTENCE_END.finditer(text):
        if mark.start() >= deed.end():
            end = mark.start()
            break
        start = mark.end()
    return text[start:end], text[start : deed.start()]


def _orders(text: str, behind: str) -> bool:
    """Whether something is asked for all the same, in so many words or behind the deed."""
    return bool(_ASKED.search(text)) or any(
        may_act(first_word(said.strip())) for said in _SENTENCE_END.split(behind)[1:]
    )


def _fails(text: str) -> bool:
    """Whether a text tells that something failed, and orders nothing ("restart the job that failed")."""
    said = text.lower()
    if not any(sign in said for sign in _MAY_FAIL) or not _FAILS.search(text) or _WHICH.search(text):
        return False
    return not may_act(first_word(text)) or bool(_FAILS_ITSELF.match(text))


def _is_wished(ahead: str) -> bool:
    return bool(_WISHED.search(ahead)) and not _DENIED.search(ahead)
