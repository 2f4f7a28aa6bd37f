"""Resource URIs as the gateway's clients see them: they name the server, and end with the server's own URI.

    memo://by/{author} of the server notes     toolroute://notes/memo://by/{author}
    ui://clock/app.html of the server time     ui://time/clock/app.html

The server's own URI is unchanged. So a template stays a template, and a URI that a client makes from it can be mapped
back. A simple prefix such as `my_files:file:///a` would be an invalid URI if the server's name has a character that is
not allowed in schemes. Clients recognise an app (`ui://`) and a skill (`skill://`) by the scheme, so these keep it.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

_SCHEME = "toolroute://"
_KEPT_SCHEMES = ("ui://", "skill://")


def shown_uri(server: str, uri: str) -> str:
    """Return a server's URI or URI template as clients see it."""
    name = quote(server, safe="")
    for scheme in _KEPT_SCHEMES:
        if uri.startswith(scheme):
            return f"{scheme}{name}/{uri.removeprefix(scheme)}"
    return f"{_SCHEME}{name}/{uri}"


def split_uri(uri: str) -> tuple[str, str] | None:
    """Return the server and its own URI, or None for another URI."""
    for scheme in (_SCHEME, *_KEPT_SCHEMES):
        if uri.startswith(scheme):
            server, _, path = uri.removeprefix(scheme).partition("/")
            server_uri = path if scheme == _SCHEME else f"{scheme}{path}"
            return (unquote(server), server_uri) if path else None
    return None


def with_shown_links(server: str, content: Any) -> Any:
    """Return a content block whose link, or whose resource, has a URI that the gateway can read."""
    if content.type == "resource_link":
        return content.model_copy(update={"uri": shown_uri(server, content.uri)})
    if content.type == "resource":
        resource = content.resource
        link = resource.model_copy(update={"uri": shown_uri(server, resource.uri)})
        return content.model_copy(update={"resource": link})
    return content


def with_shown_ui(server: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `_meta` of a tool or a result whose link to an app has a URI that the gateway can read."""
    ui = meta.get("ui")
    if not isinstance(ui, dict) or not isinstance(ui.get("resourceUri"), str):
        return dict(meta)
    return {**meta, "ui": {**ui, "resourceUri": shown_uri(server, ui["resourceUri"])}}
