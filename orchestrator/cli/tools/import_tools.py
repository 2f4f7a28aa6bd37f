"""`toolroute tools import`: the tools of a file, stored."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, note, present, progress, warn_of_flagged
from orchestrator.cli.shared.parameter_types import TEXT, TOOLS
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.trust.audit import audited_all
from orchestrator.errors import InvalidCatalogue, InvalidConfig, InvalidInput
from orchestrator.mcp.config.parse import McpConfig

if TYPE_CHECKING:
    from orchestrator.store.store import Changes, Store


@click.command("import")
@click.argument("file", type=TOOLS)
@taking("config", "tenant")
@click.option(
    "--server",
    metavar="NAME",
    type=TEXT,
    help="The server of tools without a server. [default: the file's name]",
)
@taking("output")
def import_tools(file: Path, workspace: Workspace, server: str | None, output: str) -> None:
    """Store the tools of FILE (a tools.jsonl, .json or folder).

    The tools of the servers in FILE are replaced. Other servers are unchanged. `-` reads standard input. `--tenant
    shared` stores the tools for every tenant.
    """
    tenant = workspace.owner
    catalogue = _read(file, server)
    changes = store_tools(workspace.open_store(), tenant, catalogue)
    imported = [{"server": name, "result": "imported"} for name in changes]
    audited_all("configuration", tenant, imported)
    warn_of_flagged(catalogue.tools)
    if not changes:
        note(f"toolroute: {file} has no tools: nothing was stored, and nothing was removed")
    totals = _totals(changes)
    counts = ", ".join(
        [
            counted(len(changes), "server"),
            *(f"{number:,} {kind}" for kind, number in totals.items()),
        ]
    )
    summary = {"tenant": tenant, "servers": len(changes), **totals}
    present(output, summary, f"{tenant}: {counts}")


def _read(file: Path, server: str | None) -> Catalogue:
    """Read the tools. A file that names MCP servers instead is named as such."""
    try:
        catalogue = Catalogue.read(file, server)
    except InvalidCatalogue:
        with suppress(InvalidConfig):
            if file.is_file() and McpConfig.read(file).servers:
                remedy = f"list and store their tools with `toolroute tools sync {file}`"
                raise InvalidInput(f"{file} names MCP servers, not tools: {remedy}") from None
        raise
    if server is not None and catalogue.tools and server not in catalogue.places:
        raise InvalidInput(
            f"--server {server!r}: every tool of {file} names its server; leave out --server"
        )
    return catalogue


def _totals(changes: "Mapping[str, Changes]") -> dict[str, int]:
    return {
        "new": sum(len(change.new) for change in changes.values()),
        "changed": sum(len(change.changed) for change in changes.values()),
        "gone": sum(len(change.gone) for change in changes.values()),
        "same": sum(change.same for change in changes.values()),
    }


def store_tools(store: "Store", tenant: str, tools: "Catalogue") -> "dict[str, Changes]":
    """Replace the tools of the servers that occur in `tools`, with progress on standard error.

    Args:
        store: The store.
        tenant: The tenant.
        tools: All tools that these servers have from now on.

    Returns:
        The changes by server.
    """
    from orchestrator.runtime.index_cache import save_index

    by_server = {server: tools.of_server(server) for server in tools.places}
    with progress("storing tools") as show:
        changes = store.replace_servers(tenant, by_server, show)
    save_index(store, tenant, tools)
    return changes
