"""The records of a pipeline: the Task, which is the request, and the State, which is the knowledge about it.

Both are frozen. Tools are positions in the catalogue. The Decision has keys again.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestrator.experience.calls import Calls
from orchestrator.experience.memory import Experience
from orchestrator.index.calibration import Calibration
from orchestrator.index.embedders.embedder import Vectors
from orchestrator.index.index import Index
from orchestrator.index.semantic import Cosines
from orchestrator.options import Options
from orchestrator.pipeline.model_calls import RouteModel
from orchestrator.pipeline.scoring import Candidates
from orchestrator.pipeline.understand import Understood
from orchestrator.records.decision import About, Decision
from orchestrator.records.findings import AlwaysMatch, Explicit
from orchestrator.records.outcome import Recalled
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Gives, Tool
from orchestrator.records.usage import Usage

R = TypeVar("R")


async def no_encoder(_: Sequence[str]) -> tuple[Vectors | None, str]:
    """Encode nothing, as without the extra `languages`."""
    return None, ""


async def at_once(work: Callable[[], R]) -> R:
    """Do the work here and now."""
    return work()


Embedded = tuple[Vectors | None, str]
"""One row per text, shape [texts, dimension], or None and the reason."""
Embed = Callable[[Sequence[str]], Awaitable[Embedded]]
EmbedAtOnce = Callable[[Sequence[str]], Embedded | None]


class Compute(Protocol):
    """Runs a function and returns its result."""

    async def __call__(self, work: Callable[[], R], /) -> R: ...


@dataclass(frozen=True, kw_only=True)
class Task:
    """A request with everything that the stages need to answer it.

    Attributes:
        request: The request as the caller gave it.
        understood: Its text, clauses and weighted terms.
        index: The tenant's catalogue, searchable.
        options: The Router's settings.
        calibration: The maps from features to probabilities.
        embed: Embeds texts. Each call may go to an endpoint.
        encode: Embeds texts in other languages. Without the extra `languages` the reason is empty.
        embed_at_once: Does the same without waiting, or returns None. A stage that need not wait runs with its
            neighbours in one part, which is faster and keeps the event loop free.
        no_tool: Returns the embedding of requests that need no tool, or None if the embedder has none.
        contrast: Returns the embedder's matrix that tells sister tools apart, or None if the embedder has none.
        unfamiliar_to: Returns the share of a text's tokens that the embedder hardly knows, or None.
        leans: Whether the task is understood only with the earlier turns of the conversation.
        remote: Whether embedding is a call to an endpoint.
        experience: The tenant's past tasks, or None.
        servers: The MCP servers that can be called here. None: all.
        model: The language model of the route, or None.
        compute: Runs work that needs much processor time. For a large catalogue it uses another thread.

    Examples:
        >>> from orchestrator import State, Task
        >>> def words_of(state: State) -> str:  # a stage reads the Task from the State
        ...     task: Task = state.task
        ...     return task.request.query
    """

    request: RouteRequest
    understood: Understood
    index: Index
    options: Options
    calibration: Calibration
    embed: Embed
    encode: Embed = no_encoder
    embed_at_once: EmbedAtOnce = lambda _: None
    no_tool: Callable[[], NDArray[np.float32] | None] = lambda: None
    contrast: Callable[[], NDArray[np.float32] | None] = lambda: None
    unfamiliar_to: Callable[[str], float | None] = lambda _: None
    leans: bool = False
    remote: bool = False
    experience: Experience | None = None
    servers: frozenset[str] | None = None
    model: RouteModel | None = None
    compute: Compute = at_once

    def calls(self, tool: Tool) -> Calls:
        """Return the tenant's past calls of a tool."""
        return self.experience.calls(tool.key, tool.hash) if self.experience else Calls()

    def was_called(self, tool: Tool) -> bool:
        """Return True if a past task called the tool with its present definition."""
        return self.experience is not None and self.experience.was_called(tool.key, tool.hash)


