"""Resource URIs as the gateway's clients see them: `toolroute://SERVER/` followed by the server's own URI.

The server's own URI is unchanged. So a template stays a template, and a URI that a client makes from it can be mapped
back. A simple prefix such as `my_files:file:///a` would be an invalid URI if the server's name has a character that is
not allowed in schemes.
"""

from typing import Any
from urllib.parse import quote, unquote

_SCHEME = "toolroute://"


def shown_uri(server: str, uri: str) -> str:
    """Return a server's URI or URI template as clients see it."""
    return f"{_SCHEME}{quote(server, safe='')}/{uri}"


def split_uri(uri: str) -> tuple[str, str] | None:
    """Return the server and its own URI, or None for another URI."""
    server, slash, own = uri.removeprefix(_SCHEME).partition("/")
    return (unquote(server), own) if uri.startswith(_SCHEME) and slash and own else None


def with_shown_links(server: str, content: Any) -> Any:
    """Return a content block whose link has a URI that the gateway can read."""
    return (
        content.model_copy(update={"uri": shown_uri(server, content.uri)})
        if content.type == "resource_link"
        else content
    )
