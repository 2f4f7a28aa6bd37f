"""The extra `mcp`: without it tools are known and routed, and no server is connected or served."""

from orchestrator.errors import MissingExtra


def check_extra() -> None:
    """Raise MissingExtra where the MCP library is not there, or is one of the versions before 2.1."""
    try:
        from mcp import Client, MCPError  # noqa: F401
    except ImportError as error:
        remedy = "install it with pip install 'toolroute[mcp]', in an environment without packages that need mcp 1"
        raise MissingExtra(f"MCP servers need the extra mcp ({error}): {remedy}") from error
