"""The `mcpServers` file: parse, launch, watch."""
