"""Fits: slopes and offsets fitted to labelled queries, the file that keeps them, and `eval --fit`."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from orchestrator import Fit, Options, RouteHint, Router, RouteRequest, Store
from orchestrator.errors import EmbedderUnavailable, InvalidConfig
from orchestrator.evaluate.fit import Trial, cross_validated, try_all
from orchestrator.evaluate.runner import Query, QuerySet
from orchestrator.experience.guarantee import guarantees
from orchestrator.index.calibration import Correction
from tests.catalogues import EXAMPLES, line_of, sample, tool
from tests.command_line import Ran, Run
from tests.stores import shipped

STATIC = shipped().id
GATE = {"slope": 0.8, "offset": -0.5}


@pytest.fixture
def fit_file(tmp_path: Path) -> Path:
    """A calibration file with corrections, with the mark that editors write before a text."""
    path = written(tmp_path / "fit.json", gate=GATE, confidence={"slope": 1.2, "offset": 0.4}, embedder=STATIC)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    return path


def written(path: Path, **changes: Any) -> Path:
    """Write a calibration file of this version, with these fields."""
    Fit().write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


class Asked(NamedTuple):
    """A labelled query of a folder for `eval`."""

    id: str
    text: str
    relevant: frozenset[str]


def asked(count: int) -> list[Asked]:
    """Return a query for each of the first tools of the sample catalogue, made of the tool's own text."""
    tools = sample().tools[:count]
    return [Asked(id=tool.key, text=tool.description, relevant=frozenset([tool.key])) for tool in tools]


FIVE = QuerySet(name="sample", catalogue=sample(), queries=tuple(Query(**query._asdict()) for query in asked(5)))


async def test_a_trial_claims_what_a_router_answers(router: Router) -> None:
    for query, trial in zip(asked(5), await try_all(FIVE, Options()), strict=True):
        for hint, (confidence, right) in ((RouteHint.SEMANTIC, trial.both), (RouteHint.KEYWORD, trial.keyword)):
            decision = await router.route(RouteRequest(query=query.text, tenant="local", route_hint=hint))
            assert (confidence, right) == (decision.confidence, decision.matches[0].tool.key in query.relevant)
        assert trial.gate == decision.gate_confidence


async def test_an_embedder_that_fails_is_an_error_and_no_fit_to_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(EmbedderUnavailable, match="the connection failed"):
        await try_all(FIVE, replace(Options.from_env(), embedder="openai:m"))


def test_a_correction_finds_the_slope_and_offset_that_were_there_and_few_queries_move_it_little() -> None:
    draw = np.random.default_rng(1)
    stated = draw.uniform(0.02, 0.98, 20_000)
    truly = draw.random(20_000) < 1 / (1 + np.exp(-(0.6 * np.log(stated / (1 - stated)) - 0.7)))
    found = Correction.fitted(list(zip(stated, truly, strict=True)), prior=10)
    assert (found.slope, found.offset) == pytest.approx((0.6, -0.7), abs=0.05)
    wrong = Correction.fitted([(0.9, False)] * 3, prior=200)
    assert (wrong.slope, wrong.offset) == pytest.approx((1, 0), abs=0.06)
    assert Correction.fitted([(0.0, False)], prior=10) == Correction()
    assert Correction.fitted([(0.95, False)] * 500 + [(0.05, True)] * 500, prior=1).slope > 0


def test_a_fit_to_claims_far_too_modest_pays_on_queries_that_it_has_not_seen() -> None:
    modest = [Trial(gate=0.0, keyword=(0.0, False), both=(0.3, number % 4 > 0)) for number in range(60)]
    before, after = cross_validated(modest, 0.7)
    assert before == {"ece": pytest.approx(0.45), "resolved": 0, "precision": None}
    assert after["ece"] is not None
    assert after["ece"] < 0.2


