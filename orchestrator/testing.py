"""Tools for tests: a scripted language model, and a Temporal server.

The model is a real HTTP server on this machine that gives the answers that you wrote. It has OpenAI's protocol for
chat completions and embeddings, and records the requests in `model.asked`.

    with ScriptedModel([{"action": "tool", "tool": "time:now", "confidence": 0.9}, "It is noon."]) as model:
        models = Models(Options(model="scripted", model_url=model.url), api_key="any")
"""

import asyncio
import base64
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, Self, Union

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.index.text import terms
from orchestrator.temporal.client.devserver import dev_server as dev_server

DIMENSION = 32
"""The length of a vector, if the request does not ask for another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """A request to the scripted model.

    Attributes:
        kind: `chat/completions` or `embeddings`.
        body: The request's JSON.
        headers: The request's headers, with names in lower case.
    """

    kind: str
    body: dict[str, Any]
    headers: dict[str, str] = field(repr=False)

    @property
    def model(self) -> str:
        """The name of the requested model."""
        return str(self.body.get("model", ""))

    @property
    def text(self) -> str:
        """All texts of the request, in order: the messages, or the texts to embed."""
        content = self.body.get("messages") or self.body.get("input") or ""
        messages = content if isinstance(content, list) else [content]
        return "\n\n".join(filter(None, map(_text_of, messages)))

    @property
    def tools(self) -> list[str]:
        """The names of the tools in the request."""
        return [tool.get("function", {}).get("name", "") for tool in self.body.get("tools") or ()]

    @property
    def called(self) -> int:
        """The number of tool calls in the conversation."""
        return sum(
            len(message.get("tool_calls") or ()) for message in self.body.get("messages") or ()
        )

    @property
    def wants(self) -> str:
        """The name of the requested structure: a JSON schema's name, `json_object`, or ""."""
        form = self.body.get("response_format") or {}
        return str((form.get("json_schema") or {}).get("name") or form.get("type") or "")


