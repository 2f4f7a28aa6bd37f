"""Requirements: the values that tools require of each other.

"Post it in the announcements channel" asks for `post_message`, which requires a `channel_id`. `list_channels` provides
it, although the task does not mention that. Schemas show it: by a parameter's description that names the source tool,
otherwise by the parameter's name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from orchestrator.catalogue.schema import gathered
from orchestrator.common.keys import key_of
from orchestrator.index.documents import Document, Documents
from orchestrator.index.intent import READING_VERBS, name_words
from orchestrator.index.text import spaced, terms
from orchestrator.records.tool import Tool

REQUIRING = 5
"""The number of best tools whose needs are added. Tools after them are hardly ever called."""
CALLED = 0.5
"""The probability that a required value comes from another tool, if the requiring tool is right. Chosen on the
development sets (docs/decisions/ranking.md)."""
BEHIND = 0.95
"""The maximum probability of a source of a value, as a share of the probability of the requiring tool, so that the
source stays behind it."""
_CREDENTIALS = frozenset("token session cookie".split())
"""Parameters of these names are searched as a whole, and tools that change something may provide them. `max_tokens` is
not one of them."""
_IDENTIFIERS = frozenset("id ids uid gid uuid guid key slug handle".split())
_CONFIGURED = frozenset("api access secret private public".split())
"""A key with one of these names comes from the configuration and not from a tool."""
_TOOL = re.compile(r"(?<![\w-])[A-Za-z]\w*(?:(?<=_)|-|(?<=[a-z])(?=[A-Z]))[\w-]*\w")
"""A name that can only be the name of a tool: `get_links`, `get-links`, `getLinks`."""
_MOST_WORDS = 1_000
"""The maximum number of a task's words that are searched for identifiers."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A required parameter, the terms of the thing it identifies, and the positions of the tools that provide it."""

    parameter: str
    thing: frozenset[str]
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Raised:
    """A source's score, its probability to be called for a parameter, the parameter, and the tool that requires it."""

    score: float
    chance: float
    parameter: str
    required_by: int


def raised_among(
    scores: Mapping[int, float], unmet: Mapping[int, Iterable[Requirement]]
) -> dict[int, Raised]:
    """Return the sources among these tools that score higher because the best tools require them.

    Args:
        scores: Scores by position. Sources of the same parameter share the probability.
        unmet: The unmet requirements of the best REQUIRING tools.
    """
    raised: dict[int, Raised] = {}
    for tool, requirements in unmet.items():
        score = scores[tool]
        for requirement in requirements:
            sources = [source for source in requirement.sources if source in scores]
            chance = CALLED * score / max(len(sources), 1)
            for source in sources:
                before = scores[source]
                after = min(before + (1 - before) * chance, BEHIND * score)
                best = raised[source].score if source in raised else before
                if after > best:
                    raised[source] = Raised(after, chance, requirement.parameter, tool)
    return raised


