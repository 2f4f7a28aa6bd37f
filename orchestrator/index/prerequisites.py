"""Prerequisites: which tools of a server give what its others require.

"Post it in the announcements channel" asks for `post_message`, which requires a `channel_id` that nobody types.
`list_channels` gives it, and no word of the task may say so. Schemas do: by a parameter's description that names the
tool it comes from, else by the parameter's own name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from itertools import islice
from operator import itemgetter

from orchestrator.index.text import spaced, stem, terms
from orchestrator.index.variants import words_of
from orchestrator.records.tool import Tool

REQUIRING = 5
"""Of so many of the best tools the needs are met: a further one is hardly called."""
CALLED = 0.5
"""The chance that what a tool requires is asked of another one, where that tool is right. Chosen on the development
sets (docs/decisions.md)."""
BEHIND = 0.95
"""The most that a source scores for what it gives, as a share of the tool that requires it, which stays ahead."""

_IDENTIFIES = frozenset("id ids uid gid uuid guid key slug handle".split())
_ALONE = frozenset("id ids uuid guid".split())
"""These identify something also where they do not say what."""
_CREDENTIALS = frozenset("token session cookie".split())
"""These are what is sought themselves; `max_tokens` is none."""
_SOUGHT = frozenset(map(stem, _CREDENTIALS))
_CONFIGURED = frozenset("api access secret private public".split())
"""A key that is one of these is no tool's to give."""
_SEEKING = frozenset(terms("list search find query lookup look resolve browse get fetch show read retrieve discover"))
_MAKING = frozenset(terms("create add new make login authenticate start open register"))
"""What gives a credential, too; an identifier of a thing that is there already comes from none of them."""
_CREATING = frozenset(terms("create new"))
"""The caller chooses the identifier of what these make."""
_ENDING = frozenset(terms("delete remove update cancel archive modify edit set reset close revoke disable stop logout"))
_VERBS = _SEEKING | _MAKING | _ENDING
_SEARCH = stem("search")
_IN_NAMES = _IDENTIFIES | frozenset(map(stem, _IDENTIFIES))
_TOOL = re.compile(r"(?<![\w-])[A-Za-z]\w*(?:(?<=_)|-|(?<=[a-z])(?=[A-Z]))[\w-]*\w")
"""A name that can be a tool's only: `get_links`, `get-links`, `getLinks`."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A required parameter and the positions of the tools that give it. `things`: in terms, what it may identify."""

    parameter: str
    things: tuple[frozenset[str], ...]
    sources: tuple[int, ...]

    def met_by(self, identified: frozenset[str]) -> bool:
        """Whether a task that identifies this needs no source."""
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
        self._given: dict[tuple[str, frozenset[str], frozenset[str]], tuple[int, ...]] = {}

    def of(self, position: int) -> tuple[Requirement, ...]:
        """Return what a tool requires and others give."""
        found = self._known.get(position)
        if found is None:
            found = self._known[position] = tuple(self._requirements(position))
        return found

    def _requirements(self, position: int) -> Iterator[Requirement]:
        tool = self._tools[position]
        for parameter, description in _required(tool).items():
            thing = _identified(parameter)
            sources = self._named_in(description, position) or self._giving(tool, thing)
            if sources:
                about = _subject(tool) - _ENDING if thing == frozenset() else ()
                alone = frozenset(terms(parameter)), *(frozenset((term,)) for term in about)
                yield Requirement(parameter, (thing,) if thing else alone, sources)

    def _named_in(self, description: str, position: int) -> tuple[int, ...]:
        """Return the tools of the same server that a parameter's description names."""
        server = self._tools[position].server
        found = [self._positions.get(f"{server}:{name}", position) for name in _TOOL.findall(description)]
        return tuple(other for other in dict.fromkeys(found) if other != position)

    def _giving(self, tool: Tool, thing: frozenset[str] | None) -> tuple[int, ...]:
        """Return the tools that give what this one requires; the same for all of its server that do."""
        subject = _subject(tool)
        if thing is None or (_verb(tool) in _CREATING and (thing or subject) == subject):
            return ()
        wanted = tool.server, thing, thing or subject
        if wanted not in self._given:
            self._given[wanted] = self._find(*wanted)
        return self._given[wanted]

    def _find(self, server: str, thing: frozenset[str], about: frozenset[str]) -> tuple[int, ...]:
        """Return the server's tools whose name says the thing, or what a bare `id` is about, and least else.

        Where there are no such tools, the server's search.
        """
        beyond: dict[int, int] = {}
        for position in self._beside(server, thing, about):
            subject = _subject(self._tools[position])
            if thing and thing <= _words(self._tools[position].name):
                beyond[position] = len(subject - thing)
            elif not thing and subject <= about:
                beyond[position] = -len(subject)
        if beyond or thing & _SOUGHT:
            least = min(beyond.values(), default=0)
            return tuple(position for position, more in beyond.items() if more == least)
        return tuple(p for p in self._beside(server, thing, (_SEARCH,)) if not _subject(self._tools[p]))

    def _beside(self, server: str, thing: frozenset[str], words: Iterable[str]) -> list[int]:
        """Return the tools named with one of these terms that may give the thing and do not require it."""
        verbs = _SEEKING | _MAKING if thing & _SOUGHT else _SEEKING
        return [
            position
            for position in sorted({position for word in words for position in self._named(word)})
            if (tool := self._tools[position]).server == server
            and _verb(tool) in verbs
            and (thing or _subject(tool)) not in [_meant(parameter, tool) for parameter in _required(tool)]
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


def _identified(parameter: str) -> frozenset[str] | None:
    """Return the terms of the thing that a parameter identifies; None where no tool gives it."""
    *before, last = spaced(parameter).lower().split() or [""]
    if last in _CREDENTIALS:
        return frozenset((stem(last),))
    if last not in (_IDENTIFIES if before else _ALONE) or (last == "key" and not _CONFIGURED.isdisjoint(before)):
        return None
    said = [part for word in before for part in words_of(word) or [word]]  # An acronym may be spelt out in names.
    thing = frozenset(filter(None, map(stem, said)))
    return thing - _IN_NAMES or thing  # "issueIdOrKey" is an issue's, "key_id" a key's.


def _meant(parameter: str, tool: Tool) -> frozenset[str] | None:
    """Return the same, where a bare `id` is of what the tool is about."""
    thing = _identified(parameter)
    return None if thing is None else thing or _subject(tool)


def _subject(tool: Tool) -> frozenset[str]:
    """Return what the tool's name is about: its terms without verbs and its server's."""
    return _words(tool.name) - _IN_NAMES - _SEEKING - _MAKING - _words(tool.server)


def _verb(tool: Tool) -> str:
    """Return what the tool's name says that it does: its first word ("list_sets"), else the last verb ("set_list")."""
    words = _in_order(tool.name)
    verbs = [word for word in words if word in _VERBS]
    if not verbs:
        return ""
    return verbs[0] if words[0] in _VERBS else verbs[-1]


def _words(identifier: str) -> frozenset[str]:
    return frozenset(_in_order(identifier))


@lru_cache(maxsize=100_000)
def _in_order(identifier: str) -> tuple[str, ...]:
    return tuple(terms(spaced(identifier)))


_NUMBER = re.compile(r"(?<!\S)\S*?\d\S*")
_MOST_NUMBERS, _NEAR = 50, 60
"""Numbers of a task that are looked at, as more are a table's; characters before each."""
_ABBREVIATED = frozenset(("", "no", "nr"))
"""What may stand between a thing and its number: "order no. 4711", "order # 4711"."""
_BY_IDENTIFIER = re.compile(
    r"\b(?:ids?|uids?|guids?|uuids?|keys?|slugs?)\b(?:\W{1,3}(?:of|for)(?:\W{1,3}\w{1,40}){1,3}?)?"
    r"(?:\W{1,3}(?:is|are|was|number))?\W{1,3}\w{0,40}\d",
    re.IGNORECASE,
)
"""An identifier that is called one: "the card with id card_34", "the ID of the series is tt12"."""


def identified_in(task: str) -> frozenset[str]:
    """Return the terms of what a task identifies itself, by a number right behind it ("order 4711").

    Of all that it says, where it calls one an identifier.
    """
    if _BY_IDENTIFIER.search(task):
        return frozenset(terms(task))
    found: set[str] = set()
    for number in islice(_NUMBER.finditer(task), _MOST_NUMBERS):
        near = task[max(number.start() - _NEAR, 0) : number.start()].split()
        before = [word for word in near if word.lower().strip("#.:") not in _ABBREVIATED]
        found.update(terms(number[0]))
        if before and terms(before[-1]):  # "Bob by 5 pm" says nothing of Bob.
            found.update(terms(" ".join(before[-2:])))
    return frozenset(found)
