"""The package `mcp`: without it tools are known and routed, and no server is connected or served."""

from orchestrator.errors import MissingExtra


def require_mcp() -> None:
    """Raise MissingExtra if the MCP library is missing, or is a version before 2.1."""
    try:
        from mcp import Client, MCPError  # noqa: F401
    except ImportError as error:
        remedy = "install it with pip install 'mcp>=2.1', in an environment without packages that need mcp 1"
        raise MissingExtra(f"MCP servers need the package mcp ({error}): {remedy}") from error
