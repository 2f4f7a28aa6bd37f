"""Serve the tools of many MCP servers as one."""
