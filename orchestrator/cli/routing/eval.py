"""`toolroute eval`: how well routing does on labelled queries, how right its confidence is, and a fit to them."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.experience.commands import check_learns, read_log, show_guarantees
from orchestrator.cli.shared.command_options import FILE, LOG, PATH, derived, taking, typed
from orchestrator.cli.shared.output import console, counted, dim, note, present, progress, table, warn
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.runner import Answer, QuerySet, answer_all, read_set, report, unfit
from orchestrator.experience.logs import Past
from orchestrator.index.guarantee import guarantees
from orchestrator.options import Options
from orchestrator.pipeline.refiners.decide import UNDECIDED
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.usage import Usage
from orchestrator.runtime.router import Router

_ORDER = ("recall@1", "recall@3", "recall@5", "recall@10", "ndcg@5", "mrr", "hit@1")
_CONFIDENCE = ("ece", "resolved", "precision")
_MEANINGS = (
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
    RouteRequest, "route_hint", "auto: as `route` does. keyword: only keyword search. semantic: always both searches."
)
@click.option("--per-query", metavar="FILE", type=FILE, help="Write a JSON line for each query.")
@click.option("--experience", "log", metavar="FILE", type=LOG, help="Route and record these past tasks first.")
@click.option(
    "--fit",
    is_flag=True,
    help="Fit gate and confidence to the queries. The result is measured by five-fold cross-validation.",
)
@click.option("--write", metavar="FILE", type=FILE, help="Write the fit to FILE, for use with --calibration.")
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

    With --decide, everything is measured twice: without and with the second stage.

    Exit code 1: the semantic search was needed, and it failed for every query.
    """
    if write is not None and not fit:
        raise InvalidInput("--write needs a fit: add --fit")
    if fit and (route_hint is not RouteHint.AUTO or per_query or log or typed("calibration") is not None):
        raise InvalidInput(
            "--fit allows only --write: it uses the built-in calibration and both searches; remove the other options"
        )
    if log is not None:
        check_learns(options)
    found = read_set(folder)
    _warn_of_unknown(found)
    if fit:
        _fit(found, replace(options, decide="off"), write, output)
        return 0
    past = read_log([log], found.catalogue.tools)[0] if log else []
    answers = asyncio.run(_answer(found, past, replace(options, decide="off"), route_hint))
    result = report(found, answers, gate=options.gate)
    if options.decide != "off":
        answers = asyncio.run(_answer(found, past, options, route_hint))
        result["decided"] = decided = report(found, answers, gate=options.gate)
        decided["usage"] = asdict(sum((answer.decision.usage for answer in answers), Usage()))
        _warn_of_undecided(answers)
    if found.nothing_fits is not None:
        answers_to_unfit = asyncio.run(_answer(found.nothing_fits, past, options, route_hint))
        result["nothing_fits"] = unfit(answers_to_unfit, gate=options.gate)
    present(output, result, lambda: _show(result))
    if per_query is not None:
        _write_lines(per_query, answers)
    return _warn_of_failures(result)


async def _answer(found: QuerySet, past: Sequence[Past], options: Options, route_hint: RouteHint) -> list[Answer]:
    """Route and record the past tasks, in order; then answer the queries."""
    async with Router(found.catalogue, options=options) as router:
        with progress("recording past tasks") as done:
            for number, task in enumerate(past, start=1):
                await router.route(task.query)
                given: dict[str, Any] = {"ok": task.ok, "actor": task.actor, "at": task.at}
                await router.record(task.query, used=task.uses, source="import", **given)
                done(number, len(past))
        with progress("routing queries") as done:
            total = len(found.queries)
            return await answer_all(
                router, found.queries, route_hint=route_hint, on_progress=lambda number: done(number, total)
            )


def _warn_of_failures(result: dict[str, Any]) -> int:
    """Report why semantic search failed. Return 1 if it failed for every query."""
    for reason, number in result["semantic_failures"].items():
        warn([f"semantic search failed for {counted(number, 'query', 'queries')}: {reason}"])
    if not result["semantic_failures"] or result["semantic_share"]:
        return 0
    warn(["semantic search never ran: these figures are for keyword search only"])
    return 1


def _warn_of_undecided(answers: Sequence[Answer]) -> None:
    """Report why the second stage left the order as it was, and how often."""
    said = (warning for answer in answers for warning in answer.decision.warnings if warning.startswith(UNDECIDED))
    for reason, number in Counter(said).most_common():
        warn([f"{counted(number, 'query', 'queries')}: {reason}"])


def _warn_of_unknown(found: QuerySet) -> None:
    """Report relevant keys that the catalogue does not hold: they can never be found."""
    known = found.catalogue.positions
    if unknown := {key for query in found.queries for key in query.relevant if key not in known}:
        number = counted(len(unknown), "relevant tool is", "relevant tools are")
        warn([f"{number} not in tools.jsonl; such tools count as not found, for example {min(unknown)!r}"])


