"""Findability: which tools their own words do not bring, which take each other's queries, and what helps.

Needs no labels: the queries are made from each tool's text (`probes.py`) and tried on the Index (`trials.py`).
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.probes import made_queries
from orchestrator.evaluate.trials import Trial, tried
from orchestrator.index.calibration import Calibration
from orchestrator.index.embed import Embedder
from orchestrator.index.index import Index
from orchestrator.index.text import fields, spaced, stem, terms
from orchestrator.records.tool import Tool

MOST_TOOLS = 400
"""Tools whose queries are tried; of a larger catalogue so many are drawn."""
SEED = 7
WITHIN = 10
"""A query brings a tool that is among its best ten, as `route` answers by default."""
MOST_MENDED = 30
"""Mends that are tried out, of the worst first: each takes a few small indexes."""
_MOST_WORDS = 4
_RIVALS = 3
_LEAD = 0.08
"""A word tells a tool from its rivals when its cosine to the tool is that much higher; "whether" and "must" are not."""
_FIELD = 60
"""Competitors that a mend is tried among."""

_WORD = re.compile(r"(?<![^\W_])[^\W\d_]+(?![^\W_])")

Progress = Callable[[int, int], None]
"""Called with how many are done, of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mend:
    """A tool's own words that its rivals do not say, and what they do for the queries that it loses; none if none help.

    `said`: how many of them put it first once they say the words; `added`: the same with the words among its keywords.
    """

    words: tuple[str, ...]
    queries: int
    said: int
    added: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfound:
    """A tool that fewer than half of its own queries bring; `instead` are the tools that they put first.

    `mend`: its words that those do not say; None where none were tried.
    """

    tool: str
    queries: int
    brought: int
    instead: tuple[str, ...]
    mend: Mend | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Two tools, where one takes the other's queries, or each some: how many each loses to the other, of how many.

    `mends`: the words of each that the other does not say; None for one that loses nothing, and where none were tried.
    """

    tools: tuple[str, str]
    lost: tuple[int, int]
    queries: tuple[int, int]
    mends: tuple[Mend | None, Mend | None] = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findability:
    """What the trials showed. `silent`: tools whose text gives no query at all; `seed` drew the tools, if not all."""

    tools: int
    tried: int
    queries: int
    first: float
    brought: float
    unfound: tuple[Unfound, ...] = ()
    collisions: tuple[Collision, ...] = ()
    silent: tuple[str, ...] = ()
    seed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The findings of `toolroute doctor --catalogue -o json`."""
        return asdict(self)


