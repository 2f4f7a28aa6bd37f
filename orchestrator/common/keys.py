"""Keys of tools: `server:name`, or only the name of a tool without a server, such as a local function."""


def key_of(server: str, name: str) -> str:
    """Return the key of a tool. Without a server, a name that contains a colon gets a colon in front."""
    return f"{server}:{name}" if server or ":" in name else name


def split_key(key: str) -> tuple[str, str]:
    """Return the server (empty for none) and the name of the tool with this key."""
    server, colon, name = key.partition(":")
    return (server, name) if colon else ("", key)
