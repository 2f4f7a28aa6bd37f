"""`toolroute eval FOLDER --fit`: calibration and coverage fitted to labelled queries, and what that is worth."""

from dataclasses import asdict, replace
from pathlib import Path

from orchestrator.cli.common import echo_json, kept, progress
from orchestrator.cli.plain import counted, figure, note
from orchestrator.evaluate.fitting import COVERAGE, FOLDS, LEAST_FOR_COVERAGE, Worth, cross_validated, fit_labelled
from orchestrator.evaluate.runner import QuerySet
from orchestrator.evaluate.trials import Trial, tried
from orchestrator.index.calibration import shipped
from orchestrator.index.embed import embedder_for
from orchestrator.index.fit import Fit
from orchestrator.index.index import Index
from orchestrator.options import Options


def fit_set(found: QuerySet, options: Options, write: Path | None, output: str) -> None:
    """Fits to the set's queries, shows the worth on held-out folds, and writes the fit to all of them where told."""
    embedder = embedder_for(options)
    index, known = Index(found.catalogue), found.catalogue.positions
    trials: list[Trial] = []
    with progress("trying queries") as bar:
        task = bar.add_task("", total=len(found.queries))
        for query in found.queries:
            right = [known[key] for key in query.relevant if key in known]
            trials.append(tried(index, shipped(), embedder, query.text, right, deep=True))
            bar.advance(task)
    fit = fit_labelled(trials, options)
    before, after = cross_validated(trials, options)
    about = {
        "from": "labelled queries",
        "set": found.name,
        "catalogue": found.catalogue.fingerprint,
        "tools": len(found.catalogue),
        "queries": len(trials),
        "before": asdict(before),
        "after": asdict(after),
    }
    worse = after.worse_than(before)
    for name in worse:
        told = f"{name} {getattr(before, name):.4f} -> {getattr(after, name):.4f}"
        note(f"toolroute: the fit is worse on queries that it has not seen: {told}; give more queries, or leave it out")
    written, failed = kept(replace(fit, embedder=embedder.id, about=about), write)
    if output == "json":
        echo_json({**about, "worse": worse, "folds": FOLDS, "written": None if written is None else str(written)})
    else:
        _show(before, after, fit, len(trials), written)
    if failed is not None:
        raise failed


def _show(before: Worth, after: Worth, fit: Fit, queries: int, written: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from orchestrator.cli.show import console

    out = console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for column in ("ece", "settled", "precision", "none", "refused", f"held at {COVERAGE:g}", "tools"):
        table.add_column(column, justify="right")
    for name, worth in (("shipped", before), ("fitted", after)):
        table.add_row(name, *(figure(value) for value in asdict(worth).values()))
    out.print(table)
    lines = [f"on held-out fifths of {counted(queries, 'query', 'queries')}"]
    if fit.coverage is None:
        few = f"fewer than {LEAST_FOR_COVERAGE} queries have a tool in the catalogue"
        lines.append(f"{few}: the thresholds of coverage sets stay as shipped")
    if written is None:
        lines.append("not written: give --write FILE to keep the fit to all queries")
    else:
        lines.append(f"written to {written}: use it with --calibration {written}, or TOOLROUTE_CALIBRATION={written}")
    out.print(Text("\n".join(lines), style="dim"), soft_wrap=True)
