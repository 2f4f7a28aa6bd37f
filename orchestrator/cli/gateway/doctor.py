"""`toolroute doctor`: check an installation, or a catalogue, and suggest fixes.

A check is a name, a function that looks, and a remedy for an error that the function raises.
"""

import asyncio
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from rich.text import Text

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.cli.runs.temporal import connect, target
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.connecting import connecting
from orchestrator.cli.shared.output import console, counted, dim, present, progress
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.tools.sync import listings_in_words
from orchestrator.common.lines import inline
from orchestrator.errors import InvalidInput, StoreUnavailable, ToolrouteError, Unauthorised
from orchestrator.extras import install_command
from orchestrator.index.calibration import REMEDY, Fit
from orchestrator.index.embedders.embedder import Embedder
from orchestrator.index.flags import suspects
from orchestrator.mcp.config.parse import McpConfig, ServerSpec
from orchestrator.mcp.faults import without_name
from orchestrator.mcp.sync import left_over
from orchestrator.options import Options, misspelt, model_key

if TYPE_CHECKING:
    from orchestrator.store.store import Store

_MARKS = {
    "works": ("green", "ok"),
    "missing": ("yellow", "--"),
    "broken": ("red", "!!"),
    "flagged": ("yellow", "??"),
}
_MENDS = "toolroute tools import FILE, or toolroute tools sync mcp.json, writes the damaged records again"


class Finding(NamedTuple):
    """A part that `works`, is `missing` (optional), `broken`, or `flagged` (in use but doubtful)."""

    what: str
    state: str
    detail: str
    remedy: str = ""


class Check(NamedTuple):
    """A part to look at.

    Attributes:
        name: The part.
        look: Returns the findings. It may raise a ToolrouteError, which is a finding, too.
        remedy: The remedy for such an error. The message of an InvalidInput names its own.
    """

    name: str
    look: Callable[[], Iterable[Finding]]
    remedy: str

    def findings(self) -> Iterator[Finding]:
        try:
            yield from self.look()
        except InvalidInput as error:
            yield Finding(self.name, "broken", str(error))
        except ToolrouteError as error:
            yield Finding(self.name, "broken", str(error), self.remedy)


@click.command()
@taking("catalogue", "config", "tenant", "output")
@click.option(
    "--connect", "connects", is_flag=True, help="Also connect each server of the mcpServers file."
)
def doctor(workspace: Workspace, output: str, connects: bool) -> int:
    """Check this installation and suggest fixes. Exit code 1 when something is broken.

    The servers of the mcpServers file are checked without connecting them. --connect connects each of them, too. With
    --catalogue, only the tools of the file are checked: tools with a flagged text, and tools that a search for their
    own description does not find.
    """
    options = Options.from_env()
    if workspace.catalogue is None:
        checks = _Installation(workspace, options).checks(connects=connects)
        findings = [finding for check in checks for finding in check.findings()]
    elif connects:
        raise InvalidInput(
            "--connect with --catalogue: a file of tools has no servers to connect; leave one of them out"
        )
    elif workspace == Workspace(catalogue=workspace.catalogue):
        findings = list(_catalogue_findings(workspace.catalogue, options))
    else:
        stored = "to check the tools of a store: `toolroute tools list -o jsonl | toolroute doctor --catalogue -`"
        raise InvalidInput(
            f"--catalogue checks the tools of a file. Leave out --store, --config and the tenant; {stored}"
        )
    present(output, [finding._asdict() for finding in findings], lambda: _print_findings(findings))
    return 1 if any(finding.state == "broken" for finding in findings) else 0


