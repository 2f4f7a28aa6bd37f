"""Always-available capabilities: few tools, found by phrases without a search."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidInput
from orchestrator.index.text import STOP_WORDS, split_words, stem, stemmed
from orchestrator.records.tool import Kind, Tool

ALWAYS = "always"
"""The label with the value `yes` that makes a server's tool an always-available capability. Only the user's own
catalogue may set it."""
MAX_GAP = 2
"""The maximum number of words between two words of a phrase: "search my old documents" counts as "search documents"."""

_NEGATIONS = frozenset("not don without never avoid except".split())
_ENDS = _NEGATIONS | {"no"}
"""Words at which a phrase ends: in "search the docs, no web" the phrase does not continue after "docs"."""
_PARTICLES = frozenset("up out in on for from with".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """An always-available tool and the phrases that ask for it.

    Attributes:
        tool: The name of the tool, or its key (`server:name`).
        phrases: The phrases. Small gaps and other forms of their words are allowed.

    Raises:
        InvalidInput: A field has a wrong type.

    Examples:
        >>> from orchestrator import Capability, Router
        >>> archive = Capability(tool="workspace_rag_query", phrases=("ask the archive",))
        >>> with Router("examples/tools.jsonl", capabilities=[archive]) as router:
        ...     decision = router.route_sync("ask the archive")
        >>> decision.stage.value, decision.recommended
        ('always', ('builtin:workspace_rag_query',))
    """

    tool: str
    phrases: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.tool, str):
            raise InvalidInput(f"tool={self.tool!r:.80}: give the name or the key of a tool")
        phrases: object = self.phrases
        # Each letter of a text would be a phrase.
        is_sequence = isinstance(phrases, list | tuple)
        if not is_sequence or not all(isinstance(phrase, str) for phrase in self.phrases):
            raise InvalidInput(f"phrases={phrases!r:.80}: give a tuple of texts")


def _capability(tool: str, phrases: str) -> Capability:
    return Capability(tool=tool, phrases=tuple(phrases.split(", ")))


DEFAULT_CAPABILITIES = (
    _capability(
        "workspace_rag_query",
        "document, docs, knowledge, search workspace, search documents, search docs, search knowledge base, "
        "find in documents, find in docs, look in documents, look in docs, check documents, ask knowledge base",
    ),
    _capability(
        "web_search",
        "search web, search the internet, search online, google, look up, find online, find on web",
    ),
    _capability("memory_recall", "what do you remember, do you remember, recall memory"),
    _capability("ask_user", "ask me, ask the user, check with me"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysHit:
    """An always-available capability that a clause asks for.

    Attributes:
        settles: No other tool or server is named in the clause, so no search is needed for it.
        clear: The phrase has no other common meaning. "google" and "look up" are not clear.
    """

    tool: int
    phrase: str
    settles: bool
    clear: bool


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A phrase as stems. A loose phrase ignores stop words. A tight phrase needs every word."""

    stems: tuple[str, ...]
    text: str
    tool: int
    loose: bool
    clear: bool


