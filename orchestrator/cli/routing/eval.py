"""`toolroute eval`: how well routing does on labelled queries, how right its confidence is, and a fit to them."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.experience.import_log import read_log, require_learning
from orchestrator.cli.experience.stats import show_guarantees
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.derived_options import derived
from orchestrator.cli.shared.output import (
    console,
    counted,
    dim,
    note,
    present,
    print_table,
    progress,
    warn,
)
from orchestrator.cli.shared.parameter_types import FILE, LOG, PATH
from orchestrator.cli.shared.typed_options import refuse, typed_options
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.runner import Answer, QuerySet, answer_all, read_set, report, unfit
from orchestrator.experience.guarantee import guarantees
from orchestrator.experience.logs import Past
from orchestrator.options import Options
from orchestrator.pipeline.refiners.second_stage import UNDECIDED, UNREAD
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.usage import Usage
from orchestrator.runtime.router import Router

_ORDER = ("recall@1", "recall@3", "recall@5", "recall@10", "ndcg@5", "mrr", "hit@1")
_CONFIDENCE = ("ece", "resolved", "precision")
_REFUSALS = ("none, wrongly", "none, rightly")
_ORDER_MEANINGS = (
    "recall@k: the share of a query's relevant tools that are among the first k matches",
    "ndcg@5: like recall@5, but an earlier place counts more; the best order has 1",
    "mrr: 1 divided by the place of the first relevant tool",
    "hit@1: the share of queries whose first match is relevant",
)
_CONFIDENCE_MEANINGS = (
    "ece: the calibration error of the confidence, with its 95 % interval; 0 is best",
    "resolved: the share of queries whose confidence reaches the gate ({gate})",
    "precision: the share of resolved queries whose first match is relevant",
)
_REFUSAL_MEANING = "none: no recommendation, as a share of queries with relevant tools (wrongly) and without (rightly)"


@click.command("eval")
@click.argument("folder", type=PATH)
@derived(
    RouteRequest,
    "route_hint",
    "auto: as `route` does. keyword: only keyword search. semantic: always both searches.",
)
@click.option("--per-query", metavar="FILE", type=FILE, help="Write a JSON line for each query.")
@click.option(
    "--experience", "log", metavar="FILE", type=LOG, help="Route and record these past tasks first."
)
@click.option(
    "--fit",
    is_flag=True,
    help="Fit gate and confidence to the queries. The result is measured by five-fold cross-validation.",
)
@click.option(
    "--write", metavar="FILE", type=FILE, help="Write the fit to FILE, for use with --calibration."
)
@taking("calibration", "output")
def evaluate(
    folder: Path,
    route_hint: RouteHint,
    per_query: Path | None,
    log: Path | None,
    fit: bool,
    write: Path | None,
    options: Options,
    output: str,
) -> int:
    """Measure the routing of FOLDER's queries.

    The queries of FOLDER/queries.jsonl are routed among the tools of FOLDER/tools.jsonl. Each line is one query:
    {"query": "...", "relevant": ["server:tool"]}. An empty list means that no tool matches. A line may
    also have an "id", and "any": true if one of the relevant tools is enough.

    Each line of FOLDER/none.jsonl is a query that no tool fits: {"query": "...", "without": ["server:tool"]}. The tools
    named in "without" are removed for these queries.

    With --decide or TOOLROUTE_READER, everything is measured twice: without and with the second stage and the reader.

    Exit code 1: the semantic search was needed, and it failed for every query.
    """
    if write is not None and not fit:
        raise InvalidInput("--write needs a fit: add --fit")
    if fit:
        used = ("folder", "fit", "write", "output", "pipeline", "understand")
        reason = "has no effect with --fit, which uses the built-in calibration and both searches: leave it out"
        refuse(typed_options(*used), reason)
    if log is not None:
        require_learning(options)
    query_set = read_set(folder)
    _warn_of_unknown(query_set)
    if fit:
        _fit(query_set, replace(options, decide="off", reader=""), write, output)
        return 0
    past = read_log([log], query_set.catalogue.tools)[0] if log else []
    result, answers = _measure(query_set, past, options, route_hint)
    present(output, result, lambda: _print_result(result))
    if per_query is not None:
        _write_lines(per_query, answers)
    return _warn_of_failures(result)


def _measure(
    query_set: QuerySet, past: Sequence[Past], options: Options, route_hint: RouteHint
) -> tuple[dict[str, Any], list[Answer]]:
    """Return the figures, and the answers that they are about: those with the second stage or the reader, if any."""
    plain = replace(options, decide="off", reader="")
    answers = asyncio.run(_answers(query_set, past, plain, route_hint))
    result = report(query_set, answers, gate=options.gate)
    if options != plain:
        answers = asyncio.run(_answers(query_set, past, options, route_hint))
        usage = sum((answer.decision.usage for answer in answers), Usage())
        result["decided"] = {
            **report(query_set, answers, gate=options.gate),
            "usage": asdict(usage),
        }
        _warn_of_undecided(answers)
    if query_set.nothing_fits is not None:
        to_unfit = asyncio.run(_answers(query_set.nothing_fits, past, options, route_hint))
        result["nothing_fits"] = unfit(to_unfit, gate=options.gate)
    return result, answers


async def _answers(
    query_set: QuerySet, past: Sequence[Past], options: Options, route_hint: RouteHint
) -> list[Answer]:
    """Route and record the past tasks, in order; then answer the queries."""
    async with Router(query_set.catalogue, options=options) as router:
        with progress("recording past tasks") as show:
            for number, task in enumerate(past, start=1):
                await router.route(task.query)
                await router.record(
                    task.query,
                    used=task.uses,
                    source="import",
                    ok=task.ok,
                    actor=task.actor,
                    at=task.at,
                )
                show(number, len(past))
        total = len(query_set.queries)
        with progress("routing queries") as show:
            return await answer_all(
                router,
                query_set.queries,
                route_hint=route_hint,
                on_progress=lambda number: show(number, total),
            )


def _warn_of_failures(result: dict[str, Any]) -> int:
    """Report why semantic search failed. Return 1 if it failed for every query."""
    for reason, number in result["semantic_failures"].items():
        warn(f"semantic search failed for {counted(number, 'query', 'queries')}: {reason}")
    if not result["semantic_failures"] or result["semantic_share"]:
        return 0
    warn("semantic search never ran: these figures are for keyword search only")
    return 1


def _warn_of_undecided(answers: Sequence[Answer]) -> None:
    """Report why the second stage or the reader left the order as it was, and how often."""
    reasons: Counter[str] = Counter()
    for answer in answers:
        reasons.update(
            warning
            for warning in answer.decision.warnings
            if warning.startswith((UNDECIDED, UNREAD))
        )
    for reason, number in reasons.most_common():
        warn(f"{counted(number, 'query', 'queries')}: {reason}")


def _warn_of_unknown(query_set: QuerySet) -> None:
    """Report relevant keys that the catalogue does not hold: they can never be found."""
    relevant = {key for query in query_set.queries for key in query.relevant}
    unknown = relevant - query_set.catalogue.positions.keys()
    if unknown:
        number = counted(len(unknown), "relevant tool is", "relevant tools are")
        warn(
            f"{number} not in tools.jsonl, for example {min(unknown)!r}. Such tools count as not found, and a query "
            "with no other relevant tool as one that nothing fits"
        )


def _write_lines(path: Path, answers: list[Answer]) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(
                json.dumps(answer.to_json(), ensure_ascii=False) + "\n" for answer in answers
            )
    except OSError as error:
        raise InvalidInput(
            f"--per-query {str(path)!r} cannot be written: {error.strerror}"
        ) from None


def _figure(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _print_result(result: dict[str, Any]) -> None:
    """Show two tables, at most 80 columns wide: the order of the tools, and the confidence."""
    measured = {result["set"]: result}
    if "decided" in result:
        measured["decided"] = result["decided"]
    _print_order(measured)
    rows = [_confidence_row(name, figures) for name, figures in measured.items()]
    meanings = _meanings(result["confidence"]["gate"])
    footer = [*meanings, _REFUSAL_MEANING, "", *_summary(result)]
    shares = (*_CONFIDENCE, *_REFUSALS)
    print_table(("", *shares), rows, numbers=shares, footer=footer)


def _print_order(measured: dict[str, dict[str, Any]]) -> None:
    rows = [_order_row(name, figures) for name, figures in measured.items()]
    numbers = ("queries", *_ORDER)
    footer = (*_ORDER_MEANINGS, "")
    print_table(("", *numbers), rows, numbers=numbers, footer=footer, padding=(0, 1, 0, 0))


def _order_row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{figures['queries']:,}",
        *(_figure(figures["metrics"][measure]) for measure in _ORDER),
    )


def _confidence_row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    confidence = figures["confidence"]
    low, high = confidence["ece_95"]
    error = f"{_figure(confidence['ece'])} [{_figure(low, 2)}, {_figure(high, 2)}]"
    shares = [*(confidence[measure] for measure in _CONFIDENCE[1:]), *figures["refused"].values()]
    return name, error, *map(_figure, shares)


def _summary(result: dict[str, Any]) -> list[str]:
    tokens = result["tokens"]
    limits = ", ".join(f"{name} {_figure(value)}" for name, value in result["ceiling"].items())
    times = ", ".join(
        f"{name} {_percentiles(values)}" for name, values in result["latency_ms"].items()
    )
    share = f"{result['semantic_share']:.0%}"
    return [
        f"{counted(result['tools'], 'tool')}; upper limits for a perfect order: {limits}",
        f"tokens of definitions: {tokens['before']:,} before routing, {tokens['after_mean']:,.0f} after (mean)",
        f"semantic search ran for {share} of queries; milliseconds p50 / p95 / p99: {times}",
        *_unfit_line(result.get("nothing_fits")),
        *_cost_line(result.get("decided")),
    ]


def _percentiles(values: Mapping[str, float | None]) -> str:
    return " / ".join(_figure(ms, 2) for ms in values.values())


def _unfit_line(counts: dict[str, int] | None) -> list[str]:
    """Return the line about the queries of `none.jsonl`."""
    if counts is None:
        return []
    queries = counted(counts["queries"], "query", "queries")
    recommended = counts["recommended"]
    return [
        f"{queries} that no tool fits: {recommended} with a recommendation, {counts['resolved']} resolved"
    ]


def _cost_line(decided: dict[str, Any] | None) -> list[str]:
    """Return the line of tokens and time that a route takes with the second stage."""
    if decided is None:
        return []
    usage = decided["usage"]
    tokens = (usage["input"] + usage["output"]) / max(1, decided["queries"])
    times = _percentiles(decided["latency_ms"]["all"])
    return [f"decided: {tokens:,.0f} model tokens per query; milliseconds p50 / p95 / p99: {times}"]


def _fit(query_set: QuerySet, options: Options, write: Path | None, output: str) -> None:
    """Fit to the set's queries, show the figures on held-out fifths, and write the fit to all of them."""
    from orchestrator.evaluate.fit import cross_validated, fitted, held_out, try_all
    from orchestrator.index.embed import embedder_id

    with progress("trying queries") as show:
        trials = asyncio.run(try_all(query_set, options, show))
    fit = fitted(trials)
    before, after = cross_validated(trials, options.gate)
    worse = (after["ece"] or 0) > (before["ece"] or 0)
    if worse:
        change = f"{before['ece']} -> {after['ece']}"
        warn(
            f"the fit raises the calibration error on held-out queries: {change}; add queries, or do not use it"
        )
    about = {
        "set": query_set.name,
        "catalogue": query_set.catalogue.fingerprint,
        "tools": len(query_set.catalogue),
        "queries": len(trials),
        "before": before,
        "after": after,
        "guarantees": [
            asdict(guarantee) for guarantee in guarantees(held_out(trials, options.gate))
        ],
    }
    present(output, {**about, "worse": worse}, lambda: _print_fit(about, options.gate))
    if write is not None:
        replace(fit, embedder=embedder_id(options), about=about).write(write)
        note(
            f"written to {write}: use it with --calibration {write}, or TOOLROUTE_CALIBRATION={write}"
        )


def _print_fit(about: Mapping[str, Any], gate: float) -> None:
    queries = counted(about["queries"], "query", "queries")
    tools = counted(about["tools"], "tool")
    scope = f"held-out fifths of {queries} of {about['set']}, {tools}"
    built_in = _fit_row("built-in", about["before"])
    fitted = _fit_row("fitted", about["after"])
    footer = (f"on {scope}", *_meanings(gate))
    columns = ("", *_CONFIDENCE)
    print_table(columns, [built_in, fitted], numbers=_CONFIDENCE, footer=footer)
    console().print(dim(""))
    show_guarantees(about["guarantees"], scope)


def _meanings(gate: float) -> list[str]:
    return [line.format(gate=gate) for line in _CONFIDENCE_MEANINGS]


def _fit_row(name: str, figures: Mapping[str, float | None]) -> tuple[str, ...]:
    return name, *(_figure(figures[measure]) for measure in _CONFIDENCE)