@dataclass(slots=True)
class Examination:
    """A catalogue's tools tried by their own queries: by position the Trials of each."""

    index: Index
    maps: Calibration
    embedder: Embedder
    trials: dict[int, list[Trial]] = field(default_factory=dict)
    silent: list[int] = field(default_factory=list)
    drawn: bool = False

    def run(self, on_progress: Progress | None = None) -> None:
        """Tries the tools, or a draw of them, and then the tools that took their queries, as many again at most."""
        everything = range(len(self.index.catalogue))
        self.drawn = len(everything) > MOST_TOOLS
        chosen = random.Random(SEED).sample(everything, MOST_TOOLS) if self.drawn else list(everything)  # noqa: S311
        self._try(chosen, on_progress)
        if self.drawn:
            thieves = Counter(first for position in chosen for first in self.firsts(position) if first != position)
            further = [thief for thief, _ in thieves.most_common(MOST_TOOLS // 2) if thief not in self.trials]
            self._try(further, on_progress)

    def _try(self, positions: Sequence[int], on_progress: Progress | None) -> None:
        for done, position in enumerate(positions, start=1):
            queries = made_queries(self.index.catalogue.tools[position])
            if queries:
                self.trials[position] = [
                    tried(self.index, self.maps, self.embedder, query, (position,)) for query in queries
                ]
            else:
                self.silent.append(position)
            if on_progress is not None:
                on_progress(done, len(positions))

    def firsts(self, position: int) -> list[int]:
        """For each of the tool's queries the tool that it puts first, -1 where it finds none."""
        return [trial.both.order[0] if trial.both.order else -1 for trial in self.trials.get(position, ())]

    def brought(self, position: int) -> int:
        """How many of the tool's queries bring it."""
        return sum(position in trial.both.order[:WITHIN] for trial in self.trials[position])

    def all_trials(self) -> list[Trial]:
        return [trial for own in self.trials.values() for trial in own]

    def findings(self, on_progress: Progress | None = None) -> Findability:
        """The tools that cannot be found, the pairs that collide, and for the worst the words that mend them."""
        trials, key = self.all_trials(), [tool.key for tool in self.index.catalogue]
        lost = [position for position in self.trials if 2 * self.brought(position) < len(self.trials[position])]
        lost.sort(key=lambda position: self.brought(position) / len(self.trials[position]))
        pairs = self._collisions()
        mends = self._mends([*((position, None) for position in lost), *self._losing(pairs)][:MOST_MENDED], on_progress)
        positions = self.trials.items()
        return Findability(
            tools=len(key),
            tried=len(self.trials) + len(self.silent),
            queries=len(trials),
            first=_share(sum(first == position for position in self.trials for first in self.firsts(position)), trials),
            brought=_share(sum(self.brought(position) for position, _ in positions), trials),
            unfound=tuple(
                Unfound(
                    tool=key[position],
                    queries=len(self.trials[position]),
                    brought=self.brought(position),
                    instead=tuple(key[rival] for rival in self._rivals(position)),
                    mend=mends.get((position, None)),
                )
                for position in lost
            ),
            collisions=tuple(
                Collision(
                    tools=(key[one], key[other]),
                    lost=(self.firsts(one).count(other), self.firsts(other).count(one)),
                    queries=(len(self.trials.get(one, ())), len(self.trials.get(other, ()))),
                    mends=(mends.get((one, other)), mends.get((other, one))),
                )
                for one, other in pairs
            ),
            silent=tuple(key[position] for position in self.silent),
            seed=SEED if self.drawn else None,
        )

    def _collisions(self) -> list[tuple[int, int]]:
        """Pairs where each loses a query to the other, or one loses half of its own; those that lose most first."""
        pairs: dict[tuple[int, int], float] = {}
        for one in self.trials:
            for other in set(self.firsts(one)) - {one, -1}:
                lost, gained = self._lost(one, other), self._lost(other, one)
                if gained or lost >= 0.5:
                    pairs[min(one, other), max(one, other)] = lost + gained
        return sorted(pairs, key=lambda pair: -pairs[pair])

    def _lost(self, one: int, other: int) -> float:
        """The share of one's queries that put the other first."""
        return self.firsts(one).count(other) / len(self.trials[one]) if one in self.trials else 0.0

    def _losing(self, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Of each pair those that lose to the other."""
        sides = (side for one, other in pairs for side in ((one, other), (other, one)))
        return [(one, other) for one, other in sides if self._lost(one, other)]

    def _mends(
        self, losing: Sequence[tuple[int, int | None]], on_progress: Progress | None
    ) -> dict[tuple[int, int | None], Mend]:
        """For each tool what helps it against this other one, or against all that stand first in its place."""
        found = {}
        for done, (position, other) in enumerate(losing, start=1):
            taken = {other} if other is not None else {*self.firsts(position)} - {position}
            failing = [trial for trial in self.trials[position] if (trial.both.order or (-1,))[0] in taken]
            found[position, other] = self._mend(position, failing, self._rivals(position) if other is None else [other])
            if on_progress is not None:
                on_progress(done, len(losing))
        return found

    def _rivals(self, position: int) -> list[int]:
        """The tools that stand first where this one should."""
        firsts = Counter(first for first in self.firsts(position) if first not in (position, -1))
        return [rival for rival, _ in firsts.most_common(_RIVALS)]

    def _mend(self, position: int, failing: Sequence[Trial], rivals: list[int]) -> Mend:
        """The fewest telling words that put the tool first most often, tried among its competitors."""
        tools = self.index.catalogue.tools
        near = dict.fromkeys(place for trial in failing for place in trial.both.order[:_FIELD])
        others = [tools[place] for place in near if place != position][:_FIELD]
        words = self._telling(position, rivals)
        best = Mend(words=(), queries=len(failing), said=0, added=0)
        for count in range(1, len(words) + 1):
            told = words[:count]
            queries = [f"{trial.query} {' '.join(told)}" for trial in failing]
            tool = replace(tools[position], keywords=(*tools[position].keywords, *told), hash="")
            said = self._firsts_among(tools[position], others, queries)
            added = self._firsts_among(tool, others, queries)
            if max(said, added) > max(best.said, best.added):
                best = replace(best, words=tuple(told), said=said, added=added)
        return best

    def _telling(self, position: int, rivals: list[int]) -> list[str]:
        """Words to try: those of the tool's name, then those whose meaning is nearer to it than to its rivals."""
        tools = self.index.catalogue.tools
        named, others = _telling_words(tools[position], [tools[rival] for rival in rivals])
        if others and rivals:
            vectors = self.index.semantic(self.embedder).vectors
            meaning = self.embedder.embed(others)
            lead = meaning @ vectors[position] - (meaning @ vectors[rivals].T).max(axis=1)
            others = [others[place] for place in np.argsort(-lead, kind="stable") if lead[place] >= _LEAD]
        return [*named, *others][:_MOST_WORDS]

    def _firsts_among(self, tool: Tool, others: Sequence[Tool], queries: Iterable[str]) -> int:
        """How many of the queries put the tool first in a catalogue of it and the others."""
        index = Index(Catalogue([tool, *others]))
        position = index.catalogue.positions[tool.key]
        trials = (tried(index, self.maps, self.embedder, query, (position,)) for query in queries)
        return sum(trial.both.right for trial in trials)


def _share(part: int, trials: Sequence[Trial]) -> float:
    return round(part / len(trials), 4) if trials else 0.0


def _telling_words(tool: Tool, rivals: Sequence[Tool]) -> tuple[list[str], list[str]]:
    """The tool's own words that none of its rivals says, whole ones: those of its name, and all others."""
    said = {term for rival in rivals for _, text in fields(rival) for term in terms(text)}
    own: dict[str, tuple[bool, str]] = {}
    for field_name, text in fields(tool):
        for word in _WORD.findall(spaced(text) if field_name == "name" else text):
            read = word.lower() if word.istitle() else word
            own.setdefault(stem(word.lower()), (field_name == "name", read))
    telling = [found for term, found in own.items() if len(term) > 2 and not said.issuperset(terms(found[1]))]
    return [word for named, word in telling if named], [word for named, word in telling if not named]
