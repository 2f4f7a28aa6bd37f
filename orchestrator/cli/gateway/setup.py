"""`toolroute setup`: the servers of a user's MCP clients behind one `toolroute serve`, and back."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import console, note, present, table, warn
from orchestrator.cli.shared.workspace import Place, connecting
from orchestrator.cli.trust.audit import audited
from orchestrator.client_setup.products import CLIENTS, OURS, UNREAD, Client, ClientFile, copies
from orchestrator.client_setup.takeover import Taken, served, take_over, with_usable_entry
from orchestrator.common.atomic_file import replace_settings
from orchestrator.common.lines import inline
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.parse import PROFILES, McpConfig, own_config
from orchestrator.options import set_variables

_NAMES = [client.name for client in CLIENTS]


@click.command()
@click.option("--client", "only", multiple=True, type=click.Choice(_NAMES), help="Only this client. Repeatable.")
@click.option("--write", "writes", is_flag=True, help="Apply the plan. A copy of each changed file is kept.")
@click.option("--undo", is_flag=True, help="Restore the clients' own servers.")
@click.option(
    "--project", is_flag=True, help="Allow --config to be a file in a project folder, which other people may read."
)
@taking("written", "tenant", "output")
async def setup(place: Place, only: tuple[str, ...], writes: bool, undo: bool, project: bool, output: str) -> int:
    """Replace the servers of your MCP clients by toolroute.

    Copies the clients' servers into an mcpServers file, lists them once, and puts one server, `toolroute serve`, into
    each client's configuration. Through it, each client keeps the servers that it had. Without --write only the plan is
    shown. A server that toolroute cannot start or list stays in its client's configuration.

    Exit code 1: no server could be listed (nothing is written), or a client's file could not be written. Exit code 4:
    some servers could not be listed.
    """
    chosen = [client for client in CLIENTS if not only or client.name in only]
    if undo:
        return _undo(chosen)
    files = _found(chosen)
    config = (place.config or _served(files) or own_config()).absolute()
    if not project:
        _check_not_in_a_project(config)
    files = [file for file in files if _serves(file, config)]
    own = _own(config)
    before = dict(own.entries) if own else {}
    servers = dict(before)
    taken = take_over(files, servers)
    plan = _plan(config, taken)
    present(output, plan, lambda: _show(plan))
    if not only:
        for title, why in UNREAD.items():
            note(f"{title} is skipped: {why}")
    if not any(one.any for one in taken):
        note("no servers to take over")
        return 0
    note(f"entries are copied with their secrets into {config}, which only you can read")
    if not writes:
        note("nothing was written. Apply this plan with --write")
        return 0
    unlisted = await _sync(place, _sourced(McpConfig.parse({"mcpServers": servers}, str(config)), taken, before), taken)
    taken = [left for one in taken if (left := one.without(unlisted)).any]
    if not taken:
        warn(["no server could be listed, so nothing was written: correct the entries, and run the command again"])
        return 1
    command = [*_program(), "serve", "--config", str(config), *_options(place), *_policy()]
    commands = [[*command, "--profile", one.file.client.name] for one in taken]
    for one, own_command in zip(taken, commands, strict=True):
        one.text(own_command)  # An error comes before the first file is written.
    servers = {name: entry for name, entry in servers.items() if name in before or name not in unlisted}
    _keep(config, own, servers, _sets(own, taken))
    written = [_replace(one, own_command) for one, own_command in zip(taken, commands, strict=True)]
    return 4 * bool(unlisted) if all(written) else 1


def _sourced(config: McpConfig, taken: Sequence[Taken], before: Mapping[str, Any]) -> McpConfig:
    """Record the source of each server that is new in our file: the client's file, where `toolroute login` finds it.

    If `login` cannot read the client's file, or finds the server there under another name, the client's title is
    recorded.
    """
    servers = dict(config.servers)
    for one in reversed(taken):
        client = one.file.client
        for move in one.moves:
            if move.name and move.name not in before:
                readable = move.name == move.server and client.key in ("mcpServers", "servers")
                source = str(one.file.path) if readable else client.title
                servers[move.name] = servers[move.name].model_copy(update={"source": source})
    return replace(config, servers=servers)


def _served(files: Sequence[ClientFile]) -> Path | None:
    """Return the file that a client's entry of ours names, if it is its owner's alone, as `setup` makes it."""
    found = served(files)
    return found if found and not found.stat().st_mode & 0o077 else None


def _serves(file: ClientFile, config: Path) -> bool:
    """Return True if a client's toolroute entry, if any, is for this configuration. Notes a mismatch."""
    if (other := served([file])) is None or other.absolute() == config:
        return True
    warn([f"{file.client.title} is not changed: it uses {other}; give --config {other} to add to that file"])
    return False


