"""Clauses: the parts of a query that ask for something of their own.

A clause has to be earned: a cut in the wrong place costs more than it gives. So a sentence is cut only where an action
or a question begins anew ("... and send it to Ana"), never inside a list of things ("title, body and tags").
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from orchestrator.index.text import says
from orchestrator.language.quoted import masked
from orchestrator.language.sentences import NO_END
from orchestrator.language.verbs import ACTIONS, ACTIONS_OR_THINGS, may_act
from orchestrator.language.words import MAX_CUT, QUESTION_WORDS, asks_something, bare, first_word

MAX_CLAUSES = 8
MIN_CLAUSE_TERMS = 2
MAX_TOLD = 8
"""Sentences beside the clauses that are searched for, too."""

# Both begin with one class of characters: the engine then leaps from one to the next.
_SENTENCE = re.compile(
    rf"[\s。！？；](?:(?<=[.!?;]\s)(?!{NO_END})\s*|(?<=[\n。！？；])[\n。！？；]*|(?<=\s)[•*]\s+(?!\d))"
)
_ABROAD = "und dann|und danach|danach|y luego|luego|et puis|puis|et ensuite|ensuite|e poi"
"""What says "then" in other languages, whose actions are not known here: a part begins anew behind it."""
_JOINT = re.compile(
    rf"[\s,→，](?:(?:(?<=,)|(?<=\s),)\s*(?:(?:and|then|but|plus|also|{_ABROAD})\s+|(?<=\s))"
    rf"|(?<=\s)(?:and|then|but|plus|after that|afterwards|&|[-–]|[-=]>|→|{_ABROAD})\s+|(?<=→)\s*|(?<=，)(?:然后|再))",
    re.IGNORECASE,
)
_SEQUENCE = re.compile(r"(?:then|after that|afterwards|finally|next|lastly|also)\b|[-=]>|→", re.IGNORECASE)
_ANEW = re.compile(rf"\b(?:{_ABROAD})\b|然后|再", re.IGNORECASE)
_END = re.compile(
    rf"(?i)(?=[,;:!?](?:\s|$)|\.(?:\s(?!{NO_END})|$)|\s\(|\)|\n|$|\s(?:but|just|only|instead|then|rather|simply|until"
    r"|unless|please|(?:can|could|would) you|i (?:want|need|would))\b)"
)
"""Where a part ends: at a mark, or before a word that says what is wanted in its place."""
_MODIFIER = re.compile(
    r"(?:using|with|without|via|for|in|on|at|from|by|if|when|once|as|to|given|based|after|before"
    r"|except|excluding|unless|instead of|rather than|don['’]t|do not|never|no|use\b(?!.*\sto\s))\b",
    re.IGNORECASE,
)
"""What a part begins with that says how, where, when or what is missing, and so belongs to the part behind it."""
_WAITING = re.compile(r"(?:if|once|as soon as)\s[^,;:!?\n]{1,80},\s+(?:then\s+)?", re.IGNORECASE)
"""What a part waits for, before the action that it begins with."""
_CONTEXT = re.compile(
    r"(?:i|we|you|he|she|it|they|my|our|his|her|its|their|this|that|these|those|there|here|hi|hello|hey|dear|thanks|the"
    r"|until|unless)\b",
    re.IGNORECASE,
)
"""What a sentence begins with that tells how things are."""
_MISSING = re.compile(r"no\b", re.IGNORECASE)
_ANNOUNCES = re.compile(
    r"(?:do|help|handle|complete|carry out)\b[^:]*:\Z|with (?:this|these|those|the following)\b.{0,20}\Z", re.IGNORECASE
)
"""What says only that tasks stand beside it ("do the following for me:", "can you help me with these tasks?")."""
_OBJECT = re.compile(
    r"(?:an?|the|my|our|your|his|her|its|their|this|that|these|those|it|them|him|me|us|all|any|some|each|every"
    r"|to|for|on|in|into|from|with|by|up|as|about|of)\b|[\"'“‘#@\d]|[A-Z]"
)
_PRONOUN = re.compile(r"(?:then |please )?(\w+) (?:him|her|it|them)\b(?! (?:to|for|with) (?:me|us)\b)", re.IGNORECASE)
"""An action on what was said before, but none that only hands it over ("show it to me")."""


def split_clauses(text: str) -> list[str]:
    """The parts of a query that ask for something of their own; fewer than two where nothing is worth cutting."""
    if len(text) > MAX_CUT:
        return [text]
    said = masked(text)
    sentences = [part for part in _SENTENCE.split(said) if part]
    if len(sentences) == 1 and not _JOINT.search(said):
        return [text]
    asking = [part for part in sentences if _asks(part)]
    clauses = [clause for sentence in asking for clause in _cut(sentence)]
    if said is not text:
        clauses = list(_unmasked(clauses, said, text))
    if len(clauses) > MAX_CLAUSES:
        clauses[MAX_CLAUSES - 1 :] = [" ".join(clauses[MAX_CLAUSES - 1 :])]
    return clauses


def told_beside(text: str, clauses: Sequence[str]) -> list[str]:
    """The sentences that ask for nothing, or all of them where there are no clauses; none that quotes something, and
    none where it would be the only part."""
    if len(text) > MAX_CUT:
        return []
    sentences = [(part, part.strip(" ,.;!?")) for part in _SENTENCE.split(masked(text))]
    told = [
        said
        for part, said in sentences
        if said in text and says(said, MIN_CLAUSE_TERMS) and not (clauses and _asks(part))
    ]
    return told[:MAX_TOLD] if len(clauses) + len(told) > 1 else []


def end_of_part(said: str, start: int) -> int:
    """Where the part that holds this place ends: with its words, or before another action ("... and send me it")."""
    mark = _END.search(said, start)
    end = mark.start() if mark else len(said)
    for joint in _JOINT.finditer(said, start + 1, end):
        if _begins_anew(joint.group(), said[joint.end() : end]):
            return joint.start()
    return end


def _unmasked(parts: Iterable[str], said: str, text: str) -> Iterator[str]:
    """The parts of the masked text as the text has them."""
    end = 0
    for part in parts:
        start = said.index(part, end)
        end = start + len(part)
        yield text[start:end]


def _cut(sentence: str) -> Iterator[str]:
    """The sentence cut before each part that begins an action or a question."""
    start, part, actions = 0, 0, _lists_actions(sentence)
    for joint in _JOINT.finditer(sentence):
        if not _begins_anew(joint.group(), sentence[joint.end() :], actions=actions):
            continue
        before, modifies = sentence[start : joint.start()], _MODIFIER.match(bare(sentence[part : joint.start()]))
        if not modifies and (start or _stands_alone(before)):
            yield before.strip(" ,.;")
            start = joint.end()
        part = joint.end()
    yield sentence[start:].strip(" ,.;")


def _lists_actions(sentence: str) -> bool:
    """Whether each of three parts or more begins with what may be an action: a list of tasks, and hardly of things."""
    first, *others = _JOINT.split(sentence)
    parts = [first.rpartition(": ")[2], *others]
    return len(parts) > 2 and all(may_act(first_word(part)) and _stands_alone(part) for part in parts)


def _begins_anew(joint: str, part: str, *, actions: bool = False) -> bool:
    """Whether an action or a question begins here.

    A word that may be a thing, too, needs an object behind it, "then" before it, or nothing but actions beside it.
    """
    if waits := _WAITING.match(part):
        part = part[waits.end() :]
    own = _JOINT.split(part, maxsplit=1)[0]
    if "&" in joint and part[:1].isupper():  # a name: "Pack & Send"
        return False
    if _ANEW.search(joint):
        return _stands_alone(own)
    word, sequence = first_word(part), bool(_SEQUENCE.search(joint) or _SEQUENCE.match(part))
    if word in ACTIONS_OR_THINGS:
        begins = actions or sequence or bool(_OBJECT.match(bare(part).partition(" ")[2]))
    else:
        begins = word in ACTIONS or word in QUESTION_WORDS
    return begins and (_stands_alone(own) or (sequence and may_act(word) and part[:1].islower() and says(own, 1)))


def _asks(sentence: str) -> bool:
    """Whether a sentence asks for something; "Hello.", or one that only tells how things are or what is
    missing, does not."""
    own = bare(sentence)
    if _ANNOUNCES.match(own):
        return False
    if asks_something(sentence):
        return says(sentence, 1)
    if _MISSING.match(own) and not any(
        _begins_anew(at.group(), sentence[at.end() :]) for at in _JOINT.finditer(sentence)
    ):
        return False
    return not _CONTEXT.match(own) and _stands_alone(sentence)


def _stands_alone(part: str) -> bool:
    """Whether a part says enough to be searched for: two terms, or an action on somebody ("email him")."""
    return says(part, MIN_CLAUSE_TERMS) or ((found := _PRONOUN.match(part)) is not None and may_act(found[1].lower()))
