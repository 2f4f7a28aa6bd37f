"""`toolroute eval --fit` as a user starts it: what it shows, writes and refuses."""

import json
from pathlib import Path

import pytest

from orchestrator.evaluate.probes import made_queries
from tests.catalogues import EXAMPLES, sample
from tests.command_line import Run

VAGUE = "the boardroom is ice cold, warm it up"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for `eval`: the sample catalogue, and a query for each of sixty of its tools."""
    catalogue = sample()
    lines = [
        {"id": str(number), "query": made_queries(tool)[-1], "relevant": [tool.key]}
        for number, tool in enumerate(catalogue.tools[:60])
    ]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (tmp_path / "tools.jsonl").write_bytes((EXAMPLES / "tools.jsonl").read_bytes())
    return tmp_path


def test_eval_fit_shows_both_and_writes_what_route_and_eval_then_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    file = folder / "fit.json"
    ran = toolroute("eval", folder, "--fit", "--write", file)
    assert ran.exit_code == 0
    shown = ran.stdout
    assert all(word in shown for word in ("built-in", "fitted", "held-out", "TOOLROUTE_CALIBRATION"))
    ran = toolroute("eval", folder, "--fit", "-o", "json")
    assert ran.exit_code == 0
    told = json.loads(ran.stdout)
    assert {"queries", "folds", "before", "after", "written"} <= set(told)
    assert (
        set(told["before"])
        == set(told["after"])
        == {*("ece", "settled", "precision", "none", "refused", "held", "tools")}
    )
    ran = toolroute("eval", folder, "-o", "json", "--calibration", file)
    assert ran.exit_code == 0
    fitted = json.loads(ran.stdout)["confidence"]
    monkeypatch.setenv("TOOLROUTE_CALIBRATION", str(file))
    ran = toolroute("eval", folder, "-o", "json")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["confidence"] == fitted
    monkeypatch.delenv("TOOLROUTE_CALIBRATION")
    ran = toolroute("eval", folder, "-o", "json")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["confidence"] != fitted
    ran = toolroute("route", VAGUE, "--catalogue", folder, "--calibration", file, "-o", "json")
    assert ran.exit_code in (0, 3)
    claimed = json.loads(ran.stdout)["confidence"]
    ran = toolroute("route", VAGUE, "--catalogue", folder, "-o", "json")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["confidence"] != claimed


def test_a_fit_that_is_worse_by_its_own_measure_is_told_with_the_figure(folder: Path, toolroute: Run) -> None:
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):  # one held-out fifth is unlike the others, which teach the wrong thing of it
        if number % 5:
            line["relevant"] = ["google_drive:shareFile"]
    (folder / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = toolroute("eval", folder, "--fit", "--write", folder / "fit.json", "-o", "json")
    assert ran.exit_code == 0
    told = json.loads(ran.stdout)
    assert "ece" in told["worse"]
    assert (folder / "fit.json").exists()
    for name in told["worse"]:
        assert f"{name} {told['before'][name]:.4f} -> {told['after'][name]:.4f}" in ran.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--write", "fit.json"), "give --fit"),
        (("--fit", "--stages", "keyword"), "--fit fits"),
        (("--fit", "--level", "server"), "--fit fits"),
        (("--calibration", "fit.json", "--stages", "semantic"), "leave it out"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: tuple[str, ...], said: str, folder: Path, toolroute: Run
) -> None:
    ran = toolroute("eval", folder, *options)
    assert ran.exit_code == 2
    assert said in ran.stderr


def test_too_few_queries_are_not_fitted_to(folder: Path, toolroute: Run) -> None:
    lines = (folder / "queries.jsonl").read_text().splitlines(keepends=True)
    (folder / "queries.jsonl").write_text("".join(lines[:12]))
    ran = toolroute("eval", folder, "--fit")
    assert ran.exit_code == 2
    assert "12 queries are too few" in ran.stderr


def test_twenty_queries_are_enough_to_fit_to(folder: Path, toolroute: Run) -> None:
    lines = (folder / "queries.jsonl").read_text().splitlines(keepends=True)
    (folder / "queries.jsonl").write_text("".join(lines[:20]))
    ran = toolroute("eval", folder, "--fit")
    assert ran.exit_code == 0
    assert "fewer than 50 queries have a tool in the catalogue: the thresholds of coverage sets stay" in ran.stdout


def test_queries_whose_tools_the_catalogue_lacks_are_not_fitted_to(folder: Path, toolroute: Run) -> None:
    queries = (folder / "queries.jsonl").read_text()
    (folder / "queries.jsonl").write_text(queries.replace('"relevant": ["', '"relevant": ["no-'))
    ran = toolroute("eval", folder, "--fit")
    assert ran.exit_code == 2
    assert "no query's tool is in the catalogue" in ran.stderr


def test_what_was_measured_is_shown_though_the_file_cannot_be_written(folder: Path, toolroute: Run) -> None:
    nowhere = folder / "gone" / "fit.json"
    commands = {
        "built-in": ("eval", folder, "--fit", "--write", nowhere),
        "made from their own text": ("doctor", "--catalogue", folder, "--write", nowhere),
        "recall@1": ("eval", folder, "--per-query", nowhere),
    }
    for shown, command in commands.items():
        ran = toolroute(*command)
        assert ran.exit_code == 2
        assert shown in ran.stdout
        assert "written to" not in ran.stdout.lower()
        assert "cannot be written" in ran.stderr
    ran = toolroute("eval", folder, "--fit", "--write", nowhere, "-o", "json")
    assert ran.exit_code == 2
    assert json.loads(ran.stdout)["written"] is None
