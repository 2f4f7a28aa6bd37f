"""A setting that cannot have an effect is an error, which says why and what to do."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from orchestrator import (
    Capability,
    Catalogue,
    Fit,
    InvalidConfig,
    Options,
    OrchestratorPlugin,
    Router,
    Store,
    Vectors,
)
from tests.catalogues import sample
from tests.decisions import NOW


class Ones:
    id, dimension, remote = "ones", 3, False

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.ones((len(texts), 3), np.float32)


def say(text: str) -> str:
    """Say a text."""
    return text


STORE = Store(None, embedder=Ones())
WITHOUT_STORE = "the Router has no store"
WITH_STORE = "the given Store has its own settings"
ONLY_ROUTES = (
    r"a Router asks a model only in its routes, with Options\(decide='model'\) or Options\(understand='model'\); "
    r"to plan with a model, give these options to Models or OrchestratorPlugin, and leave the fields of models out of"
)


@pytest.mark.parametrize(
    ("arguments", "option", "why"),
    [
        ({}, {"store": "tools"}, r"beside a catalogue, give it as Router\(catalogue, store=...\)"),
        ({"store": "tools"}, {"store": "others"}, "the Router was given store; leave one of them out"),
        ({"stores": ["tools"]}, {"store": "others"}, "the Router was given stores"),
        ({"embedder": Ones()}, {"embedder": "openai:small"}, "the Router was given embedder"),
        ({"pipeline": "koi"}, {"pipeline": "fabric"}, "the Router was given pipeline"),
        ({"calibration": Fit()}, {"calibration": "fit.json"}, "the Router was given calibration"),
        ({"store": STORE}, {"embedder": "openai:small"}, "the given Store has its own embedder"),
        ({"store": STORE}, {"store_timeout_s": 3}, WITH_STORE),
        ({}, {"store_timeout_s": 3}, WITHOUT_STORE),
        ({}, {"changes": "open"}, WITHOUT_STORE),
        ({}, {"collections": "mine"}, WITHOUT_STORE),
        ({"pipeline": "koi"}, {"gate": 0.9}, "the pipeline 'koi' has no gate"),
        ({"pipeline": "toolpilot"}, {"explicit_floor": 0.9}, "the pipeline 'toolpilot' does not lift named servers"),
        ({"pipeline": "koi"}, {"reader": "models/reader"}, "the pipeline 'koi' reads no tools"),
        ({"store": "tools"}, {"collections": "mine"}, "only a Qdrant server has collections; give its URL as store"),
        ({}, {"experience_days": 3}, WITHOUT_STORE),
        ({"store": "tools"}, {"experience_days": 3, "experience": "off"}, "experience is off"),
        ({}, {"model": "m"}, ONLY_ROUTES),
        ({}, {"model_route": "m"}, ONLY_ROUTES),
        ({}, {"model_plan": "m", "model_url": "http://localhost"}, ONLY_ROUTES),
        ({}, {"route_timeout_s": 3}, "no stage of routing asks a model, and no reader is named"),
        ({}, {"model_url": "http://localhost"}, ONLY_ROUTES),
        ({}, {"model_timeout_s": 7}, ONLY_ROUTES),
        ({"pipeline": "koi"}, {"model_timeout_s": 7}, "no model is named: give"),
        ({}, {"semantic_timeout_s": 3}, "only an embedder that calls an endpoint has this limit"),
    ],
)
def test_an_option_that_a_router_would_not_read(arguments: dict[str, Any], option: dict[str, Any], why: str) -> None:
    given = {"catalogue": sample(), **arguments}
    with pytest.raises(InvalidConfig, match=rf"^Options\({next(iter(option))}=\.\.\.\) has no effect: {why}"):
        Router(**given, options=Options(**option))


def test_the_environment_may_have_settings_for_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLROUTE_STORE", "~/tools")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost")
    assert Router(sample(), options=Options.from_env()).store is None
    assert OrchestratorPlugin(catalogue=sample(), options=Options.from_env())


@pytest.mark.parametrize("option", [{"understand": "model"}, {"decide": "model"}, {"pipeline": "coderag"}])
def test_a_model_is_taken_where_a_stage_asks_it(option: dict[str, Any]) -> None:
    with Router(sample(), options=Options(model="m", model_url="http://localhost", route_timeout_s=3, **option)):
        pass


def test_a_plugin_takes_a_model_for_its_plans() -> None:
    assert OrchestratorPlugin(catalogue=sample(), options=Options(model="m", model_url="http://localhost"))


def test_models_need_a_stage_that_asks_them() -> None:
    with pytest.raises(
        InvalidConfig, match=r"models has no effect: .* give the Models to make_plan or OrchestratorPlugin"
    ):
        Router(sample(), models=lambda: None)
    with Router(sample(), models=lambda: None, options=Options(pipeline="coderag")):
        pass


def test_an_empty_store_is_an_argument_too() -> None:
    with pytest.raises(InvalidConfig, match=r"Options\(store=...\) has no effect"):
        Router(sample(), store="", options=Options(store="tools"))


class Likened(Ones):
    """An embedder that compares like an array."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])


def test_an_embedder_may_compare_like_an_array() -> None:
    with Router(sample(), embedder=Likened()) as router:
        assert router.route_sync("refund charge ch_3PqX").matches


@pytest.mark.parametrize("store", [None, STORE])
def test_entries_need_a_store_that_the_router_opens(store: Store | None) -> None:
    with pytest.raises(InvalidConfig, match="entries has no effect: only a store that the Router opens"):
        Router(sample(), store, entries={"time": "digest"})


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"register": False, "catalogue": "t.jsonl", "warm": 1}, "catalogue, warm: no effect with register=False"),
        ({"register": False, "free_slots": 0}, "free_slots: no effect with register=False"),
        ({"catalogue": "t.jsonl", "warm": 1}, "warm has no effect: give mcp_servers"),
        ({"catalogue": "t.jsonl", "entries": {"a": "b"}}, "entries has no effect without a store"),
        ({"catalogue": "t.jsonl", "options": Options(store="x")}, r"Options\(store=...\) has no effect"),
        ({"store": "y", "options": Options(store="x")}, r"Options\(store=...\) has no effect"),
        ({"store": "y", "options": Options(collections="x")}, r"Options\(collections=...\) has no effect"),
        ({"catalogue": Catalogue([NOW]), "options": Options(store_timeout_s=3)}, "the Router has no store"),
        ({"store": "y", "options": Options(pipeline="koi", gate=0.9)}, "the pipeline 'koi' has no gate"),
        (
            {"embedder": Ones(), "options": Options(embedder="openai:small")},
            r"Options\(embedder=...\) has no effect: the Router was given embedder",
        ),
        (
            {"catalogue": Catalogue([NOW]), "mcp_servers": {"mcpServers": {"git": {"command": "git"}}}},
            "mcp_servers has no effect: the catalogue has no tool of git; give store=",
        ),
    ],
)
def test_an_argument_that_a_plugin_would_not_read(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidConfig, match=why):
        OrchestratorPlugin(**arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda store: Router(store=store, servers=["tmie"]),
        lambda store: Router(store=store, capabilities=[Capability(tool="tmie", phrases=("what time",))]),
    ],
)
async def test_a_name_that_no_stored_tool_has_is_logged_once(
    make: Callable[[Store], Router], caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(None, embedder=Ones())
    store.replace_servers("local", {"time": [NOW]})
    with caplog.at_level(logging.WARNING):
        async with make(store) as router:
            for _ in range(2):
                await router.route("what is the time?")
    assert caplog.text.count("tenant 'local' has no 'tmie'; did you mean 'time'?") == 1
