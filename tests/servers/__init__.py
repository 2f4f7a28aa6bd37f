"""MCP servers that the tests start: one that works, and faulty ones."""
