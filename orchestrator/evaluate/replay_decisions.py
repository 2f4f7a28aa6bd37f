"""Routes past tasks again with another catalogue, pipeline, embedder or calibration, and compares the results."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.runner import embed_ahead
from orchestrator.pipeline.legs.semantic import why_failed
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Outcome
from orchestrator.records.request import RouteRequest
from orchestrator.runtime.router import Router


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedAnswer:
    """The compared parts of a Decision: its tools, best first, its figures, and why semantic search failed."""

    tools: tuple[str, ...]
    confidence: float
    semantic_ran: bool
    tokens: int
    servers: tuple[str, ...]
    failed: str = ""

    def rank(self, key: str) -> int:
        """Return the place of a tool, from 1. 0: it is no match."""
        return self.tools.index(key) + 1 if key in self.tools else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """A task to route again, and the tools that it used."""

    query: str
    used: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One task before and after the change.

    Attributes:
        lost: Used tools that the new answer lacks.
        gained: Used tools that only the new answer has.
        moved: Other tools with their places.
        gone: Used tools that no answer has and that the catalogue no longer has.
    """

    query: str
    used: tuple[str, ...]
    before: ReplayedAnswer
    after: ReplayedAnswer
    gone: tuple[str, ...] = ()

    @property
    def lost(self) -> tuple[str, ...]:
        had = {*self.before.tools, *self.gone}
        return tuple(key for key in self.used if key in had and key not in self.after.tools)

    @property
    def gained(self) -> tuple[str, ...]:
        return tuple(
            key for key in self.used if key in self.after.tools and key not in self.before.tools
        )

    @property
    def moved(self) -> dict[str, tuple[int, int]]:
        moved = dict[str, tuple[int, int]]()
        for key in self.used:
            rank_before = self.before.rank(key)
            rank_after = self.after.rank(key)
            if rank_before and rank_after and rank_before != rank_after:
                moved[key] = rank_before, rank_after
        return moved

    @property
    def worse(self) -> tuple[int, int, float]:
        """How much worse it is now: tools lost, places lost, and confidence lost."""
        places_lost = sum(after - before for before, after in self.moved.values())
        return len(self.lost), places_lost, self.before.confidence - self.after.confidence

    def to_json(self) -> dict[str, Any]:
        changes = {"lost": self.lost, "gained": self.gained, "moved": self.moved}
        return {**changes, **asdict(self)}


async def replay_all(
    tasks: Sequence[ReplayTask],
    before: Router,
    after: Router,
    tenant: str,
    done: Callable[[int, int], None],
) -> list[Replayed]:
    """Route the tasks again and return the results, worst first.

    Args:
        tasks: The tasks.
        before: Answers the tasks as they would be answered today.
        after: Answers the tasks after the change.
        tenant: The tenant.
        done: Called after each task.
    """
    for router in (before, after) if tasks else ():
        await embed_ahead(router, tenant)
    results = list[Replayed]()
    for number, task in enumerate(tasks, start=1):
        results.append(await _replay(task, before, after, tenant))
        done(number, len(tasks))
    return sorted(results, key=lambda result: result.worse, reverse=True)


async def _replay(task: ReplayTask, before: Router, after: Router, tenant: str) -> Replayed:
    request = RouteRequest(query=task.query, tenant=tenant)
    earlier = answered(await before.route(request))
    later = answered(await after.route(request))
    matched = {*earlier.tools, *later.tools}
    missing = [key for key in task.used if key not in matched]
    known_before = await _known(before, tenant, missing)
    known_after = await _known(after, tenant, known_before)
    return Replayed(
        query=task.query,
        used=task.used,
        before=earlier,
        after=later,
        gone=tuple(sorted(set(known_before).difference(known_after))),
    )


async def _known(router: Router, tenant: str, keys: Sequence[str]) -> list[str]:
    """Return the keys that the tenant's catalogue has, also under another name."""
    catalogue = (await router.engine.catalogue(tenant)) if keys else Catalogue()
    return [key for key in keys if catalogue.current(key) in catalogue.positions]


def summary(results: Sequence[Replayed]) -> dict[str, Any]:
    """Return the JSON of `toolroute experience replay`."""
    failures = Counter(result.after.failed or result.before.failed for result in results)
    del failures[""]
    return {
        "tasks": len(results),
        "lost": sum(bool(result.lost) for result in results),
        "gained": sum(bool(result.gained) for result in results),
        "moved": sum(bool(result.moved) for result in results),
        "semantic_failures": dict(failures),
        "gate_flips": sum(
            result.before.semantic_ran != result.after.semantic_ran for result in results
        ),
        "confidence": _means(results, lambda answer: answer.confidence),
        "tokens": _means(results, lambda answer: answer.tokens),
        "servers": _means(results, lambda answer: len(answer.servers)),
        "each": [result.to_json() for result in results],
    }


def _means(
    results: Sequence[Replayed], figure: Callable[[ReplayedAnswer], float]
) -> dict[str, float]:
    count = len(results) or 1
    before = sum(figure(result.before) for result in results)
    after = sum(figure(result.after) for result in results)
    return {"before": round(before / count, 4), "after": round(after / count, 4)}


def answered(decision: Decision) -> ReplayedAnswer:
    return ReplayedAnswer(
        tools=tuple(match.tool.key for match in decision.matches),
        confidence=decision.confidence,
        semantic_ran=decision.semantic_ran,
        tokens=decision.tokens.after,
        servers=decision.servers,
        failed=why_failed(decision.warnings),
    )


def tasks_of(outcomes: Sequence[Outcome], since: float = 0.0) -> list[ReplayTask]:
    """Return the successful tasks of these Outcomes whose texts are kept, each once."""
    tasks: dict[str, ReplayTask] = {}
    for outcome in outcomes:
        if outcome.query and outcome.worked and outcome.at >= since:
            used = dict.fromkeys(use.tool for use in outcome.worked)
            tasks[outcome.query] = ReplayTask(query=outcome.query, used=tuple(used))
    return list(tasks.values())
