"""Prerequisites: which tools of a server give what its others require.

"Post it in the announcements channel" asks for `post_message`, which requires a `channel_id` that nobody types.
`list_channels` gives it, and no word of the task may say so. Schemas do: by a parameter's description that names the
tool it comes from, else by the parameter's own name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import nlargest
from operator import itemgetter

from orchestrator.index.intent import READING_VERBS, known_actions
from orchestrator.index.text import spaced, stem, terms
from orchestrator.records.tool import Tool

REQUIRING = 5
"""Tools whose needs are met, the best ones: a further one is hardly called."""
CALLED = 0.5
"""The chance that what a tool requires is asked of another one, where that tool is right. Chosen on the development
sets (docs/decisions.md)."""
BEHIND = 0.95
"""The most that a source scores for what it gives, as a share of the tool that requires it, which stays ahead."""

_IDENTIFIES = frozenset("id ids uid gid uuid guid key slug handle".split())
_ALONE = frozenset("id ids uuid guid".split())
"""These identify something also where they do not say what."""
_CONFIGURED = frozenset("api access secret private public".split())
"""A key that is one of these is no tool's to give."""
_IN_NAMES = _IDENTIFIES | frozenset(map(stem, _IDENTIFIES))
_READING = frozenset(map(stem, READING_VERBS))
_SEARCH = stem("search")
_TOOL = re.compile(r"(?<![\w-])[A-Za-z]\w*(?:(?<=_)|-|(?<=[a-z])(?=[A-Z]))[\w-]*\w")
"""A name that can be a tool's only: `get_links`, `get-links`, `getLinks`."""
_MOST_WORDS = 1_000
"""Words of a task that are searched for identifiers."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A required parameter, what it may identify, in terms, and the positions of the tools that give it."""

    parameter: str
    things: tuple[frozenset[str], ...]
    sources: tuple[int, ...]

    def met_by(self, identified: frozenset[str]) -> bool:
        """Return whether a task that identifies this needs no source."""
        return any(thing <= identified for thing in self.things)


@dataclass(frozen=True, slots=True)
class Raised:
    """A source's score with what it gives, its chance to be called for that, the parameter, and which tool's."""

    score: float
    chance: float
    parameter: str
    required_by: int


def raised_among(scores: Mapping[int, float], unmet: Callable[[int], Iterable[Requirement]]) -> dict[int, Raised]:
    """Return the sources among these tools that score higher for what the best of them require.

    scores: by position. Sources of the same share the chance.
    """
    raised: dict[int, Raised] = {}
    for tool, score in nlargest(REQUIRING, scores.items(), key=itemgetter(1)):
        for requirement in unmet(tool):
            sources = [source for source in requirement.sources if source in scores]
            for source in sources:
                own, chance = scores[source], CALLED * score / len(sources)
                worth = min(own + (1 - own) * chance, BEHIND * score)
                if worth > (raised[source].score if source in raised else own):
                    raised[source] = Raised(worth, chance, requirement.parameter, tool)
    return raised


