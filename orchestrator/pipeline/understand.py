"""Understand a task without a model: its clean text, its clauses, and the terms of each."""

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from orchestrator.index.bm25 import Pair, side_by_side
from orchestrator.index.intent import begins_action, reads
from orchestrator.index.language import is_other_language
from orchestrator.index.text import corrections, spelt_out, terms, terms_and_words
from orchestrator.pipeline.clauses import (
    MAX_CUT,
    MIN_TERMS,
    QUOTE,
    clean,
    masked,
    split_clauses,
    split_left_out,
)

QUOTED = 0.5
"""The weight of a term that is only within quotation marks. Quoted words are data more often than part of the task."""
NEEDED = 1.0
"""The weight of all words that a language model wrote about a task, relative to the task's own words."""
_FOLDERS = re.compile(r"(?<![^\s\"'`(])[~.]{0,2}/(?:[\w.-]+/)*(?=[\w.-])")
"""The folders of a path are removed, because they do not describe the tool and change the vector of a short part: "...
the git status of repo_path /tmp/x/repo" was bound to `git_show`."""

_IDENTIFIER = re.compile(r"(?<![^\W_])(?=[\w-]*\d)(?=[\w-]*[^\W_]{6}|(?:[\w-]*\d){3})[\w-]{6,}")
"""An identifier, a date or a long number, such as 019f95241e00 or 2026-12-04. It is a value, and its pieces have
vectors of other words: 8 % of the tasks of the development sets have one."""

_FILE = re.compile(r"\.\w{1,5}\W*\Z")
"""The end of a quoted file's name, with its quotation mark."""

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
        other_language: The task is probably not in English.
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
    other_language: bool = False

    @cached_property
    def several_clauses(self) -> tuple[Clause, ...]:
        """The clauses, if there are several."""
        return self.clauses if len(self.clauses) > 1 else ()

    @cached_property
    def parts(self) -> tuple[Clause, ...]:
        """All that is searched by itself, besides the whole: the clauses, if there are several, and the needs."""
        return (*self.several_clauses, *self.needs)

    @property
    def earlier_weights(self) -> list[float]:
        """The weights of the earlier texts."""
        return [weight for _, weight in self.earlier]

    @cached_property
    def reads(self) -> bool:
        """True where all clauses read."""
        return all(clause.reads for clause in self.clauses)

    @cached_property
    def asks_nothing(self) -> bool:
        """True if the whole task only excludes something."""
        return bool(self.left_out) and self.asked == self.text and not self.earlier

    @property
    def texts(self) -> list[str]:
        """The texts to embed: the whole task, its parts, the earlier texts, without quotations and identifiers.

        A path is replaced by its last name.
        """
        task = _respelt(self.asked, self.corrected)
        parts = [part.meant for part in self.parts]
        earlier = [text for text, _ in self.earlier]
        return [
            _IDENTIFIER.sub("", _FOLDERS.sub("", spelt_out(_unquoted(text))))
            for text in (task, *parts, *earlier)
        ]


def understand(
    query: str,
    earlier: Sequence[tuple[str, float]] = (),
    *,
    stems: Container[str] | None = None,
    actions: frozenset[str] = _NO_WORDS,
    needs: Sequence[str] = (),
) -> Understood:
    """Return the cleaned task, split into clauses. If it cannot be split, the whole task is one clause.

    Args:
        query: The task.
        earlier: Earlier texts, whose terms count with these weights if the task does not have them.
        stems: The catalogue's stems, for correcting misspelt words.
        actions: The words that begin an action.
        needs: Descriptions of the needed tools, each searched separately. The whole task leans on them.
    """
    if needs:
        weight = NEEDED / len(needs)
        earlier = (*earlier, *((need, weight) for need in needs))
    text = clean(query)
    asked, left_out = split_left_out(text)
    corrected: dict[str, str] = {}
    other_language = False
    if stems is not None:
        unquoted = masked(asked[:MAX_CUT])
        corrected = corrections(_plain_words(unquoted), stems)
        other_language = is_other_language(unquoted, stems, corrected)
    # A foreign word is not misspelt English.
    if other_language:
        corrected = {}
    task = _clause(asked, corrected, stems, actions)
    words, weights, pairs = _with_earlier(task, earlier, stems)
    parts = split_clauses(asked, actions)
    clauses = [_clause(part, corrected, stems, actions) for part in parts] if len(parts) > 1 else []
    return Understood(
        text=text,
        asked=asked,
        terms=weights,
        words=dict(reversed(words)),
        pairs=pairs,
        clauses=tuple(clauses) or (replace(task, terms=weights, pairs=pairs, acts=True),),
        earlier=tuple(earlier),
        corrected=corrected,
        left_out=left_out,
        needs=tuple(replace(_clause(need, {}, stems, actions), acts=True) for need in needs),
        other_language=other_language,
    )


