"""A loopback HTTP server that speaks OpenAI's embeddings protocol. The model's name says how it behaves."""

import asyncio
import base64
import hashlib
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from orchestrator.text import terms

DIMENSION = 32


@dataclass
class EmbeddingServer:
    """Its address, and every request that it got."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request["input"]]

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        model, count = body["model"], len(body["input"])
        if model.isdigit():
            told = {"error": {"message": f"scripted to answer {model}", "type": "scripted"}}
            return JSONResponse(told, status_code=int(model))
        if model == "no-json":
            return PlainTextResponse("<html>", media_type="application/json")
        if model == "slow":
            await asyncio.sleep(4)
        vectors = [embedding(text, DIMENSION) for text in body["input"]]
        if model == "growing" and len(self.requests) > 1:
            vectors = [embedding(text, DIMENSION * 2) for text in body["input"]]
        if model == "short":
            vectors = vectors[: count - 1]
        if model == "not-finite":
            vectors[0][0] = np.nan
        floats = model == "floats" or body.get("encoding_format") != "base64"
        data = [
            {"object": "embedding", "index": i, "embedding": vector.tolist() if floats else _encoded(vector)}
            for i, vector in enumerate(vectors)
        ]
        # Out of order: the index is what counts.
        return JSONResponse({"object": "list", "data": data[::-1], "model": model, "usage": {}})


def embedding(text: str, dimension: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A vector of the text's terms: texts with terms in common are near one another."""
    vector = np.full(dimension, 1e-3, np.float32)
    for term in terms(text):
        vector[int(hashlib.sha256(term.encode()).hexdigest(), 16) % dimension] += 1
    return vector * 3


def _encoded(vector: np.ndarray[Any, np.dtype[np.float32]]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


@contextmanager
def serving() -> Iterator[EmbeddingServer]:
    """The server, in a thread of its own."""
    found = EmbeddingServer()
    app = Starlette(routes=[Route("/v1/embeddings", found.answer, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        found.url = f"http://127.0.0.1:{port}/v1"
        yield found
    finally:
        server.should_exit = True
        thread.join()


def unit_rows(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """What an embedder must make of the server's answers."""
    rows = np.array([embedding(text, DIMENSION) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