def _check_not_in_a_project(config: Path) -> None:
    """Raise InvalidConfig where a folder above the file, other than the home, has a `.git`."""
    if root := next((one for one in config.parents if (one / ".git").exists() and one != Path.home()), None):
        remedy = "leave --config out, name another file, or give --project"
        raise InvalidConfig(f"{config} is in the project {root}, where your own servers could be committed: {remedy}")


def _keep(config: Path, own: ClientFile | None, servers: dict[str, Any], sets: dict[str, Any]) -> None:
    """Write the configuration, which its owner alone can read."""
    if own is None:
        replace_settings(
            config, json.dumps({"mcpServers": servers, PROFILES: sets}, indent=2, ensure_ascii=False) + "\n"
        )
        return
    named = replace(own, client=replace(own.client, key=PROFILES), text=own.with_entries(servers))
    if (text := named.with_entries(sets)) != own.text:
        _save(own, text, private=True)


def _sets(own: ClientFile | None, taken: Sequence[Taken]) -> dict[str, Any]:
    """Return the profile of each client: the servers that it had before, and the servers that are taken over now."""
    known = ClientFile.read(replace(own.client, key=PROFILES), own.path).entries if own else {}
    sets: dict[str, Any] = {**known}
    for one in taken:
        had = sets.get(one.file.client.name, {}) if OURS in one.file.entries else {}  # Else they were given back.
        names = [*had.get("servers", ()), *(move.name for move in one.moves if move.name)]
        sets[one.file.client.name] = {**had, "servers": list(dict.fromkeys(names))}
    return sets


def _replace(one: Taken, command: Sequence[str]) -> bool:
    """Put the toolroute entry into a client's file as it is now. Some clients rewrite their file all the time."""
    client = one.file.client
    try:
        now = ClientFile.read(client, one.file.path)
        if now.entries != one.file.entries:
            raise InvalidConfig("its servers changed meanwhile. Run the command again")
        _save(now, replace(one, file=now).text(command))
    except InvalidConfig as error:
        warn([f"{client.title} is not changed: {error}"])
        return False
    note(f"{client.title} now starts toolroute: restart it")
    return True


def _found(clients: Sequence[Client]) -> list[ClientFile]:
    """Read the clients' files. A broken file is reported and left alone. Clients without a file are skipped."""
    found = list[ClientFile]()
    for client in clients:
        path = client.path(set_variables(), sys.platform)
        try:
            found += [with_usable_entry(ClientFile.read(client, path))] if path.is_file() else []
        except (InvalidConfig, OSError) as error:
            warn([f"{client.title} is not changed: {error}"])
    return found


def _own(config: Path) -> ClientFile | None:
    """Read the mcpServers file. Returns None if it does not exist. Raises InvalidConfig for another kind of file."""
    if not config.exists():
        return None
    McpConfig.read(config)
    own = Client(name=OURS, title=OURS, places=("mcp.json",))
    read = [ClientFile.read(replace(own, key=key), config) for key in ("mcpServers", "servers")]
    return next((file for file in read if file.has_entries), read[0])


def _save(file: ClientFile, text: str, *, private: bool = False) -> None:
    """Write a file, and a copy of it as it was."""
    replace_settings(copies(file.path)[1], file.text)
    replace_settings(file.path, text, private=private)


