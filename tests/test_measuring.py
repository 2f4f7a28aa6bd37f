"""The benchmarks' own arithmetic: what a lever's absence changes, and what the pictures draw."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ablation, pictures
from benchmarks.coverage import fixed, mean, measure
from orchestrator.index.embed import embed_tools, embedder_for
from orchestrator.index.keyword import KeywordIndex
from orchestrator.index.text import terms
from orchestrator.options import Options
from research.confidence import fit_all
from research.coverage import Routed
from research.examples import collect, sampled
from tests.catalogues import sample

WORDS = "refunding customers"


def test_without_stemming_words_are_read_as_written_and_afterwards_as_before() -> None:
    before = terms(WORDS)
    with ablation.without("stemming"):
        assert terms(WORDS) == ["refunding", "customers"]
    assert terms(WORDS) == before == ["refund", "custom"]


@pytest.mark.parametrize("lever", ["weights of the fields", "parameters' texts"])
def test_a_lever_of_the_keyword_leg_changes_its_scores_only_while_it_is_out(lever: str) -> None:
    tools = sample().tools
    asked = dict.fromkeys(terms("email a customer the amount of the invoice"), 1.0)
    before = KeywordIndex(tools).score(asked).parts[0]
    with ablation.without(lever):
        assert not np.allclose(KeywordIndex(tools).score(asked).parts[0], before)
    assert np.array_equal(KeywordIndex(tools).score(asked).parts[0], before)


def test_one_vector_a_tool_is_another_than_the_sum_of_its_parts() -> None:
    embedder, tools = embedder_for(Options()), sample().tools[:5]
    before = embed_tools(embedder, tools)
    with ablation.without("a vector for each part of a tool"):
        assert not np.allclose(embed_tools(embedder, tools), before, atol=1e-3)
    assert np.array_equal(embed_tools(embedder, tools), before)


def test_a_blanked_feature_says_nothing_in_any_map_and_every_feature_that_is_named_is_there(bench: Path) -> None:
    folder = bench / "restbench"
    whole = collect(folder, embedder_for(Options()), sampled(folder)[::8])
    for features in ablation.FEATURES.values():
        maps = fit_all([ablation.blanked(whole, features)])
        weights = maps["merged"]["weights"]
        assert isinstance(weights, dict)
        assert {name: weights[name] for name in features} == dict.fromkeys(features, 0.0)
        assert fit_all([whole])["merged"] != maps["merged"]


def test_the_table_of_levers_says_what_is_lost_without_each() -> None:
    found = {"nothing": [(0.8, 0.9), (0.6, 0.7)], "stemming": [(0.7, 0.9), (0.6, 0.6)]}
    table = ablation.ablation_table(found)
    assert table[2] == "| **nothing** | 0.700 | 0.800 | | | |"
    assert table[3] == "| stemming | 0.650 | 0.750 | +0.050 | +0.050 | 1 of 2 |"


def test_a_reliability_point_is_the_mean_claim_and_the_share_right_of_its_tenth() -> None:
    stated, true, share = pictures.reliability_points(np.array([0.12, 0.18, 0.95, 1.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    assert stated == pytest.approx([0.15, 0.975])
    assert true.tolist() == [0.5, 1.0]
    assert share.tolist() == [0.5, 0.5]


def test_more_tools_hold_more_queries_for_more_tokens_and_coverage_sets_stay_within_fifty() -> None:
    draw = np.random.default_rng(1)
    sets = {name: [_routed(draw) for _ in range(60)] for name in ("one", "two", "three")}
    curves = pictures.token_curves(sets)
    held, _, tokens = np.array(curves["the best k tools"]).T
    assert len(held) == 50
    assert all(np.diff(held) >= 0)
    assert all(np.diff(tokens) > 0)
    assert curves["the best k tools"][9] == mean([measure(own, fixed(10)) for own in sets.values()])
    assert np.array(curves["coverage sets"])[:, 1].max() <= 50


def _routed(draw: np.random.Generator) -> Routed:
    scores = np.sort(draw.random(50))[::-1]
    needed: Sequence[bool] = [place == int(draw.geometric(0.3)) - 1 for place in range(50)]
    return Routed(scores=tuple(scores), needed=tuple(needed), tokens=(100,) * 50, gold=max(1, sum(needed)))
