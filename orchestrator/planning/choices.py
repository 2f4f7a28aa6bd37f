"""Which of a parameter's listed values a text states.

Most listed values are ordinary words ("open", "high", "customer"): that one of them is in the text says little. It is
stated where it stands beside the parameter's name ("high priority", "state: open"), at the noun that the tool is about
("open issues", "issues that are open"), apart from the rest ("(urgent)", ", metric,"), behind "as" ("as png"), as the
kind of thing that is wanted ("create a bug"), or where it is no ordinary word ("in_progress", "EUR").
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orchestrator.index.text import STOP_WORDS, spaced, split_words, stem, stemmed, terms
from orchestrator.language.quoted import QUOTE, masked
from orchestrator.language.verbs import ACTIONS, may_act
from orchestrator.language.words import bare
from orchestrator.records.tool import Tool

_LEFT_OUT = re.compile(
    r"(?i)(?:n['’]t|\b(?:not|no|never|nor|except|excluding|without|but|instead of|rather than|other than))"
    r"\s+(?!(?:forget|just|only)\b)(?:\w+\s+){0,2}\Z"
)
"""Before a value: it is not the one that is wanted ("that are not overdue")."""
MOST_PLACES = 30
"""A text that says a parameter's values more often is no task that states one."""
_NEAR = 60
"""Characters on each side of a value that are looked at."""
_MARK = re.compile(r"[,;.!?()\[\]{}\n]")
_LINKS = frozenset("is are be to as by set should must".split())
"""What may stand between a parameter's name and its value: "set the priority to high", "sorted by date"."""
_JOINS = frozenset("and or the both either nor as well".split())
_ORDINALS = frozenset("first second third last next".split())
"""Before a noun these count: "the first flight" has no first class."""
_DOES = frozenset("to and then please not can could cannot will would should must may i we you they".split())
"""Behind such a word a value that may be an action is one: "users cannot open issues"."""
_KINDS = frozenset(("type", "kind", "category"))
_ENDS = re.compile(
    r"\s*(?:\Z|[,.;!?)\n]|(?:about|after|and|at|before|by|for|from|in|now|of|on|or|since|that|until|with)\b)"
)
"""Behind a value: no noun follows that it would belong to."""
_IS = re.compile(
    r"(\w+)\s+(?:(?:by|for|from|in|of)\s+\S+\s+)?(?:(?:that|which|who)\s+)?(?:is|are|was|were)\s+"
    r"(?:(?:already|currently|now|still)\s+)?\Z",
    re.IGNORECASE,
)
_AS = re.compile(r"\bas\s+(?:an?\s+)?\Z", re.IGNORECASE)
_OBJECT = re.compile(r"(\w+)\s+(?:an?|another|one|the)\s+(?:new\s+)?\Z", re.IGNORECASE)
_WORDS = re.compile(r"[\s_-]+")
_CODE = re.compile(r"(?=.*[^\W\d_])(?:.*[\d_]|.*[a-z][A-Z])")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a listed value stands; `quoted`: between marks that belong to the place."""

    value: str
    start: int
    end: int
    quoted: bool = False


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A parameter with listed values, and the text that may state one. `nouns`: the terms that the tool is about;
    `others`: the tool's other parameters; `free`: one that takes any text has no value yet, so a quote may be its."""

    name: Sequence[str]
    """The words of the parameter's name."""
    values: Sequence[str]
    text: str
    nouns: frozenset[str] = frozenset()
    others: Mapping[str, Mapping[str, Any]]
    free: bool = False

    def stated(self) -> str | None:
        """The one value that the text states."""
        places = [place for place in self._places if self._states(place)]
        if any(not _is_stop(place.value) for place in places):
            places = [place for place in places if not _is_stop(place.value)]
        found = {place.value for place in places}
        if len(found) != 1 or any(self._joined(place, other) for place in places for other in self._places):
            return None
        return found.pop()

    def only(self) -> str | None:
        """The one value that is in the text at all, whatever it says there."""
        found = {place.value for place in self._places if not self._tied(place) and not _is_stop(place.value)}
        return None if len(found) != 1 or self._rivals(next(iter(found))) else found.pop()

    @cached_property
    def _said(self) -> str:
        """The text with a letter for each sign that is quoted or pasted."""
        return QUOTE.sub(lambda quote: "Q" * len(quote.group()), masked(self.text))

    @cached_property
    def _places(self) -> list[_Place]:
        """Where the values stand, longer ones first ("under review" is no "review"), but for what is left out."""
        found, left = [], self._said
        quotes = [(quote.group()[1:-1].strip(), quote) for quote in QUOTE.finditer(self.text)]
        text = self.text.lower()
        likely = (value for value in self.values if _WORDS.split(value)[0].lower() in text)
        for value in sorted(likely, key=len, reverse=True):
            pattern = _pattern(value)
            found += [_Place(value, *quote.span(), quoted=True) for said, quote in quotes if pattern.fullmatch(said)]
            for match in pattern.finditer(left):
                found.append(_Place(value, *match.span()))
                left = f"{left[: match.start()]}{chr(0) * len(match.group())}{left[match.end() :]}"
        if len(found) > MOST_PLACES:
            return []
        return [place for place in found if not _LEFT_OUT.search(self.text, max(0, place.start - 40), place.start)]

    def _tied(self, place: _Place) -> bool:
        """Whether it is part of something written in one ("branch=open", "high-end")."""
        before, behind = self._said[: place.start][-1:], self._said[place.end : place.end + 1]
        return before in (":", "=") or behind in ("-", ":", "=")

    def _states(self, place: _Place) -> bool:
        if self._beside_name(place):
            return True
        if self._tied(place) or self._rivals(place.value) or self._acts(place):
            return False
        if place.quoted and not self.free and not self._names(place):
            return True
        return self._at_noun(place) or self._as_kind(place) or (not place.quoted and self._by_form(place))

    def _before(self, place: _Place) -> str:
        """What stands before the place, back to a mark."""
        return _MARK.split(self._said[max(0, place.start - _NEAR) : place.start])[-1]

    def _after(self, place: _Place) -> str:
        return self._said[place.end : place.end + _NEAR]

    def _beside_name(self, place: _Place) -> bool:
        """Beside the parameter's whole name, or a word of it that tells it from others."""
        name = [stemmed(word) for word in self.name]
        before = [stemmed(word) for word in split_words(self._before(place))]
        telling = self._telling(place.value)
        if before[-len(name) :] == name:
            return True
        while before and before[-1] in _LINKS:
            before.pop()
        if before[-len(name) :] == name or (before and before[-1] in telling):
            return True
        behind = re.match(r"[\s-]+(\w+)", self._after(place))
        words = [stemmed(word) for word in split_words(behind[1])] if behind else []
        return bool(words) and (words[0] in telling or words == name)

    def _telling(self, value: str) -> set[str]:
        """The words of the name that neither the tool nor another parameter with this value is called by."""
        shared = {stem(word) for own in self._rivals(value) for word in split_words(spaced(own))}
        return {stem(word) for word in self.name} - {""} - self.nouns - shared

    def _rivals(self, value: str) -> list[str]:
        """The other parameters that list this value."""
        return [own for own, schema in self.others.items() if value in (schema.get("enum") or ())]

    def _acts(self, place: _Place) -> bool:
        """Whether the word is what is to be done ("open the list")."""
        if not may_act(place.value.lower()) or place.quoted:
            return False
        before = list(split_words(self._before(place)))
        return place.start <= len(self._said) - len(bare(self._said)) or (bool(before) and before[-1] in _DOES)

    def _at_noun(self, place: _Place) -> bool:
        """Right before what the tool is about, or said of it: "open issues", "issues that are open"."""
        before, after = self._before(place), self._after(place)
        behind, said_of = re.match(r"\s+(\w+)", after), _IS.search(before)
        value, last = place.value.lower(), before.lower().split()[-1:]
        counts = value in _ORDINALS or (value == "new" and last == ["a"])
        if behind and not counts and self._is_about(behind[1]):
            return True
        return said_of is not None and bool(_ENDS.match(after)) and self._is_about(said_of[1])

    def _is_about(self, words: str) -> bool:
        """Whether the tool is about one of these words."""
        return not self.nouns.isdisjoint(terms(words))

    def _names(self, place: _Place) -> bool:
        """Whether a quote stands behind what the tool is about: it names one of them ("the bill 'overdue'")."""
        return self._is_about(" ".join(self._before(place).split()[-1:]))

    def _as_kind(self, place: _Place) -> bool:
        """Behind "as", or as the thing that is done something with where the parameter tells kinds of it."""
        before = self._before(place)
        if not _ENDS.match(self._after(place)):
            return False
        made = _OBJECT.search(before) if self.name[-1] in _KINDS else None
        return bool(_AS.search(before)) or (made is not None and may_act(made[1].lower()))

    def _by_form(self, place: _Place) -> bool:
        """A word that is no ordinary one, or a word that marks set apart, but no item of a list."""
        said = self._said[place.start : place.end]
        if place.value.isupper() and said == place.value and len(said) > 1 and not self._said.isupper():
            return len(said) > 2 or place.start > 0
        if _CODE.match(place.value) and said.lower() == place.value.lower():
            return True
        before, after = self._said[: place.start].rstrip(), self._said[place.end :].lstrip()
        if before[-1:] in ("(", "[") and after[:1] in (")", "]"):
            return True
        apart = before[-1:] in ("", ",", ";", ".") and after[:1] in ("", ",", ";", ".", "!")
        if not apart or not (before or after) or may_act(place.value.lower()):
            return False
        beside = (_MARK.split(before.rstrip(",;."))[-1], _MARK.split(after[1:])[0])
        return not any(len(own.split()) == 1 and "Q" not in own for own in beside)

    def _joined(self, place: _Place, other: _Place) -> bool:
        """Whether another value is wanted as well: "open or pending"."""
        if other.value == place.value or _is_stop(other.value):
            return False
        first, second = sorted((place, other), key=lambda each: each.start)
        between = self._said[first.end : second.start]
        known = _JOINS | {stem(word) for word in self.name} | self.nouns
        return len(between) < _NEAR and all(stemmed(word) in known for word in split_words(between))


