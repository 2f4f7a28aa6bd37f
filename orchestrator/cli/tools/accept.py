"""`toolroute tools accept`: definitions that a person has read and accepts."""

from collections.abc import Mapping, Sequence

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, note, present, suggestion
from orchestrator.cli.shared.parameter_types import TEXT
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.tools.changes import print_change, quoted_line
from orchestrator.cli.tools.list_tools import ALL_SHOWN
from orchestrator.cli.trust.audit import audited
from orchestrator.cli.trust.consent import YES_OPTION, confirm
from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidInput
from orchestrator.index.flags import VOUCHED, suspicions
from orchestrator.records.tool import Tool
from orchestrator.store.store import Store
from orchestrator.trust import pins


@click.command("accept")
@click.argument("keys", metavar="[SERVER[:NAME]]...", nargs=-1, type=TEXT)
@click.option("--withdraw", is_flag=True, help="Withdraw the acceptance of these tools.")
@YES_OPTION
@taking("config", "tenant", "output")
def accept_tools(
    keys: tuple[str, ...], workspace: Workspace, withdraw: bool, digest: str | None, output: str
) -> None:
    """Accept changed definitions and flagged tools.

    The definitions are shown, and you confirm them at a terminal, or with --yes and their digest. With a server's name,
    all of its changed definitions are accepted. The acceptance is valid for this tenant until the definition changes.
    Without a key, the accepted tools are listed.
    """
    tenant = workspace.owner
    store = workspace.known_store()
    selected = _chosen_tools(store, tenant, _stored_tools(store, tenant), keys)
    if withdraw:
        pins.withdraw(store, tenant, selected)
    elif selected:
        # Only what is shown here is accepted: the digest is that of these definitions.
        _show_to_accept(store, tenant, selected)
        confirm(f"Accept for {tenant}?", pins.trust_digest(selected.values()), digest)
        pins.accept(store, tenant, selected)
    for key, tool in sorted(selected.items()):
        audited(
            "acceptance",
            tenant,
            server=tool.server,
            tool=key,
            result="withdrawn" if withdraw else "ok",
        )
    accepted = sorted(
        key
        for key, tool in _stored_tools(store, tenant).items()
        if tool.labels.get(VOUCHED) == "yes"
    )
    lines = "".join(f"{one_line(key)}\n" for key in accepted)
    present(output, {"tenant": tenant, "accepted": accepted}, lambda: click.echo(lines, nl=False))
    note(f"{counted(len(accepted), 'tool')} accepted, {tenant}")


def _stored_tools(store: Store, tenant: str) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    for server in store.servers(tenant, own=True):
        tools |= {tool.key: tool for tool in store.of_server(tenant, server)}
    return tools


def _chosen_tools(
    store: Store, tenant: str, stored: Mapping[str, Tool], keys: Sequence[str]
) -> dict[str, Tool]:
    """Return the tools with these keys, and the waiting tools of the servers with these names."""
    servers = {tool.server for tool in stored.values()}.difference(stored)
    selected: dict[str, Tool] = {}
    for key in keys:
        if key in stored:
            selected[key] = stored[key]
        elif key not in servers:
            hint = suggestion(key, stored, ALL_SHOWN)
            raise InvalidInput(f"{tenant} has stored no tool {key!r}; {hint}")
    if servers.intersection(keys):
        for change in pins.waiting(store, tenant):
            if change.tool.server in keys:
                selected[change.tool.key] = change.tool
    return selected


def _show_to_accept(store: Store, tenant: str, chosen: Mapping[str, Tool]) -> None:
    """Show, on standard error, the definitions that the user is about to accept."""
    changes = {change.tool.key: change for change in pins.waiting(store, tenant)}
    for key, tool in chosen.items():
        if key in changes:
            print_change(changes[key], err=True)
        else:
            click.echo(_summary(tool), err=True)


def _summary(tool: Tool) -> str:
    flags = "; ".join(suspicions(tool)) or "not flagged"
    return f"{one_line(f'{tool.key}: {flags}')}\n    {quoted_line(tool.description)}"
