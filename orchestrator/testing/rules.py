"""What OpenAI refuses in a request, as far as a caller can get it wrong: tools and strict schemas."""

import re
from typing import Any

from orchestrator.testing.replies import Asked

MAX_TOOLS = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_AT_THE_TOP = {"anyOf", "oneOf", "allOf", "not", "enum", "const"}


def broken_rule(asked: Asked) -> str:
    """The first rule that the request breaks, in OpenAI's manner, or ""."""
    body = asked.body
    if body.get("stream"):
        return "the scripted model does not stream: ask without stream"
    if not asked.model:
        return "you must provide a model parameter"
    tools = body.get("tools") or []
    if body.get("tools") == [] and asked.kind == "chat/completions":
        return "Invalid 'tools': empty array. Expected an array with minimum length 1."
    if len(tools) > MAX_TOOLS:
        return f"Invalid 'tools': array too long. Expected at most {MAX_TOOLS}, got {len(tools)}."
    names = asked.tools
    if len(set(names)) < len(names):
        return "Invalid 'tools': names must be unique."
    problems = [_format_problem(body), *(_tool_problem(tool, asked.kind) for tool in tools)]
    return next(filter(None, problems), "")


def _tool_problem(tool: Any, kind: str) -> str:
    if tool.get("type") != "function":
        return ""
    if ("function" in tool) != (kind == "chat/completions"):
        return "Missing required parameter: 'tools[0].name'; the other API's shape was sent."
    function = tool.get("function", tool)
    name, schema = function.get("name", ""), function.get("parameters") or {}
    if not _NAME.fullmatch(name):
        return f"Invalid 'tools[0].name': string does not match pattern. Got {name!r}."
    if schema.get("type") != "object" or _NOT_AT_THE_TOP & schema.keys():
        return f"Invalid schema for function {name!r}: schema must have type 'object' and no combination at the top."
    if why := _not_a_schema(schema):
        return f"Invalid schema for function {name!r}: {why}"
    # Left out, the Responses API takes it as true, Chat Completions as false.
    strict = function.get("strict", kind == "responses")
    return f"Invalid schema for function {name!r}: {why}" if strict and (why := not_strict(schema)) else ""


def _not_a_schema(schema: Any) -> str:
    """What draft 2020-12 finds wrong, or the first array that does not say what it holds."""
    from jsonschema import Draft202012Validator

    wrong = next(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema), None)
    return wrong.message if wrong else _array_without_items(schema, ())


def _array_without_items(node: Any, path: tuple[str, ...]) -> str:
    if not isinstance(node, dict):
        return ""
    if node.get("type") == "array" and "items" not in node:
        return f"In context={path}, array schema missing items."
    parts: dict[tuple[str, ...], Any] = {("items",): node.get("items")}
    parts |= {("properties", name): part for name, part in (node.get("properties") or {}).items()}
    parts |= {("anyOf", str(place)): part for place, part in enumerate(node.get("anyOf") or ())}
    return next(filter(None, (_array_without_items(part, path + step) for step, part in parts.items())), "")


def _format_problem(body: dict[str, Any]) -> str:
    form = body.get("response_format") or (body.get("text") or {}).get("format") or {}
    if form.get("type") != "json_schema":
        return ""
    form = form.get("json_schema", form)
    if not _NAME.fullmatch(form.get("name", "")):
        return f"Invalid 'response_format.json_schema.name': {form.get('name')!r}."
    why = not_strict(form.get("schema") or {}) if form.get("strict") else ""
    return f"Invalid schema for response_format {form['name']!r}: {why}" if why else ""


def not_strict(schema: Any) -> str:
    """Why a schema cannot be strict, or "": every object is closed and requires all its properties."""
    if not isinstance(schema, dict):
        return ""
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties") or {}
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        if set(schema.get("required") or ()) != set(properties):
            return "'required' is required to be supplied and to be an array including every key in properties."
    inner = [*(schema.get("properties") or {}).values(), *(schema.get("$defs") or {}).values()]
    inner += [schema.get("items"), *(schema.get("anyOf") or ())]
    return next((why for part in inner if (why := not_strict(part))), "")