class Prerequisites:
    """The requirements between one catalogue's tools, computed for each tool on first use.

    Args:
        documents: The texts of the tools.
        positions: The position of each tool, by key.
        places: The positions of each server's tools.
        named: The positions of the tools whose name or server has a term.
    """

    def __init__(
        self,
        documents: Documents,
        positions: Mapping[str, int],
        places: Mapping[str, slice],
        named: Callable[[str], Iterable[int]],
    ) -> None:
        self._documents = documents
        self._positions = positions
        self._places = places
        self._named = named
        self._known: dict[int, tuple[Requirement, ...]] = {}

    def of(self, position: int) -> tuple[Requirement, ...]:
        """Return the requirements of a tool that other tools can provide."""
        if position not in self._known:
            self._known[position] = tuple(self._requirements(self._documents[position]))
        return self._known[position]

    def unmet(
        self, tools: Iterable[int], identified: frozenset[str]
    ) -> dict[int, list[Requirement]]:
        """Return, by tool, the requirements for things that are not among the identified ones.

        Args:
            tools: The tools.
            identified: The terms of the things that a task itself identifies.
        """
        unmet: dict[int, list[Requirement]] = {}
        for tool in tools:
            unmet[tool] = [need for need in self.of(tool) if need.thing.isdisjoint(identified)]
        return unmet

    def _requirements(self, document: Document) -> Iterator[Requirement]:
        for parameter, description in _required(document.tool).items():
            thing = _identified(parameter, document)
            sources = self._named_in(description, document.tool) or self._giving(thing, document)
            if sources:
                yield Requirement(parameter, thing or frozenset(terms(parameter)), sources)

    def _named_in(self, description: str, tool: Tool) -> tuple[int, ...]:
        """Return the tools of the same server that a parameter's description names."""
        keys = dict.fromkeys(key_of(tool.server, name) for name in _TOOL.findall(description))
        keys.pop(tool.key, None)
        return tuple(self._positions[key] for key in keys if key in self._positions)

    def _giving(self, thing: frozenset[str], document: Document) -> tuple[int, ...]:
        """Return the server's tools that are named most nearly for the thing."""
        by_distance: dict[int, list[int]] = {}
        for position in self._near(document, thing):
            about = _about(self._documents[position])
            if about and (thing <= about or about <= thing):
                by_distance.setdefault(len(about ^ thing), []).append(position)
        return tuple(by_distance[min(by_distance)]) if by_distance else ()

    def _near(self, document: Document, thing: frozenset[str]) -> Iterator[int]:
        """Yield the server's tools named with one of the thing's terms that may give it unasked."""
        span = self._places[document.tool.server]
        named = set(chain.from_iterable(map(self._named, thing)))
        # Reading a tool takes a millisecond: no other server's is read.
        of_server = named.intersection(range(span.start, span.stop))
        for position in sorted(of_server):
            candidate = self._documents[position]
            gives = thing <= _CREDENTIALS or _asks(candidate)
            if gives and not _requires(candidate, thing, _about(candidate)):
                yield position


def _required(tool: Tool) -> dict[str, str]:
    """Return the tool's required parameters, each with its description."""
    schema = gathered(tool.input_schema or {})
    required = schema.get("required")
    if not isinstance(required, list):
        return {}
    shapes = schema.get("properties")
    descriptions: dict[str, str] = {}
    for parameter in required:
        if not isinstance(parameter, str):
            continue
        shape = shapes.get(parameter) if isinstance(shapes, dict) else None
        description = shape.get("description") if isinstance(shape, dict) else None
        descriptions[parameter] = description if isinstance(description, str) else ""
    return descriptions


def _requires(document: Document, *things: frozenset[str]) -> bool:
    return any(_identified(parameter, document) in things for parameter in _required(document.tool))


def _identified(parameter: str, document: Document) -> frozenset[str]:
    """Return the terms of the thing that a parameter identifies. For a plain `id` these are the tool's own terms."""
    *before, last = spaced(parameter).lower().split() or [""]
    if last in _CREDENTIALS:
        return frozenset(terms(last))
    is_configured = last == "key" and not _CONFIGURED.isdisjoint(before)
    if last not in _IDENTIFIERS or is_configured:
        return frozenset()
    thing = frozenset(terms(" ".join(before)))
    # "issueIdOrKey" is an issue's, "key_id" a key's.
    return thing - _FORMS or thing or _about(document)


def _about(document: Document) -> frozenset[str]:
    """Return the terms of the thing the tool's name is about, without its action, reading verbs and identifiers."""
    return frozenset(terms(" ".join(document.thing[1:]))) - _FORMS


def _asks(document: Document) -> bool:
    """Return True if a tool only reads, or is named a query. Approval does not use this, because a query
    may change something.
    """
    return document.reads or "query" in name_words(document.tool)


_FORMS = frozenset(terms(" ".join(_IDENTIFIERS | READING_VERBS | {"query"})))


def identified_in(task: str) -> frozenset[str]:
    """Return the terms that a task itself identifies, by a number directly after them ("order 4711")."""
    words = task.split()[:_MOST_WORDS]
    identified: set[str] = set()
    for number, word in enumerate(words):
        if not any(letter.isdigit() for letter in word):
            continue
        before = words[max(number - 2, 0) : number]
        if before and terms(before[-1]):
            word = " ".join([*before, word])
        identified.update(terms(word))
    return frozenset(identified)