class Prerequisites:
    """What one catalogue's tools require of others, found for each when it is first asked for.

    named: the positions of the tools whose name or server holds a term.
    """

    def __init__(
        self, tools: Sequence[Tool], positions: Mapping[str, int], named: Callable[[str], Iterable[int]]
    ) -> None:
        self._tools, self._positions, self._named = tools, positions, named
        self._known: dict[int, tuple[Requirement, ...]] = {}

    def of(self, position: int) -> tuple[Requirement, ...]:
        """Return what a tool requires and others give."""
        if position not in self._known:
            self._known[position] = tuple(self._requirements(position))
        return self._known[position]

    def _requirements(self, position: int) -> Iterator[Requirement]:
        tool = self._tools[position]
        for parameter, description in _required(tool).items():
            thing = _identified(parameter)
            sources = self._named_in(description, position) or self._giving(tool, thing)
            if sources:
                alone = [
                    frozenset(terms(parameter)),
                    *(frozenset([term]) for term in _subject(tool) if thing is not None),
                ]
                yield Requirement(parameter, (thing,) if thing else tuple(alone), sources)

    def _named_in(self, description: str, position: int) -> tuple[int, ...]:
        """Return the tools of the same server that a parameter's description names."""
        server = self._tools[position].server
        found = [self._positions.get(f"{server}:{name}", position) for name in _TOOL.findall(description)]
        return tuple(other for other in dict.fromkeys(found) if other != position)

    def _giving(self, tool: Tool, thing: frozenset[str] | None) -> tuple[int, ...]:
        """Return the server's reading tools that are named for the thing and least else, or else its search.

        Of a bare `id` the thing is what the tool is about. Who makes a thing chooses its identifier.
        """
        about = _subject(tool)
        if thing is None or (_verb(tool) in ("creat", "new") and thing <= about):
            return ()
        beyond: dict[int, int] = {}
        for position in self._reading(tool.server, thing or about, thing or about):
            subject = _subject(self._tools[position])
            if thing and thing <= _words(self._tools[position].name):
                beyond[position] = len(subject - thing)
            elif not thing and subject <= about:
                beyond[position] = -len(subject)
        if not beyond:
            searching = self._reading(tool.server, thing or about, [_SEARCH])
            return tuple(p for p in searching if _words(self._tools[p].name) <= _READING | _words(tool.server))
        least = min(beyond.values())
        return tuple(position for position, more in beyond.items() if more == least)

    def _reading(self, server: str, thing: frozenset[str], words: Iterable[str]) -> list[int]:
        """Return the server's reading tools that are named with one of these terms and do not require the thing."""
        found = sorted({position for word in words for position in self._named(word)})
        return [
            position
            for position in found
            if (tool := self._tools[position]).server == server
            and _verb(tool) in _READING
            and not _requires(tool, thing)
        ]


def _required(tool: Tool) -> dict[str, str]:
    """Return the tool's required parameters, each with its description."""
    schema = tool.input_schema or {}
    required, properties = schema.get("required"), schema.get("properties")
    shapes = properties if isinstance(properties, dict) else {}
    found: dict[str, str] = {}
    for parameter in required if isinstance(required, list) else ():
        if isinstance(parameter, str):
            shape = shapes.get(parameter)
            description = shape.get("description") if isinstance(shape, dict) else None
            found[parameter] = description if isinstance(description, str) else ""
    return found


def _requires(tool: Tool, thing: frozenset[str]) -> bool:
    asked = [_identified(parameter) for parameter in _required(tool)]
    return any(own is not None and (own or _subject(tool)) == thing for own in asked)


def _identified(parameter: str) -> frozenset[str] | None:
    """Return the terms of the thing that a parameter identifies; None if it identifies nothing that a tool gives."""
    *before, last = spaced(parameter).lower().split() or [""]
    if last not in (_IDENTIFIES if before else _ALONE) or (last == "key" and not _CONFIGURED.isdisjoint(before)):
        return None
    thing = frozenset(terms(" ".join(before)))
    return thing - _IN_NAMES or thing  # "issueIdOrKey" is an issue's, "key_id" a key's.


def _subject(tool: Tool) -> frozenset[str]:
    """Return the terms of the tool's name without verbs and its server's."""
    return _words(tool.name) - _IN_NAMES - _verbs() - _words(tool.server)


def _verb(tool: Tool) -> str:
    """Return the verb that begins the tool's name ("list_sets"), else the last in it ("set_list")."""
    words = _in_order(tool.name)
    verbs = [word for word in words if word in _verbs()]
    return "" if not verbs else words[0] if words[0] in verbs else verbs[-1]


@cache
def _verbs() -> frozenset[str]:
    return frozenset(map(stem, known_actions()))


def _words(identifier: str) -> frozenset[str]:
    return frozenset(_in_order(identifier))


@lru_cache(maxsize=100_000)
def _in_order(identifier: str) -> tuple[str, ...]:
    return tuple(terms(spaced(identifier)))


def identified_in(task: str) -> frozenset[str]:
    """Return the terms of what a task identifies itself, by a number right behind it ("order 4711")."""
    words, found = task.split()[:_MOST_WORDS], set[str]()
    for place, word in enumerate(words):
        if any(map(str.isdigit, word)):
            before = words[max(place - 2, 0) : place]
            found.update(terms(" ".join([*before, word]) if before and terms(before[-1]) else word))
    return frozenset(found)