def _with_earlier(
    task: Clause, earlier: Sequence[tuple[str, float]], stems: Container[str] | None
) -> tuple[list[tuple[str, str]], dict[str, float], dict[Pair, float]]:
    """Return the words, weights and pairs of a task with those of the earlier texts that it leans on."""
    words = _words(task.meant, stems)
    weights = dict(task.terms)
    pairs = dict(task.pairs)
    for text, weight in earlier:
        earlier_words = _words(clean(text), stems)
        earlier_terms = [term for term, _ in earlier_words]
        counts = Counter(earlier_terms)
        earlier_weights = {term: weight * count**0.5 for term, count in counts.items()}
        words += earlier_words
        weights = earlier_weights | weights
        pairs = side_by_side(earlier_terms, earlier_weights) | pairs
    return words, weights, pairs


def _clause(
    text: str, corrected: Mapping[str, str], stems: Container[str] | None, actions: frozenset[str]
) -> Clause:
    corrected_text = _respelt(text, corrected)
    terms_in_order = [term for term, _ in _words(corrected_text, stems)]
    weights = _weights(corrected_text, terms_in_order)
    return Clause(
        text=text,
        meant=corrected_text,
        terms=weights,
        pairs=side_by_side(terms_in_order, weights),
        acts=begins_action(corrected_text, actions),
        reads=reads(corrected_text),
    )


def _weights(text: str, terms_in_order: Sequence[str]) -> dict[str, float]:
    """Return each term's weight: the root of its count, half of that where only a quotation has it."""
    weights = {term: count**0.5 for term, count in Counter(terms_in_order).items()}
    unquoted = text if len(text) > MAX_CUT else masked(text)
    if unquoted == text:
        return weights
    outside = set(terms(unquoted))
    for term in weights.keys() - outside:
        weights[term] *= QUOTED
    return weights


def _unquoted(text: str) -> str:
    """Return the text without quotations, which are values, unless the rest has too few terms.

    The ending of a quoted file's name stays, because it is evidence for the task's subject.
    """
    unquoted = QUOTE.sub(_file_in, text) if len(text) <= MAX_CUT else text
    return unquoted if unquoted != text and len(terms(unquoted)) >= MIN_TERMS else text


def _file_in(quote: re.Match[str]) -> str:
    return quote.group() if _FILE.search(quote.group()) else " "


def _plain_words(unquoted: str) -> list[str]:
    """Return the words in lower case that may be misspelt: none that is capitalised, behind the first one."""
    words = unquoted.split()
    return [word.strip(".,;:!?()") for word in words if word.islower() or unquoted.startswith(word)]


def _respelt(text: str, corrected: Mapping[str, str]) -> str:
    """Return the text with corrected words, quotations unchanged."""
    if not corrected:
        return text
    parts = []
    end = 0
    for word in re.finditer(r"\w+", masked(text)):
        right = corrected.get(word.group().lower())
        if right:
            parts += [text[end : word.start()], right]
            end = word.end()
    return "".join([*parts, text[end:]])


def _words(text: str, stems: Container[str] | None) -> list[tuple[str, str]]:
    """Return the terms, each with its word.

    Numbers and identifiers that the catalogue does not have are values. They do not count as unknown words.
    """
    pairs = terms_and_words(text)
    if stems is None:
        return pairs
    return [(term, word) for term, word in pairs if term in stems or not _has_digit(term)]


def _has_digit(term: str) -> bool:
    return not term.isalpha() and any(character.isdigit() for character in term)
