"""`toolroute servers search` and `servers add`: servers of an MCP registry, and their entries in an mcpServers file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import note, present, print_table
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.trust.audit import audited
from orchestrator.cli.trust.consent import YES_OPTION, confirm
from orchestrator.common.digests import COMPARED_DIGITS, digest_of
from orchestrator.common.lines import inline, one_line
from orchestrator.errors import InvalidInput
from orchestrator.mcp.config.locate import user_config
from orchestrator.mcp.config.parse import McpConfig
from orchestrator.options import Options

if TYPE_CHECKING:
    from orchestrator.client_setup.registry import RegistryEntry, RegistryServer, Variable

_LONGEST_SUMMARY = 60
"""The characters of the command that runs a server, so that its description has room beside it."""
_REGISTRY = click.option(
    "--registry",
    metavar="URL",
    help="The MCP registry. [default: TOOLROUTE_REGISTRY, or the official registry]",
)


@click.command()
@click.argument("words", nargs=-1, required=True)
@_REGISTRY
@taking("output")
def search(words: tuple[str, ...], registry: str | None, output: str) -> int:
    """Find servers in an MCP registry.

    `toolroute servers add NAME` writes the entry of one of them. Exit code 3: no server was found.
    """
    from orchestrator.client_setup.registry import Registry

    servers = Registry(registry or Options.from_env().registry).search(" ".join(words))
    records = [
        server.model_dump(mode="json", include={"name", "description", "version"})
        for server in servers
    ]
    present(output, records, lambda: _print_servers(servers))
    if not servers:
        note("no server was found: try fewer or other words")
    return 0 if servers else 3


def _print_servers(servers: "list[RegistryServer]") -> None:
    rows = [
        (
            server.name,
            server.version,
            one_line(server.summary, _LONGEST_SUMMARY),
            one_line(server.description),
        )
        for server in servers
    ]
    if rows:
        print_table(("name", "version", "runs", "description"), rows)


@click.command()
@click.argument("source", metavar="NAME|FILE|URL")
@_REGISTRY
@click.option(
    "--as",
    "name",
    metavar="NAME",
    help="The name of the entry. [default: the last part of the name]",
)
@YES_OPTION
@taking("config", "owner", "output")
def add(
    source: str,
    registry: str | None,
    name: str | None,
    digest: str | None,
    workspace: Workspace,
    output: str,
) -> None:
    """Write the entry of a registry's server into your mcpServers file.

    Shows what will be run and which variables it needs, and asks before it writes. Nothing is installed or started.
    SOURCE is a server's name in the registry, or a server.json.
    """
    from orchestrator.client_setup.registry import Registry, entry_of, read_server

    server = read_server(source, Registry(registry or Options.from_env().registry))
    registry_entry = entry_of(server)
    config = workspace.servers_file or user_config()
    name = name or server.short_name
    # Shown before the question, so that a person sees what they confirm.
    record = {
        "name": name,
        "server": server.name,
        "config": str(config),
        "entry": registry_entry.entry,
    }
    present(output, record, lambda: _print_entry(server, name, registry_entry, config))
    _require_new_name(config, name)
    entry_digest = digest_of(name, registry_entry.entry, str(config), digits=COMPARED_DIGITS)
    confirm(f"Write the entry {name!r} into {config}?", entry_digest, digest)
    _write(config, name, registry_entry.entry)
    audited("configuration", workspace.owner, server=name, result="added")
    note(
        f"{name} is in {config}; list its tools: toolroute tools sync --server {name} --config {config}"
    )


def _print_entry(server: "RegistryServer", name: str, entry: "RegistryEntry", config: Path) -> None:
    title = f"{server.name} {server.version}"
    click.echo(inline(title.rstrip()))
    if server.description:
        click.echo(f"  {one_line(server.description)}")
    click.echo(f"  will {one_line(entry.in_words)}")
    for variable in entry.variables:
        click.echo(f"  needs {one_line(_in_words(variable))}")
    where = inline(str(config))
    click.echo(f"entry {name!r} for {where}:")
    click.echo(_document({name: entry.entry}))


def _document(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _in_words(variable: "Variable") -> str:
    kinds = [
        "required" if variable.is_required else "optional",
        *(["a secret"] if variable.is_secret else []),
        *([f"default {variable.default}"] if variable.default is not None else []),
    ]
    description = f": {variable.description}" if variable.description else ""
    return f"{variable.name} ({', '.join(kinds)}){description}"


def _require_new_name(config: Path, name: str) -> None:
    """Raise InvalidInput if the file has an entry of this name."""
    if config.is_file():
        configured = McpConfig.read(config)
        if name in configured.servers or name in configured.off:
            raise InvalidInput(f"{config} has a server {name!r}: give another name with --as")


def _write(config: Path, name: str, entry: dict[str, Any]) -> None:
    from orchestrator.client_setup.client_file import mcp_servers_file
    from orchestrator.common.atomic_file import replace_settings

    if not config.is_file():
        replace_settings(config, _document({"mcpServers": {name: entry}}) + "\n")
        return
    file = mcp_servers_file(config)
    replace_settings(config, file.with_entries({**file.entries, name: entry}))
