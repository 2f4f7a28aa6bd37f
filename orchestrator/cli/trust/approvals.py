"""`toolroute approvals`: the tools that `toolroute serve` calls without asking, because their user allowed them."""

from collections.abc import Sequence

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import note, present
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.trust.audit import audited
from orchestrator.cli.trust.consent import YES_OPTION, confirm
from orchestrator.common.keys import split_key
from orchestrator.common.lines import as_json, one_line
from orchestrator.errors import InvalidInput
from orchestrator.records.tool import Tool
from orchestrator.trust.approval_rules import needs_approval
from orchestrator.trust.approvals import Approvals
from orchestrator.trust.pins import trust_digest


@click.group()
def approvals() -> None:
    """List, give and withdraw lasting approvals."""


@approvals.command("list")
@taking("owner", "output")
def list_approvals(workspace: Workspace, output: str) -> None:
    """List the tools that are called without asking.

    The list keeps an approval whose tool has changed or gone since. Such an approval does not count.
    """
    keys = sorted(Approvals(workspace.tenant).read())
    lines = "".join(f"{one_line(key)}\n" for key in keys)
    present(
        output, {"tenant": workspace.tenant, "allowed": keys}, lambda: click.echo(lines, nl=False)
    )
    if not keys:
        note(f"{workspace.tenant}: no lasting approvals")


@approvals.command()
@click.argument("name", metavar="SERVER[:NAME]")
@YES_OPTION
@taking("config", "tenant")
def allow(name: str, workspace: Workspace, digest: str | None) -> None:
    """Allow a tool, or a server's present tools.

    The tools are shown, and you confirm them at a terminal, or with --yes and their digest. The approval lasts until
    the tool's definition changes or you withdraw it.
    """
    server = name.partition(":")[0]
    servers = workspace.required_servers
    entry = servers.servers.get(server)
    if entry is None:
        raise InvalidInput(servers.lacks(server))
    tools = _tools_to_allow(workspace, name)
    for tool in tools:
        # As JSON, so that a text cannot hide characters from the person who confirms it.
        key = as_json(tool.key)[1:-1]
        description = one_line(as_json(tool.description)[1:-1])
        click.echo(f"{key}: {description}", err=True)
    question = f"Let agents of {workspace.tenant} call this without asking you again?"
    confirm(question, trust_digest(tools), digest)
    Approvals(workspace.tenant).allow(tools, entry.identity)
    for tool in tools:
        audited("approval", workspace.tenant, server=server, tool=tool.key, approval="this tool")


def _tools_to_allow(workspace: Workspace, name: str) -> Sequence[Tool]:
    """Return the named tool, or the tools of the named server, that need approval."""
    store = workspace.known_store()
    named = store.tool(workspace.tenant, name) if ":" in name else None
    stored = [named] if named else store.of_server(workspace.tenant, name)
    tools = [tool for tool in stored if needs_approval(tool)]
    if not tools:
        raise InvalidInput(
            f"nothing to allow: {name!r} has no known tool that needs approval. See `toolroute tools list`"
        )
    return tools


@approvals.command()
@click.argument("names", metavar="SERVER[:NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Withdraw all approvals of the tenant.")
@taking("owner")
def withdraw(names: tuple[str, ...], everything: bool, workspace: Workspace) -> None:
    """Withdraw approvals. The next call of these tools asks again."""
    if bool(names) == everything:
        raise InvalidInput("nothing to withdraw: give tools or servers, or only --all")
    kept = Approvals(workspace.tenant)
    withdrawn = kept.withdraw([*kept.read()] if everything else names)
    if not withdrawn:
        about = ", ".join(names) or workspace.tenant
        raise InvalidInput(f"nothing of {about} was allowed: see `toolroute approvals list`")
    for key in withdrawn:
        audited(
            "approval", workspace.tenant, server=split_key(key)[0], tool=key, approval="withdrawn"
        )
        note(f"{key}: approval withdrawn")
