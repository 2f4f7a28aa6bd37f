"""Evaluation: labelled queries, routed one by one by a real Router, and the measures of their Decisions."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import compress
from operator import not_
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.files import read_tools
from orchestrator.common.json_input import numbered_lines, read_json, reading
from orchestrator.errors import EmbedderUnavailable, InvalidInput, Unauthorised
from orchestrator.evaluate import metrics
from orchestrator.index.calibration import Calibration, shipped
from orchestrator.pipeline.legs.semantic import why_failed
from orchestrator.records.decision import Decision
from orchestrator.records.request import MAX_LIMIT, MAX_QUERY_CHARS, RouteHint, RouteRequest
from orchestrator.records.tool import Stage
from orchestrator.runtime.router import Router

Level = Literal["tool", "server"]
CUTS = (1, 3, 5, 10)


class Stages(StrEnum):
    """Which legs an evaluation runs: one alone, both always, or by the gate."""

    KEYWORD = "keyword"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"
    AUTO = "auto"

    @property
    def hint(self) -> RouteHint:
        return RouteHint.SEMANTIC if self is Stages.HYBRID else RouteHint(self)

    @property
    def calibration(self) -> Calibration:
        """The built-in maps, by which this choice of legs is ordered."""
        return self.maps(shipped())

    def maps(self, base: Calibration) -> Calibration:
        """Return these maps; for the semantic leg alone, that leg's own probability in place of both legs'."""
        if self is not Stages.SEMANTIC:
            return base
        own = dict(zip(base.semantic.features, base.semantic.weights.tolist(), strict=True))
        weights = np.array([own.get(name, 0.0) for name in base.merged.features])
        return replace(base, merged=replace(base.merged, weights=weights, bias=base.semantic.bias))


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A labelled task; `relevant` holds the keys of its right tools, none where no tool fits."""

    id: str
    text: str
    relevant: frozenset[str]
    category: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySet:
    """A catalogue and the queries asked of it."""

    name: str
    catalogue: Catalogue
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One query's Decision; `ms` is the time that `Router.route` took."""

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


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)] = ""
    query: str = Field(min_length=1, max_length=MAX_QUERY_CHARS, pattern=r"\S")
    relevant: list[str]
    category: str = ""


def read_set(folder: Path, distractors: Path | None = None) -> QuerySet:
    """Read FOLDER/tools.jsonl and FOLDER/queries.jsonl, and the distractors whose keys the set does not have."""
    queries = read_queries(folder / "queries.jsonl")
    tools = read_tools(folder / "tools.jsonl")
    if distractors is not None:
        own = {tool.key for tool in tools}
        tools += [tool for tool in read_tools(distractors) if tool.key not in own]
    return QuerySet(name=folder.resolve().name, catalogue=Catalogue(tools), queries=tuple(queries))


def read_queries(path: Path) -> list[Query]:
    """Read a queries.jsonl; InvalidInput names the file and the line that cannot be used."""
    form = 'give one JSON object a line: {"id", "query", "relevant": ["server:name", ...], "category"}'
    with reading(path, form):
        text = path.read_text(encoding="utf-8-sig")
    queries: dict[str, Query] = {}
    for number, line in numbered_lines(text):
        with reading(f"{path}:{number}", form):
            own = _Line.model_validate(read_json(line))
        name = own.id or str(number)
        if name in queries:
            raise InvalidInput(f"{path}:{number}: the id {name!r} stands on an earlier line already: change one")
        queries[name] = Query(id=name, text=own.query, relevant=frozenset(own.relevant), category=own.category)
    if not queries:
        raise InvalidInput(f"{path}: no queries; {form}")
    return list(queries.values())


async def answer_all(
    router: Router,
    queries: Sequence[Query],
    *,
    stages: Stages = Stages.AUTO,
    level: Level = "tool",
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Answer]:
    """Return each query's Answer, in turn; the index is loaded and the tools embedded before the first is timed.

    At server level 50 tools are asked for instead of 10: ten of them may all be one server's.
    """
    limit = max(CUTS) if level == "tool" else MAX_LIMIT
    ask = partial(RouteRequest, tenant="local", limit=limit, route_hint=stages.hint)
    if stages is not Stages.KEYWORD:
        await embed_ahead(router, "local")
    await router.route(replace(ask(query="warm up"), route_hint=RouteHint.SEMANTIC))
    answers = []
    for number, query in enumerate(queries, start=1):
        request = ask(query=query.text)
        started = time.perf_counter()
        decision = await router.route(request)
        answers.append(Answer(query=query, decision=decision, ms=(time.perf_counter() - started) * 1000))
        on_progress(number)
    return answers


