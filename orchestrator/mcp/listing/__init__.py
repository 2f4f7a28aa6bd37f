"""What a server lists: its tools, resources and prompts, read, repaired and followed while they change."""
