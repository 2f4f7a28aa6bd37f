"""Replay: past tasks routed again under another catalogue, pipeline, embedder or calibration, and what would change."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator.catalogue.reading import numbered_lines, why_unread
from orchestrator.errors import InvalidInput
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Outcome
from orchestrator.records.request import RouteRequest
from orchestrator.routing.router import Router

FORM = "give Decisions by `toolroute route -o json`, or a workflow's history by `temporal workflow show -o json`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What matters of a Decision: its tools, best first, and its figures."""

    tools: tuple[str, ...]
    confidence: float
    semantic_ran: bool
    tokens: int
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTask:
    """A task to route again: the tools that it used, and what it was answered then, where that is known."""

    query: str
    used: tuple[str, ...]
    then: Answered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One task before and after. `lost` and `gained` are tools that it used; `moved` maps others to their places."""

    query: str
    used: tuple[str, ...]
    before: Answered
    after: Answered

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(key for key in self.used if key in self.before.tools and key not in self.after.tools)

    @property
    def gained(self) -> tuple[str, ...]:
        return tuple(key for key in self.used if key in self.after.tools and key not in self.before.tools)

    @property
    def moved(self) -> dict[str, tuple[int, int]]:
        both = [key for key in self.used if key in self.before.tools and key in self.after.tools]
        places = {key: (self.before.tools.index(key) + 1, self.after.tools.index(key) + 1) for key in both}
        return {key: (then, now) for key, (then, now) in places.items() if then != now}

    @property
    def worse(self) -> tuple[int, int, float]:
        """How much worse it is now: tools lost, places lost, and confidence lost."""
        places = sum(now - then for then, now in self.moved.values())
        return len(self.lost), places, self.before.confidence - self.after.confidence

    def to_json(self) -> dict[str, Any]:
        changes = {"lost": self.lost, "gained": self.gained, "moved": self.moved}
        return {**changes, **asdict(self)}


async def replay(
    tasks: Sequence[PastTask], before: Router | None, after: Router, tenant: str, done: Callable[[int, int], None]
) -> list[Replayed]:
    """Route the tasks again, worst first. before: what answers a task of which no Decision is known."""
    found = []
    for number, task in enumerate(tasks, start=1):
        request = RouteRequest(query=task.query, tenant=tenant)
        then = task.then or answered(await (before or after).route(request))
        now = answered(await after.route(request))
        found.append(Replayed(query=task.query, used=task.used, before=then, after=now))
        done(number, len(tasks))
    return sorted(found, key=lambda one: one.worse, reverse=True)


def summary(found: Sequence[Replayed]) -> dict[str, Any]:
    """Return the JSON of `toolroute replay`."""

    def mean(figure: Callable[[Answered], float]) -> dict[str, float]:
        count = len(found) or 1
        return {when: round(sum(figure(getattr(o, when)) for o in found) / count, 4) for when in ("before", "after")}

    return {
        "tasks": len(found),
        "lost": sum(bool(one.lost) for one in found),
        "gained": sum(bool(one.gained) for one in found),
        "moved": sum(bool(one.moved) for one in found),
        "gate_flips": sum(one.before.semantic_ran != one.after.semantic_ran for one in found),
        "confidence": mean(lambda one: one.confidence),
        "tokens": mean(lambda one: one.tokens),
        "servers": mean(lambda one: len(one.servers)),
        "each": [one.to_json() for one in found],
    }


def answered(decision: Decision) -> Answered:
    return Answered(
        tools=tuple(match.tool.key for match in decision.matches),
        confidence=decision.confidence,
        semantic_ran=decision.semantic_ran,
        tokens=decision.tokens.after,
        servers=decision.servers,
    )


def tasks_of(outcomes: Sequence[Outcome], since: float = 0.0) -> list[PastTask]:
    """Return the tasks of these Outcomes that went well, each once, as far as their texts are kept."""
    used = {o.query: tuple(use.tool for use in o.worked) for o in outcomes if o.at >= since and o.query and o.worked}
    return [PastTask(query=query, used=own) for query, own in used.items()]


def read_tasks(path: Path) -> list[PastTask]:
    """Read a file of Decisions, or a workflow's history; of a Decision alone the recommended tools count as used."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        records = _records(text)
        tasks = [task for record in records for task in _tasks(record)]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read ({why_unread(error)}); {FORM}") from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InvalidInput(f"{path}: {type(error).__name__}: {error}; {FORM}") from None
    if not tasks:
        raise InvalidInput(f"{path}: no Decision in it; {FORM}")
    return tasks


def _records(text: str) -> list[dict[str, Any]]:
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for _, line in numbered_lines(text)]
    return whole if isinstance(whole, list) else [whole]


def _tasks(record: dict[str, Any]) -> Iterator[PastTask]:
    """Yield the tasks of a Decision, or of all Decisions of a history, with the tools that were called after each."""
    decision, used = None, list[str]()
    for content in [record] if "events" not in record else _payloads(record["events"]):
        if "idempotency_key" in content:
            used.append(_key(content["tool"]))
        elif "matches" in content and "query" in content:
            if decision:
                yield _task(decision, used)
            decision, used = content, []
    if decision:
        yield _task(decision, used)


def _task(decision: dict[str, Any], used: Sequence[str]) -> PastTask:
    then = Answered(
        tools=tuple(_key(match["tool"]) for match in decision["matches"]),
        confidence=decision["confidence"],
        semantic_ran=decision["semantic_ran"],
        tokens=decision["tokens"]["after"],
        servers=tuple(decision["servers"]),
    )
    return PastTask(query=decision["query"], used=tuple(dict.fromkeys(used or decision["recommended"])), then=then)


def _key(tool: str | dict[str, Any]) -> str:
    return tool if isinstance(tool, str) else f"{tool['server']}:{tool['name']}"


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
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _payloads(part)
