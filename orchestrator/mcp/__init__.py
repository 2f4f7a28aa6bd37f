"""Inside the lazy pool and the MCP server: one connection's life, what goes over it, and what is never shown."""
