"""A scripted model for tests: a real HTTP server on this machine that speaks OpenAI's protocol and says what you wrote.

with ScriptedModel([{"action": "tool", "tool": "time:now", "confidence": 0.9}, "It is noon."]) as model:
    models = Models(Options(model="scripted", model_url=model.url), api_key="any")

It answers `/v1/chat/completions`, `/v1/responses` (both also as a stream) and `/v1/embeddings`, refuses what OpenAI
refuses (tool names, strict schemas), and records what it was asked. A reply is a text, a dict or pydantic record (a
structured answer), or one of the records below; the script is a list of replies in order, or a function from what was
asked to the reply.
"""

import asyncio
import base64
import hashlib
import inspect
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self, Union

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.errors import MissingExtra
from orchestrator.index.text import terms

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

DIMENSION = 32
MAX_TOOLS = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Record one request. `kind` is `chat/completions`, `responses` or `embeddings`; headers are in lower case."""

    kind: str
    body: dict[str, Any]
    headers: dict[str, str] = field(repr=False)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def text(self) -> str:
        """All that the model was given to read, in order: instructions and messages; for embeddings the texts."""
        given = self.body.get("messages") or self.body.get("input") or ""
        messages = given if isinstance(given, list) else [given]
        parts = [self.body.get("instructions"), *(_content(message) for message in messages)]
        return "\n\n".join(part for part in parts if part)

    @property
    def tools(self) -> list[str]:
        """The names of the tools that it was offered."""
        return [tool.get("function", tool).get("name", "") for tool in self.body.get("tools") or ()]

    @property
    def called(self) -> int:
        """The number of calls that the conversation holds already: those of a reply are numbered from here."""
        items = [item for item in self.body.get("messages") or self.body.get("input") or () if isinstance(item, dict)]
        return sum(len(item.get("tool_calls") or ()) + (item.get("type") == "function_call") for item in items)

    @property
    def wants(self) -> str:
        """The name of the structure that it was asked for: a JSON schema's, `json_object`, or ""."""
        form = self._form
        return str(form.get("name") or (form.get("json_schema") or {}).get("name") or form.get("type") or "")

    @property
    def _form(self) -> dict[str, Any]:
        return self.body.get("response_format") or (self.body.get("text") or {}).get("format") or {}


