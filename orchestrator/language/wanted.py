"""What a part of a task wants: to be told something, or to have something changed."""

import re

from orchestrator.language.modes import CHANGES, CHANGING, TAKING, TELLING, TELLS, TELLS_OF_A_DEED, UNSAID
from orchestrator.language.verbs import ACTIONS_OR_THINGS, may_act
from orchestrator.language.words import bare, first_word

_REQUEST = re.compile(
    r"(?i)\b(?:(?P<may>(?:can|could) (?:we|i))|(?:can|could|would|will) (?:you|we|i)"
    r"|i(?:['’]d| would) (?:like|love|prefer)(?: you)? to|i (?:want|need)(?: you)? to|please|help me|let['’]s|let us)"
    r"\b,?(?:\s+(?:please|also|kindly|just|help me|help|to|you|and|now|then|quickly))*\s+(?=(?P<asked>[a-z]+\b.{0,80}))"
)
_JOINED = re.compile(r"(?i)\b(?:and|but|so|then|or|because|since|if)\Z")
_WITHIN = frozenset("what which who whose whom where when why how the those these all any every".split())
"""Behind these, as behind an action, a request belongs to something else: "the bills I need to pay"."""
_MARK = re.compile(r"[,.;:!?\n]")
_THEN = re.compile(
    r"(?i)(?:,|\band|\bthen|\bor|;)\s+"
    r"(?:(?:and|then|please|also|otherwise|if (?:so|not),?|(?:can|could|will|would) you|i (?:want|need)(?: you)? to)"
    r"\s+)*"
    r"(?=(?P<asked>[a-z]+\b.{0,60}))"
)

_GREETING = r"(?:(?:so|and|but|ok|okay|hey|hi|also)\W+)*"
_WHAT = r"what(?! (?:an?|i|we|if|about|(?:can|could|will|would) you)\b)"
_WHENEVER = r"when(?!\s(?:an?|the|my|our|your|i|we|you|s?he|it|they|that|this|possible|done|ready)\b)"
_ASKS = re.compile(
    rf"(?i)(?:\A|[.!,;:\n][^\S\n]?){_GREETING}(?:{_WHAT}|(?<!,)(?<!, )which"
    r"|which(?! (?:is|are|was|were|has|had|have|i|we|you|s?he|they)\b)"
    rf"|{_WHENEVER}"
    r"|(?:do|have) (?:i|we|you|they|s?he|any|people)|who|whose|whom|where|why|how|is|are|was|were|does|did|has|any"
    r"|wer|wie|wo|wann|welche[rs]?|wieviele?|quels?|quelles?|qui|combien|où|quand"
    r"|qué|cuál(?:es)?|cuánt[oa]s?|dónde|cuándo|cómo|quién|quais|quanto|onde)\b|[?？]\s*\Z"
)
"""A question: not "the card, which was lost", "when you have time", "do the payroll" or "have it sent"."""
_SOUGHT = re.compile(rf"(?i)\W*{_GREETING}(?:{_WHAT}|which|who|whose|where)\b")
"""What asks for something, whatever may be done with it: "which bills can I pay"."""
_IN_A_QUESTION = (
    r"any (?:way|chance)|a way to|(?:it|is) (?:possible|ok|okay) to|(?:how|what) about|what if|why (?:not|don['’]?t)"
    r"|you able to|you mind"
)
_MAY = re.compile(
    rf"(?i)\b(?:can|could|would|will|should|shall|may|{_IN_A_QUESTION}"
    r"|kannst|könnte(?:st|n)?|können|würdest|peux|pou(?:vez|rrais|rriez)"
    r"|puedes?|podrías?|pode|poderia|puoi|potresti)\b"
)
"""What asks for an action in the form of a question."""

