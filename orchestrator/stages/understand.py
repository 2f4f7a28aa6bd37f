"""Understand a query without any model: its clean text, its clauses, and the terms of each.

A clause has to be earned: a cut in the wrong place costs more than it gives. So a sentence is cut only where an action
or a question begins anew ("... and send it to Ana"), never inside a list of things ("title, body and tags").
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.everyday import ACTIONS, ACTIONS_OR_THINGS
from orchestrator.lists import unlisted
from orchestrator.negation import without_negated
from orchestrator.slips import may_be_slip, respelt, slips
from orchestrator.text import says, split_words, terms_and_words

MAX_CLAUSES = 8
MIN_CLAUSE_TERMS = 2
MAX_STOP_WORDS = 20
MAX_CUT = 4_000
"""A longer query is a pasted document: context, not a list of tasks."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]+")
_BLANKS = re.compile(r"[^\S\n]{2,}")
# Both begin with one class of characters: the engine then leaps from one to the next.
_SENTENCE = re.compile(
    r"[\s。！？；](?:(?<=[.!?;]\s)(?<!\b[DMS][rst]\.\s)(?<!\bMrs\.\s)(?<!\b(?:e\.g|i\.e)\.\s)\s*"
    r"|(?<=[\n。！？；])[\n。！？；]*|(?<=\s)[-•*]\s+)"
)
_ABROAD = "und dann|und danach|danach|y luego|luego|et puis|puis|et ensuite|ensuite|e poi"
"""What says "then" in other languages, whose actions are not known here: a part begins anew behind it."""
_JOINT = re.compile(
    rf"[\s,→，](?:(?:(?<=,)|(?<=\s),)\s*(?:(?:and|then|but|plus|also|{_ABROAD})\s+|(?<=\s))"
    rf"|(?<=\s)(?:and|then|but|plus|after that|afterwards|&|[-=]>|→|{_ABROAD})\s+|(?<=→)\s*|(?<=，)(?:然后|再))",
    re.IGNORECASE,
)
_SEQUENCE = re.compile(r"(?:then|after that|afterwards|finally|next|lastly|also)\b|[-=]>|→", re.IGNORECASE)
_ANEW = re.compile(rf"\b(?:{_ABROAD})\b|然后|再", re.IGNORECASE)
_FILLER = re.compile(
    r"(?:(?:and|then|after that|afterwards|finally|lastly|next|first(?:ly)?|second(?:ly)?|third(?:ly)?|also|please"
    r"|kindly|just|now|so|can you|could you|would you|will you|you should|help me|let's|let me"
    r"|i(?: also)? (?:need|want) (?:you )?to|i(?: would|'d)(?: also)? like (?:you )?to|i have to)\b[,:]?\s*)+",
    re.IGNORECASE,
)
_MODIFIER = re.compile(
    r"(?:using|with|without|via|for|in|on|at|from|by|if|when|once|as|to|given|based|after|before"
    r"|don['’]t|do not|never|use\b(?!.*\sto\s))\b",
    re.IGNORECASE,
)
"""What a part begins with that says how, where or when, and so belongs to the part behind it."""
_CONTEXT = re.compile(
    r"(?:i|we|you|he|she|it|they|my|our|his|her|its|their|this|that|these|those|there|here|hi|hello|hey|thanks|the)\b",
    re.IGNORECASE,
)
_QUESTIONS = frozenset("what who whom whose when where why how which is are does do did was were".split())
_OBJECT = re.compile(
    r"(?:an?|the|my|our|your|his|her|its|their|this|that|these|those|it|them|him|me|us|all|any|some|each|every"
    r"|to|for|on|in|into|from|with|by|up|as|about|of)\b|[\"'“‘#@\d]|[A-Z]"
)
_PRONOUN = re.compile(r"(?:then |please )?(\w+) (?:him|her|it|them)\b(?! (?:to|for|with) (?:me|us)\b)", re.IGNORECASE)
"""An action on what was said before, but none that only hands it over ("show it to me")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """A query as the legs read it, and its clauses in order: the whole of what is asked, where it is one.

    `text` is the whole query, `asked` leaves out the actions that it forbids and the marks of its lists; all but `text`
    is read from that. `terms` maps each stemmed term to its weight, `words` maps it to the word that a person is shown.
    `earlier` holds the earlier texts that it leans on, with their weights. `slips` maps misspelt words to those that
    are meant, whose terms stand in place of theirs.
    """

    text: str
    asked: str
    terms: Mapping[str, float]
    words: Mapping[str, str]
    clauses: tuple["Clause", ...]
    earlier: tuple[tuple[str, float], ...] = ()
    slips: Mapping[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """What an embedder reads: what is asked, its clauses if several, the earlier texts; as they are meant."""
        clauses = [clause.text for clause in self.clauses] if len(self.clauses) > 1 else []
        return [respelt(text, self.slips) for text in (self.asked, *clauses, *(text for text, _ in self.earlier))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A part of the query that may be a task of its own."""

    text: str
    terms: Mapping[str, float]


