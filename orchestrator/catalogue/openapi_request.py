"""The arguments of a call as the query, headers, path and body of an OpenAPI operation."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from orchestrator.catalogue.openapi import (
    ANY,
    FORM,
    JSON,
    MULTIPART,
    WHOLE_BODY,
    Operation,
    is_json,
)
from orchestrator.common.endpoints import is_header_text
from orchestrator.errors import InvalidArguments

QueryField = tuple[str, str]


@dataclass(kw_only=True)
class HttpRequest:
    """The request of one call of an operation.

    Attributes:
        path: The path, with the values of its parameters.
        query: The parameters of the query.
        headers: The headers.
        content: The body as an argument of httpx, such as `{"json": ...}`. None: no body.
    """

    path: str
    query: list[QueryField] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    content: dict[str, Any] | None = None


def http_request(operation: Operation, arguments: Mapping[str, Any]) -> HttpRequest:
    """Return the request that sends the arguments of a call.

    Raises:
        InvalidArguments: A field of an object would be sent as another parameter, or as an API key. Or a header cannot
            have a value.
    """
    request = HttpRequest(path=operation.path)
    body: dict[str, Any] = {}
    for name, value in arguments.items():
        location = operation.locations.get(name, "body")
        if location == "body":
            body[name] = value
        elif location == "query":
            request.query += _query_fields(operation, name, value)
        elif location == "header":
            request.headers[name] = _header(operation, name, value)
        else:
            text = _path_part(_joined(operation, name, value))
            request.path = request.path.replace(f"{{{name}}}", text)
    content = body.get(WHOLE_BODY) if operation.has_whole_body else body
    if content or WHOLE_BODY in body:
        _add_body(request, operation.media_type or JSON, content)
    return request


def _header(operation: Operation, name: str, value: Any) -> str:
    text = _joined(operation, name, value)
    if not is_header_text(text):
        # The HTTP client would refuse it after the connection, and the call would count as lost.
        raise InvalidArguments(
            f"{operation.name}: {name!r} is sent as a header: give ASCII text without line breaks, and without blanks "
            "at its ends"
        )
    return text


def _path_part(text: str) -> str:
    """Return a text as one part of a path. It cannot lead to another path."""
    quoted = quote(text, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def _add_body(request: HttpRequest, media_type: str, body: Any) -> None:
    if media_type == MULTIPART:
        # httpx adds the content type, with the boundary of the parts.
        request.content = {"files": [(name, (None, text)) for name, text in _form_fields(body)]}
        return
    request.headers["Content-Type"] = JSON if media_type in ANY else media_type
    if is_json(media_type):
        content: str | bytes = json.dumps(body, ensure_ascii=False).encode()
    elif media_type == FORM:
        content = urlencode(list(_form_fields(body)))
    else:
        content = _plain_text(body)
    request.content = {"content": content}


def _query_fields(operation: Operation, name: str, value: Any) -> list[QueryField]:
    """Return the parameters of a query for one argument, in the style of its parameter.

    Raises:
        InvalidArguments: A field of the argument would be sent as another parameter, or as an API key.
    """
    if name in operation.separators or name in operation.as_text:
        return [(name, _joined(operation, name, value))]
    is_spread = isinstance(value, Mapping) and name not in operation.deep
    content = value if is_spread else {name: value}
    fields: list[QueryField] = []
    for field_name, text in _form_fields(content):
        _check_field(operation, name, field_name)
        fields.append((field_name, text))
    return fields


def _check_field(operation: Operation, name: str, field_name: str) -> None:
    """Refuse a field that is sent under the name of another parameter."""
    if field_name == name:
        return
    in_query = {
        parameter for parameter, location in operation.locations.items() if location == "query"
    }
    # Some servers ignore the case of a name, and read `a[b]` as `a`.
    spellings = {field_name.lower(), field_name.partition("[")[0].lower()}
    for parameter in sorted((in_query | operation.key_names) - {name}):
        if parameter.lower() in spellings:
            is_key = parameter in operation.key_names
            remedy = "leave it out" if is_key else f"give it as the argument {parameter!r}"
            raise InvalidArguments(
                f"{operation.name}: a field of {name!r} would be sent as {field_name!r}, which is a parameter of its "
                f"own: {remedy}"
            )


def _joined(operation: Operation, name: str, value: Any) -> str:
    """Return a list as `a,b`, and an object as `key,a` or `key=a`, with the separator of the parameter.

    A parameter with `content` is JSON, but a string is sent as it is. Documents state JSON also for a name in a path,
    such as `/blocklists/{name}` of stream-io-api.com.
    """
    if name in operation.as_text and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"))
    separator = operation.separators.get(name, ",")
    if isinstance(value, Mapping):
        between = "=" if name in operation.exploded else separator
        items = [f"{key}{between}{_plain_text(part)}" for key, part in value.items()]
    elif isinstance(value, list):
        items = list(map(_plain_text, value))
    else:
        items = [_plain_text(value)]
    return separator.join(items)


def _form_fields(value: Any, name: str = "") -> Iterator[QueryField]:
    """Yield the fields of a form: `a=1`, `list=x` and `list=y`, and `of[key]=z` for a field of an object."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _form_fields(part, f"{name}[{key}]" if name else str(key))
    elif isinstance(value, list):
        for part in value:
            yield from _form_fields(part, name)
    elif value is not None:
        yield name, _plain_text(value)


def _plain_text(value: Any) -> str:
    """Return the text of a value in an address, a header or a form."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