class _Installation:
    """The parts of an installation."""

    def __init__(self, workspace: Workspace, options: Options) -> None:
        self._workspace = workspace
        self._options = options
        self._store_fails = False
        """Whether the check of the store failed. Then no other check waits for the store once more."""

    def checks(self, *, connects: bool) -> Sequence[Check]:
        embedder = "correct OPENAI_API_KEY or OPENAI_BASE_URL"
        if not self._options.embedder.startswith("openai:"):
            embedder = "reinstall toolroute"
        return (
            Check("environment", _misspelt_settings, "unset it"),
            Check("embedder", self._embedder, f"set TOOLROUTE_EMBEDDER to `static`, or {embedder}"),
            Check("languages", self._languages, "or remove the package"),
            Check("store", self._store, "name a folder or a Qdrant URL with --store"),
            Check("store", self._left_over, "name a folder or a Qdrant URL with --store"),
            Check("calibration", self._calibration, "correct or unset TOOLROUTE_CALIBRATION"),
            Check("tool", self._flagged_tools, ""),
            Check("temporal", self._temporal, "correct the settings, or start the server"),
            Check("model", self._model, "correct TOOLROUTE_MODEL"),
            Check(
                "reader",
                self._reader,
                "set TOOLROUTE_READER to the folder models/reader of the repository",
            ),
            Check("mcp config", lambda: self._servers(connects=connects), "correct the file"),
        )

    def _opened_store(self) -> "closing[Store]":
        # Nothing is repeated: a check says how the server answers now, and a command would wait for 25 s.
        return closing(self._workspace.open_store(self._options, repeat_reads=False))

    @cached_property
    def _catalogue(self) -> Catalogue:
        """The tenant's tools, none of a store that cannot be read: its own check reports it."""
        if self._store_fails:
            return Catalogue()
        with self._opened_store() as store:
            return store.load(self._workspace.tenant).catalogue

    def _flagged_tools(self) -> Iterator[Finding]:
        return _flagged(suspects(self._catalogue.tools), self._workspace.repeated_options)

    def _embedder(self) -> Iterator[Finding]:
        from orchestrator.index.embedders.by_name import embedder_for

        embedder = embedder_for(self._options)
        yield Finding("embedder", "works", _tried(embedder))

    def _languages(self) -> Iterator[Finding]:
        """Try the encoder for other languages. Only the shipped embedder needs it."""
        from orchestrator.index.embedders.language_encoder import (
            EXTRA,
            is_installed,
            language_encoder,
        )

        if self._options.embedder != "static" or self._options.languages == "off":
            return
        if is_installed():
            yield Finding(EXTRA, "works", f"{_tried(language_encoder())}, for 16 languages")
            language_encoder().release()  # The next checks need memory, too.
        else:
            detail = "not installed. The embedder is for English; tasks in other languages find fewer tools"
            yield Finding(EXTRA, "missing", detail, install_command(EXTRA))

    def _store(self) -> Iterator[Finding]:
        self._store_fails = True
        with self._opened_store() as store:
            store.backend.check_version()
            stored = store.load(self._workspace.tenant)
            self._store_fails = False
            where = str(store) if store.exists else f"{store} (does not exist yet)"
            yield from _unwritable(store, self._workspace.tenant)
        catalogue = stored.catalogue
        servers = counted(len(catalogue.places), "server")
        detail = (
            f"{where}: {counted(len(catalogue), 'tool')} of {servers} for {self._workspace.tenant}"
        )
        if stored.damaged:
            yield Finding("store", "broken", f"{detail}; {stored.damaged}", _MENDS)
        elif catalogue.places:
            yield Finding("store", "works", detail)
        else:
            yield Finding(
                "store",
                "missing",
                detail,
                "toolroute tools import FILE, or toolroute tools sync mcp.json",
            )

    def _left_over(self) -> Iterator[Finding]:
        """Find the stored servers that are in no configuration file any more. Another check reports a broken store."""
        if self._store_fails:
            return
        with self._opened_store() as store:
            listings = left_over(store, self._workspace.tenant) if store.exists else {}
        if listings:
            detail = (
                f"stored, but no longer in any configuration file: {listings_in_words(listings)}"
            )
            yield Finding("store", "flagged", detail, "toolroute tools sync FILE --prune")

    def _calibration(self) -> Iterator[Finding]:
        """Compare the fit that routing would use with the embedder and the tenant's catalogue."""
        from orchestrator.index.embedders.by_name import embedder_id

        path = self._options.calibration
        if not path:
            yield Finding("calibration", "missing", "built-in defaults", REMEDY)
            return
        fit = Fit.read(path)
        if fit.embedder:
            fit.check(embedder_id(self._options))
        about = fit.about or {}
        detail = f"{path}: fitted to {about.get('queries', 'some')} queries"
        if not len(self._catalogue) or about.get("catalogue") in (
            None,
            self._catalogue.fingerprint,
        ):
            yield Finding("calibration", "works", detail)
        else:
            remedy = f"if the catalogue changed much, {REMEDY}"
            yield Finding("calibration", "flagged", f"{detail} of another catalogue", remedy)

    def _temporal(self) -> Iterator[Finding]:
        from orchestrator.temporal.client.devserver import cached_binary, settle

        server = target(self._options)

        async def reach() -> None:
            try:
                await connect(server)
            finally:
                await settle()

        if server.named:
            asyncio.run(reach())
            detail = (
                f"a server answers at {server.address} and has the namespace {server.namespace!r}"
            )
            yield Finding("temporal", "works", detail)
        elif binary := shutil.which("temporal") or cached_binary():
            yield Finding("temporal", "works", f"`toolroute run --dev` starts {binary}")
        else:
            remedy = "set TEMPORAL_ADDRESS, or let `toolroute run --dev` download a server (once)"
            yield Finding("temporal", "missing", "no TEMPORAL_ADDRESS and no local server", remedy)

    def _model(self) -> Iterator[Finding]:
        from orchestrator.llm.client import models_for

        models = models_for(self._options)
        if not models:
            remedy = "set TOOLROUTE_MODEL, with OPENAI_API_KEY or OPENAI_BASE_URL"
            yield Finding("model", "missing", "none. Plans are made without a model", remedy)
            return
        names = " and ".join(dict.fromkeys((models.route_model, models.plan_model)))
        if model_key() or self._options.model_url:
            yield Finding("model", "works", f"{names} at {models.where} (not called here)")
        else:
            remedy = "set OPENAI_API_KEY, or set OPENAI_BASE_URL to your own endpoint"
            yield Finding("model", "broken", f"{names} is configured without an API key", remedy)

    def _reader(self) -> Iterator[Finding]:
        """Have the reader read two tools."""
        folder = self._options.reader
        if not folder:
            return
        from orchestrator.pipeline.refiners.reader import reader_at
        from orchestrator.records.tool import Tool

        reader = reader_at(folder)
        tools = [Tool(server="files", name=name) for name in ("read_file", "delete_file")]
        started = time.perf_counter()
        reader.scores("read a file", tools)
        ms = (time.perf_counter() - started) * 1000
        yield Finding("reader", "works", f"{folder}, {ms:.0f} ms for two tools")

    def _servers(self, *, connects: bool) -> Iterable[Finding]:
        if self._workspace.servers_file is None:
            return []
        config = self._workspace.required_servers
        checks = [
            Check(f"mcp {name}", partial(_server, spec), "correct its entry")
            for name, spec in config.servers.items()
        ]
        findings = [finding for check in checks for finding in check.findings()]
        return asyncio.run(_connected(config, findings)) if connects else findings


