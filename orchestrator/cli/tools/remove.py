"""`toolroute tools remove`: all tools of servers, removed from the store."""

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, present, suggestion
from orchestrator.cli.shared.parameter_types import TEXT
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.tools.list_tools import ALL_SHOWN
from orchestrator.cli.trust.audit import audited
from orchestrator.errors import InvalidInput


@click.command("remove")
@click.argument("servers", nargs=-1, required=True, type=TEXT)
@taking("config", "tenant", "output")
def remove_tools(servers: tuple[str, ...], workspace: Workspace, output: str) -> None:
    """Remove all tools of SERVERS.

    `tools sync` stores the tools of configured servers again. If there is an mcpServers file, servers with the same
    name from other files are kept.
    """
    from orchestrator.runtime.index_cache import save_index

    tenant = workspace.owner
    store = workspace.known_store()
    stored = store.servers(tenant, own=True)
    if unknown := [server for server in servers if server not in stored]:
        hint = suggestion(unknown[0], stored, ALL_SHOWN)
        raise InvalidInput(
            f"{tenant} has stored no server {unknown[0]!r}; {hint}; nothing was removed"
        )
    removed = {}
    for server in dict.fromkeys(servers):
        removed[server] = len(store.remove_server(tenant, server).gone)
        audited("configuration", tenant, server=server, result="removed")
    # The saved index still has the removed tools.
    save_index(store, tenant)
    counts = f"{counted(len(removed), 'server')}, {counted(sum(removed.values()), 'tool')} removed"
    present(
        output,
        {"tenant": tenant, "removed": removed},
        f"{tenant}: {counts}",
    )