async def _sync(place: Place, config: McpConfig, taken: Sequence[Taken]) -> list[str]:
    """List the servers that are taken over and store their tools. Returns the names of servers that failed."""
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import sync

    names = list(dict.fromkeys(move.name for one in taken for move in one.moves if move.name))
    async with (
        Connections(config, tenant=place.tenant) as connections,
        connecting(connections, "listing servers", len(names)) as noted,
    ):
        store = place.open_store()
        store.see(config.entries)
        report = await sync(connections, store, place.tenant, noted, names)
    for row in report.servers:
        audited("configuration", place.tenant, server=row.server, result="failed" if row.error else "taken over")
    failed = [one.server for one in report.servers if one.error]
    if failed:
        warn([f"not taken over, because listing failed: {', '.join(failed)}; run the command again when they answer"])
    return failed


def _policy() -> list[str]:
    """Ask the user at a terminal which calls need approval. Returns the option of `serve`."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return []
    policies = {
        "changes": "calls not known to be read-only",
        "destructive": "calls that may destroy data",
        "always": "every call",
        "never": "no call, because the client asks by itself",
    }
    for name, meaning in policies.items():
        note(f"  {name}: {meaning}")
    chosen = click.prompt(
        "Which calls need your approval?", type=click.Choice([*policies]), default="changes", err=True
    )
    return [] if chosen == "changes" else ["--approve", chosen]


def _program() -> list[str]:
    found = shutil.which("toolroute")
    return [str(Path(found).absolute())] if found else [sys.executable, "-m", "orchestrator"]


def _options(place: Place) -> list[str]:
    """Return the options by which `serve` finds the same tools from any folder, without this shell's variables."""
    stores = place.stores if place.store or "TOOLROUTE_STORE" in set_variables() else ()
    whole = [str(Path(store).absolute()) if Path(store).exists() else store for store in stores]
    given = [*(("--store", store) for store in whole), *([("--tenant", place.given)] if place.given else [])]
    return [text for option in given for text in option]


def _undo(clients: Sequence[Client]) -> int:
    """Put back the servers that each client had. Servers that were added since stay."""
    undone, failed = 0, False
    for client in clients:
        path = client.path(set_variables(), sys.platform)
        if not (kept := copies(path)[0]):
            continue
        try:
            before = [ClientFile.read(client, copy) for copy in kept]
            now = ClientFile.read(client, path) if path.is_file() else before[-1]
            file = reduce(ClientFile.undone, reversed(before), now)
            replace_settings(path, file.text)
        except InvalidConfig as error:
            failed = True
            warn([f"{client.title} is not changed; its own servers are in {kept[0]}: {error}"])
            continue
        undone += 1
        note(f"{client.title} has its own servers again: {path}")
        if file.text == before[0].text:
            for copy in kept:
                copy.unlink()
        else:
            named = [str(copy.rename(copies(path, "undone")[1])) for copy in kept]
            note(f"the file differs from the file before setup; the missing entries are in {', '.join(named)}")
    if not undone and not failed:
        note("nothing to undo: no client was changed by `toolroute setup --write`")
    return int(failed)


def _plan(config: Path, taken: Sequence[Taken]) -> dict[str, Any]:
    clients = [
        {
            "client": one.file.client.name,
            "file": str(one.file.path),
            "servers": [{"server": move.server, "name": move.name, "note": move.note} for move in one.moves],
        }
        for one in taken
    ]
    return {"config": str(config), "clients": clients}


def _show(plan: dict[str, Any]) -> None:
    rows = table("client", "server", "becomes")
    for one in plan["clients"]:
        for move in one["servers"]:
            shown = move["name"] or "stays there"
            rows.add_row(one["client"], move["server"], f"{shown} ({move['note']})" if move["note"] else shown)
    console().print(rows)
    for one in plan["clients"]:
        state = "" if one["servers"] else ": no servers"
        click.echo(inline(f"{one['client']}: {one['file']}{state}"))