def test_a_guarantee_holds_in_the_mean_for_further_tasks() -> None:
    draw = np.random.default_rng(2)

    def tasks(count: int) -> list[tuple[float, bool]]:  # The confidences are too high by .1.
        return [(float(own), bool(draw.random() < own - 0.1)) for own in draw.uniform(0.1, 1, count)]

    wrong = []
    for _ in range(300):
        (found,) = guarantees(tasks(60), [0.8])
        came = [right for confidence, right in tasks(200) if confidence >= (found.threshold or 2)]
        wrong.append(1 - float(np.mean(came)) if came else 0.0)
    assert 0.1 < float(np.mean(wrong)) <= 0.2


def test_a_guarantee_that_the_tasks_cannot_give_has_no_threshold() -> None:
    few, wrong = [(0.99, True)] * 5, [(0.9, number % 2 == 0) for number in range(100)]
    assert [own.threshold for own in guarantees(few)] == [0.99, None, None]
    assert [own.threshold for own in (*guarantees(wrong), *guarantees([]))] == [None] * 6
    (own,) = guarantees([(0.9, True)] * 40 + [(0.5, False)] * 40, [0.9])
    assert (own.threshold, own.queries, own.recommended, own.right) == (0.9, 80, 40, 40)


# --- the file


async def test_a_router_corrects_its_confidences_by_the_file(fit_file: Path, router: Router) -> None:
    words = RouteRequest(query="refund the customer", tenant="local", route_hint=RouteHint.KEYWORD)
    async with Router(sample(), calibration=fit_file) as fitted:
        before, after = await router.route(words), await fitted.route(words)
    log_odds = math.log(before.confidence / (1 - before.confidence))
    corrected = 1 / (1 + math.exp(-(GATE["slope"] * log_odds + GATE["offset"])))
    assert after.confidence == pytest.approx(corrected, abs=1e-3)
    assert [match.tool for match in after.matches] == [match.tool for match in before.matches]
    assert max(match.probability for match in after.matches) <= after.confidence


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"shipped": "0" * 12}, "was made for the maps '000000000000'"),
        ({"gate": {"slope": -1, "offset": 0}}, "gate.slope"),
        ({"gate": {"slope": math.nan, "offset": 0}}, "gate.slope"),
        ({"confidence": {"offset": 21}}, "confidence.offset"),
        ({"about": 3}, "about"),
    ],
)
def test_a_broken_file_or_one_for_other_maps_is_refused_with_the_remedy(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "fit.json", **change)
    with pytest.raises(InvalidConfig, match="toolroute eval FOLDER --fit --write FILE") as refused:
        Router(sample(), options=Options(calibration=str(path)))
    assert named in str(refused.value)


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff\xfe", b'{"gate": null}', None])
def test_what_is_no_fit_at_all_is_refused(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "fit.json").write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"fit\.json"):
        Fit.read(tmp_path / "fit.json")


async def test_a_fit_made_with_another_embedder_is_refused_as_soon_as_that_one_is_known() -> None:
    fit, refused = Fit(embedder="openai-other"), "fitted with the embedder 'openai-other', .* fit it again"
    for embedder in ("static", "openai:one"):
        with pytest.raises(InvalidConfig, match=refused):
            Router(sample(), calibration=fit, options=Options(embedder=embedder))
    Router(sample(), calibration=fit, options=Options(embedder="openai:other"))
    store = Store(embedder=shipped())
    store.replace_server("local", "a", [tool("a:b", "Warm a room")])
    async with Router(store=store, calibration=fit) as router:
        for _ in range(2):  # The embedder is not kept where its fit is refused.
            with pytest.raises(InvalidConfig, match="fit it again"):
                await router.route("the boardroom is ice cold, warm it up")


# --- the commands


def calibration_of(ran: Ran) -> tuple[str, str]:
    (found,) = [found for found in json.loads(ran.stdout) if found["what"] == "calibration"]
    return found["state"], found["detail"]


