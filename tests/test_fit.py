"""Fits: what queries tried on a catalogue say of the built-in numbers, the file that keeps it, and `eval --fit`."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.catalogue.formats import tool_to_json
from orchestrator.errors import EmbedderUnavailable, InvalidConfig
from orchestrator.evaluate.findability import made_queries
from orchestrator.evaluate.fit import (
    COVERAGE,
    MOST_REFUSED,
    Trial,
    Worth,
    cross_validated,
    fit_correction,
    fit_floor,
    fit_labelled,
    try_all,
    worth,
)
from orchestrator.evaluate.runner import Query
from orchestrator.index.calibration import Correction, Fit
from orchestrator.index.embed import embedder_for
from orchestrator.options import Options
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.routing.router import Router
from orchestrator.store.store import Store
from tests.catalogues import EXAMPLES, sample, tool
from tests.command_line import Ran, Run

STATIC = embedder_for(Options(embedder="static")).id
FIT = Fit(
    gate=Correction(slope=0.8, offset=-0.5), confidence=Correction(slope=1.2, offset=0.4), floor=0.35, embedder=STATIC
)
TASK = "the boardroom is ice cold, warm it up"


def asked(count: int = 100) -> list[Query]:
    """Return a query for each of the first tools of the sample catalogue, made of its own text."""
    tools = sample().tools[:count]
    return [Query(id=tool.key, text=made_queries(tool)[-1], relevant=frozenset([tool.key])) for tool in tools]


@pytest.fixture(scope="module")
async def trials() -> list[Trial]:
    strays = [Query(id=text, text=text, relevant=frozenset()) for text in ("plonk the vrrm", "a poem on love")]
    return await try_all(sample(), [*asked(), *strays], Options())


async def test_a_trial_claims_what_a_router_answers(trials: list[Trial]) -> None:
    async with Router(sample()) as router:
        for query, trial in list(zip(asked(), trials, strict=False))[:5]:
            for hint, (confidence, right) in (
                (RouteHint.SEMANTIC, trial.there.both),
                (RouteHint.KEYWORD, trial.there.keyword),
            ):
                decision = await router.route(RouteRequest(query=query.text, tenant="local", route_hint=hint))
                assert confidence == pytest.approx(decision.confidence)
                assert right == (decision.matches[0].tool.key in query.relevant)
            assert trial.there.gate == pytest.approx(decision.gate_confidence)


def test_with_its_tool_taken_away_a_query_is_answered_with_less_confidence(trials: list[Trial]) -> None:
    own = [trial for trial in trials if trial.answerable]
    assert len(own) == len(trials) - 2
    assert np.mean([trial.away.both[0] for trial in own]) < np.mean([trial.there.both[0] for trial in own]) - 0.2
    assert not any(trial.away.both[1] for trial in trials)


async def test_an_embedder_that_fails_is_an_error_and_no_fit_to_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    options = Options.from_env(embedder="openai:m")
    with pytest.raises(EmbedderUnavailable, match="the connection failed"):
        await try_all(sample(), asked(1), options)


def test_a_correction_finds_the_slope_and_offset_that_were_there_and_few_queries_move_it_little() -> None:
    draw = np.random.default_rng(1)
    stated = draw.uniform(0.02, 0.98, 20_000)
    truly = 1 / (1 + np.exp(-(0.6 * np.log(stated / (1 - stated)) - 0.7)))
    found = fit_correction(stated, draw.random(20_000) < truly, prior=10)
    assert (found.slope, found.offset) == pytest.approx((0.6, -0.7), abs=0.05)
    wrong = fit_correction([0.9] * 3, [False] * 3, prior=200)
    assert (wrong.slope, wrong.offset) == pytest.approx((1, 0), abs=0.06)
    assert fit_correction([], [], prior=10) == Correction()
    turned = fit_correction([0.95] * 500 + [0.05] * 500, [False] * 500 + [True] * 500, prior=1)
    assert turned.slope > 0


def test_a_floor_refuses_at_most_a_tenth_of_what_a_tool_fits_though_a_higher_one_parts_better(
    trials: list[Trial],
) -> None:
    unsure = [
        replace(
            trial,
            there=replace(trial.there, gate=0.0, both=(0.12 if number % 4 == 0 else 0.9, True)),
            away=replace(trial.away, gate=0.0, both=(0.5, False)),
            answerable=True,
        )
        for number, trial in enumerate(trials)
    ]
    floor = fit_floor(unsure, Options(), Fit())
    assert np.mean([trial.there.both[0] < floor for trial in unsure]) <= MOST_REFUSED
    assert floor < 0.12
    assert fit_floor([], Options(), Fit()) == Options().floor


def test_a_fit_to_claims_far_too_modest_pays_on_queries_that_it_has_not_seen(trials: list[Trial]) -> None:
    def modest(claim: tuple[float, bool]) -> tuple[float, bool]:
        return Correction(offset=-2.5)(claim[0]), claim[1]

    too_modest = [
        replace(
            trial,
            there=replace(trial.there, gate=0.0, keyword=modest(trial.there.keyword), both=modest(trial.there.both)),
        )
        for trial in trials
    ]
    before, after = cross_validated(too_modest, Options())
    assert after.ece < before.ece * 2 / 3
    assert after.held >= 0.85
    assert after.tools < before.tools


@pytest.mark.parametrize(("queries", "own"), [(49, False), (62, True)])
def test_thresholds_of_coverage_are_fitted_to_fifty_queries_or_more(
    queries: int, own: bool, trials: list[Trial]
) -> None:
    some = [*trials[:queries], *trials[-2:]]  # The last two have no tool, and do not count for coverage.
    assert (fit_labelled(some, Options()).coverage is not None) == own
    before, after = cross_validated(some, Options())
    assert (after.tools != before.tools) == own


def test_a_figure_is_worse_in_its_own_direction_and_coverage_only_below_what_was_wanted(trials: list[Trial]) -> None:
    assert 0.5 <= worth([(Fit(), trials)], Options()).none <= 1
    one = Worth(ece=0.05, settled=0.5, precision=0.9, none=0.6, refused=0.02, held=0.95, tools=20)
    assert replace(one, ece=0.06).worse_than(one) == ("ece",)
    assert replace(one, none=0.5, held=0.91, settled=0.4).worse_than(one) == ("none",)
    assert replace(one, held=0.89, refused=0.2).worse_than(one) == ("refused", "held")
    assert replace(one, ece=0.04, none=0.7, held=1.0).worse_than(one) == ()


# --- the file


async def test_a_router_corrects_its_confidences_by_the_file(tmp_path: Path, trials: list[Trial]) -> None:
    FIT.write(tmp_path / "fit.json")
    (tmp_path / "fit.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "fit.json").read_bytes())  # as editors mark it
    words = RouteRequest(query="refund the customer", tenant="local", route_hint=RouteHint.KEYWORD)
    async with Router(sample()) as plain, Router(sample(), calibration=tmp_path / "fit.json") as fitted:
        before, after = await plain.route(words), await fitted.route(words)
        assert FIT.gate is not None
        assert after.confidence == pytest.approx(FIT.gate(before.confidence), abs=1e-3)
        assert [match.score for match in after.matches] == [match.score for match in before.matches]
        assert (plain.options.floor, fitted.options.floor) == (Options().floor, 0.35)
    fit = replace(fit_labelled(trials, Options()), embedder=STATIC)
    fit.write(tmp_path / "fit.json")
    task = RouteRequest(query="refund charge ch_3PqX, the customer paid twice", tenant="local", coverage=COVERAGE)
    async with Router(sample()) as plain, Router(sample(), calibration=tmp_path / "fit.json") as fitted:
        assert len((await fitted.route(task)).matches) < len((await plain.route(task)).matches)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"maps": "0" * 12}, "corrects the maps '000000000000'"),
        ({"gate": {"slope": -1, "offset": 0}}, "gate.slope"),
        ({"gate": {"slope": math.nan, "offset": 0}}, "gate.slope"),
        ({"confidence": {"slope": 1}}, "confidence.offset"),
        ({"floor": 2}, "floor"),
        ({"coverage": {"both": [1, 2]}}, "coverage thresholds 'keyword'"),
        ({"about": 3}, "about"),
    ],
)
def test_a_broken_file_or_one_for_other_maps_is_refused_with_the_remedy(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    path = tmp_path / "fit.json"
    FIT.write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InvalidConfig, match="toolroute eval FOLDER --fit --write FILE") as refused:
        Router(sample(), options=Options(calibration=str(path)))
    assert named in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b'{"floor": 0.3}', None])
def test_what_is_no_fit_at_all_is_refused(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "fit.json").write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"fit\.json"):
        Fit.read(tmp_path / "fit.json")


def test_a_fit_made_with_another_embedder_is_refused_where_the_router_is_made() -> None:
    fit, refused = replace(FIT, embedder="openai-other"), "fitted with the embedder 'openai-other', .* fit it again"
    for embedder in ("static", "openai:one"):
        with pytest.raises(InvalidConfig, match=refused):
            Router(sample(), calibration=fit, options=Options(embedder=embedder))
    Router(sample(), calibration=fit, options=Options(embedder="openai:other"))


async def test_a_fit_made_with_another_embedder_than_a_given_stores_is_refused_when_that_one_opens() -> None:
    store = Store(embedder=lambda: embedder_for(Options()))
    store.replace_server("local", "a", [tool("a:b", "Warm a room")])
    async with Router(store=store, calibration=replace(FIT, embedder="openai-other")) as router:
        for _ in range(2):  # The embedder is not kept where its fit is refused.
            with pytest.raises(InvalidConfig, match="fit it again"):
                await router.route(TASK)


# --- the commands


def calibration_of(ran: Ran) -> tuple[str, str]:
    (found,) = [found for found in json.loads(ran.stdout) if found["what"] == "calibration"]
    return found["state"], found["detail"]


def test_doctor_names_a_calibration_that_cannot_be_used_or_is_of_another_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    assert calibration_of(toolroute("doctor", "-o", "json"))[0] == "missing"
    path = tmp_path / "fit.json"
    monkeypatch.setenv("TOOLROUTE_CALIBRATION", str(path))
    for fit, named in ((None, "cannot be read"), (replace(FIT, embedder="openai-other"), "fitted with the embedder")):
        if fit is not None:
            fit.write(path)
        ran = toolroute("doctor", "-o", "json")
        state, detail = calibration_of(ran)
        assert (ran.exit_code, state) == (1, "broken")
        assert named in detail
    about = {"from": "made queries", "catalogue": "0" * 16, "tools": 5, "queries": 511}
    replace(FIT, about=about).write(path)
    toolroute("tools", "import", EXAMPLES)
    state, detail = calibration_of(toolroute("doctor", "-o", "json"))
    assert state == "flagged"
    assert f"{path}: fitted to 511 made queries" in detail


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for `eval`: seventy tools of the sample catalogue, and a query for each of sixty of them."""
    tools = [tool_to_json(tool) for tool in sample().tools[:70]]
    lines = [{"id": query.id, "query": query.text, "relevant": [*query.relevant]} for query in asked(60)]
    for name, records in (("tools", tools), ("queries", lines)):
        text = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def test_eval_fit_shows_both_and_writes_what_eval_then_uses(
    folder: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    file = folder / "fit.json"
    ran = toolroute("eval", folder, "--fit", "--write", file)
    assert ran.exit_code == 0
    assert all(word in ran.stdout for word in ("fitted", "held-out", "TOOLROUTE_CALIBRATION"))
    found = json.loads(toolroute("eval", folder, "--fit", "-o", "json").stdout)
    assert {"queries", "folds", "before", "after", "written", "worse"} <= set(found)
    measures = {"ece", "settled", "precision", "none", "refused", "held", "tools"}
    assert set(found["before"]) == set(found["after"]) == measures
    plain = json.loads(toolroute("eval", folder, "-o", "json").stdout)["confidence"]
    fitted = json.loads(toolroute("eval", folder, "-o", "json", "--calibration", file).stdout)["confidence"]
    assert fitted != plain
    monkeypatch.setenv("TOOLROUTE_CALIBRATION", str(file))
    assert json.loads(toolroute("eval", folder, "-o", "json").stdout)["confidence"] == fitted


def test_a_fit_that_is_worse_by_its_own_measure_is_named_with_the_figure(folder: Path, toolroute: Run) -> None:
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):  # One held-out fifth is unlike the others, which teach the wrong thing of it.
        if number % 5:
            line["relevant"] = [sample().tools[65].key]
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = toolroute("eval", folder, "--fit", "--write", folder / "fit.json", "-o", "json")
    found = json.loads(ran.stdout)
    assert "ece" in found["worse"]
    assert (folder / "fit.json").exists()
    for name in found["worse"]:
        assert f"{name} {found['before'][name]:.4f} -> {found['after'][name]:.4f}" in ran.stderr


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--write", "fit.json"), "give --fit"),
        (("--fit", "--stages", "keyword"), "--fit fits"),
        (("--fit", "--level", "server"), "--fit fits"),
        (("--calibration", "fit.json", "--stages", "semantic"), "leave it out"),
        (("--calibration", "nowhere.json"), "'nowhere.json' cannot be read"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: tuple[str, ...], named: str, folder: Path, toolroute: Run
) -> None:
    ran = toolroute("eval", folder, *options)
    assert ran.exit_code == 2
    assert named in ran.stderr


