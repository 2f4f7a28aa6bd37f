"""The plugin of a command's worker, over a catalogue file or the store, and the servers of a configuration."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """
    from orchestrator.catalogue.catalogue import Catalogue
    from orchestrator.index.calibration import Fit
    from orchestrator.temporal.worker.plugin import OrchestratorPlugin

    # A worker for every tenant does not offer the servers of the user that starts it.
    servers = (
        None if every_tenant and not (workspace.config or find_config()) else workspace.servers
    )
    if options.calibration:
        Fit.read(options.calibration)  # A broken file is reported here, not by every route.
    workspace.require_one_source(lists=False)
    tools: dict[str, Any] = {"stores": workspace.stores}
    if workspace.catalogue is not None:
        tools = {"catalogue": Catalogue.read(workspace.catalogue)}
        _note_unrouted(workspace.catalogue, tools["catalogue"], servers)
    else:
        await _list_unknown(workspace, options, servers, every_tenant=every_tenant)
        if servers is not None:
            tools["entries"] = servers.entries
            tools["only_servers"] = None if every_tenant else servers.servers
    return OrchestratorPlugin(
        **tools,
        options=options,
        mcp_servers=servers,
        warm=warm,
        executors=executors,
        nexus=nexus,
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
