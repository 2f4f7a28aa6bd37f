"""`toolroute doctor`: check an installation, or a catalogue, and suggest fixes."""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
from rich.text import Text

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.cli.runs.temporal import connect, target
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import console, counted, dim, present, progress
from orchestrator.cli.shared.workspace import Place, connecting
from orchestrator.cli.tools.commands import named
from orchestrator.common.endpoints import address
from orchestrator.common.lines import inline
from orchestrator.errors import InvalidInput, ToolrouteError, Unauthorised
from orchestrator.index.calibration import REMEDY, Fit
from orchestrator.index.flags import suspects
from orchestrator.mcp.config.parse import McpConfig, ServerSpec
from orchestrator.mcp.faults import without_name
from orchestrator.mcp.sync import left_over
from orchestrator.options import Options, misspelt, model_key

_MARKS = {"works": ("green", "ok"), "missing": ("yellow", "--"), "broken": ("red", "!!"), "flagged": ("yellow", "??")}


class Finding(NamedTuple):
    """A part that `works`, is `missing` (optional), `broken`, or `flagged` (in use but doubtful)."""

    what: str
    state: str
    detail: str
    remedy: str = ""


@click.command()
@taking("catalogue", "config", "tenant", "output")
@click.option("--connect", "connects", is_flag=True, help="Also connect each server of the mcpServers file.")
def doctor(place: Place, output: str, connects: bool) -> int:
    """Check this installation and suggest fixes. Exit code 1 when something is broken.

    The servers of the mcpServers file are checked without connecting them. --connect connects each of them, too. With
    --catalogue, only the tools of the file are checked: tools with a flagged text, and tools that a search for their
    own description does not find.
    """
    options = Options.from_env()
    if place.catalogue is not None and place != Place(catalogue=place.catalogue):
        stored = "to check the tools of a store: `toolroute tools list -o jsonl | toolroute doctor --catalogue -`"
        raise InvalidInput(
            f"--catalogue checks the tools of a file. Leave out --store, --config and the tenant; {stored}"
        )
    found = (
        _examine(place, options, connects=connects)
        if place.catalogue is None
        else _examine_catalogue(place.catalogue, options)
    )
    findings = list(found)
    present(output, [finding._asdict() for finding in findings], lambda: _show(findings))
    return 1 if any(finding.state == "broken" for finding in findings) else 0


def _examine(place: Place, options: Options, *, connects: bool) -> Iterator[Finding]:
    for name, near in misspelt().items():
        state, remedy = ("broken", f"did you mean {near}?") if near else ("missing", "unset it")
        yield Finding("environment", state, f"{name} is set, but no setting has this name", remedy)
    mend = (
        "correct OPENAI_API_KEY or OPENAI_BASE_URL" if options.embedder.startswith("openai:") else "reinstall toolroute"
    )
    yield _checked("embedder", lambda: _embedder(options), f"set TOOLROUTE_EMBEDDER to `static`, or {mend}")
    known = Catalogue()

    def store() -> Finding:
        nonlocal known
        with closing(place.open_store(options)) as opened:
            opened.backend.check_version()
            known = opened.load(place.tenant).catalogue
            where = str(opened) if opened.exists else f"{opened} (does not exist yet)"
        servers = counted(len(known.places), "server")
        detail = f"{where}: {counted(len(known), 'tool')} of {servers} for {place.tenant}"
        remedy = "" if known.places else "toolroute tools import FILE, or toolroute tools sync mcp.json"
        return Finding("store", "missing" if remedy else "works", detail, remedy)

    def left() -> Finding:
        with closing(place.open_store(options)) as opened:
            gone = left_over(opened, place.tenant) if opened.exists else {}
        detail = f"stored, but no longer in any configuration file: {named(gone)}"
        return Finding("store", "flagged" if gone else "", detail, "toolroute tools sync FILE --prune")

    yield _checked("store", store, "name a folder or a Qdrant URL with --store")
    yield from (one for one in [_checked("", left, "")] if one.state == "flagged")
    yield _checked("calibration", lambda: _calibration(options, known), "correct or unset TOOLROUTE_CALIBRATION")
    flags = suspects(known.tools)
    yield from _flagged(flags)
    yield _checked("temporal", lambda: _temporal(options), "correct the settings, or start the server")
    yield _model(options)
    if options.rerank_url or options.decide == "rerank":
        remedy = "correct TOOLROUTE_RERANK_URL, TOOLROUTE_RERANK_MODEL or TOOLROUTE_RERANK_KEY, or start the reranker"
        yield _checked("reranker", lambda: _reranker(options), remedy)
    if file := place.file:
        yield from _servers(file, connects=connects)


