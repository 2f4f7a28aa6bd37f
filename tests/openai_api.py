"""The scripted model as frameworks' clients need it: OpenAI's rules, the Responses API, and streams of both APIs."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from orchestrator.testing import Fault, HttpAnswer, ModelRequest, ScriptedModel, http_answer

MAX_TOOLS = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class OpenAIModel(ScriptedModel):
    """Refuses the requests that OpenAI refuses. A request to the Responses API is recorded as the equal chat
    completion.
    """

    def answer(self, asked: ModelRequest) -> HttpAnswer:
        is_response = asked.kind == "responses"
        chat = _chat_of(asked) if is_response else asked
        if problem := broken_rule(chat):
            return http_answer(chat, Fault(400, problem, kind="invalid_request_error"))
        answer = super().answer(chat)
        is_stream = bool(asked.body.get("stream"))
        if answer.status != 200 or not (is_response or is_stream):
            return answer
        body = json.loads(answer.body)
        if is_response:
            body = _response_of(body, chat)
        if not is_stream:
            return replace(answer, body=json.dumps(body).encode())
        events = _response_events(body) if is_response else _chat_events(body)
        return HttpAnswer(body="".join(f"{event}\n\n" for event in events).encode(), content_type="text/event-stream")


def _chat_of(asked: ModelRequest) -> ModelRequest:
    """The same request to Chat Completions. Left out, the Responses API takes strict as true."""
    body = dict(asked.body)
    given, instructions, form = body.pop("input"), body.pop("instructions", None), body.pop("text", {}).get("format")
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    body["messages"] = [{"role": "system", "content": instructions}] * bool(instructions) + list(
        map(_message_of, items)
    )
    if form:
        body["response_format"] = {"type": form["type"], "json_schema": form}
    if "tools" in body:
        body["tools"] = [
            {"type": tool["type"], "function": {"strict": True, **tool}} if tool["type"] == "function" else tool
            for tool in body["tools"]
        ] or None
    return replace(asked, kind="chat/completions", body=body)


def _message_of(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type") == "function_call":
        return {"role": "assistant", "tool_calls": [item]}
    return {"role": "tool", "content": item["output"]} if item.get("type") == "function_call_output" else item


def _response_of(completion: dict[str, Any], asked: ModelRequest) -> dict[str, Any]:
    message, usage = completion["choices"][0]["message"], completion["usage"]
    content = {"type": "output_text", "text": message["content"], "annotations": []}
    said = {"type": "message", "id": "msg_0", "status": "completed", "role": "assistant", "content": [content]}
    calls = [
        {
            "type": "function_call",
            "status": "completed",
            "id": f"f{call['id']}",
            "call_id": call["id"],
            **call["function"],
        }
        for call in message.get("tool_calls", ())
    ]
    return {
        "id": "resp_scripted",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "model": asked.model,
        "output": calls or [said],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": usage["prompt_tokens_details"],
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        },
    }


def _pieces(text: str) -> list[str]:
    """The text in pieces as a model sends it, so that a reader of the stream has to join them."""
    return [text[start : start + 4] for start in range(0, len(text), 4)]


def _chat_events(body: dict[str, Any]) -> Iterator[str]:
    choice = body["choices"][0]
    message, chunk = choice["message"], {**body, "object": "chat.completion.chunk", "usage": None}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for place, call in enumerate(message.get("tool_calls", ())):
        named = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        pieces = [{"function": {"arguments": piece}} for piece in _pieces(call["function"]["arguments"])]
        deltas += [{"tool_calls": [{"index": place, **part}]} for part in (named, *pieces)]
    deltas += [{"content": piece} for piece in _pieces(message["content"] or "")]
    for delta, end in [*((delta, None) for delta in deltas), ({}, choice["finish_reason"])]:
        yield _event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": end, "logprobs": None}]})
    yield _event({**chunk, "choices": [], "usage": body["usage"]})
    yield "data: [DONE]"


def _response_events(body: dict[str, Any]) -> Iterator[str]:
    """Yield each item: begun, in pieces, done. Then yield the whole response."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for place, item in enumerate(body["output"]):
        events += _item_events(place, item)
    events.append({"type": "response.completed", "response": body})
    for number, event in enumerate(events):
        yield f"event: {event['type']}\n{_event({**event, 'sequence_number': number})}"


