"""`toolroute doctor --catalogue PATH`: what can't be found, what collides, what helps, and a fit without labels."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.cli.eval import kept, use_of
from orchestrator.cli.output import console, counted, dim, echo_json, progress, warn_of_flagged
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.findability import WITHIN, Collision, Examination, Findability, Mend, Unfound
from orchestrator.evaluate.fitting import fit_made
from orchestrator.index.calibration import shipped
from orchestrator.index.embed import embedder_for
from orchestrator.index.index import Index
from orchestrator.options import Options

_SHOWN = 20
"""Lines of each kind in the table; `-o json` has all."""


def examine(path: Path, options: Options, *, write: Path | None, output: str) -> None:
    """Try the catalogue by queries made from its own text, show what was found, and keep the fit."""
    started = time.perf_counter()
    catalogue = Catalogue.read(path)
    index = Index(catalogue)
    if not len(index.catalogue):
        warn_of_flagged(catalogue.tools)
        which = "only flagged tools" if index.flags else "no tools"
        raise InvalidInput(f"{str(path)!r} has {which}: there is nothing to examine")
    embedder = embedder_for(options)
    examination = Examination(index=index, maps=shipped(), embedder=embedder)
    with progress("trying tools") as bar:
        examination.run(_on_progress(bar))
        found = examination.findings(_on_progress(bar))
    fit = fit_made(examination.all_trials(), options, maps=False)
    about = {
        "from": "made queries",
        "catalogue": catalogue.fingerprint,
        "tools": len(catalogue),
        "queries": found.queries,
    }
    written, failed = kept(replace(fit, embedder=embedder.id, about=about), write)
    if output == "json":
        pairs = {name: pair and asdict(pair) for name, pair in (("gate", fit.gate), ("confidence", fit.confidence))}
        fitted = {"floor": fit.floor, **pairs}
        path_written = None if written is None else str(written)
        echo_json({**found.to_json(), "flagged": index.flags, "fit": fitted, "written": path_written})
    else:
        out = console()
        _show(out, found, index.flags, time.perf_counter() - started)
        out.print(dim(f"\nRefuse below {fit.floor:g} here; {options.floor:g} is the default."))
        if written is not None:
            out.print(dim(use_of(written)), soft_wrap=True)
    if failed is not None:
        raise failed


def _on_progress(bar: Any) -> Any:
    task = bar.add_task("", total=None)
    return lambda done, total: bar.update(task, completed=done, total=total)


def _show(out: Console, found: Findability, flags: Mapping[str, Sequence[str]], seconds: float) -> None:
    which = f", {found.tried:,} of them drawn with the seed {found.seed}" if found.seed is not None else ""
    queries = counted(found.queries, "query", "queries")
    out.print(Text(f"{counted(found.tools, 'tool')}{which}: {queries} made from their own text", style="bold"))
    out.print(f"  {found.first:.1%} put their tool first, {found.brought:.1%} among the best {WITHIN}; {seconds:.1f} s")
    _section(out, "Cannot be found: fewer than half of their own queries bring them", map(_unfound, found.unfound))
    _section(out, "Collide: one takes queries of the other, or each some", map(_collision, found.collisions))
    _section(out, "Say nothing that a query could be made of: describe what they do", [[key] for key in found.silent])
    if flags:
        lines = [[f"{key}: {'; '.join(reasons)}"] for key, reasons in flags.items()]
        _section(out, "Flagged, so never matched first and not examined here", lines)


def _section(out: Console, title: str, entries: Iterable[Sequence[str]]) -> None:
    entries = list(entries)
    out.print(Text(f"\n{title}: {len(entries):,}", style="bold" if entries else "dim"))
    for first, *others in entries[:_SHOWN]:
        out.print(Text(f"  {first}"), soft_wrap=True)
        for line in others:
            out.print(dim(f"     {line}"), soft_wrap=True)
    if len(entries) > _SHOWN:
        out.print(dim(f"  and {len(entries) - _SHOWN:,} more: -o json has all"))


def _unfound(item: Unfound) -> list[str]:
    instead = f"; instead {', '.join(item.instead)}" if item.instead else ""
    head = f"{item.tool}: {item.brought} of {item.queries}{instead}"
    return [head, *_advice(item.tool, item.mend, "these")]


def _collision(item: Collision) -> list[str]:
    (one, other), (lost, gained) = item.tools, item.lost
    head = f"{one} and {other}: {lost} of {item.queries[0]} and {gained} of {item.queries[1]} go to the other"
    sides = zip(item.tools, item.mends, strict=True)
    return [head, *(line for tool, mend in sides for line in _advice(tool, mend, "the two"))]


def _advice(tool: str, mend: Mend | None, among: str) -> list[str]:
    """Return what sets the tool apart from the others; nothing where it loses nothing, or nothing was tried."""
    if mend is None:
        return []
    if not mend.words:
        return [f"-> {tool}: no word of its own sets it apart; say in its description what only it does"]
    words, of = ", ".join(mend.words), f"of {counted(mend.queries, 'failing query', 'failing queries')}"
    if mend.added > mend.said:
        found = f"{mend.added} {of} find it then, where they say them ({mend.said} without the keywords)"
        return [f"-> {tool}: add the keywords {words}: {found}"]
    found = f"{mend.said} {of} find it once they say so"
    return [f"-> {tool}: only it of {among} says {words}, and {found}. Describe that in more detail"]
