"""The plugin of a command's worker, over a catalogue file or the store, and the servers of a configuration."""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.shared.output import note
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.errors import StoreUnavailable
from orchestrator.mcp.config.locate import find_config
from orchestrator.options import Options

if TYPE_CHECKING:
    from orchestrator.catalogue.catalogue import Catalogue
    from orchestrator.mcp.config.parse import McpConfig
    from orchestrator.temporal.worker.executor import Registered
    from orchestrator.temporal.worker.plugin import OrchestratorPlugin


async def make_plugin(
    workspace: Workspace,
    options: Options,
    *,
    every_tenant: bool = False,
    warm: int = 0,
    executors: "Mapping[str, Registered] | None" = None,
    nexus: bool | Collection[str] = False,
) -> "OrchestratorPlugin":
    """Make the plugin over a catalogue file or the store. Servers that the store does not know are listed first.

    The store is checked at the start, because activities retry an unavailable store for ten minutes. A worker for one
    tenant fails at once if the store does not answer. A worker for every tenant starts without it.

    Args:
        workspace: The catalogue file or the store, and the mcpServers file.
        options: The options of the Router.
        every_tenant: Serve all tenants of the store. Default: only the tenant of the workspace.
        warm: The number of servers to connect in advance, after each Decision.
        executors: Functions and Executors by a tool's key, `server:*` or kind.
        nexus: Whether to serve the Nexus service. True: for all tenants. A list: for these tenants.

    Raises:
        InvalidInput: A catalogue file is combined with a store.
        StoreUnavailable: The store of a worker for one tenant does not answer.
    """
    from orchestrator.catalogue.catalogue import Catalogue
    from orchestrator.index.calibration import Fit
    from orchestrator.temporal.worker.plugin import OrchestratorPlugin

    servers = workspace.servers
    if every_tenant and not (workspace.config or find_config()):
        servers = None  # These are the servers of the user that starts the worker.
    if options.calibration:
        Fit.read(options.calibration)  # A broken file is reported here, not by every route.
    workspace.require_one_source(lists=False)
    plugin = partial(
        OrchestratorPlugin,
        options=options,
        mcp_servers=servers,
        warm=warm,
        executors=executors,
        nexus=nexus,
    )
    if workspace.catalogue is not None:
        catalogue = Catalogue.read(workspace.catalogue)
        _note_unrouted(workspace.catalogue, catalogue, servers)
        return plugin(catalogue=catalogue)
    await _list_unknown(workspace, options, servers, every_tenant=every_tenant)
    return plugin(
        stores=workspace.stores,
        entries=servers.entries if servers else None,
        only_servers=servers.servers if servers and not every_tenant else None,
    )


def _note_unrouted(file: Path, catalogue: "Catalogue", servers: "McpConfig | None") -> None:
    """Name the servers of which a catalogue file has no tools."""
    names = servers.servers if servers else ()
    unrouted = [name for name in names if name not in catalogue.places]
    if unrouted:
        remedy = "without --catalogue they are listed once and routed to as well"
        note(f"{file} has no tools of {', '.join(unrouted)}: {remedy}")


async def _list_unknown(
    workspace: Workspace, options: Options, servers: "McpConfig | None", *, every_tenant: bool
) -> None:
    try:
        if servers is None or every_tenant:
            await workspace.check_store()
        else:
            await workspace.list_unknown(servers, options)
    except StoreUnavailable as error:
        if not every_tenant:
            raise
        note(f"toolroute: {error}. Until it answers, routing waits for it")