def test_twenty_queries_with_tools_of_the_catalogue_are_enough_to_fit_to_and_twelve_are_not(
    folder: Path, toolroute: Run
) -> None:
    lines = (folder / "queries.jsonl").read_text().splitlines(keepends=True)
    (folder / "queries.jsonl").write_text("".join(lines[:20]))
    ran = toolroute("eval", folder, "--fit")
    assert (ran.exit_code, "fewer than 50 queries have a tool in the catalogue" in ran.stdout) == (0, True)
    (folder / "queries.jsonl").write_text("".join(lines[:12]))
    ran = toolroute("eval", folder, "--fit")
    assert (ran.exit_code, "12 queries are too few" in ran.stderr) == (2, True)
    (folder / "queries.jsonl").write_text("".join(lines[:20]).replace('"relevant": ["', '"relevant": ["no-'))
    ran = toolroute("eval", folder, "--fit")
    assert (ran.exit_code, "no query's tool is in the catalogue" in ran.stderr) == (2, True)


def test_what_was_measured_is_shown_though_the_file_cannot_be_written(folder: Path, toolroute: Run) -> None:
    nowhere, few = folder / "gone" / "fit.json", folder / "few.jsonl"
    for path, source, most in ((few, "tools.jsonl", 9), (folder / "queries.jsonl", "queries.jsonl", 20)):
        path.write_text("".join((folder / source).read_text(encoding="utf-8").splitlines(keepends=True)[:most]))
    for shown, command in {
        "fitted": ("eval", folder, "--fit", "--write", nowhere),
        "made from their own text": ("doctor", "--catalogue", few, "--write", nowhere),
        "recall@1": ("eval", folder, "--per-query", nowhere),
    }.items():
        ran = toolroute(*command)
        assert ran.exit_code == 2
        assert shown in ran.stdout
        assert "written to" not in ran.stdout.lower()
        assert "cannot be written" in ran.stderr