@dataclass(frozen=True, kw_only=True)
class State:
    """The knowledge about a task until now. Each stage returns it with its own part added.

    Attributes:
        task: The task.
        always: The always-available capabilities that the task asks for.
        explicit: The servers that the task names.
        allowed: False for each tool that the filters or the task exclude, shape [tools]. None: all are allowed.
        settled: Whether the task needs no search, because `always` covers it.
        candidates: The candidates of the keyword leg, and of both legs after the semantic leg.
        vectors: The task's embeddings, shape [1 + clauses, dimension], after the semantic leg.
        second: The cosines of the encoder for other languages, shape [1 + clauses, tools], after the semantic leg.
        near_flagged: The cosines of flagged tools. They are not searched.
        lists: The scores of further legs, by leg. The default fusion reads them as probabilities.
        recalled: The past tasks that are similar to this one.
        about: The analysis of the task, if the preset makes one.
        gate_confidence: The probability that the keyword leg's best tool is right.
        gate_open: Whether the first legs are confident enough, so that the fallback legs are skipped.
        scores: Each candidate's probability. The order of the mapping is the ranking, best first.
        evidence: Each leg's own probability, by candidate.
        confidence: The probability that the first candidate is right.
        lifted: The tools that are ranked first because the task names their server. Each server's best tool comes
            first.
        notes: Remarks for a person, by candidate.
        gives: The parameter that a candidate provides to another candidate.
        usage: The tokens that a language model used.
        warnings: Warnings for the caller.
        decision: The answer, after the selection.

    Examples:
        >>> from dataclasses import replace
        >>> from orchestrator import Router, State, preset
        >>> def stripe_first(state: State) -> State:
        ...     tools = state.task.index.catalogue.tools
        ...     return state.moved(place for place in state.order if tools[place].server == "stripe")
        >>> base = preset("default")
        >>> pipeline = replace(base, name="stripe first", refiners=(*base.refiners, stripe_first))
        >>> with Router("examples/tools.jsonl", pipeline=pipeline) as router:
        ...     router.route_sync("give the customer the money back").matches[0].tool.server
        'stripe'
    """

    task: Task
    always: Mapping[int, AlwaysMatch] = field(default_factory=dict)
    explicit: Explicit = field(default_factory=Explicit)
    allowed: NDArray[np.bool_] | None = None
    settled: bool = False
    candidates: Candidates | None = None
    vectors: Vectors | None = None
    second: Cosines | None = None
    near_flagged: Mapping[int, float] = field(default_factory=dict)
    lists: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    recalled: Recalled | None = None
    about: About | None = None
    gate_confidence: float = 0.0
    gate_open: bool = False
    scores: Mapping[int, float] = field(default_factory=dict)
    evidence: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    confidence: float = 0.0
    lifted: tuple[int, ...] = ()
    notes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    gives: Mapping[int, Gives] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()
    decision: Decision | None = None

    @property
    def first(self) -> int | None:
        """The best candidate, or None without candidates."""
        return next(iter(self.scores), None)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The candidates, best first."""
        return tuple(self.scores)

    @cached_property
    def semantic_ran(self) -> bool:
        """Whether the semantic leg has scored the candidates."""
        return self.candidates is not None and self.candidates.of_task.semantic is not None

    def allows(self, position: int) -> bool:
        """Return True if neither filters nor the task exclude the tool."""
        return self.allowed is None or bool(self.allowed[position])

    def warned(self, *warnings: str) -> "State":
        """Return the state with further warnings."""
        return replace(self, warnings=(*self.warnings, *warnings))

    def restricted(self, allowed: NDArray[np.bool_]) -> "State":
        """Return the state with only these of the allowed tools allowed. The task is then always searched."""
        if self.allowed is not None:
            allowed = allowed & self.allowed
        always = {position: match for position, match in self.always.items() if allowed[position]}
        return replace(self, allowed=allowed, always=always, settled=False)

    def listed(self, leg: str, scores: Mapping[int, float]) -> "State":
        """Return the state with the scores that a leg gives to tools."""
        return replace(self, lists={**self.lists, leg: scores})

    def noted(self, notes: Mapping[int, str]) -> "State":
        """Return the state with these remarks added."""
        if not notes:
            return self
        added = {
            position: (*self.notes.get(position, ()), note) for position, note in notes.items()
        }
        return replace(self, notes={**self.notes, **added})

    def with_evidence(self, leg: str, chances: Mapping[int, float]) -> "State":
        """Return the state with a leg's probabilities."""
        if not chances:
            return self
        evidence = dict(self.evidence)
        for position, chance in chances.items():
            evidence[position] = {**evidence.get(position, {}), leg: chance}
        return replace(self, evidence=evidence)

    def rescored(self, changed: Mapping[int, float]) -> "State":
        """Return the state with other probabilities for these tools, each behind the last tool that has no less.

        The tools that do not change keep their order.
        """
        if not changed:
            return self
        ranking = [item for item in self.scores.items() if item[0] not in changed]
        for position, score in best_first(changed).items():
            rank = len(ranking)
            while rank and ranking[rank - 1][1] < score:
                rank -= 1
            ranking.insert(rank, (position, score))
        return replace(self, scores=dict(ranking))

    def raised(
        self,
        leg: str,
        scores: Mapping[int, float],
        evidence: Mapping[int, float],
        notes: Mapping[int, str],
    ) -> "State":
        """Return the state with other probabilities, and with evidence and remarks for them.

        Args:
            leg: The name of the evidence.
            scores: The new probabilities, as for `rescored`.
            evidence: The leg's probabilities.
            notes: The remarks.
        """
        return self.rescored(scores).with_evidence(leg, evidence).noted(notes)

    def moved(self, order: Iterable[int]) -> "State":
        """Return the state with these tools first, in this order. Every tool keeps its probability."""
        positions = dict.fromkeys((*order, *self.scores))
        return replace(self, scores={position: self.scores[position] for position in positions})

    def reordered(self, order: Iterable[int]) -> "State":
        """Return the state with these tools first, in an order that comes from something without probabilities.

        Every tool keeps its probability, so these may rise down the ranking. The confidence is at most the probability
        of the new first tool.
        """
        positions = dict.fromkeys((*order, *self.scores))
        scores = {position: self.scores.get(position, 0.0) for position in positions}
        first = next(iter(scores), None)
        confidence = self.confidence
        if first is not None and first != self.first:
            confidence = min(confidence, scores[first])
        return replace(self, scores=scores, confidence=confidence)


def best_first(scores: Mapping[int, float]) -> dict[int, float]:
    """Return the scores in descending order. Equal scores keep their order."""
    return dict(sorted(scores.items(), key=itemgetter(1), reverse=True))
