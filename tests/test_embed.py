"""Embedders: the static model, and a real HTTP endpoint that answers well, badly, late or not at all."""

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from orchestrator import Router
from orchestrator.catalogue import Catalogue
from orchestrator.embed import Embedder, OpenAIEmbedder, StaticEmbedder, embed_tools, embedder_for, embedder_id, unit
from orchestrator.errors import EmbedderUnavailable, InvalidConfig, Unauthorised
from orchestrator.models import RouteHint, RouteRequest
from orchestrator.options import Options
from orchestrator.scripted.replies import Reply
from orchestrator.scripted.vectors import DIMENSION
from orchestrator.store import Changes, Store
from orchestrator.testing import Asked, CutOff, Fault, Raw, ScriptedModel, Slow, Vectors, embedding
from tests.catalogues import sample, tool
from tests.stores import FILES, MAIL, SHIPPED, shipped, smaller_model
from tests.timing import seconds

ASK = RouteRequest(query="send an email to a person", tenant="local", route_hint=RouteHint.SEMANTIC)


ODD = {
    "no-json": Raw("<html>"),
    "short": Raw('{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1.0]}], "model": "m"}'),
    "not-finite": Raw('{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1.0]}]}'),
    "cut-off": CutOff(),
    "slow": Slow(4),
    "larger": Vectors(2 * DIMENSION),
}


def _by_name(asked: Asked) -> Reply | None:
    """The model's name says how it behaves."""
    return Fault(int(asked.model), "scripted") if asked.model.isdigit() else ODD.get(asked.model)


@pytest.fixture
def server() -> Iterator[ScriptedModel]:
    with ScriptedModel(embeddings=_by_name) as found:
        yield found


def _texts(server: ScriptedModel) -> list[str]:
    return [text for asked in server.asked for text in asked.body["input"]]


def _unit_rows(texts: Sequence[str]) -> NDArray[np.float32]:
    """What an embedder must make of the server's answers."""
    return unit(np.array([embedding(text) for text in texts]))


def _embedder(server: ScriptedModel, model: str = "good", **given: float) -> OpenAIEmbedder:
    return OpenAIEmbedder(model, base_url=server.url, api_key="k", **given)


# --- the static model


def test_a_text_has_the_same_vector_of_length_one_alone_and_among_others() -> None:
    texts = ["send an email", "读取文件", "mail " * 5_000, "delete the file " * 500, "e-mail, then  call.\tNow\nthis"]
    texts += [
        "getUserName of MyServer",
        "café na\u0131ve cafe\u0301 \u0301x",
        "42% of $3,000.50!",
        "a\u200bb c\u00a0d 🚀up",
    ]
    assert len(texts) > 8  # Few texts are cut word by word, and many by the tokenizer itself.
    together = shipped().embed(texts)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(shipped().embed([text])[0], row, atol=1e-6)


def test_texts_that_say_nothing_are_zero_and_none_is_none() -> None:
    assert not shipped().embed(["", "   "]).any()
    assert shipped().embed([]).shape == (0, shipped().dimension)
    assert embed_tools(shipped(), []).shape == (0, shipped().dimension)


def test_texts_that_mean_the_same_are_nearer_than_others() -> None:
    query, same, other = shipped().embed(["delete a file", "remove the document from disk", "weather in Oslo"])
    assert query @ same > query @ other + 0.1


def test_more_texts_than_a_batch_come_back_in_order() -> None:
    texts = [f"tool number {number}" for number in range(1_100)]
    rows = shipped().embed(texts)
    assert rows.shape[0] == 1_100
    np.testing.assert_allclose(rows[1_050], shipped().embed([texts[1_050]])[0], atol=1e-6)


def test_a_query_takes_no_time_worth_speaking_of() -> None:
    query = ["send an email to the whole team about the release"]
    assert seconds(lambda: [shipped().embed(query) for _ in range(100)]) < 0.5


def test_another_folder_is_another_embedder(tmp_path: Path) -> None:
    smaller = embedder_for(Options(embedder=str(smaller_model(tmp_path / "model"))))
    assert (smaller.dimension, shipped().dimension) == (64, 256)
    assert smaller.id != shipped().id
    assert StaticEmbedder(SHIPPED).id == shipped().id


