"""`toolroute setup --write`: the clients' servers are listed once, and the files are written."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from orchestrator.cli.shared.connecting import connecting
from orchestrator.cli.shared.output import note, warn
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.trust.audit import audited
from orchestrator.client_setup.client_file import ClientFile, EditByHand, block, copies
from orchestrator.client_setup.products import OURS
from orchestrator.client_setup.takeover import Takeover
from orchestrator.common.atomic_file import replace_settings
from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.parse import PROFILES, McpConfig
from orchestrator.options import set_variables

_POLICIES = {
    "changes": "calls not known to be read-only",
    "destructive": "calls that may destroy data",
    "always": "every call",
    "never": "no call, because the client asks by itself",
}


async def apply_plan(
    workspace: Workspace,
    config: Path,
    configured: ClientFile | None,
    servers: Mapping[str, Any],
    takeovers: Sequence[Takeover],
) -> int:
    """List the servers, and write the configuration and the clients' files.

    Args:
        workspace: The tenant, and the store for the listed tools.
        config: The path of the mcpServers file to write.
        configured: The present mcpServers file. None: the file does not exist.
        servers: The entries to write, by name.
        takeovers: The plan for each client's file.

    Returns:
        The exit code of the command: 0 if all is done, 4 if some servers could not be listed, 1 if no server could be
        listed or a file could not be written.
    """
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
    """Put the toolroute entry into the present file of a client. Some clients rewrite their file all the time."""
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
    policy = click.prompt(question, type=click.Choice([*_POLICIES]), default="changes", err=True)
    return [] if policy == "changes" else ["--approve", policy]


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
