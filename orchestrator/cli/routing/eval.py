"""`toolroute eval`: how well routing does on labelled queries, how right its confidence is, and a fit to them."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.experience.import_log import read_log, require_learning
from orchestrator.cli.routing.eval_view import print_fit, print_result
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.derived_options import derived
from orchestrator.cli.shared.output import counted, note, present, progress, warn, write_file
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
    present(output, result, lambda: print_result(result))
    if per_query is not None:
        lines = [json.dumps(answer.to_json(), ensure_ascii=False) + "\n" for answer in answers]
        write_file("--per-query", per_query, "".join(lines))
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
        result["decided"] = report(query_set, answers, gate=options.gate)
        usage = Usage()
        for answer in answers:
            usage += answer.decision.usage
        result["decided"]["usage"] = asdict(usage)
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
        queries = query_set.queries
        with progress("routing queries") as show:
            return await answer_all(
                router,
                queries,
                route_hint=route_hint,
                on_progress=lambda number: show(number, len(queries)),
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
    warnings = [warning for answer in answers for warning in answer.decision.warnings]
    reasons = Counter(text for text in warnings if text.startswith((UNDECIDED, UNREAD)))
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


def _fit(query_set: QuerySet, options: Options, write: Path | None, output: str) -> None:
    """Fit to the set's queries, show the figures on held-out fifths, and write the fit to all of them."""
    from orchestrator.evaluate.fit import cross_validated, fitted, held_out, try_all
    from orchestrator.index.embedders.by_name import embedder_id

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
    levels = guarantees(held_out(trials, options.gate))
    about = {
        "set": query_set.name,
        "catalogue": query_set.catalogue.fingerprint,
        "tools": len(query_set.catalogue),
        "queries": len(trials),
        "before": before,
        "after": after,
        "guarantees": list(map(asdict, levels)),
    }
    present(output, {**about, "worse": worse}, lambda: print_fit(about, options.gate))
    if write is not None:
        replace(fit, embedder=embedder_id(options), about=about).write(write)
        note(
            f"written to {write}: use it with --calibration {write}, or TOOLROUTE_CALIBRATION={write}"
        )
