"""`toolroute doctor`: what works here, what doesn't, and the remedy."""

import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.cli.common import (
    echo_json,
    open_store,
    output_option,
    store_option,
    tenant_from,
    tenant_options,
    write_option,
)
from orchestrator.cli.mcp_common import config_option
from orchestrator.cli.paths import TOOLS
from orchestrator.cli.plain import counted
from orchestrator.cli.reaching import Target, reach, target
from orchestrator.errors import InvalidInput, ToolrouteError
from orchestrator.index.fit import REMEDY, Fit
from orchestrator.options import Options, default_store, misspelt, model_key

if TYPE_CHECKING:
    from orchestrator.mcp.config import ServerSpec

_MARKS = {"works": ("green", "ok"), "missing": ("yellow", "--"), "broken": ("red", "!!"), "flagged": ("yellow", "??")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: `works`, `missing` (optional, not there), `broken`, or `flagged` (in use, and doubted)."""

    what: str
    state: str
    detail: str
    remedy: str = ""


@click.command()
@store_option
@tenant_options
@partial(config_option, text="Look at these MCP servers too.")
@click.option(
    "--catalogue",
    metavar="FILE|FOLDER",
    type=TOOLS,
    help="Examine these tools instead: which cannot be found, which collide, and the words that help.",
)
@write_option
@click.option("--maps", is_flag=True, help="Into --write's file also a correction of the confidence itself.")
@output_option
def doctor(
    store: str | None,
    organization: str | None,
    user: str | None,
    config: Path | None,
    catalogue: Path | None,
    write: Path | None,
    maps: bool,
    output: str,
) -> None:
    """Say what works here, what doesn't, and the remedy. Exit code 1 when something is broken.

    With --catalogue, examine its tools by queries made from their own text; --write keeps the floor fitted to them.
    """
    if catalogue is not None:
        if store or organization or user or config:
            stored = "those of a store: `toolroute tools list -o jsonl | toolroute doctor --catalogue -`"
            raise InvalidInput(f"--catalogue examines a file's tools, without --store, --config and a tenant; {stored}")
        if maps and write is None:
            raise InvalidInput("--maps adds to what --write keeps: give --write FILE, too")
        from orchestrator.cli.examine import examine

        examine(catalogue, Options.from_env(), write=write, maps=maps, output=output)
        return
    if write is not None or maps:
        raise InvalidInput("--write and --maps keep what --catalogue finds: give --catalogue, too")
    findings = list(_examine(store or default_store(), tenant_from(organization, user), config))
    if output == "json":
        echo_json([asdict(finding) for finding in findings])
    else:
        _show(findings)
    if any(finding.state == "broken" for finding in findings):
        sys.exit(1)


def _examine(store: str, tenant: str, config: Path | None) -> Iterator[Finding]:
    yield from _misspelt()
    options = Options.from_env()
    remote = options.embedder.startswith("openai:")
    mend = "mend OPENAI_API_KEY or OPENAI_BASE_URL" if remote else "reinstall toolroute"
    yield _checked("embedder", lambda: _embedder(options), f"set TOOLROUTE_EMBEDDER to `static`, or {mend}")
    yield _checked("store", lambda: _store(options, store, tenant), "name a folder or a Qdrant URL with --store")
    stored = _stored(options, store, tenant)
    yield _checked("calibration", lambda: _calibration(options, tenant, stored), "mend or unset TOOLROUTE_CALIBRATION")
    yield from _flagged(stored)
    yield _checked(
        "temporal", lambda: _temporal(options), "start the server that TEMPORAL_ADDRESS names, or mend the settings"
    )
    yield _model(options)
    yield _exact_tokens()
    if config is not None:
        yield from _servers(config)


def _misspelt() -> Iterator[Finding]:
    for name, near in misspelt().items():
        state, remedy = ("broken", f"did you mean {near}?") if near else ("missing", "unset it")
        yield Finding(what="environment", state=state, detail=f"{name} is set, and nothing reads it", remedy=remedy)


def _checked(what: str, look: Callable[[], Finding], remedy: str) -> Finding:
    """What the look finds; an error of ours becomes a finding of its own."""
    try:
        return look()
    except ToolrouteError as error:
        return Finding(what=what, state="broken", detail=str(error), remedy=remedy)


def _embedder(options: Options) -> Finding:
    from orchestrator.index.embed import embedder_for

    embedder = embedder_for(options)
    embedder.embed(["a first text opens the model"])
    started = time.perf_counter()
    embedder.embed(["find the invoice of last month and send it to the accountant"])
    took = (time.perf_counter() - started) * 1000
    detail = f"{embedder.id}, {embedder.dimension} dimensions, {took:.2f} ms a query"
    return Finding(what="embedder", state="works", detail=detail)


def _store(options: Options, location: str, tenant: str) -> Finding:
    with closing(open_store(location, options)) as store:
        servers = store.servers(tenant)
    where = store if store.exists else f"{store} (does not exist yet)"
    detail = f"{where}: {counted(sum(servers.values()), 'tool')} of {counted(len(servers), 'server')} for {tenant}"
    if servers:
        return Finding(what="store", state="works", detail=detail)
    remedy = "toolroute tools import FILE, or toolroute tools sync --config mcp.json"
    return Finding(what="store", state="missing", detail=detail, remedy=remedy)


def _stored(options: Options, location: str, tenant: str) -> Catalogue:
    """The tenant's tools; none where the store cannot be read: that is told apart."""
    try:
        with closing(open_store(location, options)) as store:
            return store.load(tenant).catalogue
    except ToolrouteError:
        return Catalogue()


def _calibration(options: Options, tenant: str, stored: Catalogue) -> Finding:
    """The fit that routing would use, held to the embedder and to the tenant's catalogue."""
    from orchestrator.index.embed import embedder_id

    if not options.calibration:
        return Finding(what="calibration", state="missing", detail="none: the shipped numbers", remedy=REMEDY)
    fit = Fit.read(options.calibration)
    if fit.embedder:
        fit.check(embedder_id(options))
    about = fit.about or {}
    detail = f"{options.calibration}: fitted to {about.get('queries', 'some')} {about.get('from', 'queries')}"
    if not len(stored) or about.get("catalogue") in (None, stored.fingerprint):
        return Finding(what="calibration", state="works", detail=detail)
    now = f"{tenant} has another catalogue now ({counted(len(stored), 'tool')})"
    detail += f" of {about.get('tools', 'some')} tools; {now}"
    return Finding(what="calibration", state="flagged", detail=detail, remedy=f"where much has changed, {REMEDY}")


def _flagged(stored: Catalogue) -> Iterator[Finding]:
    """The stored tools that are not taken at their word."""
    from orchestrator.index.suspicion import suspects

    for key, reasons in suspects(stored.tools).items():
        detail = f"{key} is flagged: {'; '.join(reasons)}"
        remedy = "remove it, or vouch for it in a file with the label reviewed=yes: it is never matched first"
        yield Finding(what="tool", state="flagged", detail=detail, remedy=remedy)


def _temporal(options: Options) -> Finding:
    server = target(options)
    if server.named:
        asyncio.run(_reached(server))
        detail = f"a server answers at {server.address} and has the namespace {server.namespace!r}"
        return Finding(what="temporal", state="works", detail=detail)
    from orchestrator.temporal.devserver import kept_binary

    binary = shutil.which("temporal") or kept_binary()
    if binary:
        return Finding(what="temporal", state="works", detail=f"`toolroute run --dev` starts {binary}")
    remedy = "set TEMPORAL_ADDRESS, or let `toolroute run --dev` fetch or build a server (minutes, once)"
    return Finding(what="temporal", state="missing", detail="no TEMPORAL_ADDRESS and no local server", remedy=remedy)


async def _reached(server: Target) -> None:
    from orchestrator.temporal.devserver import settle

    try:
        await reach(server)
    finally:
        await settle()


def _model(options: Options) -> Finding:
    from orchestrator.llm.client import models_for

    models = models_for(options)
    if models:
        named = " and ".join(dict.fromkeys((models.route_model, models.plan_model)))
        if model_key() or options.model_url:
            return Finding(what="model", state="works", detail=f"{named} at {models.where} (not called here)")
        remedy = "set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint of your own"
        return Finding(
            what="model", state="broken", detail=f"{named} is named, and there is no key for it", remedy=remedy
        )
    detail = "no model: plans are deterministic, answers list results as they came"
    remedy = "set TOOLROUTE_MODEL, with OPENAI_API_KEY or OPENAI_BASE_URL"
    return Finding(what="model", state="missing", detail=detail, remedy=remedy)


def _exact_tokens() -> Finding:
    from orchestrator.catalogue.tokens import exact_counter
    from orchestrator.errors import MissingExtra

    try:
        exact_counter()
    except MissingExtra as error:
        return Finding(
            what="tokens", state="missing", detail="counted by estimate, as an upper bound", remedy=str(error)
        )
    return Finding(what="tokens", state="works", detail="o200k_base can be counted exactly")


def _servers(path: Path) -> Iterator[Finding]:
    from orchestrator.mcp.config import McpConfig

    try:
        config = McpConfig.read(path)
    except ToolrouteError as error:
        yield Finding(what="mcp config", state="broken", detail=str(error), remedy="mend the file")
        return
    for name, spec in config.servers.items():
        yield _checked(f"mcp {name}", partial(_server, name, spec), "mend its entry")


def _server(name: str, spec: "ServerSpec") -> Finding:
    launch = spec.launch()
    what = f"mcp {name}"
    if launch.url:
        return Finding(what=what, state="works", detail="reached by URL (not connected here)")
    if launch.cwd and not Path(launch.cwd).is_dir():
        detail = f"its working folder {launch.cwd!r} does not exist"
        return Finding(what=what, state="broken", detail=detail, remedy="make it, or mend cwd")
    if launch.executable:
        return Finding(what=what, state="works", detail=f"its command {launch.command!r} is there (not started)")
    # Arguments that were written into the command are shown with it.
    detail = launch.secrets.redact(f"its command {launch.command!r} is not found")
    remedy = "install it, or give its full path"
    return Finding(what=what, state="broken", detail=detail, remedy=remedy)


def _show(findings: list[Finding]) -> None:
    from rich.text import Text

    from orchestrator.cli.show import console

    out = console()
    for finding in findings:
        colour, mark = _MARKS[finding.state]
        line = Text(f"{mark} ", style=colour)
        line.append(f"{finding.what}: ", style="bold default")
        line.append(finding.detail, style="default")
        out.print(line, soft_wrap=True)
        if finding.remedy:
            out.print(Text(f"   -> {finding.remedy}", style="dim"), soft_wrap=True)
