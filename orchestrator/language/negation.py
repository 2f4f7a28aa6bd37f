"""Negated actions: "don't delete anything, only list the objects" asks for no deleting, so no leg may read those words.

Only what clearly forbids is taken out, as a wrong cut costs more than it gives. Which servers a task leaves out is
another question: `stages/explicit.py`.
"""

import re
from collections.abc import Iterator

from orchestrator.index.text import says
from orchestrator.language.abroad import forbidden_abroad
from orchestrator.language.clauses import end_of_part
from orchestrator.language.quoted import masked, unquoted
from orchestrator.language.verbs import ACTIONS_OR_THINGS, may_act
from orchestrator.language.without import DOING, RELATING, Span, doing, done_without
from orchestrator.language.words import first_word

_CUES = (
    *("n't", "n’t", "dont", "not ", "never", "nothing", "no ", "? no", "? ne", "? na", "ly not", "ly no", "hell no"),
    *("se not", "without", "instead of", "rather than", "avoid", "refrain from", "forget about", "hold off"),
    *("hands off", " alone", "keep from", "wait before", "nicht", "kein", "não ", "non ", " pas", "rien", "jamais"),
)
_NOT = (
    r"(?:you\s+)?(?:do not under any circumstances|don['’]?t(?:\s(?:you\s)?dare(?:\sto)?)?|do not|must not|mustn['’]t"
    r"|should not|shouldn['’]t|may not|(?:must\s|should\s)?never|under no circumstances(?:\s(?:should|may|must) you)?)"
    r"(?:\s+(?:ever|have to|need to|bother to|try to))?"
    r"|let(?:['’]?s| us) not|i(?:['’]d| would) (?:rather not|prefer not to)|(?:you )?need(?: not|n['’]?t)"
    r"|i (?:don['’]?t|do not) want (?:you to|to(?! get\b))|(?:there(?:['’]s| is)\s+)?no need to"
    r"|(?:make sure|be sure|be careful|take care)\s+(?:not to|to not|(?:that\s+)?(?:you\s+)?(?:don['’]?t|do not|never))"
)
_HEAD = re.compile(
    r"(?i)\b(?:(?:please|so|just|also)\s+){0,3}"
    rf"(?:(?:{_NOT})\s+(?!bother\b|let\b|(?:stop|cease|quit)\s+[a-z]+ing\b)"
    r"(?P<action>[a-z]+)(?:(?:,\s*[a-z]+)*,?\s(?:or|nor|and)\s[a-z]+)?"
    r"|(?P<idle>[a-z]+)\s+nothing(?!\s+(?:but|except|besides|other|more|less)\b)"
    r"|(?:avoid|(?P<refrain>refrain from|keep from|wait before)|(?:don['’]?t|do not) bother)\s+(?P<avoided>[a-z]+ing)"
    r"|(?P<off>hold off|hands off|leave (?:\w+ ){1,4}alone)(?:\s(?:on|with)(?:\s[a-z]+ing)?)?"
    r"|(?:without|(?P<instead>instead of|rather than))\s+(?P<without>[a-z]+ing))\b"
)
"""What forbids an action, up to its verb; of the verbs of a list ("create, edit or delete") up to the last."""
_OPENING = re.compile(
    r"(?i)(?:\A|(?P<mark>[,.;:!?()\"“*•–-]|\n\n)|\n|\b(?:and|but|then|please))\s*"
    r"(?:(?:please|and|but|then|also|so|just|no|ok|okay)\s+)*\Z"
)
_JOINED = re.compile(r"(?i)(?:\s+(?:and|but|then))* *\Z")
_WAITS = re.compile(
    r"(?i)(?:\A|[.;!?\n])\W*(?:(?:and|but|so|please)\s)?"
    r"(?P<said>(?:if|unless|in case|(?:when|once|while)(?!\s(?:is|are|was|were|do|does|did|will|can|should)\b))"
    r"\s[^,.;:!?\n]{1,80},\s*(?:(?:then|please)\s+)?)\Z"
)
"""What an order waits for, right before it: "if the build fails, don't deploy" asks for nothing where it does not."""
_DECLINED = re.compile(
    r"(?i)(?:\A|(?<=[.!?\n]))[^\w\n]{0,3}(?:(?:please|so|and|ok|okay|then)\s){0,3}"
    r"(?P<deed>[a-z]+)\b(?P<object>[^.?!\n]*)[?？][^\w\n]{0,4}"
    r"(?:(?:oh|hell|please|rather|better|absolutely|certainly|definitely|surely|of course)\s)?"
    r"(?:nope|nah|never|i (?:do not|don['’]?t) think so|no (?:way|thanks|thank you)"
    r"|(?:do not|don['’]t|not|no)(?=\s*(?:[,.;:!)\n]|\Z)))"
)
"""What is asked for and refused at once: "cancel order 12? No"."""
_OFFERS = frozenset("can could let may might shall should we you".split())
_STOPS = re.compile(r"(?i)\W*(?:stop|wait|hold on|(?:cancel|scrap|stop) (?:that|it|this))\W*")
"""What asks for nothing beside what is forbidden: "Stop! Don't merge it"."""
_GOES_ON = re.compile(r"(?i)(?:cease|end|finish|pause|quit|rest|stop)\b")
"""Not to be done until something is, which is to be done then: "don't stop until you have found it"."""
_ENDS = re.compile(r"\s*(?:[.;!\n]|\Z)")
_UNTIL = re.compile(r"(?i)\s(?:until|till|unless)\s[^,.;:!?\n]*")
"""Behind an action when it may be done after all, which is not asked for either: "until the tests pass"."""
_MARK = re.compile(r"[,.;:!?\n]")
_RELATIVE = re.compile(rf"(?i)\b(?:{RELATING})\b")
_ASKS_WHICH = re.compile(
    rf"(?i)(?:(?:show|tell|give)\s(?:me|us)|find out|check|see|look up)\s(?:{RELATING}|what)\s"
    rf"(?!.*\b(?:{RELATING})\b).*\b(?:is|are)\b"
)
"""A question with a verb of its own: an order behind it ("but don't delete any") is none of its relative clauses."""
_ANY = re.compile(r"(?i)\s(?:any|anything|anyone|anybody|it|them)\b")
_ONLY = re.compile(r"(?i)[^,.;:!?\n]*\bany(?:thing|body|one)\s(?:but|except|besides|other than)\b")
_DENIED = re.compile(r"(?i)n['’]t\b|\b(?:not|cannot|never)\b")
"""Before "without" it tells how things are: "users can't log in without resetting their passwords"."""
_DETERMINED = re.compile(
    r"(?i)\s(?:an?|the|my|our|your|his|her|its|their|this|that|these|those|any|anyone|anybody|it|them|him|me|us|to)\b"
)
_BACK = re.compile(r"(?i)[^\n]{0,80}?\b(?:(?:its?|them|their)\b|(?P<kind>ones?)(?=[,.;:!?]|\sand\b|$))")
"""What means a thing said before, or another of its kind."""
_MADE = re.compile(r"(?i)\san?(?:\snew)?\b")
"""Before what an action makes anew ("an issue"): that is not there to be meant."""
_ALONE = re.compile(r"\s*(?:[,.;:!?)\n]|\Z|[A-Z])")


