"""The group `toolroute tools`."""

import click

from orchestrator.cli.shared.lazy_group import LazyGroup

_FOLDER = "orchestrator.cli.tools"


@click.group(
    cls=LazyGroup,
    places={
        "import": (
            f"{_FOLDER}.import_tools:import_tools",
            "Store the tools of FILE (a tools.jsonl, .json or folder).",
        ),
        "sync": (
            f"{_FOLDER}.sync:sync_tools",
            "List the servers of an mcpServers FILE and store their tools.",
        ),
        "list": (f"{_FOLDER}.list_tools:list_tools", "List the tools that a tenant may use."),
        "show": (f"{_FOLDER}.show:show_tool", "Show a tool's definition and its approval."),
        "graph": (f"{_FOLDER}.graph:graph", "Show the relations between tools."),
        "changes": (
            f"{_FOLDER}.changes:show_changes",
            "Show the changed definitions that wait for you.",
        ),
        "accept": (
            f"{_FOLDER}.accept:accept_tools",
            "Accept changed definitions and flagged tools.",
        ),
        "remove": (f"{_FOLDER}.remove:remove_tools", "Remove all tools of SERVERS."),
    },
)
def tools() -> None:
    """Import, sync, list, show, accept and remove tools."""