def _flagged(flags: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    for key, reasons in flags.items():
        remedy = f"it is never recommended. Remove it, or read it and accept it with `toolroute tools accept {key}`"
        yield Finding("tool", "flagged", f"{key} is flagged: {'; '.join(reasons)}", remedy)


def _checked(what: str, look: Callable[[], Finding], remedy: str) -> Finding:
    """Return the findings of one check. A toolroute error becomes a finding."""
    try:
        return look()
    except ToolrouteError as error:
        return Finding(what, "broken", str(error), remedy)


def _embedder(options: Options) -> Finding:
    from orchestrator.index.embed import embedder_for

    embedder = embedder_for(options)
    embedder.embed(["a first text opens the model"])
    started = time.perf_counter()
    embedder.embed(["find the invoice of last month and send it to the accountant"])
    took = (time.perf_counter() - started) * 1000
    return Finding("embedder", "works", f"{embedder.id}, {embedder.dimension} dimensions, {took:.2f} ms a query")


def _calibration(options: Options, known: Catalogue) -> Finding:
    """Compare the fit that routing would use with the embedder and the tenant's catalogue."""
    from orchestrator.index.embed import embedder_id

    if not options.calibration:
        return Finding("calibration", "missing", "built-in defaults", REMEDY)
    fit = Fit.read(options.calibration)
    if fit.embedder:
        fit.check(embedder_id(options))
    about = fit.about or {}
    detail = f"{options.calibration}: fitted to {about.get('queries', 'some')} queries"
    if not len(known) or about.get("catalogue") in (None, known.fingerprint):
        return Finding("calibration", "works", detail)
    return Finding(
        "calibration", "flagged", f"{detail} of another catalogue", f"if the catalogue changed much, {REMEDY}"
    )


def _temporal(options: Options) -> Finding:
    from orchestrator.temporal.client.devserver import cached_binary, settle

    async def reached() -> None:
        try:
            await connect(server)
        finally:
            await settle()

    server = target(options)
    if server.named:
        asyncio.run(reached())
        detail = f"a server answers at {server.address} and has the namespace {server.namespace!r}"
        return Finding("temporal", "works", detail)
    if binary := shutil.which("temporal") or cached_binary():
        return Finding("temporal", "works", f"`toolroute run --dev` starts {binary}")
    remedy = "set TEMPORAL_ADDRESS, or let `toolroute run --dev` fetch or build a server (minutes, once)"
    return Finding("temporal", "missing", "no TEMPORAL_ADDRESS and no local server", remedy)


def _model(options: Options) -> Finding:
    from orchestrator.llm.client import models_for

    models = models_for(options)
    if not models:
        remedy = "set TOOLROUTE_MODEL, with OPENAI_API_KEY or OPENAI_BASE_URL"
        return Finding("model", "missing", "none. Plans are made without a model", remedy)
    named = " and ".join(dict.fromkeys((models.route_model, models.plan_model)))
    if model_key() or options.model_url:
        return Finding("model", "works", f"{named} at {models.where} (not called here)")
    remedy = "set OPENAI_API_KEY, or set OPENAI_BASE_URL to your own endpoint"
    return Finding("model", "broken", f"{named} is configured without an API key", remedy)


def _reranker(options: Options) -> Finding:
    """Ask the reranker to order two short texts."""
    from orchestrator.llm.rerank import Reranker

    reranker = Reranker(options)

    async def asked() -> None:
        try:
            await reranker.rank("read a file", ["read the text of a file", "send an email"])
        finally:
            await reranker.aclose()

    started = time.perf_counter()
    asyncio.run(asked())
    took = f"{(time.perf_counter() - started) * 1000:.0f} ms for two texts"
    if options.decide != "rerank":
        remedy = "set TOOLROUTE_DECIDE=rerank, or give --decide rerank"
        return Finding(
            "reranker", "missing", f"{address(options.rerank_url)} answers, but routes do not use it", remedy
        )
    return Finding("reranker", "works", f"{address(options.rerank_url)}, {took}")


def _servers(path: Path, *, connects: bool) -> Iterator[Finding]:
    try:
        config = McpConfig.read(path)
    except ToolrouteError as error:
        yield Finding("mcp config", "broken", str(error), "correct the file")
        return
    found = [
        _checked(f"mcp {name}", partial(_server, spec), "correct its entry") for name, spec in config.servers.items()
    ]
    yield from asyncio.run(_connected(config, found)) if connects else found


def _server(spec: ServerSpec) -> Finding:
    what, launch = f"mcp {spec.name}", spec.launch()
    if launch.url:
        return Finding(what, "missing", "not checked: a remote server", "check it with `toolroute doctor --connect`")
    if launch.cwd and not Path(launch.cwd).is_dir():
        return Finding(what, "broken", f"its working folder {launch.cwd!r} does not exist", "create it, or correct cwd")
    if launch.executable:
        return Finding(what, "works", f"its command {launch.program!r} is there (not started)")
    return Finding(what, "broken", f"its command {launch.program!r} is not found", "install it, or use its full path")


async def _connected(config: McpConfig, found: Sequence[Finding]) -> list[Finding]:
    """Connect each server and return the findings. Servers that are already known to be broken are not connected."""
    from orchestrator.mcp.connections import Connections

    async with (
        Connections(config) as connections,
        connecting(connections, "connecting servers", len(found)) as done,
    ):

        async def connect(name: str, finding: Finding) -> Finding:
            if finding.state != "broken":
                try:
                    tools = await connections.tools(name)
                except ToolrouteError as error:
                    why = without_name(name, str(error))
                    remedy = "" if isinstance(error, Unauthorised) else "correct its entry, or start the server"
                    finding = Finding(finding.what, "broken", why, remedy)  # Unauthorised names its own.
                else:
                    finding = Finding(finding.what, "works", f"connected: {counted(len(tools), 'tool')}")
            done(None)
            return finding

        return await asyncio.gather(*map(connect, config.servers, found))


def _show(findings: list[Finding]) -> None:
    out = console()
    for finding in findings:
        colour, mark = _MARKS[finding.state]
        line = Text(f"{mark} ", style=colour)
        line.append(inline(f"{finding.what}: "), style="bold default")
        line.append(inline(finding.detail), style="default")
        out.print(line, soft_wrap=True)
        if finding.remedy:
            out.print(dim(f"   -> {finding.remedy}"), soft_wrap=True)


def _examine_catalogue(path: Path, options: Options) -> Iterator[Finding]:
    """Find the tools with flagged texts, and the tools that a search for their own description does not find."""
    from orchestrator.evaluate.findability import WITHIN, unfound

    given = Catalogue.read(path)
    flags = suspects(given.tools)
    known = Catalogue([tool for tool in given if tool.key not in flags])
    if not len(known):
        raise InvalidInput(f"{str(path)!r} has {'only flagged tools' if flags else 'no tools'}: nothing to examine")
    yield from _flagged(flags)
    with progress("trying tools") as done:
        lost = asyncio.run(unfound(known, options, lambda number: done(number, len(known))))
    for key in lost:
        detail = f"{key}: the first sentence of its description does not find it among the first {WITHIN}"
        yield Finding(
            "tool", "flagged", detail, "describe in its first sentence what it does, in words that a task would use"
        )
    yield Finding("catalogue", "works", f"{len(known) - len(lost):,} of {counted(len(known), 'tool')} can be found")