_HOW = r"how(?:\s(?:many|much|often)|(?!\s(?:about|can|could|do|should|would)\b))"
_OF_A_DEED = re.compile(
    r"(?i)(?:\A|[.!?:\n][^\S\n]{0,2})(?:(?:(?:quick\s|one\s)?question|(?-i:[A-Z])[a-z]+)[,:]\s+)?"
    r"(?:(?:and|but|so|ok|okay|hey|hi|hello|then|btw|also|just)\W+)*"
    r"(?:(?:is|are|was|were|has|had|did|does|have(?=[^.!\n]*\?\s*\Z))(?:n['’]?t)?\s"
    r"|(?:have|do)(?:n['’]?t)?\s(?:i|we|you|they)\s|am\si\s"
    r"|(?:why|how come)\s(?:(?:i|we|it|they)\s)?"
    r"(?:(?:ca|could|wo|would|does|do|is|are)n['’]?t|cannot|can not)\s(?!you\b)"
    r"|how(?:['’]s|\s(?:is|are))\s|(?:who|what|where|why|when)['’]s\s(?:[^,.;!?\n]{1,40}\s)?[a-z]{3,}ed\b"
    r"|any\s[^,.;!?\n]{1,40}\s[a-z]{3,}ed\b"
    r"|what\s(?:happens|will happen|would happen)\s(?:if|when)\b"
    rf"|(?:(?:since|by|in|on|at|from|to|with|for|until)\s)?(?:why|who|whom|whose|{_WHENEVER}|where|{_HOW}|which|what)\b"
    r"(?:\s[^,.;!?\n]{1,60}?)?\s(?:was|were|has|had|have|did|got|[a-z]{3,}ed)\b)"
)
"""Asks how something stands, or what was done: "did we cancel it?", "who deleted the bucket?"."""

_ADVICE = re.compile(rf"(?i)\W*{_GREETING}should\s(?:i|we)\b")
"""Asks whether to do something: who asks wants to be told first."""
_ASKED_TO = re.compile(
    r"(?i)\b(?:(?:can|could|would|should|shall|(?-i:will|may))\s(?:you|we|i|it|that|s?he|they|one|any\w+|some\w+)"
    rf"|{_IN_A_QUESTION})\b"
)
"""What asks for an action in a question about one; "was it merged so we can deploy?" does not."""

_LISTING = r"(?:list|listing|summary|report|overview|table|comparison|breakdown|digest|recap)\b"
_LISTS = re.compile(
    r"(?i)(?:build|compile|create|draft|give|make|prepare|produce|put|send|write)\s+(?:me\s+|us\s+)?an?\s+"
    rf"(?:\w+\s+){{0,2}}{_LISTING}"
)
"""What makes nothing but an answer."""
_ANSWERS = re.compile(
    r"(?i)tell\s+(?:me|us)\b|(?:bring|fetch|get|give|grab)\s+(?:me|us)\s+(?:the|all|each|every\w*|any|some|its|their"
    r"|what|how|which|who|where|details|info\w*)\b"
    rf"|(?:bring|get|give|send)\s+(?:(?:me|us)\s+)?(?:an?|another)\s+(?:\w+\s+){{0,3}}{_LISTING}"
)
_ALERTS = re.compile(
    r"(?i)(?:tell\s+(?:me|us)|know)\s+(?:at once\s+)?(?:if|once|when\w*|every time|as soon as|the moment)\b"
)
"""Asks now, or to be told one day: "tell me when it is done"."""
_HANDS = re.compile(
    r"(?i)(?:bring|fetch|get|give|grab|make|send)\s+(?:me|us)\b|(?:inform|update)\s+(?:me|us)\b"
    r"|remind\s+(?:me|us)\s+(?:of|what|which|who|where|how|why)\b"
)
"""The user gets an answer or a thing: "get me a cab"."""
_RID = re.compile(r"(?i)get\s+rid\s+of\b")
_PLACE = r"(?:onto|into|out of|off|rid|ready|up|down|back|over|going|running|done|started)\b"
_GETS_DONE = re.compile(
    r"(?i)get\s+(?:an?|another|it|them|this|that|these|those|my|our|your|him|her|on|in|\d+|one|two|three)\b"
    rf"|get\s(?:[^,.;!?\n]*\s)?{_PLACE}"
    r"|get\s[^,.;!?\n]*(?:ed|\s(?:built|bought|made|paid|sent|set up|sold|written))"
    r"(?:\s+(?:by|at|on|to|from|for|with|before|today|tomorrow|now|again|soon)\b|[,.;!?\n]|\Z)"
    r"|check\s(?:[^,.;!?\n]{1,40}\s)?(?:in|off|out)\b|read\s+(?:in|out)\b|look\s+(?:out|after)\b|google\s+(?-i:[A-Z])"
)
"""Brings something somewhere, has it done, or acquires it: "get it deployed", "check me in"."""
_NOTHING_MADE = re.compile(r"(?i)make\s+(?:certain|sense|sure|use|up|out)\b|turn\s[^,.;!?\n]*\sinto\b")
_NEW = re.compile(r"(?i)(?:make\s+(?:an?|the|new|another|\w+s)|open\s+(?:an?|new|another))\b")
_SURE = re.compile(
    r"(?i)(?:(?:make|be) sure (?:to|(?:that )?you)|see to it that|see that(?=.*\s(?:is|are|gets?)\s))\s+"
)
_THING = re.compile(r"(?i)[a-z]+(?:\s+(?:of|and|or)\b|\s*[,+&]|\s+(?-i:[a-z]+)\s+(?:of|for|with|since|between)\b)")
"""A word that may be an action and is a thing here: "share of", "press coverage of"."""
_TERSE = re.compile(
    r"(?i)(?P<thing>[a-z]+)(?!\s(?:an?|the|my|our|his|her|their|this|that|these|those|it|them|him|me|us|all)\b|\s(?-i:[A-Z])).*\?\s*\Z"
)
"""A question without a verb: "order 12 shipped?", "schedule for tomorrow?"."""
_LONGEST_DEED = 120
"""So many characters tell what an action is; a part may be a pasted text."""


