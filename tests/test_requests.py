"""A RouteRequest of the wrong shape is refused with the field, the value and the remedy."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from orchestrator import Fusion, RouteHint, Router, RouteRequest, RunRequest, Tool, Turn
from orchestrator.errors import InvalidInput
from tests.catalogues import sample

COLD = "the boardroom is ice cold, warm it up"
"""Words settle nothing here: the gate stays closed."""


def route(**given: Any) -> RouteRequest:
    return RouteRequest(**{"query": "refund the charge", "tenant": "local", **given})


def turn(**given: Any) -> RouteRequest:
    return route(conversation=(Turn(**{"text": "and in Berlin?", **given}),))


def run(**given: Any) -> RunRequest:
    return RunRequest(**{"task": "refund the charge", "tenant": "local", **given})


@pytest.mark.parametrize(
    ("made", "name", "value"),
    [
        *((route, "query", value) for value in (None, b"refund")),
        *((route, "limit", value) for value in ("5", 5.5, True, 0)),
        *((route, "token_cap", value) for value in ("9", True, 0)),
        *((route, "filters", value) for value in (["kind=mcp"], {"usage": 5})),
        *((route, "conversation", value) for value in ("in Berlin?", [{"role": "user", "text": "in Berlin?"}])),
        *((turn, name, value) for name, value in (("text", None), ("tools", None), ("offered", "a:b"))),
        *((run, name, value) for name, value in (("min_confidence", "0.3"), ("limits", {}), ("heartbeat_s", None))),
        *((run, name, value) for name, value in (("parallel_steps", True), ("steps_per_run", ""))),
        (route, "tenant", 42),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_remedy(made: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"^{name}=.*: give "):
        made(**{name: value}).validate()


def test_lists_and_mappings_stand_for_tuples_and_dicts() -> None:
    route(conversation=[Turn(text="refund", tools=["a:b"])], filters=MappingProxyType({"kind": "mcp"})).validate()  # type: ignore[arg-type]


def test_a_word_that_names_no_leg_or_fusion_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="route_hint='fast': give one of auto, keyword, semantic"):
        RouteRequest(query="refund", route_hint="fast")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="fusion='sum': give one of learnt, weighted, rrf"):
        RouteRequest(query="refund", fusion="sum")  # type: ignore[arg-type]


async def test_a_hint_and_a_fusion_given_as_plain_words_route_as_the_enums_do(router: Router) -> None:
    for hint, fusion in ((RouteHint.SEMANTIC, Fusion.RRF), (RouteHint.AUTO, Fusion.WEIGHTED)):
        words: dict[str, Any] = {"route_hint": str(hint), "fusion": str(fusion)}
        named = await router.route(RouteRequest(query=COLD, tenant="local", route_hint=hint, fusion=fusion))
        plain = await router.route(RouteRequest(query=COLD, tenant="local", **words))
        assert named.semantic_ran
        assert plain.semantic_ran
        assert plain.matches == named.matches


async def test_what_is_no_task_or_no_catalogue_is_refused_with_what_would_do(router: Router) -> None:
    with pytest.raises(InvalidInput, match="request=5: give a RouteRequest or a text"):
        await router.route(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"conversation=Turn\(.*: give a list"):
        await router.route("again", conversation=Turn(text="refund the charge"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("catalogue", [Tool(server="a", name="b")], r"=\[Tool\(.*: give a Catalogue, a path or a text"),
        ("store", 5, "=5: give a Store, a path or a text"),
        ("options", {}, "={}: give an Options"),
        ("embedder", "static", r" is a str: give an Embedder, or name one with Options\(embedder=\.\.\.\)"),
        ("calibration", {"gate": 0.3}, "={'gate': 0.3}: give a Calibration, a Fit, a path or a text"),
    ],
)
def test_what_a_router_cannot_be_made_of_is_named_with_what_would_do(name: str, value: Any, remedy: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{name}{remedy}"):
        Router(**{"catalogue": sample(), name: value})