_HARMING = frozenset("affecting breaking disturbing touching".split())
"""What else is to be left as it is: "without touching production"."""
_DEALING = doing(ACTIONS_OR_THINGS)
"""What may be a deed or a thing."""
_MENTAL = frozenset(
    """be believe bother care even exist feel forget get have hesitate just know like matter mind need own panic really
    remember see seem think understand want work worry""".split()
)
"""What nobody is told not to do, though "don't" stands before it."""
_DONT = re.compile(r"(?i)(?:(?:please|so|just|also)\s+)*(?:don['’]?t|do not)\b")
_REST_OF_PART = re.compile(r"[^,.;:!?\n–—]{0,80}?(?:[,.;:!?\n–—]\s*(?:but\s)?|\sbut\s)")


def split_negated(text: str) -> tuple[str, tuple[str, ...]]:
    """What a text asks for, and what it forbids; the whole text where it asks for nothing or forbids nothing."""
    lower = text.lower()
    if not any(cue in lower for cue in _CUES):
        return text, ()
    left, past, forbidden, task = "", 0, [], unquoted(text)
    for (start, end), stays in _forbidden(masked(task)):
        left += f"{_JOINED.sub('', task[past:start])} "
        past = stays
        forbidden.append(task[start:end].rstrip(" –—-"))
    left = (left + task[past:]).lstrip(" ,.;:!?\n")
    asks = forbidden and says(left, 1) and not _STOPS.fullmatch(left)
    return (left if asks else text), tuple(forbidden)


def forbidden_places(text: str) -> list[Span]:
    """From where to where a text forbids an action, with what it would be done to."""
    return [span for span, _ in _forbidden(masked(text))]


