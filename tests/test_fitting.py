"""A fit and the file that carries it: what it changes and what it is worth."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.fitting import (
    COVERAGE,
    MOST_REFUSED,
    Worth,
    corrected,
    cross_validated,
    fit_correction,
    fit_floor,
    fit_labelled,
    worth,
)
from orchestrator.evaluate.probes import made_queries
from orchestrator.evaluate.trials import Trial, tried
from orchestrator.index.calibration import shipped
from orchestrator.index.embed import embedder_for
from orchestrator.index.fit import Correction, Fit
from orchestrator.index.index import Index
from orchestrator.options import Options
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.routing.router import Router
from tests.catalogues import sample

FIT = Fit(
    gate=Correction(slope=0.8, offset=-0.5),
    confidence=Correction(slope=1.2, offset=0.4),
    floor=0.35,
    embedder=embedder_for(Options(embedder="static")).id,
)
VAGUE = "the boardroom is ice cold, warm it up"


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    """The last made query of every tool of the sample catalogue, and a few that nothing answers."""
    catalogue, embedder = sample(), embedder_for(Options(embedder="static"))
    index = Index(catalogue)
    own = [
        tried(index, shipped(), embedder, made_queries(tool)[-1], (position,), deep=True)
        for position, tool in enumerate(catalogue)
    ]
    return [*own, *(tried(index, shipped(), embedder, query, ()) for query in ("plonk the vrrm", "a poem on love"))]


def test_a_fit_is_the_same_after_it_was_written_and_read(tmp_path: Path, trials: list[Trial]) -> None:
    fit = replace(fit_labelled(trials, Options()), embedder=FIT.embedder)
    fit.write(tmp_path / "fit.json")
    again = Fit.read(tmp_path / "fit.json")
    assert again.floor == fit.floor
    assert again.coverage is not None
    assert fit.coverage is not None
    assert again.coverage.thresholds == fit.coverage.thresholds
    for one, other in ((again.gate, fit.gate), (again.confidence, fit.confidence)):
        assert one is not None
        assert other is not None
        assert (one.slope, one.offset) == pytest.approx((other.slope, other.offset), abs=1e-4)


async def test_a_router_corrects_its_confidences_by_the_file(tmp_path: Path) -> None:
    FIT.write(tmp_path / "fit.json")
    shared = "a customer was charged twice"  # words are shared, so the cosine does not bound it
    ask = RouteRequest(query=shared, tenant="local", route_hint=RouteHint.SEMANTIC)
    words = RouteRequest(query="refund the customer", tenant="local", route_hint=RouteHint.KEYWORD)
    async with Router(sample()) as plain, Router(sample(), calibration=tmp_path / "fit.json") as fitted:
        for request, correction in ((ask, FIT.confidence), (words, FIT.gate)):
            before, after = await plain.route(request), await fitted.route(request)
            assert correction is not None
            assert after.confidence == pytest.approx(correction(before.confidence), abs=1e-3)
            assert [match.score for match in after.matches] == [match.score for match in before.matches]
        assert (plain.options.floor, fitted.options.floor) == (0.2, 0.35)


async def test_own_thresholds_of_coverage_take_the_place_of_the_shipped(trials: list[Trial]) -> None:
    fit = fit_labelled(trials, Options())
    request = RouteRequest(query="refund charge ch_3PqX, the customer paid twice", tenant="local", coverage=COVERAGE)
    async with Router(sample()) as plain, Router(sample(), calibration=fit) as fitted:
        assert len((await fitted.route(request)).matches) < len((await plain.route(request)).matches)


async def test_a_trial_claims_what_a_router_answers() -> None:
    catalogue = sample()
    embedder, index = embedder_for(Options(embedder="static")), Index(catalogue)
    async with Router(catalogue, embedder=embedder) as router:
        for query in ("send an invoice to the customer", VAGUE, "who is on call tonight"):
            trial = tried(index, shipped(), embedder, query, (0,))
            decision = await router.route(RouteRequest(query=query, tenant="local", route_hint=RouteHint.SEMANTIC))
            assert trial.both.confidence == pytest.approx(decision.confidence)
            assert min(trial.opening.least, trial.opening.most) == pytest.approx(decision.gate_confidence)
            words = await router.route(RouteRequest(query=query, tenant="local", route_hint=RouteHint.KEYWORD))
            assert trial.keyword.confidence == pytest.approx(words.confidence)
            assert catalogue.tools[trial.both.order[0]].key == decision.matches[0].tool.key


async def test_a_trial_reads_slips_and_lowers_deprecated_tools_as_a_router_does() -> None:
    tools = [replace(tool, labels={"maturity": "deprecated"}, hash="") for tool in sample()]
    catalogue = Catalogue(tools)
    embedder, index = embedder_for(Options(embedder="static")), Index(catalogue)
    request = RouteRequest(query="refnd the chrge", tenant="local", route_hint=RouteHint.SEMANTIC)
    async with Router(catalogue, embedder=embedder) as router:
        decision = await router.route(request)
    trial = tried(index, shipped(), embedder, request.query, (0,))
    assert trial.both.confidence == pytest.approx(decision.confidence)
    assert trial.both.scores[:3] == pytest.approx([match.score for match in decision.matches[:3]])


def test_with_its_tool_taken_away_a_query_is_answered_with_less_confidence(trials: list[Trial]) -> None:
    own = [trial for trial in trials if trial.answerable]
    assert np.mean([trial.both.absent for trial in own]) < np.mean([trial.both.confidence for trial in own]) - 0.2
    assert not any(trial.both.right for trial in trials if not trial.answerable)


def test_a_correction_finds_the_slope_and_offset_that_were_there() -> None:
    draw = np.random.default_rng(1)
    stated = draw.uniform(0.02, 0.98, 20_000)
    truly = 1 / (1 + np.exp(-(0.6 * np.log(stated / (1 - stated)) - 0.7)))
    found = fit_correction(stated, draw.random(20_000) < truly, prior=10)
    assert (found.slope, found.offset) == pytest.approx((0.6, -0.7), abs=0.05)


def test_few_queries_move_the_map_little_and_none_leave_it() -> None:
    wrong = fit_correction([0.9] * 3, [False] * 3, prior=200)
    assert (wrong.slope, wrong.offset) == pytest.approx((1, 0), abs=0.06)
    none = fit_correction([], [], prior=10)
    assert (none.slope, none.offset) == (1, 0)
    assert fit_floor([], 0.7, 0.2) == 0.2


def test_a_floor_refuses_at_most_a_tenth_of_what_a_tool_fits_though_a_higher_one_parts_better(
    trials: list[Trial],
) -> None:
    unsure = [
        replace(
            trial,
            both=replace(trial.both, confidence=0.12 if number % 4 == 0 else 0.9, absent=0.5),
            opening=replace(trial.opening, least=0.0),
            opening_absent=replace(trial.opening_absent, least=0.0),
            answerable=True,
        )
        for number, trial in enumerate(trials)
    ]
    floor = fit_floor(unsure, 0.7, 0.2)
    assert np.mean([corrected(Fit(), trial, 0.7)[0] < floor for trial in unsure]) <= MOST_REFUSED
    assert floor < 0.12


def test_a_map_that_would_turn_around_is_kept_upright() -> None:
    turned = fit_correction([0.95] * 500 + [0.05] * 500, [False] * 500 + [True] * 500, prior=1)
    assert turned.slope > 0


def test_a_fit_to_claims_far_too_modest_pays_on_queries_that_it_has_not_seen(trials: list[Trial]) -> None:
    too_modest = [
        replace(
            trial,
            opening=replace(trial.opening, least=Correction(offset=-2.5)(trial.opening.least)),
            keyword=replace(trial.keyword, confidence=Correction(offset=-2.5)(trial.keyword.confidence)),
            both=replace(trial.both, confidence=Correction(offset=-2.5)(trial.both.confidence)),
        )
        for trial in trials
    ]
    before, after = cross_validated(too_modest, Options())
    assert after.ece < before.ece * 2 / 3
    assert after.held >= 0.85
    assert after.tools < before.tools


@pytest.mark.parametrize(("queries", "own"), [(49, False), (50, True), (62, True)])
def test_each_fold_fits_thresholds_of_coverage_where_the_fit_to_all_queries_does(
    queries: int, own: bool, trials: list[Trial]
) -> None:
    some = [*trials[:queries], *trials[-2:]]  # The last two have no tool, and so no say in coverage.
    assert (fit_labelled(some, Options()).coverage is not None) == own
    before, after = cross_validated(some, Options())
    assert (after.tools != before.tools) == own


def test_what_a_fit_is_worth_is_counted_on_its_own_queries(trials: list[Trial]) -> None:
    plain = worth([(Fit(), trials)], Options())
    claims = [corrected(Fit(), trial, 0.7) for trial in trials]
    assert plain.settled == pytest.approx(np.mean([confidence >= 0.7 for confidence, _ in claims]), abs=1e-4)
    assert 0.5 <= plain.none <= 1


def test_a_figure_is_worse_in_its_own_direction_and_coverage_only_below_what_was_wanted() -> None:
    one = Worth(ece=0.05, settled=0.5, precision=0.9, none=0.6, refused=0.02, held=0.95, tools=20)
    assert replace(one, ece=0.06).worse_than(one) == ("ece",)
    assert replace(one, none=0.5, held=0.91, settled=0.4).worse_than(one) == ("none",)
    assert replace(one, held=0.89).worse_than(one) == ("held",)
    assert replace(one, refused=0.2).worse_than(one) == ("refused",)
    assert replace(one, ece=0.04, none=0.7, held=1.0).worse_than(one) == ()
