"""`toolroute setup`: the servers of a user's MCP clients behind one `toolroute serve`, and back."""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import note, present, print_table, warn
from orchestrator.cli.shared.typed_options import refuse, typed_options
from orchestrator.cli.shared.workspace import Workspace, connecting
from orchestrator.cli.trust.audit import audited
from orchestrator.client_setup.client_file import (
    ClientFile,
    EditByHand,
    block,
    copies,
    mcp_servers_file,
)
from orchestrator.client_setup.entries import served
from orchestrator.client_setup.products import CLIENTS, OURS, Client, settings_folder
from orchestrator.client_setup.takeover import Takeover, take_over, with_usable_entry
from orchestrator.common.atomic_file import replace_settings
from orchestrator.common.lines import inline
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.locate import own_config
from orchestrator.mcp.config.parse import PROFILES, McpConfig
from orchestrator.options import set_variables

_NAMES = [client.name for client in CLIENTS]
_JETBRAINS = (
    "JetBrains AI Assistant is skipped: its documentation names no file; paste the entry of `toolroute serve` into its "
    "settings"
)
_POLICIES = {
    "changes": "calls not known to be read-only",
    "destructive": "calls that may destroy data",
    "always": "every call",
    "never": "no call, because the client asks by itself",
}


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
        return _undo(clients)
    users_files = _readable((client, _users_path(client)) for client in clients)
    project_files = _readable(
        (client, path) for client in clients if (path := _project_path(client))
    )
    config = (workspace.config or _private_config_of(users_files) or own_config()).absolute()
    if not project:
        _require_outside_projects(config)
    candidates = [*users_files, *project_files] if projects else users_files
    files = [file for file in candidates if _uses(file, config)]
    configured = _configured(config)
    servers = dict(configured.entries) if configured else {}
    takeovers = take_over(files, servers)
    plan = _plan(config, takeovers)
    present(output, plan, lambda: _show_plan(plan))
    _note_further_clients([] if projects else project_files, all_clients=not only)
    if not any(takeover.moved for takeover in takeovers):
        reason = "" if files else ": none of the MCP clients is set up here"
        note(f"no servers to take over{reason}")
        return 0
    note(f"entries are copied with their secrets into {config}, which only you can read")
    if not writes:
        note("nothing was written. Apply this plan with --write")
        return 0
    return await _apply(workspace, config, configured, servers, takeovers)


async def _apply(
    workspace: Workspace,
    config: Path,
    configured: ClientFile | None,
    servers: Mapping[str, Any],
    takeovers: Sequence[Takeover],
) -> int:
    """List the servers, and write the configuration and the clients' files. Return the command's exit code."""
    before = configured.entries if configured else {}
    sourced = _with_sources(
        McpConfig.parse({"mcpServers": servers}, str(config)), takeovers, before
    )
    unlisted = await _sync(workspace, sourced, takeovers)
    reduced = [takeover.without(unlisted) for takeover in takeovers]
    takeovers = [takeover for takeover in reduced if takeover.moved]
    if not takeovers:
        reason = "no server could be listed, so nothing was written"
        warn(f"{reason}: correct the entries, and run the command again")
        return 1
    servers = {
        name: entry for name, entry in servers.items() if name in before or name not in unlisted
    }
    _write_config(config, configured, servers, _profiles(configured, takeovers))
    command = [*_program(), "serve", "--config", str(config)]
    command += [*_store_options(workspace), *_policy()]
    written = [_write_client(takeover, command) for takeover in takeovers]
    return 4 * bool(unlisted) if all(written) else 1


def _users_path(client: Client) -> Path:
    return client.path(set_variables(), sys.platform)


def _project_path(client: Client) -> Path | None:
    """Return the path of a client's file in the working folder. In the home, it would be the user's own file."""
    path = Path(client.project).absolute()
    return path if client.project and path != _users_path(client) else None


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


def _private_config_of(files: Sequence[ClientFile]) -> Path | None:
    """Return the file that a client's toolroute entry names, if it is its owner's alone, as `setup` makes it."""
    config = served(files)
    return config if config and not config.stat().st_mode & 0o077 else None