@pytest.mark.parametrize("broken", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_is_no_model_is_told(broken: str, tmp_path: Path) -> None:
    folder = smaller_model(tmp_path / "model")
    (folder / broken).write_text("{")
    with pytest.raises(InvalidConfig, match="no model2vec folder"):
        StaticEmbedder(folder)
    (folder / broken).unlink()
    with pytest.raises(InvalidConfig, match="no model2vec folder"):
        StaticEmbedder(folder)
    with pytest.raises(InvalidConfig, match=rf"No such file.* a model2vec folder, with .*{broken}"):
        Router(sample(), options=Options(embedder=str(folder)))


@pytest.mark.parametrize("name", ["openai:", "no/such/folder", "statc", "x" * 300])
def test_an_embedder_that_is_none_is_told_where_it_or_a_router_is_made(name: str) -> None:
    with pytest.raises(InvalidConfig, match="embedder"):
        embedder_for(Options(embedder=name))
    with pytest.raises(InvalidConfig, match="embedder"):
        Router(sample(), options=Options(embedder=name))


def test_the_id_of_an_embedder_is_known_before_it_is_loaded(tmp_path: Path) -> None:
    folder = str(smaller_model(tmp_path / "model"))
    for options in (Options(), Options(embedder=folder), Options(embedder="openai:m")):
        assert embedder_id(options) == embedder_for(options).id


def test_a_router_that_is_made_has_loaded_no_model() -> None:
    code = "import sys; from orchestrator import *; Router(Catalogue()); print('tokenizers' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout == "False\n"


# --- an endpoint


@pytest.mark.parametrize("floats", [False, True])
def test_both_forms_of_answer_are_read_in_the_order_of_the_texts(floats: bool) -> None:
    texts = ["send an email", "read the file", "weather"]
    with ScriptedModel(floats=floats) as server:
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


def test_an_empty_text_is_not_sent_empty(server: ScriptedModel) -> None:
    assert _embedder(server).embed(["", "mail"]).shape == (2, DIMENSION)
    assert "" not in _texts(server)


@pytest.mark.parametrize(
    ("model", "error", "told"),
    [
        ("429", EmbedderUnavailable, "HTTP 429: scripted"),
        ("500", EmbedderUnavailable, "HTTP 500"),
        ("404", EmbedderUnavailable, "HTTP 404: scripted"),
        ("401", Unauthorised, r"'401' at http://127\.0\.0\.1:\d+/v1 refused the key \(HTTP 401\): set OPENAI_API_KEY"),
        ("403", Unauthorised, "HTTP 403"),
        ("short", EmbedderUnavailable, "for 2 texts"),
        ("not-finite", EmbedderUnavailable, "not finite"),
        ("no-json", EmbedderUnavailable, "did not answer"),
        ("cut-off", EmbedderUnavailable, "did not answer"),
    ],
)
def test_a_bad_answer_is_one_try_and_one_plain_error(
    model: str, error: type[Exception], told: str, server: ScriptedModel
) -> None:
    with pytest.raises(error, match=told):
        _embedder(server, model).embed(["one", "two"])
    assert len(server.asked) == 1


def test_an_answer_of_another_size_is_refused(server: ScriptedModel) -> None:
    embedder = _embedder(server)
    embedder.embed(["one"])
    embedder.model = "larger"
    with pytest.raises(EmbedderUnavailable, match="64 dimensions after 32"):
        embedder.embed(["two"])


def test_a_slow_endpoint_is_given_up(server: ScriptedModel) -> None:
    begin = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match="did not answer: it took too long"):
        _embedder(server, "slow", timeout_s=0.3).embed(["one"])
    assert time.monotonic() - begin < 2


def test_an_endpoint_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(EmbedderUnavailable) as told:
        OpenAIEmbedder("any", base_url="http://me:secret@127.0.0.1:9/v1").embed(["one"])
    assert str(told.value) == "embedding model 'any' at http://127.0.0.1:9/v1 did not answer: the connection failed"


def test_a_key_that_the_endpoint_repeats_and_a_password_in_its_address_are_told_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedModel(embeddings=[Fault(400, "wrong key sk-4711-secret"), None]) as model:
        url = model.url.replace("//", "//me:pass4711@")
        embedder = OpenAIEmbedder("any", base_url=url, api_key="sk-4711-secret")
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
    assert store.replace_server("local", "mail", MAIL) == Changes(same=2)
    assert len(_texts(server)) == 5
    async with Router(store=store, embedder=store.embedder) as router:
        decision = await router.route(ASK)
    assert decision.semantic_ran
    assert decision.matches[0].tool.key == "mail:send_email"
    assert len(_texts(server)) == 6


@pytest.mark.parametrize("model", ["500", "401", "slow", "short"])
async def test_a_failing_endpoint_leaves_the_keyword_answer_which_says_so(model: str, server: ScriptedModel) -> None:
    known = Store(embedder=_embedder(server))
    known.replace_servers("local", {"mail": MAIL, "files": FILES})
    failing: Embedder = _embedder(server, model)
    async with Router(store=known, embedder=failing) as router:
        begin = time.monotonic()
        decision = await router.route(ASK)
        assert time.monotonic() - begin < 2
    assert not decision.semantic_ran
    assert decision.matches[0].tool.key == "mail:send_email"
    assert any("keyword leg alone" in warning for warning in decision.warnings)


async def test_an_endpoint_whose_vectors_changed_size_leaves_the_keyword_answer(server: ScriptedModel) -> None:
    embedder = _embedder(server)
    store = Store(embedder=embedder)
    store.replace_servers("local", {"mail": MAIL, "files": FILES})
    embedder.model = "larger"
    async with Router(store=store, embedder=store.embedder) as router:
        decision = await router.route(ASK)
    assert not decision.semantic_ran
    assert any("64 dimensions after 32" in warning for warning in decision.warnings)


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


async def test_a_router_that_closes_hangs_up_on_the_endpoint_that_it_opened(server: ScriptedModel) -> None:
    def lines() -> int:
        return len(server._server.server_state.connections)

    options = Options(embedder="openai:good", model_url=server.url)
    async with Router(Catalogue([*MAIL, *FILES]), options=options) as router:
        assert (await router.route(ASK)).semantic_ran
        assert lines() == 1
    for _ in range(100):
        if not lines():
            break
        await asyncio.sleep(0.02)
    assert lines() == 0
    assert (await router.route(ASK)).semantic_ran  # A later call opens it again.
    await router.aclose()


async def test_a_router_leaves_the_embedder_that_it_was_given_to_its_owner(server: ScriptedModel) -> None:
    embedder = _embedder(server)
    async with Router(Catalogue([*MAIL, *FILES]), embedder=embedder) as router:
        assert (await router.route(ASK)).semantic_ran
    await asyncio.sleep(0.1)
    assert len(server._server.server_state.connections) == 1
    embedder.close()
