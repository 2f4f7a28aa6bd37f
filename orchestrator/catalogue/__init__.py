"""Read, check and export tool definitions."""
