"""Commands for MCP servers: `servers`, `call`, `login`, `logout`."""