def test_doctor_names_a_calibration_that_cannot_be_used_or_is_of_another_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    path = tmp_path / "fit.json"
    monkeypatch.setenv("TOOLROUTE_CALIBRATION", str(path))
    for fit, named in ((None, "cannot be read"), (Fit(embedder="openai-other"), "fitted with the embedder")):
        if fit is not None:
            fit.write(path)
        ran = toolroute("doctor", "-o", "json")
        state, detail = calibration_of(ran)
        assert (ran.exit_code, state) == (1, "broken")
        assert named in detail
    Fit(about={"catalogue": "0" * 16, "tools": 5, "queries": 511}).write(path)
    toolroute("tools", "import", EXAMPLES)
    state, detail = calibration_of(toolroute("doctor", "-o", "json"))
    assert (state, f"{path}: fitted to 511 queries" in detail) == ("flagged", True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for `eval`: thirty tools of the sample catalogue, and a query for each of twenty of them."""
    tools = [line_of(tool) for tool in sample().tools[:30]]
    lines = [{"id": query.id, "query": query.text, "relevant": [*query.relevant]} for query in asked(20)]
    for name, records in (("tools", tools), ("queries", lines)):
        text = "".join(json.dumps(record) + "\n" for record in records)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def test_eval_fit_shows_both_and_writes_what_eval_then_uses(
    folder: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    file = folder / "fit.json"
    ran = toolroute("eval", folder, "--fit", "--write", file)
    assert (ran.exit_code, "held-out" in ran.stdout, "TOOLROUTE_CALIBRATION" in ran.stderr) == (0, True, True)
    found = json.loads(toolroute("eval", folder, "--fit", "-o", "json").stdout)
    assert set(found["before"]) == set(found["after"]) == {"ece", "resolved", "precision"}
    assert json.loads(file.read_text())["about"]["guarantees"] == found["guarantees"]
    assert "20 queries of" in ran.stdout.split("confidence from")[1]
    assert [own["queries"] for own in found["guarantees"]] == [20, 20, 20]
    plain = json.loads(toolroute("eval", folder, "-o", "json").stdout)["confidence"]
    fitted = json.loads(toolroute("eval", folder, "-o", "json", "--calibration", file).stdout)["confidence"]
    assert fitted != plain
    monkeypatch.setenv("TOOLROUTE_CALIBRATION", str(file))
    assert json.loads(toolroute("eval", folder, "-o", "json").stdout)["confidence"] == fitted


def test_a_fit_that_is_worse_by_its_own_measure_is_named_with_the_figure(folder: Path, toolroute: Run) -> None:
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):  # One held-out fifth is unlike the others, which teach the wrong thing of it.
        if number % 5:
            line["relevant"] = [sample().tools[25].key]
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = toolroute("eval", folder, "--fit", "-o", "json")
    found = json.loads(ran.stdout)
    assert found["worse"] is (found["after"]["ece"] > found["before"]["ece"])
    assert (f"{found['before']['ece']} -> {found['after']['ece']}" in ran.stderr) is found["worse"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--write", "fit.json"), "add --fit"),
        (("--fit", "--route-hint", "keyword"), "--route-hint has no effect with --fit"),
        (("--fit", "--calibration", "fit.json"), "--calibration has no effect with --fit"),
        (("--calibration", "nowhere.json"), "'nowhere.json': cannot be read"),
        (("--fit", "--write", "nowhere/fit.json"), "cannot be written"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: tuple[str, ...], named: str, folder: Path, toolroute: Run
) -> None:
    ran = toolroute("eval", folder, *options)
    assert (ran.exit_code, named in ran.stderr) == (2, True), ran.stderr


@pytest.mark.parametrize(
    ("kept", "change", "named"),
    [
        (12, {}, "12 queries are too few"),
        (20, {"relevant": ["no:tool"]}, "routing finds no relevant tool of any query"),
    ],
)
def test_what_nothing_can_be_fitted_to_is_refused(
    kept: int, change: dict[str, Any], named: str, folder: Path, toolroute: Run
) -> None:
    lines = [{**json.loads(line), **change} for line in (folder / "queries.jsonl").read_text().splitlines()[:kept]]
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = toolroute("eval", folder, "--fit")
    assert (ran.exit_code, named in ran.stderr) == (2, True), ran.stderr