_IF_SO = re.compile(r"(?i)(?:and\s)?if\s(?:so|not|yes|no|it\s\w+)[,:]?\s+")
_SENTENCES = re.compile(r"[.?!\n]\s+")


def asks_for_more(beside: str) -> bool:
    """Whether what stands beside a question asks for a change: "if not, cancel it"."""
    return any(wanted(_IF_SO.sub("", said.strip(), count=1)) == CHANGES for said in _SENTENCES.split(beside))


def wanted(part: str) -> int:
    """What a part of a task wants, as modes have it; UNSAID where it does not say, and where it says both."""
    said = _wanted_first(part)
    others = (_of_deed(found["asked"]) for found in _THEN.finditer(part)) if said else ()
    if any(other == -said for other in others):
        return UNSAID
    return TELLS_OF_A_DEED if said == TELLS and asks_of_a_deed(part) else said


def asks_of_a_deed(part: str) -> bool:
    """Whether it asks how something stands, what was done or whether to do it, which is not to be done for it."""
    if _ADVICE.match(part):
        return True
    return bool(_OF_A_DEED.search(part.lstrip())) and not _ASKED_TO.search(part)


def _wanted_first(part: str) -> int:
    if (terse := _TERSE.match(part[:_LONGEST_DEED])) and terse["thing"].lower() in ACTIONS_OR_THINGS:
        return UNSAID if _MAY.search(part) else TELLS
    deed = bare(part)[:_LONGEST_DEED]
    if said := _of_deed(_SURE.sub("", deed, count=1) if _SURE.match(deed) else deed):
        return said
    if request := _request(part):
        said = _of_deed(request["asked"])
        return UNSAID if said == CHANGES and (request["may"] or _SOUGHT.match(part)) else said
    asks = _ASKS.search(part) and (_SOUGHT.match(part) or not _MAY.search(part))
    return TELLS if asks or asks_of_a_deed(part) else UNSAID


def _request(part: str) -> re.Match[str] | None:
    """The first request that is no part of a question, an action or a thing."""
    for request in _REQUEST.finditer(part):
        before = _MARK.split(part[max(0, request.start() - _LONGEST_DEED) : request.start()])[-1].strip()
        word = first_word(before)
        if _JOINED.search(before) or not (word in _WITHIN or may_act(word)):
            return request
    return None


def _of_deed(deed: str) -> int:
    """What an action wants, by its verb and what stands behind it."""
    verb = deed.partition(" ")[0].lower().strip(",:.;?!")
    if _ALERTS.match(deed):
        return UNSAID
    if _ANSWERS.match(deed):
        return TELLS
    if _RID.match(deed):
        return CHANGES
    if any(form.match(deed) for form in (_HANDS, _GETS_DONE, _NOTHING_MADE)) or verb in TAKING:
        return UNSAID
    if verb in TELLING:
        return TELLS
    if verb == "give" or (verb in ("make", "open") and _NEW.match(deed)):
        return UNSAID if _LISTS.match(deed) else CHANGES
    thing = verb in ACTIONS_OR_THINGS and (" " not in deed or _THING.match(deed))
    return CHANGES if verb in CHANGING and not thing and not _LISTS.match(deed) else UNSAID