def understand(
    query: str, earlier: Sequence[tuple[str, float]] = (), known: Container[str] | None = None
) -> Understood:
    """The query cleaned and cut; one clause, the whole, where there is no seam worth cutting at.

    Terms of `earlier` texts count with those texts' weights, where the query does not have them itself. `known`: the
    catalogue's stemmed terms, by which misspelt words are read.
    """
    text = clean(query)
    asked = without_negated(unlisted(text) if len(text) <= MAX_CUT else text)
    words = _words(asked)
    odd = known is not None and any(term not in known and may_be_slip(word) for term, word in words)
    wrong = slips(asked, known) if known is not None and odd else {}
    if wrong:
        words = _words(respelt(asked, wrong))
    weighted = _weights([term for term, _ in words])
    earlier = tuple((clean(said), weight) for said, weight in earlier)
    for said, weight in earlier:
        before = _words(said)
        words = [*words, *before]
        weighted = {**{term: weight * own for term, own in _weights([term for term, _ in before]).items()}, **weighted}
    parts = split_clauses(asked)
    cut = tuple(Clause(text=part, terms=weigh(respelt(part, wrong))) for part in parts) if len(parts) > 1 else ()
    clauses = cut or (Clause(text=asked, terms=weighted),)
    shown = dict(reversed(words))
    return Understood(
        text=text, asked=asked, terms=weighted, words=shown, clauses=clauses, earlier=earlier, slips=wrong
    )


def clean(query: str) -> str:
    """Printable text: control characters and lone surrogates become spaces, runs of blanks one, forms are composed.

    Line ends stay.
    """
    text = _BLANKS.sub(" ", query if query.isprintable() else _CONTROL.sub(" ", query))
    return text.strip() if text.isascii() else unicodedata.normalize("NFC", text).strip()


def weigh(text: str) -> dict[str, float]:
    """Each term's weight: the root of its count, so that a repeated word counts more, but not in full."""
    return _weights([term for term, _ in _words(text)])


def _weights(found: Sequence[str]) -> dict[str, float]:
    return {term: count**0.5 for term, count in Counter(found).items()}


def _words(text: str) -> list[tuple[str, str]]:
    """The text's terms, each with its word. Where stop words are all there is ("who am i"), they are what was asked."""
    return terms_and_words(text) or [(word, word) for word in list(split_words(text))[:MAX_STOP_WORDS]]


def split_clauses(text: str) -> list[str]:
    """The parts of a query that ask for something of their own; fewer than two where nothing is worth cutting."""
    if len(text) > MAX_CUT:
        return [text]
    sentences = [part for part in _SENTENCE.split(text) if part]
    if len(sentences) == 1 and not _JOINT.search(text):
        return sentences
    asking = [part for part in sentences if _asks(part)]
    clauses = [clause for sentence in asking for clause in _cut(sentence)]
    if len(clauses) > MAX_CLAUSES:
        clauses[MAX_CLAUSES - 1 :] = [" ".join(clauses[MAX_CLAUSES - 1 :])]
    return clauses


def _cut(sentence: str) -> Iterator[str]:
    """The sentence cut before each part that begins an action or a question."""
    start, actions = 0, _lists_actions(sentence)
    for joint in _JOINT.finditer(sentence):
        before, after = sentence[start : joint.start()], sentence[joint.end() :]
        anew = _begins_anew(joint.group(), after, actions)
        if anew and not _MODIFIER.match(_bare(before)) and (start or _stands_alone(before)):
            yield before.strip(" ,.;")
            start = joint.end()
    yield sentence[start:].strip(" ,.;")


def _lists_actions(sentence: str) -> bool:
    """Whether each of three parts or more begins with what may be an action: a list of tasks, and hardly of things."""
    parts = _JOINT.split(sentence)
    return len(parts) > 2 and all(_may_act(_first_word(part)) and _stands_alone(part) for part in parts)


def _begins_anew(joint: str, part: str, actions: bool) -> bool:
    """Whether an action or a question begins here.

    A word that may be a thing, too, needs an object behind it, "then" before it, or nothing but actions beside it.
    """
    own = _JOINT.split(part, maxsplit=1)[0]
    if "&" in joint and part[:1].isupper():  # a name: "Pack & Send"
        return False
    if _ANEW.search(joint):
        return _stands_alone(own)
    word, sequence = _first_word(part), bool(_SEQUENCE.search(joint) or _SEQUENCE.match(part))
    if word in ACTIONS_OR_THINGS:
        begins = actions or sequence or bool(_OBJECT.match(_bare(part).partition(" ")[2]))
    else:
        begins = word in ACTIONS or word in _QUESTIONS
    return begins and (_stands_alone(own) or (sequence and _may_act(word) and part[:1].islower() and says(own, 1)))


def _first_word(part: str) -> str:
    return _bare(part).partition(" ")[0].lower().strip(",:.;")


def _bare(part: str) -> str:
    """The part without "then", "please", "I need to" and the like before it."""
    filler = _FILLER.match(part)
    return part[filler.end() :] if filler else part


def _asks(sentence: str) -> bool:
    """Whether a sentence asks for something; "Hello.", or one that only tells how things are, does not."""
    if sentence.rstrip().endswith("?") or _bare(sentence).partition(" ")[0].lower() in _QUESTIONS:
        return says(sentence, 1)
    return not _CONTEXT.match(_bare(sentence)) and _stands_alone(sentence)


def _stands_alone(part: str) -> bool:
    """Whether a part says enough to be searched for: two terms, or an action on somebody ("email him")."""
    return says(part, MIN_CLAUSE_TERMS) or ((found := _PRONOUN.match(part)) is not None and _may_act(found[1].lower()))


def _may_act(word: str) -> bool:
    return word in ACTIONS or word in ACTIONS_OR_THINGS
