"""The Store and its embedder: the embedded texts, and a change of the embedder."""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from orchestrator import Catalogue, RouteHint, Router, RouteRequest, Store
from orchestrator.errors import InvalidConfig
from orchestrator.index.embedders.embedding import embed_tools
from tests.catalogues import tool
from tests.stores import FILES, MAIL, by_server, embedder_of, shipped, smaller_model, watched_embedder


def test_an_unchanged_tool_is_never_embedded_twice(place: str) -> None:
    embedded = list[str]()
    store = Store(place, embedder=watched_embedder(embedded.extend))
    store.replace_server("org:1", "files", FILES)
    assert embedded
    embedded.clear()
    store.replace_server("org:1", "files", FILES)
    store.replace_server("org:1", "files", FILES[1:])
    assert embedded == []
    store.replace_server("org:1", "files", [FILES[1], tool("files:list_folder", "Show what a folder holds")])
    assert [text for text in embedded if "disk" in text] == []
    assert any("Show what a folder holds" in text for text in embedded)


def test_a_changed_embedder_embeds_the_tenants_tools_anew_while_searches_go_on(place: str, tmp_path: Path) -> None:
    tools = [tool(f"s{n % 7}:tool_{n}", f"Does thing {n} with care") for n in range(700)]
    old = Store(place, embedder=shipped())
    old.replace_servers("org:1", by_server(tools))
    query = shipped().embed(["does thing 5"])[0]
    found: list[int] = []
    stop = threading.Event()

    def search() -> None:
        reader = Store(place, embedder=shipped())
        while not stop.is_set():
            stored = reader.load("org:1")
            assert stored.tools == Catalogue(tools).tools
            found.append(0 if stored.vectors is None else len(stored.vectors @ query))

    searching = threading.Thread(target=search)
    searching.start()
    new = Store(place, embedder=embedder_of(embedder=str(smaller_model(tmp_path / "model"))))
    assert "embeds the tools again" in new.load("org:1").note
    assert new.replace_server("org:1", "s0", by_server(tools)["s0"]).same == 100
    stop.set()
    searching.join()
    assert 700 in found
    stored = new.load("org:1")
    assert (stored.note, stored.tools) == ("", Catalogue(tools).tools)
    assert stored.vectors is not None
    assert stored.vectors.shape == (700, 64)
    np.testing.assert_allclose(stored.vectors, embed_tools(new.embedder, stored.tools), atol=1e-6)
    assert old.load("org:1").vectors is None


def test_an_interrupted_change_of_embedder_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = [tool(f"s:tool_{n}", f"Does thing {n}") for n in range(300)]
    Store(tmp_path / "store", embedder=shipped()).replace_server("org:1", "s", tools)
    monkeypatch.setattr("orchestrator.store.tools.tool_points._CHUNK", 100)
    answers = iter(range(5))

    def interrupt(_: Sequence[str]) -> None:
        if next(answers, None) is None:
            raise KeyboardInterrupt

    model = smaller_model(tmp_path / "model")
    interrupted = Store(tmp_path / "store", embedder=watched_embedder(interrupt, model))
    with pytest.raises(KeyboardInterrupt):
        interrupted.replace_server("org:1", "s", tools)
    assert Store(tmp_path / "store", embedder=shipped()).load("org:1").vectors is not None
    embedded = list[str]()
    new = Store(tmp_path / "store", embedder=watched_embedder(embedded.extend, model))
    new.replace_server("org:1", "s", tools)
    assert new.load("org:1").note == ""
    assert len([text for text in embedded if text.startswith("Does thing")]) == 200


async def test_another_embedders_vectors_are_named_when_the_semantic_leg_runs(tmp_path: Path) -> None:
    Store(tmp_path / "store", embedder=shipped()).replace_servers("local", {"mail": MAIL, "files": FILES})
    embedder = embedder_of(embedder=str(smaller_model(tmp_path / "model")))
    async with Router(store=Store(tmp_path / "store", embedder=embedder), embedder=embedder) as router:
        ask = RouteRequest(query="send an email", tenant="local", route_hint=RouteHint.SEMANTIC)
        decision = await router.route(ask)
        assert decision.semantic_ran
        assert decision.matches[0].tool.key == "mail:send_email"
        assert any("embeds the tools again" in warning for warning in decision.warnings)
        quick = await router.route(RouteRequest(query="send an email", tenant="local", route_hint=RouteHint.KEYWORD))
        assert not any("embeds the tools again" in warning for warning in quick.warnings)


def test_vectors_that_another_process_embedded_anew_are_taken_though_no_tool_has_changed(
    place: str, tmp_path: Path
) -> None:
    Store(place, embedder=shipped()).replace_servers("org:1", {"mail": MAIL, "files": FILES})
    model = smaller_model(tmp_path / "model")
    reader = Store(place, embedder=embedder_of(embedder=str(model)))
    earlier = reader.load("org:1")
    assert earlier.vectors is None
    assert "embeds the tools again" in earlier.note
    Store(place, embedder=embedder_of(embedder=str(model))).replace_server("org:2", "mail", MAIL)
    assert reader.renewed("org:1", earlier).vectors is None
    Store(place, embedder=embedder_of(embedder=str(model))).replace_server("org:1", "mail", MAIL)
    renewed = reader.renewed("org:1", earlier)
    assert renewed.vectors is not None
    assert (len(renewed.vectors), renewed.note) == (5, "")
    assert reader.renewed("org:1", renewed) is renewed


def test_vectors_of_another_dimension_name_the_remedy(tmp_path: Path) -> None:
    Store(tmp_path / "store", embedder=shipped()).replace_server("org:1", "mail", MAIL)
    impostor = embedder_of(embedder=str(smaller_model(tmp_path / "model")))
    impostor.id = shipped().id
    store = Store(tmp_path / "store", embedder=impostor)
    with pytest.raises(InvalidConfig, match=r"256 dimensions.*gives 64.*use the embedder"):
        store.replace_server("org:1", "files", FILES)
    stored = store.load("org:1")
    assert (stored.vectors, len(stored.tools)) == (None, 2)
    assert "use the embedder with which" in stored.note
