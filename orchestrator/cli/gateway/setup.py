"""`toolroute setup`: the servers of a user's MCP clients behind one `toolroute serve`, and back."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.gateway.setup_apply import apply_plan
from orchestrator.cli.gateway.setup_paths import project_path, users_path
from orchestrator.cli.gateway.setup_undo import undo_setup
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import note, present, print_table, warn
from orchestrator.cli.shared.typed_options import refuse, typed_options
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.client_setup.client_file import ClientFile, mcp_servers_file
from orchestrator.client_setup.entries import named_config, served
from orchestrator.client_setup.products import CLIENTS, OURS, Client, settings_folder
from orchestrator.client_setup.takeover import Takeover, take_over, with_usable_entry
from orchestrator.common.lines import inline
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.locate import user_config
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.options import set_variables

_NAMES = [client.name for client in CLIENTS]
_JETBRAINS = (
    "JetBrains AI Assistant is skipped: its documentation names no file; paste the entry of `toolroute serve` into its "
    "settings"
)


@click.command()
@click.option(
    "--client",
    "only",
    multiple=True,
    type=click.Choice(_NAMES),
    help="Only this client. Repeatable.",
)
@click.option(
    "--write", "writes", is_flag=True, help="Apply the plan. A copy of each changed file is kept."
)
@click.option("--undo", is_flag=True, help="Restore the clients' own servers.")
@click.option(
    "--projects", is_flag=True, help="Also take over the servers of the project in this folder."
)
@click.option(
    "--project",
    is_flag=True,
    help="Allow --config to be a file in a project folder, which other people may read.",
)
@taking("written", "tenant", "output")
async def setup(
    workspace: Workspace,
    only: tuple[str, ...],
    writes: bool,
    undo: bool,
    projects: bool,
    project: bool,
    output: str,
) -> int:
    """Replace the servers of your MCP clients by toolroute.

    Copies the clients' servers into an mcpServers file, lists them once, and puts one server, `toolroute serve`, into
    each client's configuration. Through it, each client keeps the servers that it had. Without --write only the plan is
    shown. A server that toolroute cannot start or list stays in its client's configuration.

    Exit code 1: no server could be listed (nothing is written), or a client's file could not be written. Exit code 4:
    some servers could not be listed.
    """
    clients = [client for client in CLIENTS if not only or client.name in only]
    if undo:
        refuse(typed_options("undo", "only"), "has no effect with --undo: leave it out")
        return undo_setup(clients)
    users_files = _readable((client, users_path(client)) for client in clients)
    project_files = _readable(
        (client, path) for client in clients if (path := project_path(client))
    )
    _warn_of_missing_configs(users_files)
    config = (workspace.config or _private_config_of(users_files) or user_config()).absolute()
    if not project:
        _require_outside_projects(config)
    candidates = [*users_files, *project_files] if projects else users_files
    files = [file for file in candidates if _uses(file, config)]
    # The file may have servers of its own, or of an earlier setup. They stay.
    configured = _configured(config)
    servers = dict(configured.entries) if configured else {}
    takeovers = take_over(files, servers)
    plan = _plan(config, takeovers)
    present(output, plan, lambda: _show_plan(plan))
    _note_further_clients([] if projects else project_files, all_clients=not only)
    if not any(takeover.moved for takeover in takeovers):
        is_any_set_up = any(_exists(users_path(client)) for client in clients)
        reason = "" if files or is_any_set_up else ": none of the MCP clients is set up here"
        note(f"no servers to take over{reason}")
        return 0
    note(f"entries are copied with their secrets into {config}, which only you can read")
    if not writes:
        note("nothing was written. Apply this plan with --write")
        return 0
    return await apply_plan(workspace, config, configured, servers, takeovers)


def _readable(places: Iterable[tuple[Client, Path]]) -> list[ClientFile]:
    """Read the clients' files. A broken file is reported and left alone. Clients without a file are skipped."""
    files: list[ClientFile] = []
    for client, path in places:
        try:
            if path.is_file():
                files.append(with_usable_entry(ClientFile.read(client, path)))
        except (InvalidConfig, OSError) as error:
            warn(f"{client.title} is not changed: {error}")
    return files


def _warn_of_missing_configs(files: Iterable[ClientFile]) -> None:
    """Name the clients whose toolroute cannot start, because its mcpServers file is gone."""
    for file in files:
        config = named_config(file)
        if config and not _exists(config):
            remedy = "restore the file, or give the client its own servers back with --undo"
            warn(
                f"{file.client.title} starts toolroute with {config}, which does not exist: {remedy}"
            )


def _exists(path: Path) -> bool:
    """Return True if there is a file, or if nobody may look."""
    try:
        return path.exists()
    except OSError:
        return True


def _private_config_of(files: Sequence[ClientFile]) -> Path | None:
    """Return the file that a client's toolroute entry names, if it is its owner's alone, as `setup` makes it."""
    config = served(files)
    return config if config and not config.stat().st_mode & 0o077 else None


def _uses(file: ClientFile, config: Path) -> bool:
    """Return True if a client's toolroute entry, if any, is for this configuration. Reports a mismatch."""
    served_config = served([file])
    if served_config is None or served_config.absolute() == config:
        return True
    warn(
        f"{file.client.title} is not changed: it uses {served_config}; give --config {served_config} to add to that "
        "file"
    )
    return False


def _require_outside_projects(config: Path) -> None:
    """Raise InvalidConfig where a folder above the file, other than the home, has a `.git`."""
    for folder in config.parents:
        if (folder / ".git").exists() and folder != Path.home():
            remedy = "leave --config out, name another file, or give --project"
            raise InvalidConfig(
                f"{config} is in the project {folder}, where servers could be committed: {remedy}"
            )


def _configured(config: Path) -> ClientFile | None:
    """Read the mcpServers file. Returns None if it does not exist. Raises InvalidConfig for another kind of file."""
    if not config.exists():
        return None
    McpConfig.read(config)
    return mcp_servers_file(config)


def _plan(config: Path, takeovers: Sequence[Takeover]) -> dict[str, Any]:
    clients = [
        {
            "client": takeover.file.client.name,
            "file": str(takeover.file.path),
            "servers": [
                {"server": move.server, "name": move.name, "note": move.note}
                for move in takeover.moves
            ],
        }
        for takeover in takeovers
    ]
    return {"config": str(config), "clients": clients}


def _show_plan(plan: dict[str, Any]) -> None:
    rows = []
    for client in plan["clients"]:
        for move in client["servers"]:
            becomes = move["name"] or "stays there"
            reason = f" ({move['note']})" if move["note"] else ""
            rows.append((client["client"], move["server"], f"{becomes}{reason}"))
    if rows:
        print_table(("client", "server", "becomes"), rows)
    for client in plan["clients"]:
        state = "" if client["servers"] else ": no servers"
        click.echo(inline(f"{client['client']}: {client['file']}{state}"))


def _note_further_clients(of_project: Sequence[ClientFile], *, all_clients: bool) -> None:
    """Name the servers that clients still connect directly: servers of the project, and of clients without a file."""
    for file in of_project:
        names = [name for name in file.entries if name != OURS]
        if names:
            remedy = "take them over with --projects"
            note(
                f"{file.client.title} stays connected to {', '.join(names)} of this project ({file.path}); {remedy}"
            )
    if all_clients and (settings_folder(set_variables(), sys.platform) / "JetBrains").is_dir():
        note(_JETBRAINS)
