"""Conversation: how far a query leans on earlier turns, and which texts it therefore means.

Mixing earlier turns into whole sentences only lowers what is found (docs/decisions.md). So a query leans only where its
words say so ("the same for ...", "and in Berlin?", "merge it") and where it asks for little itself.
"""

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from orchestrator.index.text import says, split_words, stem
from orchestrator.language.modes import TELLING
from orchestrator.language.verbs import may_act
from orchestrator.language.wanted import asks_of_a_deed
from orchestrator.language.words import first_word
from orchestrator.records.request import Turn

MAX_TURNS = 8
"""So many earlier turns are read."""
MAX_CHARS = 2_000
"""A longer earlier text is a pasted document: no request that a later turn would mean."""
LEANING = 0.4
"""What the terms of the turn before weigh beside a query's own, which say what is wanted of it. At 0.6 they outweighed
a request of one word ("mail this to Ana" behind a refund)."""
MOST_OWN = 2
"""A query with more content words of its own stands alone, unless it says "the same"."""
MOST_OWN_OF_SAME = 6

_OPENER = re.compile(
    r"\A(?:and|or|plus|what about|how about|now|then|also|next|but"
    r"|y|e|o|qu[eé] tal|und|oder|dann|et|ou|puis|а|и|но|那么?|还有|では|じゃあ|それと)"
    r"(?:\s|(?<=[那么有はあと]))",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\W*(where|who|when|why|how|is|are|was|were|has|have|did|does)\s+\w", re.IGNORECASE)
"""A question about what was said ("where is it now"), which is another than the one before."""
_DEED = re.compile(r"\b([a-z]+)\s+(?:it|them|this|that|these|those|the|both|him|her)\b", re.IGNORECASE)
"""An action by its form, whatever the verb ("kill the first one")."""
_CLOSER = re.compile(r"(?:呢|も|は|도|는요|은요)\s*[?？。.]?$")
_AGREED = re.compile(
    r"(?:(?:great|perfect|cool|thanks|thank you|no problem)\W+(?=(?:please )?(?:do|go)\b))?"
    r"(?:(?:y|👍)\W*\Z|(?:yes|yep|yeah|sure|ok|okay|fine|alright|absolutely|of course|correct|confirmed|sounds good"
    r"|i confirm|that['’]s right|proceed|go ahead|please do|do (?:it|that)|s[ií]|claro|ja|gern|oui|d'accord|sim"
    r"|va bene|да|好|好的|是的|はい|お願いします|네)\b(?P<more>.{0,20})$)",
    re.IGNORECASE,
)
_SAME = frozenset(
    """same again likewise ditto repeat another other others else too instead mismo misma igual otro otra otros otras
    tambien vez gleiche gleichen gleiches dasselbe andere anderen anderes anderem auch nochmal noch meme autre autres
    aussi encore pareil stesso stessa altro altra anche ancora mesmo mesma outro outra tambem тоже также еще другой
    другого другом снова""".split()
)
_POINTING = frozenset(
    "it its that this those these them they one ones there first second third last previous former latter next".split()
)
_NO_NOUN = frozenset("two three four five back along instead soon later today tonight tomorrow here there".split())
"""Content words behind "this" or "those" that are not what it points at ("send that tomorrow", "cancel those two")."""
_DETERMINED = re.compile(r"\b(?:this|that|these|those)\s+(\w+)", re.IGNORECASE)
_PARTICLES = frozenset(
    """please well do does go ahead already done make sure ok okay yes now what about how und oder fur das der die den
    dem ein eine einen im auf mit von zu bitte el la los las un una en de del para por con y o al le les des du au
    aux pour dans sur avec et ou il lo gli per di da e os as no na em do das dos com qu que в на для и а но с по tal
    puis dann""".split()
)
_NOT_OWN = _SAME | _POINTING | _PARTICLES
_SAME_UNSPACED = re.compile("同样|一样|再来|也|另一|同じ|別の|もう一度|もうひとつ")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_THANKS = re.compile(
    r"(?:thanks|thank you|thx|great|perfect|nice|gracias|danke|merci|obrigad[oa]|grazie|спасибо|谢谢|謝謝|ありがとう)",
    re.IGNORECASE,
)
_WITHDRAWN = re.compile(
    r"(?:no|nah|oh|ok(?:ay)?)?[\s,]*(?:never ?mind|forget (?:about )?(?:it|that)|not now|nope|nothing(?: else)?"
    r"|no thank(?:s| you)|schon gut|vergiss es|laisse tomber|tant pis|no importa|olvídalo|lascia stare)\W*$",
    re.IGNORECASE,
)
"""What takes a request back: nothing is to be repeated."""
_REFUSED = re.compile(r"(?:\b(?:not|already)\b|\b(?:do|does|did|is|was)n['’]?t\b|\A\W*(?:no|never)\b)", re.IGNORECASE)
"""What says of the turn before that it was not meant."""
_ASKS_WHAT = re.compile(
    r"\W*(?:(?:so|and|but|ok)\W+)*(?:what|which|whose|(?:how|who|where|what)['’]s)\b(?!\s+about)", re.IGNORECASE
)
"""A question about what was said before that has no word of its own."""
_UNDOES = re.compile(
    r"\W*(?:(?:please|now|no|ok|oh|sorry|(?:can|could|would) you|i want to)\W+)*"
    r"(?:undo|revert|reverse|roll(?: (?:it|that|this))? back|take (?:it|that|this) back"
    r"|(?:can|could) (?:it|that|this) be (?:reversed|reverted|undone))\b",
    re.IGNORECASE,
)
"""Takes back what was done: what did it cannot be meant."""
_REMARK = re.compile(
    r"\W*(?:(?:ok|okay|yes|no|nah|oh|well|ah|so|hm+)\W+)*(?:"
    r"(?:that|this|it)(?:['’]s|\s(?:is|was|looks?|seems?|sounds?))\s(?:[a-z]+\s)?"
    r"(?:all|bad|correct|done|enough|everything|fine|good|great|it|nice|ok|okay|perfect|quick|right|wrong(?: one)?)\b"
    r"|(?:that|this|it)\s(?:helped|helps|works?|worked)\b|already done\b|wrong [a-z]+\b"
    r"|(?:alright|awesome|bye|cool|good|goodbye|great|h?mm+|oops|sorry|wow)\b(?:\W+(?:job|one))?)",
    re.IGNORECASE,
)
"""What is said about the turn before, and asks for nothing."""
_DECLINED = re.compile(
    r"\W*(?:(?:ok|okay|no|nah|oh|well|hm+)\W+)*(?:"
    r"already done(?:\W+thanks)?|(?:it|that)['’]s (?:fine|good|okay|ok) as (?:it|that) is|h?mm+"
    r"|(?:skip|leave|keep) (?:it|that)(?: as (?:it|that) is| alone| there)?|(?:maybe |perhaps )?(?:later|not now)|nah"
    r"|(?:i|we)['’]ll (?:check|do|handle|take care of)(?: (?:it|that|this))?"
    r"(?: (?:myself|ourselves|with [a-z ]{1,30}))?|only (?:if|when|after)\b.{1,60}|no gracias"
    r"|nein|non|lieber nicht|noch nicht|pas encore|später|plus tard|non merci)\W*\Z",
    re.IGNORECASE,
)
"""What says no to an offer, or not now."""
_ASKS_TO_CONFIRM = re.compile(
    r"\b(?:agree|confirm|continue|go ahead|proceed|reply|if you (?:approve|like|want|wish))\b", re.IGNORECASE
)
"""What an assistant says that wants a yes to the request itself."""
_VALUE = re.compile(r"[\d@#/\\]|\w\.\w")
_QUESTION = re.compile(r"[^.!?\n。！？]*[?？]")
_OFFERS = re.compile(
    r"(?:shall|should|may|can|could) (?:i|we)\s+(?:\w+ly\s+)?"
    r"|(?:(?:do|would) you )?(?:want|like|prefer) (?:me|us) to\s+",
    re.IGNORECASE,
)
"""How an assistant asks whether it may do something; what follows is the task."""
_CAN_DO = re.compile(r"\bI(?:['’]m about to|\s(?:can|could|should))\s+(?!not\b)([^.!?\n]+)", re.IGNORECASE)
"""How it says what it may do."""
_IS_THAT_OK = re.compile(r"\b(?:acceptable|alright|fine|good|ok|okay|right|works?)\b[^?？]{0,20}[?？]", re.IGNORECASE)
_WILL_DO = re.compile(
    r"\bI(?:['’]ll|\swill|['’]m going to|\sam going to)\s+(?!not\b)([^.!?\n]+?)(?=,?\sif you\b|[.!?\n]|\Z)",
    re.IGNORECASE,
)
"""How it says what it is about to do, where it asks whether it may."""


@dataclass(frozen=True, slots=True)
class Meant:
    """What a query means: its text, or that of the turn which it repeats, and what it leans on, with weights. `asks`:
    whether it asks for anything, and does not only say something of the turn before ("it worked", "skip it")."""

    text: str
    earlier: tuple[tuple[str, float], ...] = ()
    asks: bool = True


def meant(query: str, conversation: Sequence[Turn], known: Container[str] = ()) -> Meant:
    """The text to route by. `known`: the catalogue's stemmed terms; other words of a short answer are values.

    A query that asks for nothing new means what the turn before meant, so the same is recommended.
    """
    turns = [turn for turn in conversation[-MAX_TURNS:] if turn.text.strip() and len(turn.text) <= MAX_CHARS]
    if not turns:
        return Meant(query)
    if _agrees(query) and turns[-1].role == "assistant":
        if offer := _offer(turns[-1]):
            return Meant(offer)
        if not _ASKS_TO_CONFIRM.search(turns[-1].text):
            return Meant(query, asks=False)
    if _WITHDRAWN.match(query.strip()) or _DECLINED.match(query) or _only_remarks(query, turns[-1]):
        return Meant(query, asks=False)
    if (own := _own_words_if_leaning(query, known)) is None:
        return Meant(query)
    asked = [place for place, turn in enumerate(turns) if turn.role == "user"]
    if not asked or (not own and _REFUSED.search(query)):
        return Meant(query)
    last = asked[-1]
    if not own and len(asked) > 1 and asks_of_a_deed(turns[last].text):
        last = asked[-2]  # "The same for 56" behind "is it paused?" means what was asked for before.
    before = meant(turns[last].text, turns[:last], known)
    if not own and not (_ASKS_WHAT.match(query) and first_word(before.text) not in TELLING):
        return before
    about = _acts(query) or _UNDOES.match(query) or _asks_about(query, before.text) or not own
    said = _without_action(before.text) if about else before.text
    return Meant(query, ((said, LEANING), *((text, weight * LEANING) for text, weight in before.earlier)))


def _agrees(query: str) -> bool:
    """Whether it says yes and asks for nothing more: not "ok, book a desk", nor "do it again"."""
    agreed = _AGREED.match(query.strip())
    if agreed is None or not _SAME.isdisjoint(split_words(query)):
        return False
    return not _own_words(agreed["more"] or "")


def _only_remarks(query: str, before: Turn) -> bool:
    """Whether it says something about the turn before ("it worked") and nothing else, and answers no question."""
    said = _REMARK.match(query)
    asked = before.role == "assistant" and _QUESTION.search(before.text) is not None
    return said is not None and not asked and not says(query[said.end() :], 1)


def _acts(query: str) -> bool:
    """Whether a query says what is to be done: "merge", "kill the first one"."""
    word = first_word(query)
    return may_act(word) or bool(stem(word) and (deed := _DEED.search(query)) and deed[1].lower() == word)


def _asks_about(query: str, before: str) -> bool:
    """Whether it asks how something stands that was to be done: "did it work?" behind "deploy the api"."""
    return asks_of_a_deed(query) and first_word(before) not in TELLING


def _without_action(text: str) -> str:
    """What the text is about: "kill the first one" behind "list the pods in dev" wants no list."""
    action = first_word(text)
    if not may_act(action):
        return text
    return re.split(rf"\b{re.escape(action)}\b\s*", text, maxsplit=1, flags=re.IGNORECASE)[-1] or text


def _own_words_if_leaning(query: str, known: Container[str]) -> list[str] | None:
    """What a query asks for itself if it leans on what was said; None where it stands alone."""
    query = query.strip()
    if thanked := _THANKS.match(query):
        query = query[thanked.end() :].strip(" ,.!-")
        if not may_act(first_word(query)) or not _points(query):
            return None
    words, own = list(split_words(query)), _own_words(query)
    if _SAME_UNSPACED.search(query) or any(word in _SAME for word in words):
        return own if len(own) <= MOST_OWN_OF_SAME else None
    points = _OPENER.match(query) or _CLOSER.search(query) or _points(query)
    if points or (_AGREED.match(query) and not own):
        return own if len(own) <= MOST_OWN else None
    values_only = 0 < len(words) <= MOST_OWN and all(stem(word) and stem(word) not in known for word in words)
    return [] if values_only else None


def _points(query: str) -> bool:
    """Whether it says what it means by a pointing word. "This" before a noun ("restart that service") is none where
    something is asked of that noun: the request is complete."""
    rest = _DETERMINED.sub(lambda found: " " if _is_noun(found[1]) else found[0], query)
    asks = rest == query or _own_words(rest)
    return any(word in _POINTING for word in split_words(rest if asks else query))


def _is_noun(word: str) -> bool:
    """Whether the word behind "this" may be what it points at: no adverb, and not what is said of it ("get that
    fixed")."""
    word = word.lower()
    return bool(stem(word)) and not (word in _NOT_OWN or word in _NO_NOUN or word.endswith(("ly", "ed")))


def _own_words(query: str) -> list[str]:
    """The words that ask for something: no particles, no pointing words, no values ("Berlin", "config.yaml", "#12"); of
    "where is it now" the question word."""
    own, said = [], _CLOSER.sub("", _OPENER.sub("", query))
    for place, token in enumerate(said.split()):
        if _VALUE.search(token) or (place and token[:1].isupper()):
            continue
        if _UNSPACED.search(token):
            own += re.findall(".{1,3}", token)
        else:
            own += [word for word in split_words(token) if stem(word) and word not in _NOT_OWN]
    asks = _ASKS.match(said)
    return own or ([asks[1]] if asks else [])


def _offer(turn: Turn) -> str:
    """The assistant's last question ("Shall I send the email?"), which a yes accepts."""
    questions = _QUESTION.findall(turn.text)
    offer = _OFFERS.split(questions[-1])[-1].strip(" ?？") if questions else ""
    if says(offer, 2):
        return offer
    stated = _CAN_DO.findall(turn.text)  # "Is that ok?" asks about what stands before.
    if not stated and ((questions and _IS_THAT_OK.search(questions[-1])) or _ASKS_TO_CONFIRM.search(turn.text)):
        stated = _WILL_DO.findall(turn.text)
    return stated[-1].strip() if stated else offer


def used_lately(conversation: Sequence[Turn]) -> tuple[str, ...]:
    """The keys of the tools used in the last turns, latest first."""
    return tuple(dict.fromkeys(key for turn in reversed(conversation[-MAX_TURNS:]) for key in turn.tools))


def undone(query: str, conversation: Sequence[Turn]) -> tuple[str, ...]:
    """The keys of the tools used just before, if the query takes back what they did ("undo that")."""
    return used_just_before(conversation) if _UNDOES.match(query) else ()


def used_just_before(conversation: Sequence[Turn]) -> tuple[str, ...]:
    """The keys of the tools used since the user's last turn."""
    last = max((place for place, turn in enumerate(conversation) if turn.role == "user"), default=0)
    return used_lately(conversation[last:])


def offered_before(conversation: Sequence[Turn]) -> tuple[str, ...]:
    """The keys of the tools that the latest turn with an offer offered, in their order."""
    return next((turn.offered for turn in reversed(conversation[-MAX_TURNS:]) if turn.offered), ())
