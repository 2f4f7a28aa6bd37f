"""`toolroute setup`: the servers of a user's MCP clients behind one `toolroute serve`, and back."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.options import Place, noting_reports, taking
from orchestrator.cli.output import console, note, present, table, warn
from orchestrator.common.lines import inline
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.clients import CLIENTS, Client, ClientFile, copies, write
from orchestrator.mcp.config import McpConfig
from orchestrator.mcp.takeover import Taken, served, take_over, with_usable_entry
from orchestrator.options import set_variables

_NAMES = [client.name for client in CLIENTS]


@click.command()
@click.option("--client", "only", multiple=True, type=click.Choice(_NAMES), help="Only this client. Repeatable.")
@click.option("--write", "writes", is_flag=True, help="Carry the plan out. A copy of each changed file is kept.")
@click.option("--undo", is_flag=True, help="Give the clients their own servers back.")
@taking("written", "tenant", "output")
async def setup(place: Place, only: tuple[str, ...], writes: bool, undo: bool, output: str) -> int:
    """Put one server in place of those of your MCP clients.

    Their servers are copied into the mcpServers file and listed once. Without --write the plan is only shown. A server
    that toolroute cannot start or list stays where it is.

    Exits 1 when no server could be listed (nothing is written then) or a client's file not written, 4 when some
    servers could not be listed.
    """
    chosen = [client for client in CLIENTS if not only or client.name in only]
    if undo:
        return _undo(chosen)
    files = _found(chosen)
    config = (place.config or served(files) or _default_config()).absolute()
    own = _own(config)
    before = dict(own.entries) if own else {}
    servers = dict(before)
    taken = take_over(files, servers)
    plan = _plan(config, taken)
    present(output, plan, lambda: _show(plan))
    if not any(one.any for one in taken):
        note("no server to take over")
        return 0
    note(f"entries are copied as they are, secrets included, into {config}, which only you can read")
    if not writes:
        note("nothing is written: --write carries this out")
        return 0
    unlisted = await _sync(place, McpConfig.parse({"mcpServers": servers}, str(config)), taken)
    taken = [left for one in taken if (left := one.without(unlisted)).any]
    if not taken:
        warn(["no server could be listed: nothing is written"])
        return 1
    command = [*_program(), "serve", "--config", str(config), *_options(place)]
    for one in taken:
        one.text(command)  # An error comes before the first file is written.
    servers = {name: entry for name, entry in servers.items() if name in before or name not in unlisted}
    if own is None:
        write(config, json.dumps({"mcpServers": servers}, indent=2, ensure_ascii=False) + "\n")
    elif servers != before:
        _save(own, own.with_entries(servers), private=True)
    written = [_replace(one, command) for one in taken]
    return 4 * bool(unlisted) if all(written) else 1


def _default_config() -> Path:
    from platformdirs import user_config_path

    return user_config_path("toolroute") / "mcp.json"


def _replace(one: Taken, command: Sequence[str]) -> bool:
    """Put our entry into a client's file as it is by now: some clients write theirs all the time."""
    client = one.file.client
    try:
        now = ClientFile.read(client, one.file.path)
        if now.entries != one.file.entries:
            raise InvalidConfig("its servers have changed meanwhile: run this again")
        _save(now, replace(one, file=now).text(command))
    except InvalidConfig as error:
        warn([f"{client.title} is left alone: {error}"])
        return False
    note(f"{client.title} starts toolroute from now on: restart it")
    return True


def _found(clients: Sequence[Client]) -> list[ClientFile]:
    """Read the clients' files. A broken file is named and left alone; a client without a file is passed by."""
    found = list[ClientFile]()
    for client in clients:
        path = client.path(set_variables(), sys.platform)
        try:
            found += [with_usable_entry(ClientFile.read(client, path))] if path.is_file() else []
        except (InvalidConfig, OSError) as error:
            warn([f"{client.title} is left alone: {error}"])
    return found


def _own(config: Path) -> ClientFile | None:
    """Return the mcpServers file, None if there is none yet; InvalidConfig for another kind of file."""
    if not config.exists():
        return None
    McpConfig.read(config)
    own = [Client(name="toolroute", title="toolroute", place=str(config), key=key) for key in ("mcpServers", "servers")]
    read = [ClientFile.read(client, config) for client in own]
    return next((file for file in read if file.has_entries), read[0])


def _save(file: ClientFile, text: str, *, private: bool = False) -> None:
    """Write a file, and a copy of it as it was."""
    write(copies(file.path)[1], file.text)
    write(file.path, text, private=private)


async def _sync(place: Place, config: McpConfig, taken: Sequence[Taken]) -> list[str]:
    """List the servers that are taken over, store their tools, and return the names of those that failed."""
    from orchestrator.mcp.connections import Connections
    from orchestrator.mcp.sync import sync

    names = list(dict.fromkeys(move.name for one in taken for move in one.moves if move.name))
    async with Connections(config, tenant=place.tenant) as connections:
        with noting_reports(len(names)) as noted:
            store = place.open_store()
            store.see(config.entries)
            report = await sync(connections, store, place.tenant, noted, names)
    failed = [one.server for one in report.servers if one.error]
    if failed:
        warn([f"not taken over, as listing failed: {', '.join(failed)}"])
    return failed


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
            write(path, file.text)
        except InvalidConfig as error:
            failed = True
            warn([f"{client.title} is left alone; its own servers are in {kept[0]}: {error}"])
            continue
        undone += 1
        note(f"{client.title} has its own servers again: {path}")
        if file.text == before[0].text:
            for copy in kept:
                copy.unlink()
        else:
            named = [str(copy.rename(copies(path, "undone")[1])) for copy in kept]
            note(f"the file differs from the one before setup; what is missing is in {', '.join(named)}")
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
        state = "" if one["servers"] else ": no server of its own"
        click.echo(inline(f"{one['client']}: {one['file']}{state}"))