def _forbidden(said: str) -> Iterator[tuple[Span, int]]:
    """From where to where something is forbidden, in order, and where in it begins what is meant all the same."""
    found = [(span, span[1]) for span in done_without(said)]
    found += [(span, span[1]) for span in forbidden_abroad(said)]
    found += [
        (no.span(), _of_the_declined(no)) for no in _DECLINED.finditer(said) if _may_be_declined(no["deed"].lower())
    ]
    past = 0
    for head in _HEAD.finditer(said):
        if head.start() >= past and _forbids(head):
            end = end_of_part(said, head.end() - bool(head["off"]))
            stays, until = _before_what_stays(head, end), _UNTIL.match(said, end)
            end = until.end() if until and not _GOES_ON.match(head["action"] or "") else end
            waits = _WAITS.search(said, past, head.start()) if _ENDS.match(said, end) else None
            found.append(((waits.start("said") if waits else head.start(), end), stays or end))
            past = end
    past = 0
    for span, stays in sorted(found):
        if span[0] >= past:
            past = span[1]
            yield span, stays


def _may_be_declined(first: str) -> bool:
    """Whether what begins with this word asks for something: "merge 88?", "should we merge 88?"."""
    return may_act(first) or first in _OFFERS


def _of_the_declined(no: re.Match[str]) -> int:
    """Where what a declined action would be done to begins, if the words behind speak of it; else where "no" ends."""
    return no.end() if _BACK.match(no.string, no.end()) is None else no.start("object")


def _forbids(head: re.Match[str]) -> bool:
    """Whether an action is forbidden: "don't forget to" and "without training data" forbid none."""
    if without := head["without"]:
        denied = not head["instead"] and _DENIED.search(_part_before(head))
        return _is_action(without, head) and not denied
    if head["off"]:
        return _commands(head)
    if avoided := head["avoided"]:
        return (head["refrain"] is not None or _is_action(avoided, head)) and _commands(head)
    verb = head["action"] or head["idle"]
    told = may_act(verb.lower()) or bool(head["action"] and _is_told_instead(head))
    return told and not _ONLY.match(head.string, head.end()) and _commands(head)


def _is_told_instead(head: re.Match[str]) -> bool:
    """Whether an action follows in place of what shall not be done, whatever that is: "don't skip, pause"."""
    if head["action"].lower() in _MENTAL or not _DONT.match(head.group()):
        return False
    rest = _REST_OF_PART.match(head.string, head.end())
    return rest is not None and may_act(first_word(head.string[rest.end() : rest.end() + 100]))


def _is_action(deed: str, head: re.Match[str]) -> bool:
    """Whether "deleting" and the like is what would be done to something, and no noun ("without billing address")."""
    if (
        deed.lower() in DOING
        or deed.lower() in _HARMING
        or (not deed.endswith("thing") and _DETERMINED.match(head.string, head.end()))
    ):
        return True
    dealt = bool(head["instead"] or head["avoided"]) and deed.lower() in _DEALING
    return dealt and bool(_ALONE.match(head.string, head.end()))


def _commands(head: re.Match[str]) -> bool:
    """Whether a command begins here; "customers who order and never pay" are none that is told not to."""
    before = head.string[max(0, head.start() - 200) : head.start()]
    opening = _OPENING.search(before)
    if opening is None or opening["mark"] or head.group()[0].isupper():
        return opening is not None
    sentence = _MARK.split(before[: opening.start()])[-1].strip()
    if not sentence or _HEAD.match(sentence):
        return True
    if _RELATIVE.search(sentence) and not (_ASKS_WHICH.search(sentence) and _ANY.match(head.string, head.end())):
        return False
    return may_act(first_word(sentence))


def _before_what_stays(head: re.Match[str], end: int) -> int | None:
    """Where the thing that is spared begins, if the words around it speak of it.

    "Draft but don't send the mail", "don't stop the pod, restart it".
    """
    said = head.string
    if head.group().lower().endswith((" use", " using")):
        return None
    before = _part_before(head)
    if says(before, 1) and not says(before, 2) and says(said[head.end() : end], 1):
        return head.end()
    back, made = _BACK.match(said, end), _MADE.match(said, head.end())
    if back is None or says(said[: head.start()], 1) or (made and not back["kind"]):
        return None
    return made.end() if made else head.end()


def _part_before(head: re.Match[str]) -> str:
    return _MARK.split(head.string[max(0, head.start() - 200) : head.start()])[-1]
