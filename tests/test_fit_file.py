"""A file of a fit: what is broken in it, or made for other maps or another embedder, is refused with the remedy."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import InvalidConfig
from orchestrator.index.calibration import Calibration, shipped
from orchestrator.index.embed import StaticEmbedder, embedder_for
from orchestrator.index.fit import Correction, Fit
from orchestrator.options import Options
from orchestrator.routing.router import Router
from orchestrator.store.store import Store
from tests.catalogues import EXAMPLES, sample, tool
from tests.command_line import Ran, Run

FIT = Fit(
    gate=Correction(slope=0.8, offset=-0.5),
    floor=0.35,
    embedder=embedder_for(Options(embedder="static")).id,
)
TASK = "the boardroom is ice cold, warm it up"


@pytest.mark.parametrize(
    ("change", "said"),
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
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "fit.json"
    FIT.write(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InvalidConfig, match="toolroute eval FOLDER --fit --write FILE") as refused:
        Router(sample(), options=Options(calibration=str(path)))
    assert said in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b'{"floor": 0.3}'])
def test_what_is_no_fit_at_all_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "fit.json").write_bytes(content)
    with pytest.raises(InvalidConfig, match=r"fit\.json"):
        Fit.read(tmp_path / "fit.json")


def test_a_fit_made_with_another_embedder_is_refused_where_the_router_is_made() -> None:
    fit = replace(FIT, embedder="openai-other")
    said = "fitted with the embedder 'openai-other', .* fit it again"
    with pytest.raises(InvalidConfig, match=said):
        Router(sample(), calibration=fit, embedder=embedder_for(Options(embedder="static")))
    for embedder in ("static", "openai:one"):
        with pytest.raises(InvalidConfig, match=said):
            Router(sample(), calibration=fit, options=Options(embedder=embedder))
    Router(sample(), calibration=fit, options=Options(embedder="openai:other"))


async def test_a_fit_made_with_another_embedder_than_a_given_stores_is_refused_when_that_one_opens() -> None:
    store = Store(embedder=lambda: embedder_for(Options()))
    store.replace_server("local", "a", [tool("a:b", "Warm a room")])
    async with Router(store=store, calibration=replace(FIT, embedder="openai-other")) as router:
        for _ in range(2):  # The embedder is not kept where its fit is refused.
            with pytest.raises(InvalidConfig, match="fit it again"):
                await router.route(TASK)


def test_a_file_that_an_editor_marked_as_utf_8_is_read(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    FIT.write(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Fit.read(path).floor == FIT.floor


def told_of_calibration(ran: Ran) -> tuple[str, str]:
    (found,) = [found for found in json.loads(ran.stdout) if found["what"] == "calibration"]
    return found["state"], found["detail"]


def test_doctor_tells_a_calibration_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    doctor = ("doctor", "--store", tmp_path / "store", "-o", "json")
    assert told_of_calibration(toolroute(*doctor)) == ("missing", "none: the shipped numbers")
    for fit, said in ((None, "cannot be read"), (replace(FIT, embedder="openai-other"), "fitted with the embedder")):
        path = tmp_path / "fit.json"
        if fit is not None:
            fit.write(path)
        monkeypatch.setenv("TOOLROUTE_CALIBRATION", str(path))
        ran = toolroute(*doctor)
        state, detail = told_of_calibration(ran)
        assert (ran.exit_code, state) == (1, "broken")
        assert said in detail


def test_doctor_doubts_a_calibration_made_for_another_catalogue_than_the_stored_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    monkeypatch.setenv("TOOLROUTE_STORE", str(tmp_path / "store"))
    path = tmp_path / "fit.json"
    toolroute("doctor", "--catalogue", EXAMPLES, "--write", path)
    monkeypatch.setenv("TOOLROUTE_CALIBRATION", str(path))
    made = f"{path}: fitted to 511 made queries"
    assert told_of_calibration(toolroute("doctor", "-o", "json")) == ("works", made)
    toolroute("tools", "import", EXAMPLES)
    assert told_of_calibration(toolroute("doctor", "-o", "json")) == ("works", made)
    Store(tmp_path / "store", embedder=embedder_for(Options())).replace_server("local", "a", [tool("a:b", "Warm up")])
    ran = toolroute("doctor", "-o", "json")
    told = f"{made} of 197 tools; local has another catalogue now (198 tools)"
    assert (ran.exit_code, *told_of_calibration(ran)) == (0, "flagged", told)


def test_maps_of_ones_own_are_taken_as_they_are() -> None:
    maps: Calibration = shipped()
    router = Router(sample(), calibration=maps, options=Options(embedder="static"))
    assert isinstance(router.embedder, StaticEmbedder)


def test_a_file_that_is_not_there_ends_route_with_2(toolroute: Run) -> None:
    ran = toolroute("route", TASK, "--catalogue", EXAMPLES, "--calibration", "nowhere.json")
    assert ran.exit_code == 2
    assert "'nowhere.json' cannot be read" in ran.stderr
