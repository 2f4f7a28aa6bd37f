"""`toolroute doctor --catalogue PATH`: what can't be found, what collides, what helps, and a fit without labels."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.cli.common import echo_json, kept, progress, tell_flagged
from orchestrator.cli.plain import counted
from orchestrator.errors import InvalidInput
from orchestrator.evaluate.findability import WITHIN, Collision, Examination, Findability, Mend, Unfound
from orchestrator.evaluate.fitting import fit_made
from orchestrator.index.calibration import shipped
from orchestrator.index.embed import embedder_for
from orchestrator.index.fit import Fit
from orchestrator.index.index import Index
from orchestrator.options import Options

SHOWN = 20
"""Lines of each kind in the table; `-o json` has all."""


def examine(path: Path, options: Options, *, write: Path | None, maps: bool, output: str) -> None:
    """Tries the catalogue by queries made from its own text, shows what was found, and writes the fit where told."""
    started = time.perf_counter()
    catalogue = Catalogue.read(path)
    index = Index(catalogue)
    if not len(index.catalogue):
        tell_flagged(catalogue.tools)
        which = "only flagged tools" if index.flags else "no tools"
        raise InvalidInput(f"{str(path)!r} has {which}: there is nothing to examine")
    embedder = embedder_for(options)
    examination = Examination(index=index, maps=shipped(), embedder=embedder)
    examination.run(_bar("trying tools"))
    findings = examination.findings(_bar("trying words"))
    fit = fit_made(examination.all_trials(), options, maps=maps)
    about = {
        "from": "made queries",
        "catalogue": catalogue.fingerprint,
        "tools": len(catalogue),
        "queries": findings.queries,
    }
    written, failed = kept(replace(fit, embedder=embedder.id, about=about), write)
    if output == "json":
        echo_json(
            {
                **findings.to_json(),
                "flagged": index.flags,
                "fit": _fit_json(fit),
                "written": None if written is None else str(written),
            }
        )
    else:
        _show(findings, index.flags, fit, options, written, time.perf_counter() - started)
    if failed is not None:
        raise failed


def _bar(label: str) -> Any:
    """A callback that draws a bar while there is something to do."""
    bar = progress(label)
    task = bar.add_task("", total=None)

    def update(done: int, total: int) -> None:
        if done == 1:
            bar.start()
        bar.update(task, completed=done, total=total)
        if done == total:
            bar.stop()

    return update


def _fit_json(fit: Fit) -> dict[str, Any]:
    pairs = {"gate": fit.gate, "confidence": fit.confidence}
    return {
        "floor": fit.floor,
        **{
            name: pair and {"slope": round(pair.slope, 4), "offset": round(pair.offset, 4)}
            for name, pair in pairs.items()
        },
    }


def _show(
    found: Findability,
    flags: Mapping[str, Sequence[str]],
    fit: Fit,
    options: Options,
    written: Path | None,
    seconds: float,
) -> None:
    from rich.text import Text

    from orchestrator.cli.show import console

    out = console()
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
    out.print(f"\nAbstain below {fit.floor:g} here; {options.floor:g} is the default.", style="dim")
    if written is not None:
        told = f"Written to {written}: use it with --calibration {written}, or TOOLROUTE_CALIBRATION={written}"
        out.print(Text(told, style="dim"), soft_wrap=True)


def _section(out: Any, title: str, entries: Any) -> None:
    from rich.text import Text

    entries = list(entries)
    out.print(Text(f"\n{title}: {len(entries):,}", style="bold" if entries else "dim"))
    for lines in entries[:SHOWN]:
        for number, line in enumerate(lines):
            out.print(Text(f"{'  ' if number == 0 else '     '}{line}", style="dim" if number else ""), soft_wrap=True)
    if len(entries) > SHOWN:
        out.print(Text(f"  and {len(entries) - SHOWN:,} more: -o json has all", style="dim"))


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
    """What sets the tool apart from the others; nothing where it loses nothing, or nothing was tried."""
    if mend is None:
        return []
    if not mend.words:
        return [f"-> {tool}: no word of its own sets it apart; say in its description what only it does"]
    words, of = ", ".join(mend.words), f"of {counted(mend.queries, 'failing query', 'failing queries')}"
    if mend.added > mend.said:
        found = f"{mend.added} {of} find it then, where they say them ({mend.said} without the keywords)"
        return [f"-> {tool}: add the keywords {words}: {found}"]
    found = f"{mend.said} {of} find it once they say so"
    return [f"-> {tool}: only it of {among} says {words}, and {found}. Tell more about that in its description"]
