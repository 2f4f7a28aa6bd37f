"""URIs of resources as clients of the gateway see them: `toolroute://SERVER/` before the server's own URI.

The server's own URI follows as it is. So a template stays a template, and a URI that a client makes of it can be led
back. A prefix alone, such as `my_files:file:///a`, is no URI where a name has a character that schemes lack.
"""

from typing import Any
from urllib.parse import quote, unquote

_SCHEME = "toolroute://"


def shown_uri(server: str, uri: str) -> str:
    """Return a server's URI or URI template as clients see it."""
    return f"{_SCHEME}{quote(server, safe='')}/{uri}"


def split_uri(uri: str) -> tuple[str, str] | None:
    """Return the server and its own URI; None for another URI."""
    server, slash, own = uri.removeprefix(_SCHEME).partition("/")
    return (unquote(server), own) if uri.startswith(_SCHEME) and slash and own else None


def with_shown_links(server: str, content: Any) -> Any:
    """Return a content block; the URI of a link in it is one that the gateway reads."""
    return (
        content.model_copy(update={"uri": shown_uri(server, content.uri)})
        if content.type == "resource_link"
        else content
    )