def _content(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else compact(message)


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Call tools by the names that were offered, with their arguments: `ToolCalls([("time__now", {})])`."""

    calls: Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Decline to answer."""

    text: str = "I can't help with that."


@dataclass(frozen=True, slots=True)
class Truncated:
    """Answer with a text that stops at the limit of output tokens."""

    text: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Answer with an HTTP error in OpenAI's form; `retry_after` in seconds becomes the header."""

    status: int
    message: str = "scripted fault"
    code: str | None = None
    kind: str = "scripted"
    retry_after: float | None = None


_QUOTA = "insufficient_quota"
NO_CREDIT = Fault(429, "You exceeded your current quota, please check your plan.", code=_QUOTA, kind=_QUOTA)
"""HTTP 429 of an account without credit, which waiting does not mend."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Answer with good vectors, but of this size."""

    dimension: int


@dataclass(frozen=True, slots=True)
class Raw:
    """Answer with a body as it is, with HTTP 200: for answers of a wrong shape."""

    body: str
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class CutOff:
    """Send only the first half of a good answer."""


@dataclass(frozen=True, slots=True)
class Slow:
    """Send a reply after some seconds."""

    seconds: float
    reply: "Reply" = "late"


@dataclass(frozen=True, slots=True)
class Usage:
    """Send a reply that the provider bills like this; without it the tokens are estimated from the texts."""

    reply: "Reply"
    input: int
    output: int
    cached: int = 0


Reply = Union[  # noqa: UP007  (some members are named before they exist)
    str, Mapping[str, Any], BaseModel, ToolCalls, Refusal, Truncated, Fault, Raw, CutOff, Slow, Usage, Vectors
]
Script = Sequence[Reply] | Callable[[ModelRequest], Reply | Awaitable[Reply]]


class ScriptedModel:
    """Serve in a thread of its own; a context manager, sync or async. `url` is the base URL.

    `replies` is the script of the language model, `embeddings` that of the embedding model: faults, or None for good
    vectors, which also follow when it has ended. A language model whose script has ended answers 400 and says so. With
    `key`, any other API key is refused. What a script itself raises answers 400, and is raised where the context ends.
    `floats` is an endpoint that cannot send base64.
    """

    def __init__(
        self,
        replies: Script = (),
        *,
        embeddings: Sequence[Reply | None] | Callable[[ModelRequest], Reply | None] = (),
        dimension: int = DIMENSION,
        floats: bool = False,
        key: str | None = None,
    ) -> None:
        self.asked: list[ModelRequest] = []
        self.url = ""
        self._replies = replies if callable(replies) else list(replies)
        self._embeddings = embeddings if callable(embeddings) else list(embeddings)
        self._dimension, self._floats, self._key = dimension, floats, key
        self._server: Any = None
        self._mistake: Exception | None = None
        self._thread = threading.Thread(target=self._serve, name="toolroute scripted model", daemon=True)
        self._started = threading.Event()

    @property
    def left(self) -> int:
        """The number of replies of a list that nobody has asked for yet."""
        return 0 if callable(self._replies) else len(self._replies)

    def __enter__(self) -> Self:
        if find_spec("uvicorn") is None or find_spec("starlette") is None:
            raise MissingExtra("the scripted model needs uvicorn and starlette: pip install 'toolroute[mcp]' has both")
        self._thread.start()
        if not self._started.wait(30) or not self.url:
            raise RuntimeError("the scripted model did not start: no port of 127.0.0.1 could be opened")
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        if self._mistake is not None and error is None:
            raise self._mistake

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *how: object) -> None:
        await asyncio.to_thread(self.__exit__, *how)

    def _serve(self) -> None:
        import uvicorn
        from starlette.applications import Starlette
        from starlette.routing import Route

        paths = ("chat/completions", "responses", "embeddings")
        app = Starlette(routes=[Route(f"/v1/{path}", self._answer, methods=["POST"]) for path in paths])
        # A reply that is cut off on purpose is logged as an error. Frameworks keep clients that nobody closes.
        quiet: Any = {"log_level": "critical", "headers": [("connection", "close")]}
        config = uvicorn.Config(app, host="127.0.0.1", port=0, timeout_graceful_shutdown=1, **quiet)
        self._server = uvicorn.Server(config)
        asyncio.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        serving = asyncio.create_task(self._server.serve())
        try:
            while not self._server.started and not serving.done():  # noqa: ASYNC110  (uvicorn has no event for it)
                await asyncio.sleep(0.005)
            if self._server.started:
                self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}/v1"
        finally:
            self._started.set()
        await serving

    async def _answer(self, request: "Request") -> "Response":
        kind = request.url.path.removeprefix("/v1/")
        asked = ModelRequest(kind=kind, body=await request.json(), headers=dict(request.headers))
        self.asked.append(asked)
        try:
            return await self._respond(asked, await self._reply(asked))
        except Exception as error:  # of the test's own script, an assertion say: a 500 would be tried again and lost
            self._mistake = self._mistake or error
            return await self._respond(asked, Fault(400, f"the script failed: {type(error).__name__}: {error}"))

    async def _reply(self, asked: ModelRequest) -> Reply | None:
        if self._key is not None and asked.headers.get("authorization") != f"Bearer {self._key}":
            return Fault(401, "Incorrect API key provided.", code="invalid_api_key")
        if problem := broken_rule(asked):
            return Fault(400, problem, kind="invalid_request_error")
        script: Any = self._embeddings if asked.kind == "embeddings" else self._replies
        reply: Any = None if asked.kind == "embeddings" else Fault(400, "the script has no reply left")
        if callable(script):
            reply = script(asked)
            reply = await reply if inspect.isawaitable(reply) else reply
        elif script:
            reply = script.pop(0)
        if isinstance(reply, Slow):
            await asyncio.sleep(reply.seconds)
            reply = None if asked.kind == "embeddings" and isinstance(reply.reply, str) else reply.reply
        return reply  # type: ignore[no-any-return]

    async def _respond(self, asked: ModelRequest, reply: Reply | None) -> "Response":
        from starlette.responses import JSONResponse, Response, StreamingResponse

        if isinstance(reply, Fault):
            error = {"message": reply.message, "type": reply.kind, "param": None, "code": reply.code}
            headers = {} if reply.retry_after is None else {"retry-after": f"{reply.retry_after:g}"}
            return JSONResponse({"error": error}, status_code=reply.status, headers=headers)
        if isinstance(reply, Raw):
            return Response(reply.body, media_type=reply.content_type)
        halved = isinstance(reply, CutOff)
        if asked.kind == "embeddings":
            dimension = reply.dimension if isinstance(reply, Vectors) else self._dimension
            body = _embeddings(asked, dimension, self._floats)
        else:
            body = _completion(asked, "cut off" if halved else reply)
        if asked.body.get("stream") and asked.kind != "embeddings":
            lines = list(_chat_events(asked, body) if asked.kind == "chat/completions" else _response_events(body))
            return StreamingResponse(
                _sent(lines[: len(lines) // 2] if halved else lines), media_type="text/event-stream"
            )
        if not halved:
            return JSONResponse(body)
        whole = json.dumps(body).encode()
        headers = {"content-length": str(len(whole))}
        return StreamingResponse(_first_half(whole), headers=headers, media_type="application/json")


def environment(model: ScriptedModel, name: str = "scripted", key: str = "scripted") -> Mapping[str, str]:
    """Return the environment variables that make toolroute use the scripted model: for processes that a test starts."""
    return {"TOOLROUTE_MODEL": name, "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": key}


def embedding(text: str, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """Return a text's vector (not of length 1), near those of texts that share terms; the same in every process."""
    vector = np.full(dimension, 1e-3, np.float32)
    for term in terms(text):
        vector[int(hashlib.sha256(term.encode()).hexdigest(), 16) % dimension] += 1
    return vector * 3


async def _first_half(body: bytes) -> AsyncIterator[bytes]:
    yield body[: len(body) // 2]


def _embeddings(asked: ModelRequest, dimension: int, floats: bool) -> dict[str, Any]:
    given = asked.body["input"]
    texts = given if isinstance(given, list) else [given]
    packed = asked.body.get("encoding_format") == "base64" and not floats
    data = []
    for place, text in enumerate(texts):
        vector = embedding(text, asked.body.get("dimensions") or dimension)
        numbers = base64.b64encode(vector.astype("<f4").tobytes()).decode() if packed else vector.tolist()
        data.append({"object": "embedding", "index": place, "embedding": numbers})
    used = sum(map(count_tokens, texts))
    usage = {"prompt_tokens": used, "total_tokens": used}
    # Out of order: the index is what counts.
    return {"object": "list", "data": data[::-1], "model": asked.model, "usage": usage}


def _completion(asked: ModelRequest, reply: Any) -> dict[str, Any]:
    said = reply.reply if isinstance(reply, Usage) else reply
    if isinstance(said, BaseModel):
        said = said.model_dump_json()
    elif isinstance(said, Mapping):
        said = compact(said)
    usage = reply
    if not isinstance(usage, Usage):
        output = count_tokens(str(getattr(said, "text", said)))
        usage = Usage("", input=count_tokens(compact(asked.body)), output=output)
    return _chat(asked, said, usage) if asked.kind == "chat/completions" else _response(asked, said, usage)


def _chat(asked: ModelRequest, said: Any, usage: Usage) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    finish = "stop"
    if isinstance(said, ToolCalls):
        finish, calls = "tool_calls", [{"name": name, "arguments": _arguments(own)} for name, own in said.calls]
        message["tool_calls"] = [
            {"id": f"call_{place}", "type": "function", "function": call}
            for place, call in enumerate(calls, asked.called)
        ]
    elif isinstance(said, Refusal):
        message["refusal"] = said.text
    elif isinstance(said, Truncated):
        finish, message["content"] = "length", said.text
    else:
        message["content"] = said
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        },
    }


def _response(asked: ModelRequest, said: Any, usage: Usage) -> dict[str, Any]:
    cut = isinstance(said, Truncated)
    output: list[dict[str, Any]]
    if isinstance(said, ToolCalls):
        done = {"type": "function_call", "status": "completed"}
        output = [
            {**done, "id": f"fc_{place}", "call_id": f"call_{place}", "name": name, "arguments": _arguments(own)}
            for place, (name, own) in enumerate(said.calls, asked.called)
        ]
    else:
        text = {"type": "output_text", "text": said.text if cut else said, "annotations": []}
        content = {"type": "refusal", "refusal": said.text} if isinstance(said, Refusal) else text
        output = [{"type": "message", "id": "msg_0", "status": "completed", "role": "assistant", "content": [content]}]
    return {
        "id": "resp_scripted",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "model": asked.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": asked.body.get("tools") or [],
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input + usage.output,
        },
    }


async def _sent(lines: Sequence[str]) -> AsyncIterator[bytes]:
    for line in lines:
        yield f"{line}\n\n".encode()


def _pieces(text: str) -> list[str]:
    """Return the text in pieces as a model sends it, so that what reads a stream has to put it together."""
    return [text[start : start + 4] for start in range(0, len(text), 4)]


def _chat_events(asked: ModelRequest, body: dict[str, Any]) -> Iterator[str]:
    """Yield a chat completion's chunks: its calls or text in pieces, how it ended, and usage if asked."""
    choice = body["choices"][0]
    message, chunk = choice["message"], {**body, "object": "chat.completion.chunk", "usage": None}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for place, call in enumerate(message.get("tool_calls") or ()):
        named = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        deltas.append({"tool_calls": [{"index": place, **named}]})
        pieces = _pieces(call["function"]["arguments"])
        deltas += [{"tool_calls": [{"index": place, "function": {"arguments": piece}}]} for piece in pieces]
    deltas += [{kind: piece} for kind in ("content", "refusal") for piece in _pieces(message[kind] or "")]
    ends = [*((delta, None) for delta in deltas), ({}, choice["finish_reason"])]
    for delta, end in ends:
        yield _event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": end, "logprobs": None}]})
    if (asked.body.get("stream_options") or {}).get("include_usage"):
        yield _event({**chunk, "choices": [], "usage": body["usage"]})
    yield "data: [DONE]"


def _response_events(body: dict[str, Any]) -> Iterator[str]:
    """Yield a response's events: each item begun, in pieces, done; then all of it."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [
        {"type": f"response.{kind}", "response": begun} for kind in ("created", "in_progress")
    ]
    for place, item in enumerate(body["output"]):
        events += _item_events(place, item)
    events.append({"type": f"response.{body['status']}", "response": body})
    for number, event in enumerate(events):
        yield f"event: {event['type']}\n{_event({**event, 'sequence_number': number})}"


def _item_events(place: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    at: dict[str, Any] = {"output_index": place, "item_id": item["id"]}
    empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
    yield {
        "type": "response.output_item.added",
        "output_index": place,
        "item": {**item, "status": "in_progress", **empty},
    }
    for part in item.get("content") or ():
        kind, field = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
        at |= {"content_index": 0}
        yield {"type": "response.content_part.added", **at, "part": {**part, field: ""}}
        for piece in _pieces(part[field]):
            yield {"type": f"response.{kind}.delta", **at, "delta": piece, "logprobs": []}
        yield {"type": f"response.{kind}.done", **at, field: part[field], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}
    if item["type"] == "function_call":
        arguments = {"name": item["name"], "arguments": item["arguments"]}
        for piece in _pieces(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        yield {"type": "response.function_call_arguments.done", **at, **arguments}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}"


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else compact(given)


def broken_rule(asked: ModelRequest) -> str:
    """Return the first rule of OpenAI's that the request breaks, in its manner, or "": tools and strict schemas."""
    body, tools = asked.body, asked.body.get("tools") or []
    if not asked.model:
        return "you must provide a model parameter"
    if body.get("tools") == [] and asked.kind == "chat/completions":
        return "Invalid 'tools': empty array. Expected an array with minimum length 1."
    if len(tools) > MAX_TOOLS:
        return f"Invalid 'tools': array too long. Expected at most {MAX_TOOLS}, got {len(tools)}."
    if len(set(asked.tools)) < len(asked.tools):
        return "Invalid 'tools': names must be unique."
    form = asked._form.get("json_schema", asked._form)  # noqa: SLF001
    if asked._form.get("type") == "json_schema":  # noqa: SLF001
        if not _NAME.fullmatch(form.get("name", "")):
            return f"Invalid 'response_format.json_schema.name': {form.get('name')!r}."
        if form.get("strict") and (why := _not_strict(form.get("schema") or {})):
            return f"Invalid schema for response_format {form['name']!r}: {why}"
    return next(filter(None, (_tool_problem(tool, asked.kind) for tool in tools)), "")


def _tool_problem(tool: Any, kind: str) -> str:
    if tool.get("type") != "function":
        return ""
    if ("function" in tool) != (kind == "chat/completions"):
        return "Missing required parameter: 'tools[0].name'; the other API's shape was sent."
    function = tool.get("function", tool)
    name, schema = function.get("name", ""), function.get("parameters") or {}
    if not _NAME.fullmatch(name):
        return f"Invalid 'tools[0].name': string does not match pattern. Got {name!r}."
    # Left out, the Responses API takes strict as true, Chat Completions as false.
    why = _not_a_schema(schema) or (_not_strict(schema) if function.get("strict", kind == "responses") else "")
    return f"Invalid schema for function {name!r}: {why}" if why else ""


def _not_a_schema(schema: Any) -> str:
    from jsonschema import Draft202012Validator

    if schema.get("type") != "object" or {"anyOf", "oneOf", "allOf", "not", "enum", "const"} & schema.keys():
        return "schema must have type 'object' and no combination at the top."
    wrong = next(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema), None)
    if wrong:
        return str(wrong.message)
    bare = any(part.get("type") == "array" and "items" not in part for part in _parts(schema))
    return "array schema missing items." if bare else ""


def _not_strict(schema: Any) -> str:
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
    """Return a schema and all schemas in it, outermost first."""
    if not isinstance(schema, dict):
        return []
    inner = [*(schema.get("properties") or {}).values(), *(schema.get("$defs") or {}).values()]
    inner += [schema.get("items"), *(schema.get("anyOf") or ())]
    return [schema, *(part for own in inner for part in _parts(own))]
