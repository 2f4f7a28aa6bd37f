"""A scripted model for tests: a real HTTP server on this machine that speaks OpenAI's protocol and says what you wrote.

with ScriptedModel([{"action": "tool", "tool": "time:now", "confidence": 0.9}, "It is noon."]) as model:
    models = Models(Options(model="scripted", model_url=model.url), api_key="any")

It answers `/v1/chat/completions`, `/v1/responses` and `/v1/embeddings`, refuses what OpenAI refuses (tool names, strict
schemas), and records what it was asked. A reply is a text, a dict or pydantic record (a structured answer), or one of
the records below; the script is a list of replies in order, or a function from what was asked to the reply.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from orchestrator.testing.replies import (
    NO_CREDIT,
    Asked,
    CutOff,
    Fault,
    Raw,
    Refusal,
    Reply,
    Slow,
    ToolCalls,
    Truncated,
    Usage,
    Vectors,
)
from orchestrator.testing.rules import broken_rule
from orchestrator.testing.vectors import DIMENSION, embedding
from orchestrator.testing.wire import respond

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = [
    "NO_CREDIT",
    "Asked",
    "CutOff",
    "Fault",
    "Raw",
    "Refusal",
    "ScriptedModel",
    "Slow",
    "ToolCalls",
    "Truncated",
    "Usage",
    "Vectors",
    "embedding",
]

Script = Sequence[Reply] | Callable[[Asked], Reply | Awaitable[Reply]]


class ScriptedModel:
    """The server, in a thread of its own; a context manager, sync or async.

    `replies` is the script of the language model, `embeddings` that of the embedding model: faults, or None for good
    vectors, which also follow when it has ended. A language model whose script has ended answers 400 and says so. With
    `key`, any other API key is refused. What a script itself raises answers 400, and is raised where the context ends.
    `floats` is an endpoint that cannot send base64. `url` is the base URL.
    """

    def __init__(
        self,
        replies: Script = (),
        *,
        embeddings: Sequence[Reply | None] | Callable[[Asked], Reply | None] = (),
        dimension: int = DIMENSION,
        floats: bool = False,
        key: str | None = None,
    ) -> None:
        self.asked: list[Asked] = []
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
        """Replies of a list that nobody asked for yet."""
        return 0 if callable(self._replies) else len(self._replies)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(30) or not self.url:
            raise RuntimeError("the scripted model did not start: no port of 127.0.0.1 could be opened")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        if self._mistake is not None and error is None:
            raise self._mistake

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _serve(self) -> None:
        import uvicorn
        from starlette.applications import Starlette
        from starlette.routing import Route

        routes = [
            Route(f"/v1/{path}", self._answer, methods=["POST"])
            for path in ("chat/completions", "responses", "embeddings")
        ]
        # A reply that is cut off on purpose is logged as an error.
        config = uvicorn.Config(
            Starlette(routes=routes), host="127.0.0.1", port=0, log_level="critical", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        asyncio.run(self._until_told())

    async def _until_told(self) -> None:
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
        asked = Asked(
            kind=request.url.path.removeprefix("/v1/"), body=await request.json(), headers=dict(request.headers)
        )
        self.asked.append(asked)
        try:
            return await respond(asked, await self._reply(asked), self._dimension, self._floats)
        except Exception as error:  # of the test's own script, an assertion say: a 500 would be tried again and lost
            self._mistake = self._mistake or error
            told = Fault(400, f"the script failed: {type(error).__name__}: {error}")
            return await respond(asked, told, self._dimension, self._floats)

    async def _reply(self, asked: Asked) -> Reply | None:
        if self._key is not None and asked.headers.get("authorization") != f"Bearer {self._key}":
            return Fault(401, "Incorrect API key provided.", code="invalid_api_key")
        if problem := broken_rule(asked):
            return Fault(400, problem, kind="invalid_request_error")
        script: Any = self._embeddings if asked.kind == "embeddings" else self._replies
        if callable(script):
            said: Reply | None = await awaited if inspect.isawaitable(awaited := script(asked)) else awaited
            return said
        if script:
            first: Reply | None = script.pop(0)
            return first
        return None if asked.kind == "embeddings" else Fault(400, "the script has no reply left")


def environment(model: ScriptedModel, name: str = "scripted", key: str = "scripted") -> Mapping[str, str]:
    """The environment variables that make toolroute use the scripted model: for processes that a test starts."""
    return {"TOOLROUTE_MODEL": name, "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": key}
