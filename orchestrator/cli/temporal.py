"""What the commands over Temporal share: their options, the plugin, and a clean standard output."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orchestrator import errors
from orchestrator.cli.common import open_store, source_options
from orchestrator.cli.mcp_common import config_option
from orchestrator.cli.plain import note
from orchestrator.cli.reaching import DEFAULT_ADDRESS
from orchestrator.errors import StoreUnavailable, ToolrouteError
from orchestrator.options import Options, default_store
from orchestrator.records.tenant import SHARED

if TYPE_CHECKING:
    from temporalio.client import WorkflowFailureError

    from orchestrator.catalogue.catalogue import Catalogue
    from orchestrator.mcp.config import McpConfig
    from orchestrator.temporal.plugin import OrchestratorPlugin

Command = TypeVar("Command", bound=Callable[..., Any])


def temporal_options(command: Command) -> Command:
    """Where the tools are, which MCP servers there are, and which Temporal server to use."""
    address = f"The Temporal server. [default: TEMPORAL_ADDRESS, else {DEFAULT_ADDRESS}]"
    namespace = "The Temporal namespace. [default: TEMPORAL_NAMESPACE, else default]"
    options = (
        config_option,
        click.option("--address", metavar="HOST:PORT", help=address),
        click.option("--namespace", metavar="NAME", help=namespace),
    )
    for option in reversed(options):
        command = option(command)
    return source_options(command)


async def make_plugin(
    catalogue: Path | None,
    store: str | None,
    servers: "McpConfig | None",
    tenant: str | None,
    options: Options,
) -> "OrchestratorPlugin":
    """The plugin over a catalogue file, or over the store; servers that it does not know are listed first.

    The store is asked once: activities wait ten minutes for one that is away. With a tenant it must answer; a worker
    for all tenants starts without it.
    """
    from orchestrator.index.fit import Fit
    from orchestrator.temporal.plugin import OrchestratorPlugin

    if options.calibration:
        Fit.read(options.calibration)  # a broken one is told here, not by every route
    if catalogue is not None and store is None:
        return OrchestratorPlugin(catalogue=_read_catalogue(catalogue, servers), options=options, mcp_servers=servers)
    place = store or default_store()
    if tenant is not None:
        await _fill_store(place, tenant, catalogue, servers, options)
    else:
        await _ask_store(place, options)
    return OrchestratorPlugin(store=place, options=options, mcp_servers=servers)


def _read_catalogue(path: Path, servers: "McpConfig | None") -> "Catalogue":
    from orchestrator.catalogue.catalogue import Catalogue

    catalogue = Catalogue.read(path)
    known = {tool.server for tool in catalogue}
    unknown = [name for name in (servers.servers if servers else ()) if name not in known]
    if unknown:
        note(f"{path} has no tools of {', '.join(unknown)}: with --store they are listed once and routed to as well")
    return catalogue


async def _fill_store(
    place: str, tenant: str, catalogue: Path | None, servers: "McpConfig | None", options: Options
) -> None:
    from orchestrator.cli.tools import import_file
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import not_listed, sync

    store = open_store(place, options)
    try:
        if catalogue is not None:
            import_file(store, tenant, catalogue)
        if not servers:
            await asyncio.to_thread(store.servers, tenant)
        elif unknown := list(await asyncio.to_thread(not_listed, servers, store, tenant)):
            note(f"listing {', '.join(unknown)} (once) ...")
            async with Connections(servers) as connections:
                await sync(connections, store, tenant, lambda report: note(report.line), unknown)
    finally:
        await asyncio.to_thread(store.close)


async def _ask_store(place: str, options: Options) -> None:
    store = open_store(place, options)
    try:
        await asyncio.to_thread(store.servers, SHARED)
    except StoreUnavailable as error:
        note(f"toolroute: {error}. Until it answers, routing waits for it")
    finally:
        await asyncio.to_thread(store.close)


def quiet() -> None:
    """Keeps the SDK's warnings off the user's screen: a query that came too late, a connection tried again."""
    from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    errors_only = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    Runtime.set_default(
        Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=errors_only))), error_if_already_set=False
    )


@contextmanager
def clean_stdout() -> Iterator[None]:
    """Sends everything written to standard output, by native code and child processes too, to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def unwrap(failure: "WorkflowFailureError") -> ToolrouteError:
    """The error that made a workflow fail, as the class that it was, with its message."""
    from orchestrator.temporal.call import why_failed

    kind, message = why_failed(failure.cause)
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, ToolrouteError):
        return found(message)
    return ToolrouteError(f"the run failed: {kind}: {message}")
