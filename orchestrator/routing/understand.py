"""Understand a query without any model: its clean text, its clauses, and the terms of each."""

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from orchestrator.index.bigrams import Pair, side_by_side
from orchestrator.index.text import split_words, terms, terms_and_words
from orchestrator.index.variants import spelt_out
from orchestrator.language.asides import without_asides, without_states
from orchestrator.language.clauses import split_clauses, told_beside
from orchestrator.language.lists import without_list_marks
from orchestrator.language.modes import TELLS, UNSAID
from orchestrator.language.negation import split_negated
from orchestrator.language.quoted import LEAST_OF_PART, LEAST_SAID, without_messages
from orchestrator.language.sending import in_full
from orchestrator.language.shapes import with_shapes, without_urls
from orchestrator.language.slips import may_be_slip, respelt, slips
from orchestrator.language.told import NOTHING_TOLD, Told, told_in
from orchestrator.language.verbs import may_act
from orchestrator.language.wanted import asks_for_more, wanted
from orchestrator.language.words import MAX_CUT, asks_something, first_word

MAX_STOP_WORDS = 20
QUOTED = 0.5
"""What a word counts that only a quoted message, an aside or a URL has: "a mail saying 'cancel the call'" cancels
nothing."""
WAITED_FOR = 0.1
"""What a word counts that only says what is to be before, or what somebody is reminded of: "once 88 is merged, ..."
merges nothing."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]+")
_BLANKS = re.compile(r"[^\S\n]{2,}")


@dataclass(frozen=True, kw_only=True)
class Understood:
    """A query as the legs read it, and its clauses in order: the whole of what is asked, where it is one.

    `text` is the whole query, `asked` leaves out what is `forbidden` in it and the marks of its lists, unless it is too
    long to be a task; all but `text` is read from that. `terms` maps each stemmed term to its weight, `words` maps it
    to the word that a person is shown, and `pairs` weighs those that stand side by side. `earlier` holds the earlier
    texts that it leans on, with their weights. `slips` maps misspelt words to those that are meant, whose terms stand
    in place of theirs. `tells_of`: what all of it only tells of; nothing where it is too long to be a task.
    `only_forbids`: nothing is asked for ("don't delete the bucket"), here or before, so `asked` is all of it. `meant`:
    what is asked, spelt rightly and in full. `names`: the terms of the catalogue's names, where they are known.
    """

    text: str
    asked: str
    terms: Mapping[str, float]
    words: Mapping[str, str]
    pairs: Mapping[Pair, float]
    clauses: tuple["Clause", ...]
    earlier: tuple[tuple[str, float], ...] = ()
    slips: Mapping[str, str] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    only_forbids: bool = False
    tells_of: Told = field(default=NOTHING_TOLD, compare=False)
    meant: str = field(repr=False, compare=False)
    names: Container[str] | None = field(default=None, repr=False, compare=False)

    @property
    def parts(self) -> tuple["Clause", ...]:
        """The clauses, if there are several."""
        return self.clauses if len(self.clauses) > 1 else ()

    @property
    def mode(self) -> int:
        """What all clauses want: to be told something, or to have something changed; UNSAID where they differ."""
        modes = {clause.mode for clause in self.clauses}
        if len(modes) == 1:
            return modes.pop()
        return TELLS if min(modes) > UNSAID else UNSAID

    @cached_property
    def told(self) -> tuple["Clause", ...]:
        """The sentences beside the parts, which ask for nothing and tell what the task is about; of a task without
        parts all sentences, if there are several."""
        said = told_beside(self.asked, [part.text for part in self.parts])
        return tuple(_clause(text, self.slips, self.asked, self.names) for text in said)

    @property
    def texts(self) -> list[str]:
        """What an embedder reads: what is asked, its parts, what is told beside them, the earlier texts; as they are
        meant, and without quoted messages and asides; acronyms and shapes with their words."""
        parts = [_embedded(part.meant, LEAST_OF_PART) for part in (*self.parts, *self.told)]
        earlier = [_embedded(_meant(text, self.slips, self.names)) for text, _ in self.earlier]
        return [_embedded(self.meant), *parts, *earlier]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A part of the query that may be a task of its own. `acts`: it asks, or begins with what may be an action; `mode`:
    whether it wants to be told something or to have something changed; `tells_of`: what it only tells of; `meant`: its
    text, spelt rightly and in full."""

    text: str
    terms: Mapping[str, float]
    pairs: Mapping[Pair, float]
    meant: str = field(repr=False, compare=False)
    acts: bool = True
    mode: int = UNSAID
    tells_of: Told = field(default=NOTHING_TOLD, compare=False)


