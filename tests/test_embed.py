"""Embedders at a real HTTP endpoint that answers well, badly, late or not at all."""

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from numpy.typing import NDArray

from orchestrator import Catalogue, Options, RouteHint, Router, RouteRequest, Store
from orchestrator.common import bounded_http
from orchestrator.errors import EmbedderUnavailable, Unauthorised
from orchestrator.index.embedders.endpoint import OpenAIEmbedder
from orchestrator.testing import (
    DIMENSION,
    CutOff,
    Fault,
    ModelRequest,
    Raw,
    Reply,
    ScriptedModel,
    Slow,
    embedding,
)
from tests.catalogues import KEYWORD_ALONE, tool
from tests.loopback import served
from tests.stores import FILES, MAIL, embedder_of

PATIENT = Options(semantic_timeout_s=60)
"""A busy machine embeds slowly."""
ASK = RouteRequest(query="send an email to a person", tenant="local", route_hint=RouteHint.SEMANTIC)


def plain_numbers(asked: ModelRequest, dimension: int = DIMENSION) -> Raw:
    """The answer of an endpoint that cannot send base64."""
    vectors = [embedding(text, dimension).tolist() for text in asked.body["input"]]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return Raw(json.dumps({"object": "list", "data": data, "model": "m", "usage": None}))


ODD = {
    "no-json": Raw("<html>"),
    "short": Raw('{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1.0]}], "model": "m"}'),
    "not-finite": Raw('{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1.0]}]}'),
    "cut-off": CutOff(),
    "deep": Raw("[" * 200_000),
    "slow": Slow(4),
}


def _by_name(asked: ModelRequest) -> Reply | None:
    """The model's name selects its behaviour."""
    if asked.model == "larger":
        return plain_numbers(asked, 2 * DIMENSION)
    return Fault(int(asked.model), "scripted") if asked.model.isdigit() else ODD.get(asked.model)


@pytest.fixture
def server() -> Iterator[ScriptedModel]:
    with ScriptedModel(embeddings=_by_name) as found:
        yield found


def _texts(server: ScriptedModel) -> list[str]:
    return [text for asked in server.asked for text in asked.body["input"]]


def _unit_rows(texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors that an embedder must make of the server's answers."""
    rows = np.array([embedding(text) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")


def _embedder(server: ScriptedModel, model: str = "good") -> Any:
    return embedder_of(embedder=f"openai:{model}", model_url=server.url)


@pytest.mark.parametrize("script", [(), plain_numbers])
def test_both_forms_of_answer_are_read_in_the_order_of_the_texts(script: Any) -> None:
    texts = ["send an email", "read the file", "weather"]
    with ScriptedModel(embeddings=script) as server:
        embedder = _embedder(server)
        np.testing.assert_allclose(embedder.embed(texts), _unit_rows(texts), atol=1e-5)
        assert embedder.dimension == DIMENSION
        assert embedder.embed([]).shape == (0, DIMENSION)
        assert len(server.asked) == 1


def test_many_and_long_texts_go_in_several_requests(server: ScriptedModel) -> None:
    embedder = _embedder(server)
    texts = [f"tool {number}" for number in range(1_100)]
    np.testing.assert_allclose(embedder.embed(texts), _unit_rows(texts), atol=1e-5)
    assert [len(asked.body["input"]) for asked in server.asked] == [512, 512, 76]
    server.asked.clear()
    embedder.embed(["字" * 50_000] * 100)
    assert max(len(text) for text in _texts(server)) == 6_000
    assert max(sum(map(len, asked.body["input"])) for asked in server.asked) <= 250_000
    assert len(_texts(server)) == 100
    assert embedder.embed(["", "mail"]).shape == (2, DIMENSION)
    assert "" not in _texts(server)


def test_an_answer_with_too_many_numbers_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"tool {number}" for number in range(600)]
    with ScriptedModel(embeddings=plain_numbers) as server:
        monkeypatch.setattr("orchestrator.common.bounded_http.MOST_NUMBERS", 300 * DIMENSION)
        embedder = _embedder(server)
        np.testing.assert_allclose(embedder.embed(texts), _unit_rows(texts), atol=1e-5)
        assert [len(asked.body["input"]) for asked in server.asked] == [512, 256, 256, 88]
        monkeypatch.setattr("orchestrator.common.bounded_http.MOST_NUMBERS", 10)
        with pytest.raises(EmbedderUnavailable, match="the answer is too long"):
            embedder.embed(["one"])


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        ("429", EmbedderUnavailable, "HTTP 429: scripted"),
        ("401", Unauthorised, r"'401' at http://127\.0\.0\.1:\d+/v1 refused the key \(HTTP 401\): set OPENAI_API_KEY"),
        ("short", EmbedderUnavailable, "for 2 texts"),
        ("not-finite", EmbedderUnavailable, "not finite"),
        ("no-json", EmbedderUnavailable, "did not answer"),
        ("cut-off", EmbedderUnavailable, "did not answer"),
        ("deep", EmbedderUnavailable, "nested too deep"),
    ],
)
def test_a_bad_answer_is_one_try_and_one_plain_error(
    model: str, error: type[Exception], message: str, server: ScriptedModel
) -> None:
    with pytest.raises(error, match=message):
        _embedder(server, model).embed(["one", "two"])
    assert len(server.asked) == 1