def _unwritable(store: "Store", tenant: str) -> Iterator[Finding]:
    """Find a server that can be read and not written, such as one with a full disk or without a leader."""
    try:
        store.backend.check_writes(tenant)
    except Unauthorised as error:  # A key for reading is enough for routes.
        yield Finding("store", "flagged", f"it can only be read: {error}")
    except StoreUnavailable as error:
        yield Finding("store", "broken", f"it can be read, but not written: {error}")


def _tried(embedder: Embedder) -> str:
    """Return the id and the dimension of an embedder, and its time for one text."""
    embedder.embed(["a first text opens the model"])
    started = time.perf_counter()
    embedder.embed(["find the invoice of last month and send it to the accountant"])
    ms = (time.perf_counter() - started) * 1000
    return f"{embedder.id}, {embedder.dimension} dimensions, {ms:.2f} ms a query"


def _misspelt_settings() -> Iterator[Finding]:
    for name, near in misspelt().items():
        state, remedy = ("broken", f"did you mean {near}?") if near else ("missing", "unset it")
        yield Finding("environment", state, f"{name} is set, but no setting has this name", remedy)


def _flagged(flags: Mapping[str, Sequence[str]], options: Sequence[str] = ()) -> Iterator[Finding]:
    for key, reasons in flags.items():
        command = f"`toolroute tools accept {shlex.join([key, *options])}`"
        remedy = f"it is never recommended. Remove it, or read it and accept it with {command}"
        yield Finding("tool", "flagged", f"{key} is flagged: {'; '.join(reasons)}", remedy)


