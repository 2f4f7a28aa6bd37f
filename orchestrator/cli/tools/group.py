"""The group `toolroute tools`."""

import click

from orchestrator.cli.shared.lazy_group import LazyGroup


@click.group(
    cls=LazyGroup,
    package="orchestrator.cli.tools",
    places={
        "import": (
            "import_tools:import_tools",
            "Store the tools of FILE (a tools.jsonl, .json or folder).",
        ),
        "sync": (
            "sync:sync_tools",
            "List the servers of an mcpServers FILE and store their tools.",
        ),
        "list": ("list_tools:list_tools", "List the tools that a tenant may use."),
        "show": ("show:show_tool", "Show a tool's definition and its approval."),
        "graph": ("graph:graph", "Show the relations between tools."),
        "changes": (
            "changes:show_changes",
            "Show the changed definitions that wait for you.",
        ),
        "accept": (
            "accept:accept_tools",
            "Accept changed definitions and flagged tools.",
        ),
        "remove": ("remove:remove_tools", "Remove all tools of SERVERS."),
    },
)
def tools() -> None:
    """Import, sync, list, show, accept and remove tools."""
