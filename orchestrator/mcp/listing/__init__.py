"""The lists of a server: its tools, resources and prompts, read, repaired and followed while they change."""
