"""`toolroute approvals`: the tools that `toolroute serve` calls without asking, because their user allowed them."""

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import note, present
from orchestrator.cli.shared.workspace import Place
from orchestrator.cli.trust.audit import audited
from orchestrator.cli.trust.consent import YES_OPTION, confirm
from orchestrator.common.keys import split_key
from orchestrator.common.lines import as_json, one_line
from orchestrator.errors import InvalidInput
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.trust.approval_rules import needs_approval
from orchestrator.trust.approvals import Approvals
from orchestrator.trust.pins import trust_digest


@click.group()
def approvals() -> None:
    """List, give and withdraw lasting approvals."""


@approvals.command("list")
@taking("owner", "output")
def list_approvals(place: Place, output: str) -> None:
    """List the tools that are called without asking.

    If a tool's definition changes, its approval ends."""
    kept = [*Approvals(place.tenant).read()]
    shown = "".join(f"{one_line(key)}\n" for key in kept)
    present(output, {"tenant": place.tenant, "allowed": kept}, lambda: click.echo(shown, nl=False))
    if not kept:
        note(f"{place.tenant}: no lasting approvals")


@approvals.command()
@click.argument("name", metavar="SERVER[:NAME]")
@YES_OPTION
@taking("config", "tenant")
def allow(name: str, place: Place, digest: str | None) -> None:
    """Allow a tool, or a server's present tools.

    The tools are shown, and you confirm them at a terminal, or with --yes and their digest. The approval lasts until
    the tool's definition changes or you withdraw it.
    """
    server, _, _ = name.partition(":")
    config, store = McpConfig.read(place.config_file()), place.known_store()
    if (entry := config.servers.get(server)) is None:
        raise InvalidInput(config.lacks(server))
    known = [store.tool(place.tenant, name)] if ":" in name else store.of_server(place.tenant, server)
    tools = [tool for tool in known if tool is not None and needs_approval(tool)]
    if not tools:
        raise InvalidInput(
            f"nothing to allow: {name!r} has no known tool that needs approval. See `toolroute tools list`"
        )
    for tool in tools:
        click.echo(f"{as_json(tool.key)[1:-1]}: {one_line(as_json(tool.description)[1:-1])}", err=True)
    question = f"Let agents of {place.tenant} call this without asking you again?"
    confirm(question, trust_digest(tools), digest)
    Approvals(place.tenant).allow(tools, entry.identity)
    for tool in tools:
        audited("approval", place.tenant, server=server, tool=tool.key, approval="this tool")


@approvals.command()
@click.argument("names", metavar="SERVER[:NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Withdraw all approvals of the tenant.")
@taking("owner")
def withdraw(names: tuple[str, ...], everything: bool, place: Place) -> None:
    """Withdraw approvals. The next call of these tools asks again."""
    if bool(names) == everything:
        raise InvalidInput("nothing to withdraw: give tools or servers, or only --all")
    kept = Approvals(place.tenant)
    gone = kept.withdraw([*kept.read()] if everything else names)
    if not gone:
        raise InvalidInput(f"nothing of {', '.join(names) or place.tenant} was allowed: see `toolroute approvals list`")
    for key in gone:
        audited("approval", place.tenant, server=split_key(key)[0], tool=key, approval="withdrawn")
        note(f"{key}: approval withdrawn")
