"""The configuration files of AI clients: reading them, and taking their servers over."""
