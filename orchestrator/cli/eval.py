"""`toolroute eval`: how well routing does on labelled queries, how well it knows it, and a fit to them."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from orchestrator.cli.experience import check_learns, read_log
from orchestrator.cli.options import FILE, LOG, PATH, TOOLS, taking, typed
from orchestrator.cli.output import console, counted, dim, note, present, progress, table, warn
from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.runner import Answer, Level, QuerySet, Stages, answer_all, by_category, read_set, report
from orchestrator.experience.logs import Past
from orchestrator.options import Options
from orchestrator.runtime.router import Router

_ORDER = ("recall@1", "recall@3", "recall@5", "recall@10", "ndcg@5", "mrr", "hit@1")
_CONFIDENCE = ("ece", "resolved", "precision")


@click.command("eval")
@click.argument("folder", type=PATH)
@click.option("--level", type=click.Choice(get_args(Level)), default="tool")
@click.option("--distractors", metavar="FILE|FOLDER", type=TOOLS, help="Further tools, none of them right.")
@click.option("--stages", type=click.Choice([str(stages) for stages in Stages]), default="auto")
@click.option("--by-category", "categories", is_flag=True, help="Measure each category of queries by itself as well.")
@click.option("--per-query", metavar="FILE", type=FILE, help="Write a JSON line for each query.")
@click.option("--experience", "log", metavar="FILE", type=LOG, help="Route and record these past tasks first.")
@click.option("--fit", is_flag=True, help="Fit gate and confidence to the queries; measured on held-out fifths.")
@click.option("--write", metavar="FILE", type=FILE, help="Keep the fit in FILE, for --calibration.")
@taking("calibration", "output")
def evaluate(
    folder: Path,
    level: Level,
    distractors: Path | None,
    stages: str,
    categories: bool,
    per_query: Path | None,
    log: Path | None,
    fit: bool,
    write: Path | None,
    options: Options,
    output: str,
) -> int:
    """Measure the routing of FOLDER's queries.

    The queries of its queries.jsonl are routed among the tools of its tools.jsonl. One query a line:
    {"query": "...", "relevant": ["server:tool"]}. An empty list: no tool fits. "id" and "category" may be added.

    Exit code 1 when meaning was to be searched and always failed.
    """
    calibrated = typed("calibration") is not None
    if write is not None and not fit:
        raise InvalidInput("--write keeps what --fit makes: give --fit, too")
    if fit and (level != "tool" or stages != "auto" or categories or per_query or log or calibrated):
        raise InvalidInput("--fit fits what the gate decides among tools: give with it only --distractors and --write")
    if log is not None and stages in ("keyword", "semantic"):
        raise InvalidInput(f"--experience is measured with both legs: leave out --stages {stages}")
    if calibrated and stages == "semantic":
        raise InvalidInput("--calibration corrects both legs' maps: leave it out with --stages semantic")
    if log is not None:
        check_learns(options)
    found = read_set(folder, distractors)
    _warn_of_unknown(found)
    if fit:
        _fit(found, options, write, output)
        return 0
    past = read_log(log, found.catalogue.tools)[0] if log else []
    answers = asyncio.run(_answer(found, past, options, Stages(stages), level))
    result = report(found, answers, gate=options.gate, level=level)
    groups = by_category(found, answers, gate=options.gate, level=level) if categories else {}
    present(output, {**result, "by_category": groups} if categories else result, lambda: _show(result, groups))
    if per_query is not None:
        _write_lines(per_query, answers)
    return _warn_of_failures(result)


async def _answer(
    found: QuerySet, past: Sequence[Past], options: Options, stages: Stages, level: Level
) -> list[Answer]:
    # A leg alone is ordered by maps of its own; a calibration file corrects those of both.
    maps, total = stages.calibration if stages is Stages.SEMANTIC else None, len(found.queries)
    with progress("routing queries") as done:
        async with Router(found.catalogue, options=options, calibration=maps) as router:
            await _live(router, past)
            return await answer_all(
                router, found.queries, stages=stages, level=level, on_progress=lambda number: done(number, total)
            )


async def _live(router: Router, past: Sequence[Past]) -> None:
    """Route and record these tasks, in order."""
    with progress("recording past tasks") as done:
        for number, task in enumerate(past, start=1):
            await router.route(task.query)
            await router.record(task.query, used=task.uses, ok=task.ok, actor=task.actor, at=task.at, source="import")
            done(number, len(past))


def _warn_of_failures(result: dict[str, Any]) -> int:
    """Report why meaning could not be searched; return 1 when it never was."""
    for reason, number in result["semantic_failures"].items():
        warn([f"the semantic leg failed for {counted(number, 'query', 'queries')}: {reason}"])
    if not result["semantic_failures"] or result["semantic_share"]:
        return 0
    warn(["the semantic leg never ran: these figures are the keyword leg's alone"])
    return 1


def _warn_of_unknown(found: QuerySet) -> None:
    """Report relevant keys that the catalogue does not hold: they can never be found."""
    known = found.catalogue.positions
    if unknown := {key for query in found.queries for key in query.relevant if key not in known}:
        number = counted(len(unknown), "relevant tool is", "relevant tools are")
        warn([f"{number} not in tools.jsonl and counted as never found, e.g. {min(unknown)!r}"])


def _write_lines(path: Path, answers: list[Answer]) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(answer.to_json(), ensure_ascii=False) + "\n" for answer in answers)
    except OSError as error:
        raise InvalidInput(f"--per-query {str(path)!r} cannot be written: {error.strerror}") from None


def _figure(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _show(result: dict[str, Any], groups: Mapping[str, dict[str, Any]]) -> None:
    """Show two tables, each of which fits 80 columns: the order, and how sure routing is of it."""
    out, refusals = console(), ("none, wrongly", "none, rightly")
    order = table("", "queries", *_ORDER, right=("queries", *_ORDER), padding=(0, 1, 0, 0))
    sure = table("", *_CONFIDENCE, *refusals, right=(*_CONFIDENCE, *refusals))
    for name, row in {result["set"]: result, **groups}.items():
        label = one_line(name or "(none)", 18)
        order.add_row(label, f"{row['queries']:,}", *(_figure(row["metrics"][measure]) for measure in _ORDER))
        figures = [*(row["confidence"][measure] for measure in _CONFIDENCE), *row["refused"].values()]
        sure.add_row(label, *map(_figure, figures))
    out.print(order)
    out.print()
    out.print(sure)
    tokens, latencies = result["tokens"], result["latency_ms"].items()
    best = ", ".join(f"{name} {_figure(value)}" for name, value in result["ceiling"].items())
    times = ", ".join(f"{name} {' / '.join(_figure(ms, 2) for ms in values.values())}" for name, values in latencies)
    lines = (
        f"{counted(result['tools'], 'tool')}; the best that any order can reach: {best}",
        f"{tokens['before']:,} tokens of definitions, {tokens['after_mean']:,.0f} after routing in the mean",
        f"meaning was searched for {result['semantic_share']:.0%}; milliseconds p50 / p95 / p99: {times}",
    )
    out.print(dim("", *lines))


def _fit(found: QuerySet, options: Options, write: Path | None, output: str) -> None:
    """Fit to the set's queries, show the worth on held-out fifths, and keep the fit to all of them."""
    from orchestrator.evaluate.fit import cross_validated, fitted, try_all
    from orchestrator.index.embed import embedder_id

    with progress("trying queries") as done:
        trials = asyncio.run(try_all(found, options, done))
    fit = fitted(trials)
    before, after = cross_validated(trials, options.gate)
    if worse := (after["ece"] or 0) > (before["ece"] or 0):
        change = f"{before['ece']} -> {after['ece']}"
        warn([f"calibration error on queries that the fit has not seen: {change}; give more queries, or leave it out"])
    about = {
        "set": found.name,
        "catalogue": found.catalogue.fingerprint,
        "tools": len(found.catalogue),
        "queries": len(trials),
        "before": before,
        "after": after,
    }
    present(output, {**about, "worse": worse}, lambda: _show_fit({"built-in": before, "fitted": after}, len(trials)))
    if write is not None:
        replace(fit, embedder=embedder_id(options), about=about).write(write)
        note(f"written to {write}: use it with --calibration {write}, or TOOLROUTE_CALIBRATION={write}")


def _show_fit(worths: Mapping[str, Mapping[str, float | None]], queries: int) -> None:
    rows = table("", *_CONFIDENCE, right=_CONFIDENCE)
    for name, worth in worths.items():
        rows.add_row(name, *(_figure(worth[measure]) for measure in _CONFIDENCE))
    console().print(rows)
    console().print(dim(f"on held-out fifths of {counted(queries, 'query', 'queries')}"), soft_wrap=True)