def _item_events(place: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    at: dict[str, Any] = {"output_index": place, "item_id": item["id"], "content_index": 0}
    if item["type"] == "message":
        [part] = item["content"]
        kind, text, empty = "response.output_text", part["text"], {"content": []}
    else:
        kind, text, empty = "response.function_call_arguments", item["arguments"], {"arguments": ""}
    yield {"type": "response.output_item.added", **at, "item": {**item, "status": "in_progress", **empty}}
    if item["type"] == "message":
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for piece in _pieces(text):
        yield {"type": f"{kind}.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": f"{kind}.done", **at, "text": text, "arguments": text, "logprobs": []}
    yield {"type": "response.output_item.done", **at, "item": item}


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}"


def broken_rule(asked: ModelRequest) -> str:
    """Return the first rule of OpenAI's that the request breaks, in OpenAI's words, or ""."""
    body, tools = asked.body, asked.body.get("tools") or []
    if not asked.model:
        return "you must provide a model parameter"
    if body.get("tools") == []:
        return "Invalid 'tools': empty array. Expected an array with minimum length 1."
    if len(tools) > MAX_TOOLS:
        return f"Invalid 'tools': array too long. Expected at most {MAX_TOOLS}, got {len(tools)}."
    if len(set(asked.tools)) < len(asked.tools):
        return "Invalid 'tools': names must be unique."
    form = (body.get("response_format") or {}).get("json_schema")
    if form is not None and not _NAME.fullmatch(form.get("name", "")):
        return f"Invalid 'response_format.json_schema.name': {form.get('name')!r}."
    if form is not None and form.get("strict") and (why := _not_strict(form.get("schema") or {})):
        return f"Invalid schema for response_format {form['name']!r}: {why}"
    return next(filter(None, map(_tool_problem, tools)), "")


def _tool_problem(tool: dict[str, Any]) -> str:
    if tool.get("type") != "function":
        return ""
    function = tool.get("function")
    if function is None:
        return "Missing required parameter: 'tools[0].function'."
    name, schema = function.get("name", ""), function.get("parameters") or {}
    if not _NAME.fullmatch(name):
        return f"Invalid 'tools[0].function.name': string does not match pattern. Got {name!r}."
    why = _not_a_schema(schema) or (_not_strict(schema) if function.get("strict") else "")
    return f"Invalid schema for function {name!r}: {why}" if why else ""


def _not_a_schema(schema: dict[str, Any]) -> str:
    from jsonschema import Draft202012Validator

    if schema.get("type") != "object" or {"anyOf", "oneOf", "allOf", "not", "enum", "const"} & schema.keys():
        return "schema must have type 'object' and no combination at the top."
    wrong = next(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema), None)
    if wrong:
        return str(wrong.message)
    bare = any(part.get("type") == "array" and "items" not in part for part in _parts(schema))
    return "array schema missing items." if bare else ""


def _not_strict(schema: dict[str, Any]) -> str:
    for part in _parts(schema):
        properties = part.get("properties") or {}
        if (part.get("type") == "object" or properties) and part.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        if set(part.get("required") or ()) != set(properties):
            return "'required' is required to be supplied and to be an array including every key in properties."
        if "default" in part:
            return "'default' is not permitted."
    return ""


def _parts(schema: Any) -> list[dict[str, Any]]:
    """Return a schema and all schemas within it, outermost first."""
    if not isinstance(schema, dict):
        return []
    inner = [*(schema.get("properties") or {}).values(), *(schema.get("$defs") or {}).values()]
    inner += [schema.get("items"), *(schema.get("anyOf") or ())]
    return [schema, *(part for own in inner for part in _parts(own))]
