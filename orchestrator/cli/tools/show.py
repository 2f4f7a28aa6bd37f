"""`toolroute tools show`: one tool's definition."""

import json
from typing import Any

import click

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.cli.shared.command_options import taking
from orchestrator.cli.shared.output import present, suggestion, warn_of_flagged
from orchestrator.cli.shared.workspace import Workspace
from orchestrator.cli.tools.list_tools import ALL_SHOWN
from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidInput
from orchestrator.index.intent import reads_only
from orchestrator.records.tool import Tool


@click.command("show")
@click.argument("key", metavar="SERVER:NAME")
@taking("catalogue", "config", "sources", "output")
def show_tool(key: str, workspace: Workspace, output: str) -> None:
    """Show a tool's definition and its approval."""
    tool = _required_tool(workspace, key)
    present(output, tool_to_json(tool), lambda: _print_tool(tool))
    warn_of_flagged([tool])


def _required_tool(workspace: Workspace, key: str) -> Tool:
    catalogue = workspace.catalogue_or_store()
    if key not in catalogue.positions:
        hint = suggestion(key, catalogue.positions, ALL_SHOWN)
        raise InvalidInput(f"{workspace.tenant} has no tool {key!r}; {hint}")
    return catalogue[key]


def _print_tool(tool: Tool) -> None:
    fields = {
        "tool": tool.key,
        "title": tool.title,
        "kind": str(tool.kind),
        "description": tool.description,
        "keywords": ", ".join(tool.keywords),
        "labels": ", ".join(f"{name}={value}" for name, value in tool.labels.items()),
        "approval": "not needed, it only reads"
        if reads_only(tool)
        else "needed, unless --approve says otherwise",
        "definition": tool.hash,
    }
    for name, value in fields.items():
        if value:
            click.echo(f"{name:12} {one_line(value)}")
    schema = parameters(tool)
    for name, parameter in schema["properties"].items():
        click.echo(
            "  "
            + one_line(_parameter(name, parameter, required=name in (schema.get("required") or ())))
        )


def _parameter(name: str, schema: Any, *, required: bool) -> str:
    """Return a parameter's name, type and description."""
    readable = schema if isinstance(schema, dict) else {}
    kind = readable.get("type", "any")
    in_words = kind if isinstance(kind, str) else json.dumps(kind)
    return (
        f"{name} ({in_words}{', required' if required else ''}) {readable.get('description', '')}"
    )
