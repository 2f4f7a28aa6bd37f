"""Always-available capabilities: few tools, found by phrases without a search."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.index.text import STOP_WORDS, split_words, stem, stemmed

MAX_GAP = 2
"""Words that may stand between two words of a phrase: "search my old documents" is "search documents"."""

_NEGATIONS = frozenset("not don without never avoid except".split())
_ENDS = _NEGATIONS | {"no"}
"""Behind such a word a phrase does not go on: "search the docs, no web"."""
_PARTICLES = frozenset("up out in on for from with".split())
_NAME = re.compile(r"(?<=\w\s)[A-Z]\w*(?:\s[A-Z]\w*)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A tool, by name or by `server:name`, and the phrases that ask for it."""

    tool: str
    phrases: tuple[str, ...]


DEFAULT_CAPABILITIES = (
    Capability(
        tool="workspace_rag_query",
        phrases=(
            "document",
            "docs",
            "knowledge",
            "search workspace",
            "search documents",
            "search docs",
            "search knowledge base",
            "find in documents",
            "find in docs",
            "look in documents",
            "look in docs",
            "check documents",
            "ask knowledge base",
        ),
    ),
    Capability(
        tool="web_search",
        phrases=(
            "search web",
            "search the internet",
            "search online",
            "google",
            "look up",
            "find online",
            "find on web",
        ),
    ),
    Capability(tool="memory_recall", phrases=("what do you remember", "do you remember", "recall memory")),
    Capability(tool="ask_user", phrases=("ask me", "ask the user", "check with me")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysHit:
    """A capability that a clause asks for.

    `settles`: nothing else in the clause names another tool or server, so that no search is needed for it.
    `clear`: the phrase can hardly mean something else, as "google" or "look up" can.
    """

    tool: int
    phrase: str
    settles: bool
    clear: bool


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A phrase as stems. A loose one leaves out stop words, and they fill no gap; a tight one needs every word."""

    stems: tuple[str, ...]
    text: str
    tool: int
    loose: bool
    clear: bool


class AlwaysIndex:
    """The capabilities that this catalogue holds, ready to match. `named` gives the tools named with a term."""

    def __init__(
        self,
        keys: Mapping[str, int],
        capabilities: Sequence[Capability],
        named: Callable[[str], Collection[int]],
    ) -> None:
        self._named = named
        positions = _positions([capability.tool for capability in capabilities], keys)
        found = [(positions.get(capability.tool), capability) for capability in capabilities]
        phrases = [
            _phrase(text, position)
            for position, capability in found
            if position is not None
            for text in capability.phrases
            if any(split_words(text))
        ]
        self._by_first: dict[str, list[_Phrase]] = {}
        self._own: dict[int, set[str]] = {}
        for phrase in phrases:
            self._by_first.setdefault(phrase.stems[0], []).append(phrase)
            self._own.setdefault(phrase.tool, set()).update(phrase.stems)
        self.tools = tuple(self._own)

    def match(self, clause: str) -> list[AlwaysHit]:
        """Return the capabilities that this clause asks for, each once, by its longest phrase."""
        if not self._by_first:
            return []
        words = _stems(clause)
        best: dict[int, tuple[_Phrase, frozenset[int]]] = {}
        for start, word in enumerate(words):
            for phrase in self._by_first.get(word, ()):
                if phrase.tool in best and len(best[phrase.tool][1]) >= len(phrase.stems):
                    continue
                places = _places(phrase, words, start)
                if places is not None and not self._negated(words, start, phrase.tool):
                    best[phrase.tool] = (phrase, places)
        return [
            AlwaysHit(
                tool=tool, phrase=phrase.text, clear=phrase.clear, settles=self._settles(clause, words, phrase, places)
            )
            for tool, (phrase, places) in best.items()
        ]

    def _negated(self, words: Sequence[str], start: int, tool: int) -> bool:
        """Whether a negation stands before, with nothing between but stop words and the capability's own."""
        for word in reversed(words[:start]):
            if word in _NEGATIONS:
                return True
            if word not in STOP_WORDS and word not in self._own[tool]:
                return False
        return False

    def _settles(self, clause: str, words: Sequence[str], phrase: _Phrase, places: frozenset[int]) -> bool:
        """Whether no content word outside the phrase stands in another tool's name or server.

        Words of the capability's other phrases are its own: "search" beside "document" asks for nothing else.
        """
        if len(places) == 1 and phrase.stems[0] in _within_names(clause):
            return False
        own = self._own[phrase.tool]
        rest = {word for place, word in enumerate(words) if place not in places and word not in own}
        return all(tool == phrase.tool for word in rest - STOP_WORDS for tool in self._named(word))


def _positions(tools: Sequence[str], keys: Mapping[str, int]) -> dict[str, int]:
    """The tool of each key; for a bare name the built-in one, else the only one of that name."""
    named: dict[str, list[int]] = {tool: [] for tool in tools}
    endings = tuple(f":{tool}" for tool in tools)
    for key in [key for key in keys if key.endswith(endings)]:
        if (name := key.partition(":")[2]) in named:
            named[name].append(keys[key])
    exact = {tool: [key for key in (tool, f"builtin:{tool}", f":{tool}") if key in keys] for tool in tools}
    only = {tool: found[0] for tool, found in named.items() if len(found) == 1}
    return only | {tool: keys[found[0]] for tool, found in exact.items() if found}


def _phrase(text: str, tool: int) -> _Phrase:
    words = list(split_words(text))
    content = tuple(own for word in words if (own := stem(word)))
    loose = len(content) > 1
    stems = content if loose else tuple(_stems(text))
    clear = sum(word not in _PARTICLES for word in words) > 1
    return _Phrase(stems=stems, text=text, tool=tool, loose=loose, clear=clear)


def _stems(text: str) -> list[str]:
    """Stems in order, stop words kept as they are: they may be part of a phrase."""
    return [stemmed(word) for word in split_words(text)]


def _places(phrase: _Phrase, words: Sequence[str], start: int) -> frozenset[int] | None:
    """The places of the phrase's words, in order from `start` and with small gaps; None if they are not there."""
    places, gap = [start], 0
    for place in range(start + 1, len(words)):
        if len(places) == len(phrase.stems) or gap > MAX_GAP or words[place] in _ENDS:
            break
        if words[place] == phrase.stems[len(places)]:
            places.append(place)
            gap = 0
        elif not (phrase.loose and words[place] in STOP_WORDS):
            gap += 1
    return frozenset(places) if len(places) == len(phrase.stems) else None


def _within_names(clause: str) -> frozenset[str]:
    """Stems of capitalised words in a row: "Google" in "in Google Calendar" is part of a name."""
    return frozenset(stem(word) for name in _NAME.findall(clause) for word in split_words(name))
