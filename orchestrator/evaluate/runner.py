"""Evaluation: labelled queries, routed one by one by a real Router, and the measures of their Decisions."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from operator import not_
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.files import read_tools
from orchestrator.common.json_input import numbered_lines, read_json, reading
from orchestrator.common.keys import key_of, split_key
from orchestrator.common.regular import read_text
from orchestrator.errors import EmbedderUnavailable, InvalidInput, Unauthorised
from orchestrator.evaluate import metrics
from orchestrator.pipeline.legs.semantic import why_failed
from orchestrator.records.decision import Decision
from orchestrator.records.request import MAX_QUERY_CHARS, RouteHint, RouteRequest
from orchestrator.records.tool import Stage
from orchestrator.runtime.router import Router

CUTS = (1, 3, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A labelled task.

    Attributes:
        id: Its name in the file.
        text: The task.
        relevant: The keys of its right tools, or empty if no tool matches.
        any: True if one of the right tools is enough. Otherwise all are needed.
    """

    id: str
    text: str
    relevant: frozenset[str]
    any: bool = False

    def needed(self, ranked: Sequence[str], known: Collection[str]) -> frozenset[str]:
        """Return the right tools that this order has to contain.

        If one right tool is enough, this is the best placed one, otherwise a known one.

        Args:
            ranked: The keys, best first.
            known: The keys of the tools that can be found.
        """
        if not self.any:
            return self.relevant
        candidates = [key for key in ranked if key in self.relevant]
        candidates += sorted(self.relevant, key=lambda key: key not in known)
        return frozenset(candidates[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySet:
    """A catalogue and the queries asked of it.

    `nothing_fits` has the requests that no tool fits, with the catalogue that they are asked of.
    """

    name: str
    catalogue: Catalogue
    queries: tuple[Query, ...]
    nothing_fits: "QuerySet | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One query's Decision. `ms` is the duration of `Router.route`."""

    query: Query
    decision: Decision
    ms: float

    @property
    def ranked(self) -> list[str]:
        return [match.tool.key for match in self.decision.matches]

    def to_json(self) -> dict[str, Any]:
        """Return a line of `--per-query`."""
        decision = self.decision
        return {
            "id": self.query.id,
            "ranked": self.ranked,
            "confidence": round(decision.confidence, 4),
            "gate_confidence": round(decision.gate_confidence, 4),
            "stage": str(decision.stage),
            "semantic_ran": decision.semantic_ran,
            "ms": round(self.ms, 3),
            "warnings": list(decision.warnings),
        }


_Id = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: _Id = ""
    query: str = Field(min_length=1, max_length=MAX_QUERY_CHARS, pattern=r"\S")


class _LabelledLine(_Line):
    """A line of `queries.jsonl`."""

    relevant: list[str]
    any: bool = False

    def to_query(self, name: str) -> Query:
        # ":name" is a tool without a server.
        relevant = frozenset(key_of(*split_key(key)) for key in self.relevant)
        return Query(id=name, text=self.query, relevant=relevant, any=self.any)


class _UnfitLine(_Line):
    """A line of `none.jsonl`. `without` names the tools that would fit."""

    without: list[str] = []


Line = TypeVar("Line", bound=_Line)


def read_set(folder: Path) -> QuerySet:
    """Read FOLDER/tools.jsonl, FOLDER/queries.jsonl and, where it exists, FOLDER/none.jsonl.

    A line of `none.jsonl` is a request that no tool fits, or none after the tools in `without` are removed:

        {"id": "n1", "query": "what does a share of ACME cost?", "without": ["bank:get_stock_price"]}

    The tools that are removed for one line are removed for all.
    """
    queries = read_queries(folder / "queries.jsonl")
    catalogue = Catalogue(read_tools(folder / "tools.jsonl"))
    name = folder.resolve().name
    nothing_fits = None
    if (folder / "none.jsonl").exists():
        nothing_fits = _read_unfit(folder / "none.jsonl", name, catalogue)
    return QuerySet(
        name=name, catalogue=catalogue, queries=tuple(queries), nothing_fits=nothing_fits
    )


def read_queries(path: Path) -> list[Query]:
    """Read a queries.jsonl. Raises InvalidInput with the file and line that cannot be used."""
    form = 'give one JSON object per line: {"id", "query", "relevant": ["server:name", ...]}'
    return [line.to_query(name) for name, line in _read_lines(path, _LabelledLine, form).items()]


def _read_unfit(path: Path, set_name: str, catalogue: Catalogue) -> QuerySet:
    lines = _read_lines(
        path,
        _UnfitLine,
        'give one JSON object per line: {"id", "query", "without": ["server:name"]}',
    )
    removed = {key_of(*split_key(key)) for line in lines.values() for key in line.without}
    return QuerySet(
        name=set_name,
        catalogue=Catalogue(tool for tool in catalogue if tool.key not in removed),
        queries=tuple(
            Query(id=name, text=line.query, relevant=frozenset()) for name, line in lines.items()
        ),
    )


def _read_lines(path: Path, kind: type[Line], form: str) -> dict[str, Line]:
    with reading(path, form):
        text = read_text(path, pipes=True)
    lines: dict[str, Line] = {}
    for number, content in numbered_lines(text):
        with reading(f"{path}:{number}", form):
            line = kind.model_validate(read_json(content))
        name = line.id or str(number)
        if name in lines:
            raise InvalidInput(
                f"{path}:{number}: the id {name!r} is already on an earlier line: change one of them"
            )
        lines[name] = line
    if not lines:
        raise InvalidInput(f"{path}: the file has no queries; {form}")
    return lines


async def answer_all(
    router: Router,
    queries: Sequence[Query],
    *,
    route_hint: RouteHint = RouteHint.AUTO,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Answer]:
    """Route the queries one by one. The index is loaded and the tools are embedded before the first query is timed.

    Args:
        router: The Router, with the tenant `local`.
        queries: The labelled queries.
        route_hint: The searches to run.
        on_progress: Called with the number of finished queries.
    """
    if route_hint is not RouteHint.KEYWORD:
        await embed_ahead(router, "local")
    await router.warm("local")
    answers = []
    for number, query in enumerate(queries, start=1):
        request = RouteRequest(
            query=query.text, tenant="local", limit=max(CUTS), route_hint=route_hint
        )
        started = time.perf_counter()
        decision = await router.route(request)
        answers.append(
            Answer(query=query, decision=decision, ms=(time.perf_counter() - started) * 1000)
        )
        on_progress(number)
    return answers


async def embed_ahead(router: Router, tenant: str) -> None:
    """Embed the tenant's tools before the first route."""
    with suppress(EmbedderUnavailable, Unauthorised):  # Each answer without that leg has a warning.
        await asyncio.to_thread((await router.engine.index(tenant)).semantic, router.embedder)


def failures(answers: Sequence[Answer]) -> dict[str, int]:
    """Return the reasons why the semantic leg failed, each with its number of queries."""
    reasons = (why_failed(answer.decision.warnings) for answer in answers)
    return dict(Counter(filter(None, reasons)).most_common())


def report(query_set: QuerySet, answers: Sequence[Answer], *, gate: float) -> dict[str, Any]:
    """Return the JSON of `toolroute eval`. Recall, nDCG, MRR and hits are means over queries with relevant tools.

    A query without relevant tools counts only for the confidence, and is never right.

    Args:
        query_set: The queries.
        answers: Their answers.
        gate: The confidence from which an answer counts as resolved.
    """
    keyword_ms = [answer.ms for answer in answers if not answer.decision.semantic_ran]
    semantic_ms = [answer.ms for answer in answers if answer.decision.semantic_ran]
    return {
        "set": query_set.name,
        "tools": len(query_set.catalogue),
        "queries": len(answers),
        **quality(answers, catalogue_keys=query_set.catalogue.positions, gate=gate),
        "semantic_share": round(len(semantic_ms) / len(answers), 4),
        "semantic_failures": failures(answers),
        "tokens": {
            "before": answers[0].decision.tokens.before,
            "after_mean": round(
                metrics.mean([answer.decision.tokens.after for answer in answers]), 1
            ),
        },
        "latency_ms": {
            "gate_open": metrics.percentiles(keyword_ms),
            "semantic": metrics.percentiles(semantic_ms),
            "all": metrics.percentiles([*keyword_ms, *semantic_ms]),
        },
    }


def quality(
    answers: Sequence[Answer], *, catalogue_keys: Collection[str], gate: float
) -> dict[str, Any]:
    """Return `metrics`, `ceiling`, `confidence` and `refused` of some answers. A mean without values is None.

    `refused` is the share of answers with the stage `none`: `wrongly` for queries with a fitting known tool, `rightly`
    for the others.

    Args:
        answers: The answers.
        catalogue_keys: The keys of the tools that can be found.
        gate: The confidence from which an answer counts as resolved.
    """
    labelled = [
        (answer.ranked, answer.query.needed(answer.ranked, catalogue_keys))
        for answer in answers
        if answer.query.relevant
    ]
    right = [bool(metrics.hit(answer.ranked, answer.query.relevant)) for answer in answers]
    confidences = [answer.decision.confidence for answer in answers]
    ended = [answer.decision.stage is Stage.NONE for answer in answers]
    fits = [any(key in catalogue_keys for key in answer.query.relevant) for answer in answers]

    def mean_of(measure: Callable[..., float], *args: int) -> float | None:
        return _mean([measure(order, relevant, *args) for order, relevant in labelled])

    return {
        "metrics": {
            **{f"recall@{k}": mean_of(metrics.recall, k) for k in CUTS},
            **{f"ndcg@{k}": mean_of(metrics.ndcg, k) for k in (5, 10)},
            "mrr": mean_of(metrics.reciprocal_rank),
            "hit@1": mean_of(metrics.hit),
        },
        "ceiling": {
            f"recall@{k}": _mean(
                [metrics.ceiling(relevant, catalogue_keys, k) for _, relevant in labelled]
            )
            for k in (5, 10)
        },
        "confidence": {
            "gate": gate,
            **metrics.confidence(confidences, right, gate=gate),
            "ece_95": [round(end, 4) for end in metrics.calibration_interval(confidences, right)],
        },
        "refused": {
            "wrongly": _mean(list(compress(ended, fits))),
            "rightly": _mean(list(compress(ended, map(not_, fits)))),
        },
    }


def unfit(answers: Sequence[Answer], *, gate: float) -> dict[str, int]:
    """Return how many of the requests that no tool fits got a recommendation.

    Args:
        answers: The answers to such requests.
        gate: The confidence from which an answer counts as resolved.
    """
    confidences = [
        answer.decision.confidence for answer in answers if answer.decision.stage is not Stage.NONE
    ]
    return {
        "queries": len(answers),
        "recommended": len(confidences),
        "resolved": sum(confidence >= gate for confidence in confidences),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(metrics.mean(values), 4) if values else None