def _text_of(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else compact(message)


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Call tools, by the names in the request, with arguments: `ToolCalls([("time__now", {})])`."""

    calls: Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Decline to answer."""

    text: str = "I can't help with that."


@dataclass(frozen=True, slots=True)
class Truncated:
    """Answer with a text that ends at the limit of output tokens."""

    text: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Answer with an HTTP error in OpenAI's form. `retry_after`, in seconds, becomes the header."""

    status: int
    message: str = "scripted fault"
    code: str | None = None
    kind: str = "scripted"
    retry_after: float | None = None


_QUOTA = "insufficient_quota"
NO_CREDIT = Fault(
    429, "You exceeded your current quota, please check your plan.", code=_QUOTA, kind=_QUOTA
)
"""HTTP 429 for an account without credit. A later try fails in the same way."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Answer with this body and HTTP 200, for answers with a wrong form."""

    body: str


@dataclass(frozen=True, slots=True)
class CutOff:
    """Send only the first half of a good answer, then close the connection."""


@dataclass(frozen=True, slots=True)
class Slow:
    """Send a reply after a number of seconds."""

    seconds: float
    reply: "Reply" = "late"


@dataclass(frozen=True, slots=True)
class Billed:
    """Send a reply with these token counts. Without `Billed` the tokens are estimated from the texts."""

    reply: "Reply"
    input: int
    output: int
    cached: int = 0


Reply = Union[  # noqa: UP007  (some members are named before they exist)
    str,
    Mapping[str, Any],
    BaseModel,
    ToolCalls,
    Refusal,
    Truncated,
    Fault,
    Raw,
    CutOff,
    Slow,
    Billed,
]
"""A text, a dict or pydantic record (a structured answer), or one of the records above."""
Script = Sequence[Reply] | Callable[[ModelRequest], Reply | Awaitable[Reply]]
"""Replies in order, or a function from the request to the reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """An HTTP answer. With `is_cut_off`, only the first half of the body is sent."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_cut_off: bool = False


class ScriptedModel:
    """A scripted language model, served on 127.0.0.1 within `with` or `async with`.

    If the script raises an exception, the model answers HTTP 400, and the exception is raised again at the
    end of the context.

    Args:
        replies: The script of the language model. At the end of a list, the model answers HTTP 400.
        embeddings: The script of the embedding model: faults, or None for good vectors. Good vectors follow its end.
        key: The API key. Other keys are refused. Default: every key is accepted.

    Attributes:
        url: The base URL, within the context.
        asked: The requests, in order.
        replies: The replies that are left. Tests may replace them.

    Examples:
        >>> import asyncio
        >>> from orchestrator import Models, Options
        >>> from orchestrator.testing import ScriptedModel
        >>> async def ask() -> str:
        ...     async with ScriptedModel(["It is noon."]) as model:
        ...         async with Models(Options(model="scripted", model_url=model.url), api_key="any") as models:
        ...             text, usage = await models.write("scripted", [{"role": "user", "content": "What time is it?"}])
        ...     return text
        >>> asyncio.run(ask())
        'It is noon.'
    """

    def __init__(
        self,
        replies: Script = (),
        *,
        embeddings: Sequence[Reply | None] | Callable[[ModelRequest], Reply | None] = (),
        key: str | None = None,
    ) -> None:
        self.asked: list[ModelRequest] = []
        self.url = ""
        self.replies = replies if callable(replies) else list(replies)
        self._embeddings = embeddings if callable(embeddings) else list(embeddings)
        self._key = key
        self._lock = Lock()
        self._closing = Event()
        self._error: Exception | None = None

    @property
    def left(self) -> int:
        """The number of replies that are left in a list."""
        return 0 if callable(self.replies) else len(self.replies)

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = Thread(
            target=self._server.serve_forever, args=(0.01,), name="toolroute scripted model"
        )
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self._error is not None and error is None:
            raise self._error

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *how: object) -> None:
        await asyncio.to_thread(self.__exit__, *how)

    def answer(self, request: ModelRequest) -> HttpAnswer:
        """Return the script's answer to a request."""
        self.asked.append(request)
        try:
            return http_answer(request, self._reply(request))
        except Exception as error:  # An error of the script. HTTP 500 would be retried, and the error would be lost.
            self._error = self._error or error
            return http_answer(
                request, Fault(400, f"the script failed: {type(error).__name__}: {error}")
            )

    def _reply(self, request: ModelRequest) -> Reply | None:
        if self._key is not None and request.headers.get("authorization") != f"Bearer {self._key}":
            return Fault(401, "Incorrect API key provided.", code="invalid_api_key")
        is_embedding = request.kind == "embeddings"
        script: Any = self._embeddings if is_embedding else self.replies
        with self._lock:  # Each request has its own thread.
            if callable(script):
                reply = script(request)
            elif script:
                reply = script.pop(0)
            else:
                reply = None if is_embedding else Fault(400, "the script has no reply left")
        if inspect.iscoroutine(reply):
            reply = asyncio.run(reply)
        if isinstance(reply, Slow):
            self._closing.wait(reply.seconds)
            reply = reply.reply
        return reply  # type: ignore[no-any-return]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, model: ScriptedModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = json.loads(self.rfile.read(int(headers["content-length"])))
        request = ModelRequest(kind=self.path.removeprefix("/v1/"), body=body, headers=headers)
        answer = self.server.model.answer(request)
        with suppress(ConnectionError):  # The client no longer waits.
            self.send_response(answer.status)
            common = {"content-type": answer.content_type, "content-length": str(len(answer.body))}
            for name, value in {**common, **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(
                answer.body[: len(answer.body) // 2] if answer.is_cut_off else answer.body
            )

    def log_message(self, *_: object) -> None:
        """Write no log of requests."""


def environment(
    model: ScriptedModel, name: str = "scripted", key: str = "scripted"
) -> Mapping[str, str]:
    """Return the environment variables with which another process uses the scripted model.

    Args:
        model: The scripted model.
        name: The value of TOOLROUTE_MODEL.
        key: The value of OPENAI_API_KEY.
    """
    return {"TOOLROUTE_MODEL": name, "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": key}


def embedding(text: str, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """Return a text's vector. It is close to the vectors of texts with the same terms, the same in every process, and
    not normalized.
    """
    vector = np.full(dimension, 1e-3, np.float32)
    for term in terms(text):
        vector[int(hashlib.sha256(term.encode()).hexdigest(), 16) % dimension] += 1
    return vector * 3


def http_answer(request: ModelRequest, reply: Reply | None) -> HttpAnswer:
    """Return the HTTP answer for a reply. None means good vectors."""
    if isinstance(reply, Fault):
        error = {"message": reply.message, "type": reply.kind, "param": None, "code": reply.code}
        headers = {} if reply.retry_after is None else {"retry-after": f"{reply.retry_after:g}"}
        return HttpAnswer(
            body=json.dumps({"error": error}).encode(), status=reply.status, headers=headers
        )
    if isinstance(reply, Raw):
        return HttpAnswer(body=reply.body.encode())
    is_cut_off = isinstance(reply, CutOff)
    body = (
        _embeddings(request)
        if request.kind == "embeddings"
        else _completion(request, "cut off" if is_cut_off else reply)
    )
    return HttpAnswer(body=json.dumps(body).encode(), is_cut_off=is_cut_off)


def _embeddings(request: ModelRequest) -> dict[str, Any]:
    content = request.body["input"]
    texts = content if isinstance(content, list) else [content]
    data = []
    for index, text in enumerate(texts):
        vector = embedding(text, request.body.get("dimensions") or DIMENSION)
        is_base64 = request.body.get("encoding_format") == "base64"
        numbers = (
            base64.b64encode(vector.astype("<f4").tobytes()).decode()
            if is_base64
            else vector.tolist()
        )
        data.append({"object": "embedding", "index": index, "embedding": numbers})
    tokens = sum(map(count_tokens, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    # Out of order, because only the index counts.
    return {"object": "list", "data": data[::-1], "model": request.model, "usage": usage}


def _completion(request: ModelRequest, reply: Any) -> dict[str, Any]:
    content = reply.reply if isinstance(reply, Billed) else reply
    if isinstance(content, BaseModel):
        content = content.model_dump_json()
    elif isinstance(content, Mapping):
        content = compact(content)
    usage = reply
    if not isinstance(usage, Billed):
        output = count_tokens(str(getattr(content, "text", content)))
        usage = Billed("", input=count_tokens(compact(request.body)), output=output)
    message, finish_reason = _message(request, content)
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [
            {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
        ],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        },
    }


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else compact(arguments)


def _message(request: ModelRequest, content: Any) -> tuple[dict[str, Any], str]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if isinstance(content, ToolCalls):
        calls = [
            {"name": name, "arguments": _as_text(arguments)} for name, arguments in content.calls
        ]
        message["tool_calls"] = [
            {"id": f"call_{number}", "type": "function", "function": call}
            for number, call in enumerate(calls, request.called)
        ]
        return message, "tool_calls"
    if isinstance(content, Refusal):
        return {**message, "refusal": content.text}, "stop"
    if isinstance(content, Truncated):
        return {**message, "content": content.text}, "length"
    return {**message, "content": content}, "stop"