class AlwaysIndex:
    """The capabilities that this catalogue holds, ready to match.

    Attributes:
        is_empty: Whether the catalogue has no capability.
        tools: The positions of the capabilities' tools.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        capabilities: Sequence[Capability],
        named: Callable[[str], Collection[int]],
    ) -> None:
        """Find the capabilities.

        Args:
            catalogue: The tools.
            capabilities: The capabilities.
            named: Returns the tools whose name or server has a term.
        """
        self._named = named
        self._by_first: dict[str, list[_Phrase]] = {}
        self._stems_of: dict[int, set[str]] = {}
        tools = candidates(catalogue, capabilities)
        for capability in capabilities:
            key = key_for(capability.tool, tools)
            if key is not None:
                self._add(catalogue.positions[key], capability)
        self.is_empty = not self._by_first
        self.tools = list(self._stems_of)

    def _add(self, position: int, capability: Capability) -> None:
        stems = self._stems_of.setdefault(position, set())
        for text in capability.phrases:
            if not split_words(text):
                continue
            phrase = _phrase(text, position)
            self._by_first.setdefault(phrase.stems[0], []).append(phrase)
            stems.update(phrase.stems)

    def match(self, clause: str) -> list[AlwaysHit]:
        """Return the capabilities that this clause asks for, each once, by its longest phrase."""
        if self.is_empty:
            return []
        words = _stems(clause)
        longest: dict[int, tuple[_Phrase, frozenset[int]]] = {}
        for start, word in enumerate(words):
            for phrase in self._by_first.get(word, ()):
                earlier_match = longest.get(phrase.tool)
                if earlier_match is not None and len(earlier_match[1]) >= len(phrase.stems):
                    continue
                places = _places(phrase, words, start)
                if places and not self._negated(words, start, phrase.tool):
                    longest[phrase.tool] = phrase, places
        hits = []
        for tool, (phrase, places) in longest.items():
            settles = self._settles(words, phrase, places)
            hit = AlwaysHit(tool=tool, phrase=phrase.text, clear=phrase.clear, settles=settles)
            hits.append(hit)
        return hits

    def _negated(self, words: Sequence[str], start: int, tool: int) -> bool:
        """Return True if a negation precedes the phrase, with only stop words or the capability's words between."""
        for word in reversed(words[:start]):
            if word in _NEGATIONS:
                return True
            if word not in STOP_WORDS and word not in self._stems_of[tool]:
                return False
        return False

    def _settles(self, words: Sequence[str], phrase: _Phrase, places: frozenset[int]) -> bool:
        """Return True if no content word outside the phrases is in another tool's name or server."""
        rest = {word for place, word in enumerate(words) if place not in places}
        for word in rest - STOP_WORDS - self._stems_of[phrase.tool]:
            if any(tool != phrase.tool for tool in self._named(word)):
                return False
        return True


def key_for(tool: str, tools: Mapping[str, Tool]) -> str | None:
    """Return the tool of a key. For a plain name, return the built-in tool, or the only tool of that name that is the
    user's own.

    A server chooses its tools' names, so the name alone does not make a server's tool always available.
    """
    for key in (tool, f"builtin:{tool}"):
        if key in tools:
            return key
    keys = [key for key, candidate in tools.items() if candidate.name == tool]
    return keys[0] if len(keys) == 1 else None


def candidates(tools: Iterable[Tool], capabilities: Sequence[Capability]) -> dict[str, Tool]:
    """Return, by key, the tools that may be one of these capabilities.

    A tool qualifies if a capability names its whole key. By its plain name it qualifies if it does not belong to an MCP
    server, or if the user's catalogue labels it `always`.
    """
    names = {capability.tool for capability in capabilities}
    suitable: dict[str, Tool] = {}
    for tool in tools:
        if tool.key in names or (tool.name in names and _is_users(tool)):
            suitable[tool.key] = tool
    return suitable


def _is_users(tool: Tool) -> bool:
    return tool.kind is Kind.BUILTIN or tool.server == "builtin" or tool.labels.get(ALWAYS) == "yes"


def _phrase(text: str, tool: int) -> _Phrase:
    words = split_words(text)
    content = [stem(word) for word in words if stem(word)]
    loose = len(content) > 1
    return _Phrase(
        stems=tuple(content if loose else _stems(text)),
        text=text,
        tool=tool,
        loose=loose,
        clear=sum(word not in _PARTICLES for word in words) > 1,
    )


def _stems(text: str) -> list[str]:
    """Return the stems in order, including stop words, which may be part of a phrase."""
    return stemmed(split_words(text))


def _places(phrase: _Phrase, words: Sequence[str], start: int) -> frozenset[int]:
    """Return the places of the phrase's words from `start` on, with small gaps, or nothing if they are missing."""
    places = [start]
    gap = 0
    for position in range(start + 1, len(words)):
        word = words[position]
        if len(places) == len(phrase.stems) or gap > MAX_GAP or word in _ENDS:
            break
        if word == phrase.stems[len(places)]:
            places.append(position)
            gap = 0
        elif not phrase.loose or word not in STOP_WORDS:
            gap += 1
    return frozenset(places) if len(places) == len(phrase.stems) else frozenset()