async def embed_ahead(router: Router, tenant: str, *keys: str) -> None:
    """Embed the tenant's tools, for which no route has the time; with keys of tools as `Router.index` takes them."""
    with suppress(EmbedderUnavailable, Unauthorised):  # Each answer without that leg says why.
        await asyncio.to_thread((await router.index(tenant, *keys)).semantic, router.embedder)


def failures(answers: Sequence[Answer]) -> dict[str, int]:
    """Return why the semantic leg failed where it was wanted, and for how many queries."""
    reasons = (why_failed(answer.decision.warnings) for answer in answers)
    return dict(Counter(filter(None, reasons)).most_common())


def report(found: QuerySet, answers: Sequence[Answer], *, gate: float, level: Level = "tool") -> dict[str, Any]:
    """Return the JSON of `toolroute eval`; recall, nDCG, MRR and hits are means over queries that have relevant tools.

    What is right is judged by `Query.relevant`; a query without any counts for the confidence alone, as never right.
    """
    keys = _at_level(level, [tool.key for tool in found.catalogue])
    passed = [answer.ms for answer in answers if not answer.decision.semantic_ran]
    went_on = [answer.ms for answer in answers if answer.decision.semantic_ran]
    return {
        "set": found.name,
        "tools": len(found.catalogue),
        "queries": len(answers),
        **quality(answers, known=frozenset(keys), gate=gate, level=level),
        "semantic_share": round(len(went_on) / len(answers), 4),
        "semantic_failures": failures(answers),
        "tokens": {
            "before": answers[0].decision.tokens.before,
            "after_mean": round(metrics.mean([answer.decision.tokens.after for answer in answers]), 1),
        },
        "latency_ms": {
            "gate_open": metrics.percentiles(passed),
            "semantic": metrics.percentiles(went_on),
            "all": metrics.percentiles([*passed, *went_on]),
        },
    }


def quality(answers: Sequence[Answer], *, known: Collection[str], gate: float, level: Level) -> dict[str, Any]:
    """Return `metrics`, `ceiling`, `confidence` and `refused` of some answers; None for a mean of nothing.

    `known` are the keys that can be found, at this level. `refused` is the share of answers that end at `none`:
    `wrongly` of the queries that a known tool fits, `rightly` of the others.
    """
    ranked = [_at_level(level, answer.ranked) for answer in answers]
    gold = [frozenset(_at_level(level, answer.query.relevant)) for answer in answers]
    labelled = [(order, relevant) for order, relevant in zip(ranked, gold, strict=True) if relevant]
    right = [bool(order) and order[0] in relevant for order, relevant in zip(ranked, gold, strict=True)]
    confidences = [answer.decision.confidence for answer in answers]
    ended = [answer.decision.stage is Stage.NONE for answer in answers]
    fits = [not relevant.isdisjoint(known) for relevant in gold]

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
            f"recall@{k}": _mean([metrics.ceiling(relevant, known, k) for _, relevant in labelled]) for k in (5, 10)
        },
        "confidence": {"gate": gate, **metrics.confidence(confidences, right, gate=gate)},
        "refused": {
            "wrongly": _mean(list(compress(ended, fits))),
            "rightly": _mean(list(compress(ended, map(not_, fits)))),
        },
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(metrics.mean(values), 4) if values else None


def by_category(found: QuerySet, answers: Sequence[Answer], *, gate: float, level: Level) -> dict[str, dict[str, Any]]:
    """Return `quality` and the number of queries of each category, in the order of the file."""
    known = frozenset(_at_level(level, [tool.key for tool in found.catalogue]))
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(answer.query.category, []).append(answer)
    return {
        category: {"queries": len(group), **quality(group, known=known, gate=gate, level=level)}
        for category, group in groups.items()
    }


def _at_level(level: Level, keys: Collection[str]) -> list[str]:
    """Return the keys, or their servers, each at its first place."""
    return list(keys) if level == "tool" else list(dict.fromkeys(key.partition(":")[0] for key in keys))