def _write_lines(path: Path, answers: list[Answer]) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(answer.to_json(), ensure_ascii=False) + "\n" for answer in answers)
    except OSError as error:
        raise InvalidInput(f"--per-query {str(path)!r} cannot be written: {error.strerror}") from None


def _figure(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _show(result: dict[str, Any]) -> None:
    """Show two tables, at most 80 columns wide: the order of the tools, and the confidence."""
    out, refusals = console(), ("none, wrongly", "none, rightly")
    order = table("", "queries", *_ORDER, right=("queries", *_ORDER), padding=(0, 1, 0, 0))
    sure = table("", *_CONFIDENCE, *refusals, right=(*_CONFIDENCE, *refusals))
    for name, own in {result["set"]: result, **({"decided": result["decided"]} if "decided" in result else {})}.items():
        order.add_row(name, f"{own['queries']:,}", *(_figure(own["metrics"][measure]) for measure in _ORDER))
        figures = [*(own["confidence"][measure] for measure in _CONFIDENCE[1:]), *own["refused"].values()]
        low, high = own["confidence"]["ece_95"]
        error = f"{_figure(own['confidence']['ece'])} [{_figure(low, 2)}, {_figure(high, 2)}]"
        sure.add_row(name, error, *map(_figure, figures))
    out.print(order)
    out.print(dim(*_MEANINGS, ""))
    out.print(sure)
    meanings = (*_CONFIDENCE_MEANINGS, _REFUSAL_MEANING)
    out.print(dim(*(line.format(gate=result["confidence"]["gate"]) for line in meanings)))
    tokens, latencies = result["tokens"], result["latency_ms"].items()
    best = ", ".join(f"{name} {_figure(value)}" for name, value in result["ceiling"].items())
    times = ", ".join(f"{name} {' / '.join(_figure(ms, 2) for ms in values.values())}" for name, values in latencies)
    lines = (
        f"{counted(result['tools'], 'tool')}; upper limits for a perfect order: {best}",
        f"tokens of definitions: {tokens['before']:,} before routing, {tokens['after_mean']:,.0f} after (mean)",
        f"semantic search ran for {result['semantic_share']:.0%} of queries; milliseconds p50 / p95 / p99: {times}",
    )
    out.print(dim("", *lines, *_unfit_line(result.get("nothing_fits")), *_cost(result.get("decided"))))


def _unfit_line(counts: dict[str, int] | None) -> list[str]:
    """Return the line about the queries of `none.jsonl`."""
    if counts is None:
        return []
    queries = counted(counts["queries"], "query", "queries")
    recommended = counts["recommended"]
    return [f"{queries} that no tool fits: {recommended} with a recommendation, {counts['resolved']} resolved"]


def _cost(decided: dict[str, Any] | None) -> list[str]:
    """Return the line of tokens and time that a route takes with the second stage."""
    if decided is None:
        return []
    tokens = (decided["usage"]["input"] + decided["usage"]["output"]) / max(1, decided["queries"])
    times = " / ".join(_figure(ms, 2) for ms in decided["latency_ms"]["all"].values())
    return [f"decided: {tokens:,.0f} model tokens per query; milliseconds p50 / p95 / p99: {times}"]


def _fit(found: QuerySet, options: Options, write: Path | None, output: str) -> None:
    """Fit to the set's queries, show the figures on held-out fifths, and write the fit to all of them."""
    from orchestrator.evaluate.fit import cross_validated, fitted, held_out, try_all
    from orchestrator.index.embed import embedder_id

    with progress("trying queries") as done:
        trials = asyncio.run(try_all(found, options, done))
    fit = fitted(trials)
    before, after = cross_validated(trials, options.gate)
    if worse := (after["ece"] or 0) > (before["ece"] or 0):
        change = f"{before['ece']} -> {after['ece']}"
        warn([f"the fit raises the calibration error on held-out queries: {change}; add queries, or do not use it"])
    about = {
        "set": found.name,
        "catalogue": found.catalogue.fingerprint,
        "tools": len(found.catalogue),
        "queries": len(trials),
        "before": before,
        "after": after,
        "guarantees": [asdict(own) for own in guarantees(held_out(trials, options.gate))],
    }
    present(output, {**about, "worse": worse}, lambda: _show_fit(about, options.gate))
    if write is not None:
        replace(fit, embedder=embedder_id(options), about=about).write(write)
        note(f"written to {write}: use it with --calibration {write}, or TOOLROUTE_CALIBRATION={write}")


def _show_fit(about: Mapping[str, Any], gate: float) -> None:
    out, rows = console(), table("", *_CONFIDENCE, right=_CONFIDENCE)
    for name, when in (("built-in", "before"), ("fitted", "after")):
        rows.add_row(name, *(_figure(about[when][measure]) for measure in _CONFIDENCE))
    scope = f"{counted(about['queries'], 'query', 'queries')} of {about['set']}, {counted(about['tools'], 'tool')}"
    out.print(rows)
    out.print(dim(f"on held-out fifths of {scope}", *(line.format(gate=gate) for line in _CONFIDENCE_MEANINGS), ""))
    show_guarantees(about["guarantees"], f"held-out fifths of {scope}")
