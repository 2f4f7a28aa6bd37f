"""Routes past tasks again with another catalogue, pipeline, embedder or calibration, and compares the results."""

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.json_input import first_problem, numbered_lines, read_json, reading
from orchestrator.common.keys import key_of
from orchestrator.common.regular import read_text
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.runner import embed_ahead
from orchestrator.pipeline.legs.semantic import why_failed
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Outcome
from orchestrator.records.request import MAX_QUERY_CHARS, RouteRequest
from orchestrator.runtime.router import Router

FORM = "give Decisions by `toolroute route -o json`, or a workflow's history by `temporal workflow show -o json`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedAnswer:
    """The compared parts of a Decision: its tools, best first, its figures, and why semantic search failed."""

    tools: tuple[str, ...]
    confidence: FiniteFloat
    semantic_ran: bool
    tokens: int
    servers: tuple[str, ...]
    failed: str = ""

    def rank(self, key: str) -> int:
        """Return the place of a tool, from 1. 0: it is no match."""
        return self.tools.index(key) + 1 if key in self.tools else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """A task to route again: the tools that it used, and its earlier answer if it is known."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARS, pattern=r"\S")]
    used: tuple[str, ...]
    then: ReplayedAnswer | None = None


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
    before: Router | None,
    after: Router,
    tenant: str,
    done: Callable[[int, int], None],
) -> list[Replayed]:
    """Route the tasks again and return the results, worst first.

    Args:
        tasks: The tasks.
        before: Answers tasks without a known Decision.
        after: Answers all tasks after the change.
        tenant: The tenant.
        done: Called after each task.
    """
    routers = [before, after] if before is not None else [after]
    for router in routers if tasks else ():
        await embed_ahead(router, tenant)
    results = list[Replayed]()
    for number, task in enumerate(tasks, start=1):
        results.append(await _replay(task, before, after, tenant))
        done(number, len(tasks))
    return sorted(results, key=lambda result: result.worse, reverse=True)


async def _replay(task: ReplayTask, before: Router | None, after: Router, tenant: str) -> Replayed:
    request = RouteRequest(query=task.query, tenant=tenant)
    earlier = task.then
    if earlier is None:
        earlier = answered(await (before or after).route(request))
    later = answered(await after.route(request))
    matched = {*earlier.tools, *later.tools}
    missing = [key for key in task.used if key not in matched]
    if task.then is None and before is not None:
        missing = await _known(before, tenant, missing)
    still_known = await _known(after, tenant, missing)
    return Replayed(
        query=task.query,
        used=task.used,
        before=earlier,
        after=later,
        gone=tuple(sorted(set(missing).difference(still_known))),
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


def read_tasks(path: Path) -> list[ReplayTask]:
    """Read a file of Decisions, or a workflow's history. For a Decision alone the recommended tools count as used."""
    with reading(path, FORM):
        text = read_text(path, pipes=True)
    tasks = list[ReplayTask]()
    for place, record in _records(str(path), text):
        try:
            tasks += _tasks(read_json(record) if isinstance(record, str) else record)
        except ValidationError as error:
            raise InvalidInput(f"{place}: {first_problem(error)}; {FORM}") from None
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            why = f"no {error}" if isinstance(error, KeyError) else error
            raise InvalidInput(f"{place}: not a Decision or a history ({why}); {FORM}") from None
    if not tasks:
        raise InvalidInput(f"{path}: the file has no Decision; {FORM}")
    return tasks


def _records(path: str, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the records of a file with their places. Records on separate lines are yielded as text."""
    try:
        document = read_json(text)
    except ValueError:
        yield from ((f"{path}:{number}", line) for number, line in numbered_lines(text))
        return
    if isinstance(document, list):
        yield from (
            (f"{path}: record {number}", record) for number, record in enumerate(document, start=1)
        )
    else:
        yield path, document


def _tasks(record: Any) -> Iterator[ReplayTask]:
    """Yield the tasks of a Decision, or of all Decisions of a history, with the tools that were called after each."""
    if not isinstance(record, dict):
        raise ValueError(f"{record!r:.80} is not a JSON object")
    decision: dict[str, Any] | None = None
    used = list[str]()
    for content in [record] if "events" not in record else _payloads(record["events"]):
        if "idempotency_key" in content:
            used.append(_key(content["tool"]))
        elif "matches" in content and "query" in content:
            if decision:
                yield _task(decision, used)
            decision = content
            used = []
    if decision:
        yield _task(decision, used)


def _task(decision: dict[str, Any], used: Sequence[str]) -> ReplayTask:
    then = {
        "tools": [_key(match["tool"]) for match in decision["matches"]],
        "confidence": decision["confidence"],
        "semantic_ran": decision["semantic_ran"],
        "tokens": decision["tokens"]["after"],
        "servers": decision["servers"],
    }
    used = tuple(dict.fromkeys(used or decision["recommended"]))
    return TypeAdapter(ReplayTask).validate_python(
        {"query": decision["query"], "used": used, "then": then}
    )


def _key(tool: str | dict[str, Any]) -> str:
    return tool if isinstance(tool, str) else key_of(tool["server"], tool["name"])


def _payloads(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects among a history's payloads, in order."""
    if isinstance(value, dict) and isinstance(value.get("data"), str) and "metadata" in value:
        try:
            content = json.loads(base64.b64decode(value["data"]))
        except ValueError:  # Encrypted, or no JSON.
            return
        if isinstance(content, dict):
            yield content
        return
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        for part in parts:
            yield from _payloads(part)
