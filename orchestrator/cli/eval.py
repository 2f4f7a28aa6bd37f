"""`toolroute eval`: how well routing does on labelled queries, and how well it knows it."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, get_args

import click

from orchestrator.cli.common import calibration_option, echo_json, output_option, progress, write_option
from orchestrator.cli.fit import fit_set
from orchestrator.cli.paths import FILE, PATH, TOOLS
from orchestrator.cli.plain import counted, figure, note
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.runner import (
    Answer,
    Level,
    QuerySet,
    Stages,
    answer_all,
    by_category,
    read_set,
    report,
)
from orchestrator.options import Options
from orchestrator.records.forms import nearly
from orchestrator.routing.router import Router

SHOWN = ("recall@1", "recall@3", "recall@5", "recall@10", "ndcg@5", "mrr", "hit@1")
"""The measures of the table; `-o json` has all."""


@click.command("eval")
@click.argument("folder", type=PATH)
@click.option("--level", type=click.Choice(get_args(Level)), default="tool", show_default=True)
@click.option(
    "--distractors",
    metavar="FILE|FOLDER",
    type=TOOLS,
    help="Further tools beside the set's own, none of them right.",
)
@click.option("--stages", type=click.Choice([str(stages) for stages in Stages]), default="auto", show_default=True)
@click.option("--by-category", "categories", is_flag=True, help="Measure each category of queries by itself as well.")
@click.option(
    "--per-query",
    metavar="FILE",
    type=FILE,
    help="Write a JSON line for each query.",
)
@click.option("--fit", is_flag=True, help="Fit calibration and coverage to the queries; measured on held-out fifths.")
@write_option
@calibration_option
@output_option
def evaluate(
    folder: Path,
    level: Level,
    distractors: Path | None,
    stages: str,
    categories: bool,
    per_query: Path | None,
    fit: bool,
    write: Path | None,
    calibration: Path | None,
    output: str,
) -> None:
    """Measure the routing of FOLDER's queries.

    The queries of its queries.jsonl are routed among the tools of its tools.jsonl. One query a line:
    {"query": "...", "relevant": ["server:tool"]}. An empty list: no tool fits. "id" and "category" may be added.

    Exit code 1 when the semantic leg was wanted and always failed.
    """
    found = read_set(folder, distractors)
    _note_unknown(found)
    options = Options.from_env(calibration=calibration and str(calibration))
    if write is not None and not fit:
        raise InvalidInput("--write keeps what --fit makes: give --fit, too")
    if fit:
        if level != "tool" or stages != "auto" or categories or per_query is not None or calibration is not None:
            raise InvalidInput("--fit fits what the gate decides among tools: beside it only --distractors and --write")
        fit_set(found, options, write, output)
        return
    if calibration is not None and stages == "semantic":
        raise InvalidInput("--calibration corrects both legs' maps: leave it out with --stages semantic")
    answers = _answer(found, options, Stages(stages), level)
    result = report(found, answers, gate=options.gate, level=level)
    groups = by_category(found, answers, gate=options.gate, level=level) if categories else {}
    if output == "json":
        echo_json({**result, "by_category": groups} if categories else result)
    else:
        _show(result, groups)
    _tell_failures(result)
    if per_query is not None:
        _write_lines(per_query, answers)
    if result["semantic_failures"] and not result["semantic_share"]:
        sys.exit(1)


def _answer(found: QuerySet, options: Options, stages: Stages, level: Level) -> list[Answer]:
    async def answer() -> list[Answer]:
        with progress("routing queries") as bar:
            task = bar.add_task("", total=len(found.queries))
            # A leg alone is ordered by maps of its own; a calibration file corrects those of both.
            maps = stages.calibration if stages is Stages.SEMANTIC else None
            async with Router(found.catalogue, options=options, calibration=maps) as router:
                return await answer_all(
                    router,
                    found.queries,
                    stages=stages,
                    level=level,
                    on_progress=lambda done: bar.update(task, completed=done),
                )

    return asyncio.run(answer())


def _tell_failures(result: dict[str, Any]) -> None:
    """Tells on standard error why the semantic leg failed, and that it never ran."""
    for reason, number in result["semantic_failures"].items():
        note(f"toolroute: the semantic leg failed for {counted(number, 'query', 'queries')}: {reason}")
    if result["semantic_failures"] and not result["semantic_share"]:
        note("toolroute: the semantic leg never ran: these figures are the keyword leg's alone")


def _note_unknown(found: QuerySet) -> None:
    """Tells on standard error of relevant keys that the catalogue lacks: they can never be found."""
    unknown = {key for query in found.queries for key in query.relevant if key not in found.catalogue.positions}
    if unknown:
        lacking = counted(len(unknown), "relevant tool is", "relevant tools are")
        near = nearly(min(unknown), found.catalogue.positions)
        meant = f" (did you mean {near!r}?)" if near else ""
        note(f"toolroute: {lacking} not in tools.jsonl and counted as never found, e.g. {min(unknown)!r}{meant}")


def _write_lines(path: Path, answers: list[Answer]) -> None:
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(answer.to_json(), ensure_ascii=False) + "\n" for answer in answers)
    except OSError as error:
        raise InvalidInput(f"--per-query {str(path)!r} cannot be written: {error.strerror}") from None


def _show(result: dict[str, Any], groups: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from orchestrator.cli.show import console

    out = console()
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="dim")
    table.add_column("")
    table.columns[0].no_wrap = True
    for column in ("queries", *SHOWN, "ece", "resolved", "precision", "refused\nwrongly", "refused\nrightly"):
        table.add_column(column, justify="right")
    for name, row in {result["set"]: result, **groups}.items():
        sure = [row["confidence"][measure] for measure in ("ece", "resolved", "precision")]
        figures = [*(row["metrics"][measure] for measure in SHOWN), *sure, *row["refused"].values()]
        table.add_row(Text(name or "(none)"), f"{row['queries']:,}", *(figure(value) for value in figures))
    out.print(table)
    tokens, times = result["tokens"], result["latency_ms"]
    best = ", ".join(f"{name} {figure(value)}" for name, value in result["ceiling"].items())
    lines = (
        f"{counted(result['tools'], 'tool')}; the best that any order can reach: {best}",
        f"{tokens['before']:,} tokens of definitions, {tokens['after_mean']:,.0f} after routing in the mean",
        f"the semantic leg ran for {result['semantic_share']:.0%}; milliseconds p50 / p95 / p99: "
        + ", ".join(f"{name} {_times(values)}" for name, values in times.items()),
    )
    out.print(Text("\n".join(lines), style="dim"))


def _times(values: dict[str, float | None]) -> str:
    return " / ".join(figure(value, 2) for value in values.values())