def _server(spec: ServerSpec) -> Iterator[Finding]:
    title = f"mcp {spec.name}"
    launch = spec.launch()
    if launch.url:
        yield Finding(
            title,
            "missing",
            "not checked: a remote server",
            "check it with `toolroute doctor --connect`",
        )
    elif launch.cwd and not Path(launch.cwd).is_dir():
        detail = f"its working folder {launch.cwd!r} does not exist"
        yield Finding(title, "broken", detail, "create it, or correct cwd")
    elif launch.executable:
        yield Finding(title, "works", f"its command {launch.program!r} is there (not started)")
    else:
        detail = f"its command {launch.program!r} is not found"
        yield Finding(title, "broken", detail, "install it, or use its full path")


async def _connected(config: McpConfig, findings: Sequence[Finding]) -> list[Finding]:
    """Connect each server and return the findings. Servers that are already known to be broken are not connected."""
    from orchestrator.mcp.connections import Connections

    async with (
        Connections(config) as connections,
        connecting(connections, "connecting servers", len(findings)) as count,
    ):

        async def connect_server(name: str, finding: Finding) -> Finding:
            if finding.state == "broken":
                count(None)
                return finding
            try:
                tools = await connections.tools(name)
            except ToolrouteError as error:
                # Unauthorised names its own remedy.
                remedy = (
                    ""
                    if isinstance(error, Unauthorised)
                    else "correct its entry, or start the server"
                )
                finding = Finding(finding.what, "broken", without_name(name, str(error)), remedy)
            else:
                finding = Finding(
                    finding.what, "works", f"connected: {counted(len(tools), 'tool')}"
                )
            count(None)
            return finding

        return await asyncio.gather(*map(connect_server, config.servers, findings))


def _print_findings(findings: list[Finding]) -> None:
    screen = console()
    for finding in findings:
        colour, mark = _MARKS[finding.state]
        line = Text(f"{mark} ", style=colour)
        line.append(inline(f"{finding.what}: "), style="bold default")
        line.append(inline(finding.detail), style="default")
        screen.print(line, soft_wrap=True)
        if finding.remedy:
            screen.print(dim(f"   -> {finding.remedy}"), soft_wrap=True)


def _catalogue_findings(path: Path, options: Options) -> Iterator[Finding]:
    """Find the tools with flagged texts, and the tools that a search for their own description does not find."""
    from orchestrator.evaluate.findability import WITHIN, unfound

    catalogue = Catalogue.read(path)
    flags = suspects(catalogue.tools)
    unflagged = Catalogue([tool for tool in catalogue if tool.key not in flags])
    if not len(unflagged):
        content = "only flagged tools" if flags else "no tools"
        raise InvalidInput(f"{str(path)!r} has {content}: nothing to examine")
    yield from _flagged(flags)
    with progress("trying tools") as show:
        keys = asyncio.run(unfound(unflagged, options, lambda number: show(number, len(unflagged))))
    remedy = "describe in its first sentence what it does, in words that a task would use"
    for key in keys:
        detail = f"{key}: the first sentence of its description does not find it among the first {WITHIN}"
        yield Finding("tool", "flagged", detail, remedy)
    number = len(unflagged) - len(keys)
    yield Finding(
        "catalogue", "works", f"{number:,} of {counted(len(unflagged), 'tool')} can be found"
    )
