"""Keys of tools: `server:name`, or the plain name of a tool that no server has, such as a local function."""


def key_of(server: str, name: str) -> str:
    """Return the key of a server's tool. A name with a colon keeps its own in front where there is no server."""
    return f"{server}:{name}" if server or ":" in name else name


def split_key(key: str) -> tuple[str, str]:
    """Return the server, "" for none, and the name of the tool that has this key."""
    server, colon, name = key.partition(":")
    return (server, name) if colon else ("", key)
