"""Records that a pipeline's stages pass on: the Task, what the legs Found, and the Ranking made of it. All frozen."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.experience.calls import Calls
from orchestrator.experience.memory import Experience
from orchestrator.index.calibration import Calibration
from orchestrator.index.embed import Vectors
from orchestrator.index.index import Index
from orchestrator.options import Options
from orchestrator.pipeline.legs.lexicon import Lexicon
from orchestrator.pipeline.model_calls import RouteModel
from orchestrator.pipeline.scoring import Candidates, Search
from orchestrator.pipeline.understand import Understood
from orchestrator.records.about import About
from orchestrator.records.findings import AlwaysMatch, Explicit, Needs
from orchestrator.records.outcome import Recalled
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Gives, Tool
from orchestrator.records.usage import Usage

Embed = Callable[[Sequence[str]], Awaitable[tuple[Vectors | None, str]]]
"""Returns a row a text, [texts, dimension], or None and the reason why there are none."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A request, understood, and all that the stages read.

    `leans`: earlier turns tell what it means; `remote`: each embedding is a call; `experience`: the tenant's, if any;
    `servers`: the MCP servers whose tools can be called, None for all; `model`: the language model, if one is named.
    """

    request: RouteRequest
    understood: Understood
    index: Index
    options: Options
    calibration: Calibration
    embed: Embed
    no_tool: Callable[[], NDArray[np.float32] | None] = lambda: None
    leans: bool = False
    remote: bool = False
    experience: Experience | None = None
    servers: frozenset[str] | None = None
    model: RouteModel | None = None
    lexicon: Lexicon | None = None

    def calls(self, tool: Tool) -> Calls:
        """Return how the tenant's calls of a tool went."""
        return self.experience.calls(tool.key, tool.hash) if self.experience else Calls()

    @property
    def most(self) -> int:
        """The number of matches that the request wants."""
        return self.request.limit


@dataclass(frozen=True, kw_only=True)
class Found:
    """The findings of the legs so far; each leg returns it with its own part added.

    `always` by position; `settled`: these are all that is asked for. `allowed` [tools] is False for what filters and
    the task leave out. `votes`: further legs' probabilities by name and position. `candidates` are the keyword
    leg's, and both legs' once the semantic one ran; the task's `vectors` [1 + parts, dimension] are there then, too, as
    are the cosines of the flagged tools that are `near_flagged`. `recalled`: the past tasks that are like this one.
    `lists`: scores of a preset's own legs by position, of any scale. `needs`: those that a language model wrote.
    `about`: the task's analysis, where a preset makes one.
    """

    always: Mapping[int, AlwaysMatch] = field(default_factory=dict)
    settled: bool = False
    explicit: Explicit = field(default_factory=Explicit)
    allowed: NDArray[np.bool_] | None = None
    search: Search | None = None
    candidates: Candidates | None = None
    gate_confidence: float = 0.0
    semantic_ran: bool = False
    vectors: Vectors | None = None
    near_flagged: Mapping[int, float] = field(default_factory=dict)
    votes: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    recalled: Recalled | None = None
    lists: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    needs: Needs = field(default_factory=Needs)
    about: About | None = None
    warnings: tuple[str, ...] = ()

    def allows(self, position: int) -> bool:
        """Tell whether neither filters nor the task leave the tool out."""
        return self.allowed is None or bool(self.allowed[position])


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Candidates by position in the catalogue, best first in `order`.

    `scores` are what they are shown with, `own` the same by evidence alone, before any floor, and `whole` what those
    that score higher for a part score for the whole task. `leading` stay ahead of all others. `by_rank`: the order is
    not that of the scores. `notes` say what a person should know of a candidate. `usage`: what a language model took.
    """

    order: tuple[int, ...]
    scores: Mapping[int, float]
    evidence: Mapping[int, Mapping[str, float]]
    confidence: float
    own: Mapping[int, float] = field(default_factory=dict)
    whole: Mapping[int, float] = field(default_factory=dict)
    leading: tuple[int, ...] = ()
    lifted: frozenset[int] = frozenset()
    by_rank: bool = False
    notes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    gives: Mapping[int, Gives] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    for_parts: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    best_of_parts: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()

    def reordered(self, order: Sequence[int]) -> "Ranking":
        """Return the ranking in another order, no surer than its new first tool is likely; all others stay behind."""
        every = tuple(dict.fromkeys((*order, *self.order)))
        sure = self.confidence if every[:1] == self.order[:1] else min(self.confidence, self.scores[every[0]])
        return replace(self, order=every, confidence=sure, by_rank=True)

    def noted(self, notes: Mapping[int, str]) -> dict[int, tuple[str, ...]]:
        """Return all notes with these added."""
        return {**self.notes, **{place: (*self.notes.get(place, ()), note) for place, note in notes.items()}}


def best_first(scores: Mapping[int, float]) -> tuple[int, ...]:
    """Return the positions by score, equal ones in their order."""
    return tuple(sorted(scores, key=scores.__getitem__, reverse=True))
