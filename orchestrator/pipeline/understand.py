"""Understand a task without a model: its clean text, its clauses, and the terms of each."""

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from orchestrator.index.bm25 import Pair, side_by_side
from orchestrator.index.intent import begins_action, reads
from orchestrator.index.text import corrections, spelt_out, split_words, terms, terms_and_words
from orchestrator.pipeline.clauses import MAX_CUT, clean, masked, split_clauses, split_left_out

MAX_STOP_WORDS = 20
QUOTED = 0.5
"""The weight of a term that is only within quotation marks. Quoted words are data more often than part of the task."""
NEEDED = 1.0
"""The weight of all words that a language model wrote about a task, relative to the task's own words."""
_FOLDERS = re.compile(r"(?<![^\s\"'`(])[~.]{0,2}/(?:[\w.-]+/)*(?=[\w.-])")
"""The folders of a path are removed, because they do not describe the tool and change the vector of a short part: "...
the git status of repo_path /tmp/x/repo" was bound to `git_show`."""

_NO_WORDS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A part of a task: its text, its weighted terms and pairs.

    Attributes:
        meant: The text with spelling corrected.
        acts: It begins with an action or a question.
        reads: It begins with a reading verb or a question.
    """

    text: str
    meant: str
    terms: Mapping[str, float]
    pairs: Mapping[Pair, float]
    acts: bool = True
    reads: bool = False


@dataclass(frozen=True, kw_only=True)
class Understood:
    """A task in the form that the legs read.

    Attributes:
        text: The whole task.
        asked: The task without `left_out`. All other attributes are derived from it.
        left_out: The parts that exclude something.
        terms: The weight of each stem.
        words: The displayed word of each stem.
        clauses: The clauses, or the whole task as one.
        earlier: The earlier texts that the task leans on, with their weights.
        corrected: Misspelt words with their corrections.
        needs: A language model's descriptions of the needed tools.
    """

    text: str
    asked: str
    terms: Mapping[str, float]
    words: Mapping[str, str]
    pairs: Mapping[Pair, float]
    clauses: tuple[Clause, ...]
    earlier: tuple[tuple[str, float], ...] = ()
    corrected: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    needs: tuple[Clause, ...] = ()

    @property
    def several_clauses(self) -> tuple[Clause, ...]:
        """The clauses, if there are several."""
        return self.clauses if len(self.clauses) > 1 else ()

    @property
    def parts(self) -> tuple[Clause, ...]:
        """All that is searched by itself, besides the whole: the clauses, if there are several, and the needs."""
        return (*self.several_clauses, *self.needs)

    @property
    def reads(self) -> bool:
        """True where all clauses read."""
        return all(clause.reads for clause in self.clauses)

    @property
    def asks_nothing(self) -> bool:
        """True if the whole task only excludes something."""
        return bool(self.left_out) and self.asked == self.text and not self.earlier

    @property
    def texts(self) -> list[str]:
        """The texts to embed: the whole task, its parts, the earlier texts. A path is replaced by its last name."""
        whole = _respelt(self.asked, self.corrected)
        said = [whole, *(part.meant for part in self.parts), *(text for text, _ in self.earlier)]
        return [_FOLDERS.sub("", spelt_out(text)) for text in said]


def understand(
    query: str,
    earlier: Sequence[tuple[str, float]] = (),
    *,
    known: Container[str] | None = None,
    actions: frozenset[str] = _NO_WORDS,
    needs: Sequence[str] = (),
) -> Understood:
    """Return the cleaned task, split into clauses. If it cannot be split, the whole task is one clause.

    Args:
        query: The task.
        earlier: Earlier texts, whose terms count with these weights if the task does not have them.
        known: The catalogue's stems, for correcting misspelt words.
        actions: The words that begin an action.
        needs: Descriptions of the needed tools, each searched separately. The whole task leans on them.
    """
    earlier = (*earlier, *((need, NEEDED / len(needs)) for need in needs))
    text = clean(query)
    asked, left_out = split_left_out(text)
    wrong = {} if known is None else corrections(_plain_words(asked), known)
    meant = _respelt(asked, wrong)
    words = _words(meant)
    weighted = _weights(meant, words)
    pairs = side_by_side((term for term, _ in words), weighted)
    for said, weight in earlier:
        before = _words(clean(said))
        own = {term: weight * count**0.5 for term, count in Counter(term for term, _ in before).items()}
        words, weighted = [*words, *before], {**own, **weighted}
        pairs = {**side_by_side((term for term, _ in before), own), **pairs}
    parts = split_clauses(asked, actions)
    clauses = tuple(_clause(part, wrong, actions) for part in parts) if len(parts) > 1 else ()
    whole = Clause(text=asked, meant=meant, terms=weighted, pairs=pairs, reads=reads(meant))
    return Understood(
        text=text,
        asked=asked,
        terms=weighted,
        words=dict(reversed(words)),
        pairs=pairs,
        clauses=clauses or (whole,),
        earlier=tuple(earlier),
        corrected=wrong,
        left_out=left_out,
        needs=tuple(replace(_clause(need, {}, actions), acts=True) for need in needs),
    )


def _clause(text: str, wrong: Mapping[str, str], actions: frozenset[str]) -> Clause:
    meant = _respelt(text, wrong)
    words = _words(meant)
    weighted = _weights(meant, words)
    pairs = side_by_side((term for term, _ in words), weighted)
    acts = begins_action(meant, actions)
    return Clause(text=text, meant=meant, terms=weighted, pairs=pairs, acts=acts, reads=reads(meant))


def _weights(text: str, words: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Return each term's weight: the root of its count, half of that where only a quotation has it."""
    weighted = {term: count**0.5 for term, count in Counter(term for term, _ in words).items()}
    if len(text) > MAX_CUT or (said := masked(text)) == text:
        return weighted
    own = set(terms(said))
    return {term: weight if term in own else QUOTED * weight for term, weight in weighted.items()}


def _plain_words(text: str) -> list[str]:
    """Return the words in lower case that may be misspelt: none that is quoted or capitalised."""
    return [
        word.strip(".,;:!?()") for word in masked(text[:MAX_CUT]).split() if word.islower() or text.startswith(word)
    ]


def _respelt(text: str, wrong: Mapping[str, str]) -> str:
    if not wrong:
        return text
    said, right, past = masked(text), "", 0
    for found in re.finditer(r"\w+", said):
        if word := wrong.get(found.group().lower()):
            right, past = f"{right}{text[past : found.start()]}{word}", found.end()
    return right + text[past:]


def _words(text: str) -> list[tuple[str, str]]:
    """Return the terms, each with its word. If the task has only stop words ("who am i"), they are used."""
    return terms_and_words(text) or [(word, word) for word in islice(split_words(text[:MAX_CUT]), MAX_STOP_WORDS)]