def _uses(file: ClientFile, config: Path) -> bool:
    """Return True if a client's toolroute entry, if any, is for this configuration. Reports a mismatch."""
    other = served([file])
    if other is None or other.absolute() == config:
        return True
    warn(
        f"{file.client.title} is not changed: it uses {other}; give --config {other} to add to that file"
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
    """Name what stays connected beside toolroute: servers of the project, and clients without a file."""
    for file in of_project:
        names = [name for name in file.entries if name != OURS]
        if names:
            remedy = "take them over with --projects"
            note(
                f"{file.client.title} stays connected to {', '.join(names)} of this project ({file.path}); {remedy}"
            )
    if all_clients and (settings_folder(set_variables(), sys.platform) / "JetBrains").is_dir():
        note(_JETBRAINS)


def _with_sources(
    config: McpConfig, takeovers: Sequence[Takeover], before: Mapping[str, Any]
) -> McpConfig:
    """Record the source of each new server: the client's file, where `toolroute login` finds it.

    If `login` cannot read the client's file, or finds the server there under another name, the client's title
    is recorded.
    """
    servers = dict(config.servers)
    for takeover in reversed(takeovers):
        client = takeover.file.client
        for move in takeover.moved:
            if move.name in before:
                continue
            readable = move.name == move.server and client.key in ("mcpServers", "servers")
            source = str(takeover.file.path) if readable else client.title
            servers[move.name] = servers[move.name].model_copy(update={"source": source})
    return replace(config, servers=servers)


async def _sync(
    workspace: Workspace, config: McpConfig, takeovers: Sequence[Takeover]
) -> list[str]:
    """List the servers that are taken over and store their tools. Returns the names of servers that failed."""
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import sync

    names = list(dict.fromkeys(move.name for takeover in takeovers for move in takeover.moved))
    async with (
        Connections(config, tenant=workspace.tenant) as connections,
        connecting(connections, "listing servers", len(names)) as count,
    ):
        store = workspace.open_store()
        store.see(config.entries)
        report = await sync(connections, store, workspace.tenant, count, names)
    failed = []
    for row in report.servers:
        result = "failed" if row.error else "taken over"
        audited("configuration", workspace.tenant, server=row.server, result=result)
        if row.error:
            failed.append(row.server)
    if failed:
        warn(
            f"not taken over, because listing failed: {', '.join(failed)}; run the command again when they answer"
        )
    return failed


def _profiles(configured: ClientFile | None, takeovers: Sequence[Takeover]) -> dict[str, Any]:
    """Return the profile of each client: the servers that it had before, and the servers that are taken over now."""
    profiles: dict[str, Any] = {}
    if configured:
        profiles |= _profiles_in(configured, configured.text).entries
    updated: set[str] = set()
    for takeover in takeovers:
        name = takeover.file.client.name
        # A client without the toolroute entry got its servers back: its profile begins anew.
        continues = OURS in takeover.file.entries or name in updated
        profile = profiles.get(name, {}) if continues else {}
        servers = list(profile.get("servers", ()))
        servers += [move.name for move in takeover.moved]
        profiles[name] = {**profile, "servers": list(dict.fromkeys(servers))}
        updated.add(name)
    return profiles


def _write_config(
    config: Path, configured: ClientFile | None, servers: dict[str, Any], profiles: dict[str, Any]
) -> None:
    """Write the configuration, which its owner alone can read."""
    if configured is None:
        content = {"mcpServers": servers, PROFILES: profiles}
        replace_settings(
            config, json.dumps(content, indent=2, ensure_ascii=False) + "\n", private=True
        )
        return
    text = _profiles_in(configured, configured.with_entries(servers)).with_entries(profiles)
    if text != configured.text:
        _save(configured, text, private=True)


def _profiles_in(configured: ClientFile, text: str) -> ClientFile:
    """Return the configuration with this text, for reading and replacing its profiles in place of its servers."""
    return ClientFile.of(replace(configured.client, key=PROFILES), configured.path, text)


def _write_client(takeover: Takeover, command: Sequence[str]) -> bool:
    """Put the toolroute entry into a client's file as it is now. Some clients rewrite their file all the time."""
    client = takeover.file.client
    command = [*command, "--profile", client.name]
    try:
        current = ClientFile.read(client, takeover.file.path)
        if current.entries != takeover.file.entries:
            raise InvalidConfig("its servers changed meanwhile. Run the command again")
        _save(current, replace(takeover, file=current).text(command))
    except EditByHand as error:
        gone = ", ".join(move.server for move in takeover.moved)
        warn(
            f"{client.title} is not changed: {error}. Remove {gone} from the file, and add this entry:"
        )
        click.echo(block(client, takeover.entry(command)), err=True)
        return False
    except InvalidConfig as error:
        warn(f"{client.title} is not changed: {error}")
        return False
    note(f"{client.title} now starts toolroute: restart it")
    return True


def _save(file: ClientFile, text: str, *, private: bool = False) -> None:
    """Write a file, and a copy of it as it was."""
    replace_settings(copies(file.path)[1], file.text)
    replace_settings(file.path, text, private=private)


def _policy() -> list[str]:
    """Ask the user at a terminal which calls need approval. Returns the option of `serve`."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return []
    for name, meaning in _POLICIES.items():
        note(f"  {name}: {meaning}")
    question = "Which calls need your approval?"
    chosen = click.prompt(question, type=click.Choice([*_POLICIES]), default="changes", err=True)
    return [] if chosen == "changes" else ["--approve", chosen]


def _program() -> list[str]:
    path = shutil.which("toolroute")
    return [str(Path(path).absolute())] if path else [sys.executable, "-m", "orchestrator"]


def _store_options(workspace: Workspace) -> list[str]:
    """Return the options by which `serve` finds the same tools from any folder, without this shell's variables."""
    options: list[str] = []
    if workspace.store or "TOOLROUTE_STORE" in set_variables():
        for store in workspace.stores:
            options += ["--store", str(Path(store).absolute()) if Path(store).exists() else store]
    if workspace.given_tenant:
        options += ["--tenant", workspace.given_tenant]
    return options


def _undo(clients: Sequence[Client]) -> int:
    """Put back the servers that each client had, also in the project of the working folder."""
    outcomes = []
    for client in clients:
        paths = [_users_path(client), _project_path(client)]
        outcomes += [_undo_file(client, path) for path in paths if path and copies(path)[0]]
    if not outcomes:
        note("nothing to undo: no client was changed by `toolroute setup --write`")
    return int(not all(outcomes))


def _undo_file(client: Client, path: Path) -> bool:
    """Restore the servers of one file. Servers that were added since stay. Returns False if the file is unchanged."""
    kept = copies(path)[0]
    try:
        before = [ClientFile.read(client, copy) for copy in kept]
        current = ClientFile.read(client, path) if path.is_file() else before[-1]
        file = reduce(ClientFile.undone, reversed(before), current)
        replace_settings(path, file.text)
    except InvalidConfig as error:
        warn(f"{client.title} is not changed; its own servers are in {kept[0]}: {error}")
        return False
    note(f"{client.title} has its own servers again: {path}")
    if not any(file.lacks(earlier) for earlier in before):
        for copy in kept:
            copy.unlink()
        return True
    names = [str(copy.rename(copies(path, "undone")[1])) for copy in kept]
    note(f"the file has changed since setup; what it no longer has is in {', '.join(names)}")
    return True