def nouns_of(tool: Tool) -> frozenset[str]:
    """The terms of what a tool is about: its server's name, and its own without the verb that it begins with."""
    first, *rest = spaced(tool.name).lower().split() or [""]
    words = rest if rest and first in ACTIONS else [first, *rest]
    return frozenset(terms(" ".join([spaced(tool.server), *words])))


def choice_values(schema: Mapping[str, Any]) -> list[str]:
    """The texts that a parameter's schema lists as its values."""
    choices = schema.get("enum")
    return [value for value in choices if isinstance(value, str) and value] if isinstance(choices, list) else []


def _pattern(value: str) -> re.Pattern[str]:
    """A value as people write it ("past due" for `past_due`); one of two letters, and one that reads as a common word
    ("US", "it"), only as it is listed."""
    written = r"[\s_-]?".join(map(re.escape, _WORDS.split(value)))
    flags = 0 if len(value) < 3 or (_is_common(value) and not value.islower()) else re.IGNORECASE
    return re.compile(rf"(?<![\w/@.#-]){written}(?![\w/@]|\.\w)", flags)


def _is_common(value: str) -> bool:
    return value.lower() in STOP_WORDS


def _is_stop(value: str) -> bool:
    """Whether it is a word that stands in most texts ("all", "it"), as it is listed."""
    return value.islower() and _is_common(value)
