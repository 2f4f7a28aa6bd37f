"""Always-available capabilities: few tools, found by phrases without a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.text import stem

MAX_GAP = 2
"""Words that may stand between two words of a phrase: "search my documents" is "search document"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A tool, by name or by `server:name`, and the phrases that ask for it."""

    tool: str
    phrases: tuple[str, ...]


DEFAULT_CAPABILITIES = (
    Capability(
        tool="workspace_rag_query",
        phrases=("document", "knowledge", "search workspace", "find in docs", "search docs"),
    ),
    Capability(tool="web_search", phrases=("search web", "search the internet", "google", "look up", "find online")),
    Capability(tool="memory_recall", phrases=("what do you remember", "do you remember", "recall memory")),
    Capability(tool="ask_user", phrases=("ask me", "ask the user", "check with me")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysHit:
    """A capability that a clause asks for.

    `settles` says that nothing else in the clause names another tool or server, so that no search is needed for it.
    """

    tool: int
    phrase: str
    settles: bool


class AlwaysIndex:
    """The capabilities that this catalogue holds, ready to match. `names_of` maps a term to the tools named with it."""

    def __init__(
        self,
        keys: Mapping[str, int],
        capabilities: Sequence[Capability],
        names_of: Mapping[str, frozenset[int]],
    ) -> None:
        self._names_of = names_of
        by_name: dict[str, int] = {}
        for key, position in keys.items():
            by_name.setdefault(key.partition(":")[2], position)
        self._phrases: list[tuple[tuple[str, ...], str, int]] = []
        for capability in capabilities:
            position = keys.get(capability.tool, by_name.get(capability.tool))
            if position is not None:
                stems = ((tuple(_stems(phrase)), phrase) for phrase in capability.phrases)
                self._phrases.extend((words, phrase, position) for words, phrase in stems if words)
        self.tools = tuple(dict.fromkeys(position for _, _, position in self._phrases))

    def match(self, clause: str) -> list[AlwaysHit]:
        """The capabilities that this clause asks for, each once, by its longest phrase."""
        if not self._phrases:
            return []
        words = _stems(clause)
        hits: dict[int, AlwaysHit] = {}
        for stems, phrase, tool in sorted(self._phrases, key=lambda entry: -len(entry[0])):
            places = _in_order(stems, words)
            if places is not None and tool not in hits:
                rest = [word for place, word in enumerate(words) if place not in places and stem(word)]
                hits[tool] = AlwaysHit(tool=tool, phrase=phrase, settles=not self._names_another(rest, tool))
        return list(hits.values())

    def _names_another(self, rest: Sequence[str], tool: int) -> bool:
        """Whether a content word outside the phrase stands in another tool's name or server."""
        return any(self._names_of.get(word, frozenset()) - {tool} for word in rest)


def _stems(text: str) -> list[str]:
    """Stems in order, stop words kept as they are: they may be part of a phrase."""
    words = "".join(char if char.isalnum() else " " for char in text.lower()).split()
    return [stem(word) or word for word in words]


def _in_order(phrase: Sequence[str], words: Sequence[str]) -> set[int] | None:
    """The places of the phrase's words, in order and with small gaps; None if they are not there."""
    for start, word in enumerate(words):
        if word != phrase[0]:
            continue
        places = [start]
        for wanted in phrase[1:]:
            after = range(places[-1] + 1, min(places[-1] + 2 + MAX_GAP, len(words)))
            place = next((i for i in after if words[i] == wanted), None)
            if place is None:
                break
            places.append(place)
        else:
            return set(places)
    return None
