"""Internals of the connection pool and of the MCP server: connections, requests over them, and redaction."""