def understand(
    query: str,
    earlier: Sequence[tuple[str, float]] = (),
    known: Container[str] | None = None,
    names: Container[str] | None = None,
) -> Understood:
    """The query cleaned and cut; one clause, the whole, where there is no seam worth cutting at.

    Terms and pairs of `earlier` texts count with those texts' weights, where the query does not have them itself.
    `known`: the catalogue's stemmed terms, by which misspelt words are read; `names`: those in names of its tools and
    servers, which are nobody's.
    """
    text = clean(query)
    is_task = len(text) <= MAX_CUT
    listed = without_list_marks(text) if is_task else text
    asked, forbidden = split_negated(listed) if is_task else (listed, ())
    words = _words(asked)
    odd = known is not None and any(term not in known and may_be_slip(word) for term, word in words)
    wrong = slips(asked, known) if known is not None and odd else {}
    meant = _meant(asked, wrong, names)
    if (shaped := with_shapes(meant)) != asked:
        words = _words(shaped)
    weighted = _weights(shaped, words)
    pairs = _pairs(words, weighted)
    earlier = tuple((clean(said), weight) for said, weight in earlier)
    for said, weight in earlier:
        before, own = _earlier(said, weight, names)
        words = [*words, *before]
        weighted = {**own, **weighted}
        pairs = {**_pairs(before, own), **pairs}
    parts = split_clauses(asked)
    cut = tuple(_clause(part, wrong, asked, names) for part in parts) if len(parts) > 1 else ()
    mode = _mode_of_all(respelt(asked, wrong), [respelt(part, wrong) for part in parts if len(parts) == 1])
    tells_of = told_in(asked) if is_task else NOTHING_TOLD
    clauses = cut or (Clause(text=asked, terms=weighted, pairs=pairs, mode=mode, tells_of=tells_of, meant=meant),)
    return Understood(
        text=text,
        asked=asked,
        terms=weighted,
        words=dict(reversed(words)),
        pairs=pairs,
        clauses=clauses,
        tells_of=tells_of,
        meant=meant,
        names=names,
        earlier=earlier,
        slips=wrong,
        forbidden=forbidden,
        only_forbids=bool(forbidden) and asked == listed and not earlier,
    )


def clean(query: str) -> str:
    """Printable text: control characters and lone surrogates become spaces, runs of blanks one, forms are composed.

    Line ends stay, each as one line feed.
    """
    text = _BLANKS.sub(" ", query if query.isprintable() else _CONTROL.sub(" ", query.replace("\r\n", "\n")))
    return text.strip() if text.isascii() else unicodedata.normalize("NFC", text).strip()


def _clause(text: str, wrong: Mapping[str, str], asked: str, names: Container[str] | None) -> Clause:
    """One part of all that is asked."""
    meant = _meant(text, wrong, names)
    shaped = with_shapes(meant)
    words = _words(shaped)
    weighted = _weights(shaped, words, LEAST_OF_PART)
    acts = may_act(first_word(text)) or asks_something(text)
    tells_of = told_in(text, asked[: max(0, asked.find(text))])
    return Clause(
        text=text,
        terms=weighted,
        pairs=_pairs(words, weighted),
        meant=meant,
        acts=acts,
        mode=_mode(shaped),
        tells_of=tells_of,
    )


def _meant(text: str, wrong: Mapping[str, str], names: Container[str] | None) -> str:
    """The text spelt rightly, and with what its verbs do: "send text him"."""
    return in_full(respelt(text, wrong), names)


def _embedded(meant: str, least: int = LEAST_SAID) -> str:
    """What an embedder reads of a text as it is meant."""
    return spelt_out(with_shapes(_asked_itself(meant, least)))


def _earlier(said: str, weight: float, names: Container[str] | None) -> tuple[list[tuple[str, str]], dict[str, float]]:
    """The words of an earlier text, and its terms with their weights times its own."""
    meant = with_shapes(in_full(said, names))
    words = _words(meant)
    return words, {term: weight * count for term, count in _weights(meant, words).items()}


def _mode(text: str) -> int:
    return wanted(without_asides(text))


def _mode_of_all(asked: str, own: Sequence[str]) -> int:
    """The mode of a task by its one part that asks, if any does alone; a question beside which more is asked for has
    none."""
    if len(asked) > MAX_CUT:
        return UNSAID
    part = own[0] if own else asked
    mode = _mode(part)
    return UNSAID if mode > UNSAID and part != asked and asks_for_more(asked.replace(part, "", 1)) else mode


def _weights(text: str, words: Sequence[tuple[str, str]], least: int = LEAST_SAID) -> dict[str, float]:
    """Each term's weight: the root of its count, so that a repeated word counts more, but not in full; half of that
    where only a quoted message, a title, an aside or a URL has it."""
    weighted = {term: count**0.5 for term, count in Counter([term for term, _ in words]).items()}
    if (said := without_urls(_asked_itself(text, least))) == text:
        return weighted
    asked = set(terms(said))
    named = set(terms(without_states(text)))
    return {
        term: weight * (1.0 if term in asked else QUOTED if term in named else WAITED_FOR)
        for term, weight in weighted.items()
    }


def _pairs(words: Sequence[tuple[str, str]], weighted: Mapping[str, float]) -> dict[Pair, float]:
    return side_by_side((term for term, _ in words), weighted)


def _asked_itself(text: str, least: int = LEAST_SAID) -> str:
    """The text without the messages and titles that it quotes where `least` terms are left, and without its asides."""
    return text if len(text) > MAX_CUT else without_asides(without_messages(text, least))


def _words(text: str) -> list[tuple[str, str]]:
    """The text's terms, each with its word. Where stop words are all there is ("who am i"), they are what was asked."""
    return terms_and_words(text) or [(word, word) for word in islice(split_words(text[:MAX_CUT]), MAX_STOP_WORDS)]
