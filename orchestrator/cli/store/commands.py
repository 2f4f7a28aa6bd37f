"""`toolroute store`: prepare a Qdrant server for several nodes."""

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import counted, present
from orchestrator.cli.shared.workspace import Workspace


@click.group()
def store() -> None:
    """Create the collections of a Qdrant server."""


@store.command("create")
@click.option(
    "--replication",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="The nodes that hold each point.",
)
@taking("tenant", "output")
def create(replication: int, workspace: Workspace, output: str) -> None:
    """Create all collections on a Qdrant server, before the first import.

    Collections that exist stay as they are. With two nodes, a lost node stops writes, because two nodes have no quorum.
    """
    opened = workspace.open_store()
    created = opened.create_collections(replication)
    record = {"store": str(opened), "replication": replication, "created": created}
    names = f": {', '.join(created)}" if created else ""
    text = f"{opened}: {counted(len(created), 'collection')} created{names}"
    present(output, record, text)