def test_an_endpoint_that_drips_or_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drip(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        with suppress(OSError):
            for _ in range(2_000):
                await send({"type": "http.response.body", "body": b" " * 2**10, "more_body": True})
                await asyncio.sleep(0.01)

    with served(drip) as web:
        slow = OpenAIEmbedder("any", base_url=f"{web}/v1", api_key="any", timeout_s=0.3)
        with pytest.raises(EmbedderUnavailable, match="the answer took too long"):
            slow.embed(["one"])
        monkeypatch.setattr(bounded_http, "MOST_BYTES", 4 * 2**10)
        with pytest.raises(EmbedderUnavailable, match="the answer is too long"):
            OpenAIEmbedder("any", base_url=f"{web}/v1", api_key="any", timeout_s=30).embed(["one"])


@pytest.mark.parametrize("kind", ["blocking", "async"])
async def test_an_endpoint_that_drips_its_headers_is_given_up(kind: str) -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        with closing(writer), suppress(OSError):
            while not writer.is_closing():
                writer.write(b"a: b\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        web = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        if kind == "blocking":
            embedder = OpenAIEmbedder("any", base_url=web, api_key="any", timeout_s=0.5)
            for _ in range(2):
                with pytest.raises(EmbedderUnavailable, match="the answer took too long"):
                    await asyncio.to_thread(embedder.embed, ["one"])
        else:
            async with bounded_http.AsyncBoundedClient(timeout=0.5) as client:
                with pytest.raises(httpx2.ReadTimeout, match="the answer took too long"):
                    await client.get(web)


def test_an_endpoint_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(EmbedderUnavailable) as told:
        embedder_of(embedder="openai:any", model_url="http://me:secret@127.0.0.1:9/v1").embed(["one"])
    assert str(told.value) == "embedding model 'any' at http://127.0.0.1:9/v1 did not answer: the connection failed"


def test_a_key_that_the_endpoint_repeats_and_a_password_in_its_address_are_masked(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-4711-secret")
    with ScriptedModel(embeddings=[Fault(400, "wrong key sk-4711-secret"), None]) as model:
        url = model.url.replace("//", "//me:pass4711@")
        embedder: Any = embedder_of(embedder="openai:any", model_url=url)
        with pytest.raises(EmbedderUnavailable, match=r"HTTP 400: wrong key \*\*\*$"):
            embedder.embed(["one"])
        embedder.embed(["one"])
        embedder.close()
    assert "HTTP Request: POST http://me:***@127.0.0.1" in caplog.text
    assert "4711" not in caplog.text


# --- an endpoint at work


async def test_a_router_finds_by_an_endpoints_vectors_and_embeds_the_tools_once(server: ScriptedModel) -> None:
    store = Store(embedder=_embedder(server))
    store.replace_servers("local", {"mail": MAIL, "files": FILES})
    assert store.replace_server("local", "mail", MAIL).same == 2
    assert len(_texts(server)) == 5
    async with Router(store=store, embedder=store.embedder, options=PATIENT) as router:
        decision = await router.route(ASK)
    assert decision.semantic_ran
    assert decision.matches[0].tool.key == "mail:send_email"
    assert len(_texts(server)) == 6


@pytest.mark.parametrize(
    ("model", "warning"),
    [("500", "HTTP 500"), ("slow", "the answer took too long"), ("larger", "64 dimensions, but 32 before")],
)
async def test_a_failing_endpoint_leaves_the_keyword_answer_which_says_so(
    model: str, warning: str, server: ScriptedModel
) -> None:
    embedder = _embedder(server)
    store = Store(embedder=embedder)
    store.replace_servers("local", {"mail": MAIL, "files": FILES})
    embedder.model = model
    async with Router(store=store, embedder=embedder, options=PATIENT) as router:
        decision = await router.route(ASK)
    assert not decision.semantic_ran
    assert decision.matches[0].tool.key == "mail:send_email"
    (told,) = [told for told in decision.warnings if told.startswith(KEYWORD_ALONE)]
    assert warning in told


def test_a_failing_endpoint_changes_nothing_in_the_store(server: ScriptedModel, tmp_path: Path) -> None:
    good = Store(tmp_path / "store", embedder=_embedder(server))
    good.replace_server("local", "mail", MAIL)
    before = good.load("local")
    broken = _embedder(server, "500")
    broken.id = good.embedder.id
    bad = Store(tmp_path / "store", embedder=broken)
    with pytest.raises(EmbedderUnavailable):
        bad.replace_servers("local", {"files": FILES, "mail": [tool("mail:send_email", "Changed")]})
    after = bad.load("local")
    assert (after.tools, after.version) == (before.tools, before.version)


async def test_a_router_hangs_up_on_the_endpoint_that_it_opened_and_on_no_others(server: ScriptedModel) -> None:
    options = Options(embedder="openai:good", model_url=server.url, semantic_timeout_s=60)
    given = _embedder(server)
    async with Router(Catalogue([*MAIL, *FILES]), embedder=given, options=PATIENT) as router:
        assert (await router.route(ASK)).semantic_ran
    async with Router(Catalogue([*MAIL, *FILES]), options=options) as router:
        assert (await router.route(ASK)).semantic_ran
        assert isinstance(router.embedder, OpenAIEmbedder)
        own, others = router.embedder._client, given._client
        assert not own.is_closed()
    assert own.is_closed()
    assert not others.is_closed()
    given.close()


def test_openai_without_a_key_is_refused_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY")
    embedder = embedder_of(embedder="openai:text-embedding-3-small")
    with pytest.raises(Unauthorised, match="no key for OpenAI: set OPENAI_API_KEY, or set OPENAI_BASE_URL"):
        embedder.embed(["refund a charge"])
