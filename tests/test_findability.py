"""`toolroute doctor --catalogue`: tools that cannot be found, pairs that collide, the words that help, and the fit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.evaluate import findability
from orchestrator.evaluate.findability import Examination
from orchestrator.evaluate.probes import MOST, made_queries
from orchestrator.index.calibration import shipped
from orchestrator.index.embed import embedder_for
from orchestrator.index.fit import Fit
from orchestrator.index.index import Index
from orchestrator.index.text import fields, terms
from orchestrator.options import Options
from orchestrator.records.tool import Tool
from orchestrator.routing.router import Router
from tests.catalogues import EXAMPLES, sample, taking, tool
from tests.command_line import Run

VAULT = "List everything that is kept in the vault of a subscription. Names come back, values do not."
ALIKE = [
    tool("vault:north_list", VAULT),
    tool("vault:south_list", VAULT),
    tool("mail:send", "Send a letter to a person by electronic mail, with files attached."),
    tool("weather:forecast", "Tell how warm and how wet the coming days will be in a city."),
    tool("music:play", "Play a song or a whole album on the speakers of a room."),
]


def examined(tools: list[Tool]) -> findability.Findability:
    examination = Examination(
        index=Index(Catalogue(tools)), maps=shipped(), embedder=embedder_for(Options(embedder="static"))
    )
    examination.run()
    return examination.findings()


def written(folder: Path, tools: list[Tool]) -> Path:
    path = folder / "tools.jsonl"
    path.write_text("".join(json.dumps(tool_to_json(tool)) + "\n" for tool in tools), encoding="utf-8")
    return path


def test_queries_are_made_of_the_tools_own_words_without_its_name_and_always_the_same() -> None:
    refund = sample()["stripe:refund_charge"]
    queries = made_queries(refund)
    assert 0 < len(queries) <= MOST
    assert queries == made_queries(replace(refund))
    text = f"{refund.description} {' '.join(refund.keywords)}".lower()
    assert all(word.lower() in text for query in queries for word in query.split())
    assert "refund" not in queries[0].lower().split()


def test_a_tool_without_a_description_is_asked_for_by_its_name_and_parameters() -> None:
    silent = tool("a:run_report", input_schema=taking(quarter="The quarter of the year"))
    assert made_queries(silent) == ["run report quarter The quarter of the year"]
    assert made_queries(tool("a:of")) == []


def test_two_tools_with_one_description_collide_and_the_words_of_their_names_mend_it() -> None:
    (pair,) = examined(ALIKE).collisions
    assert pair.tools == ("vault:north_list", "vault:south_list")
    assert min(pair.lost) > 0
    for mend, word in zip(pair.mends, ("north", "south"), strict=True):
        assert mend is not None
        assert mend.words == (word,)
        assert mend.said == mend.queries


def test_only_the_side_that_loses_is_told_what_the_other_does_not_say(tmp_path: Path, toolroute: Run) -> None:
    ran = toolroute("doctor", "--catalogue", EXAMPLES, "-o", "json")
    assert ran.exit_code == 0
    pairs = json.loads(ran.stdout)["collisions"]
    assert any(0 in pair["lost"] for pair in pairs)
    known = sample()
    for pair in pairs:
        said = [{term for _, text in fields(known[key]) for term in terms(text)} for key in pair["tools"]]
        for lost, mend, others in zip(pair["lost"], pair["mends"], reversed(said), strict=True):
            assert (mend is None) == (lost == 0)
            assert mend is None or mend["queries"] == lost
            assert mend is None or not any(others.issuperset(terms(word)) for word in mend["words"])
    ran = toolroute("doctor", "--catalogue", EXAMPLES)
    assert ran.exit_code == 0
    advice = [line for line in ran.stdout.splitlines() if "->" in line]
    assert len(advice) == sum(bool(lost) for pair in pairs for lost in pair["lost"])


def test_the_words_that_help_are_whole_ones() -> None:
    found = examined([tool("v1:list", f"{VAULT} Told by WhatsApp in 3D."), tool("v2:list", VAULT), *ALIKE[2:]])
    words = {word for pair in found.collisions for mend in pair.mends if mend for word in mend.words}
    assert "WhatsApp" in words
    assert words.isdisjoint({"whats", "app", "D", "d"})


def test_what_was_not_tried_is_not_said_to_be_of_no_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toolroute: Run
) -> None:
    monkeypatch.setattr(findability, "MOST_MENDED", 0)
    ran = toolroute("doctor", "--catalogue", written(tmp_path, ALIKE))
    assert ran.exit_code == 0
    shown = ran.stdout
    assert "go to the other" in shown
    assert "->" not in shown


def test_tools_that_differ_in_no_word_are_told_to_say_what_only_they_do(tmp_path: Path, toolroute: Run) -> None:
    twins = [tool(f"{server}:list", VAULT) for server in ("v1", "v2", "v3")]
    ran = toolroute("doctor", "--catalogue", written(tmp_path, twins))
    assert ran.exit_code == 0
    assert "say in its description what only it does" in ran.stdout


def test_a_tool_that_a_twin_always_beats_cannot_be_found() -> None:
    crowd = [tool(f"shop{number}:find", "Find goods by their name and their price.") for number in range(30)]
    found = examined([*crowd, tool("garden:water", "Water the plants in the morning.")])
    assert len(found.unfound) >= 15
    assert "garden:water" not in {item.tool for item in found.unfound}
    worst = found.unfound[0]
    assert worst.brought < worst.queries / 2
    assert set(worst.instead) <= {own.key for own in crowd}


def test_a_catalogue_that_says_what_its_tools_do_is_found_whole() -> None:
    found = examined([tool for tool in sample() if tool.server in ("stripe", "jira", "google_calendar")])
    assert found.unfound == ()
    assert found.brought == 1
    assert found.seed is None


def test_a_large_catalogue_is_drawn_from_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findability, "MOST_TOOLS", 10)
    found = examined(list(sample().tools[:40]))
    assert found.seed == findability.SEED
    assert 10 <= found.tried <= 15
    assert found == examined(list(sample().tools[:40]))


def test_one_tool_alone_is_found_and_moves_no_floor(tmp_path: Path, toolroute: Run) -> None:
    path = written(tmp_path, [ALIKE[2]])
    ran = toolroute("doctor", "--catalogue", path, "-o", "json")
    assert ran.exit_code == 0
    found = json.loads(ran.stdout)
    assert (found["tools"], found["unfound"], found["collisions"], found["flagged"]) == (1, [], [], {})
    assert found["fit"]["floor"] == pytest.approx(0.2, abs=0.02)
    ran = toolroute("doctor", "--catalogue", path)
    assert ran.exit_code == 0
    assert ran.stdout.startswith("1 tool: ")


async def test_the_fit_that_is_written_is_the_one_that_a_router_uses(tmp_path: Path, toolroute: Run) -> None:
    path, file = written(tmp_path, list(sample().tools[:60])), tmp_path / "fit.json"
    ran = toolroute("doctor", "--catalogue", path, "--write", file, "--maps", "-o", "json")
    assert ran.exit_code == 0
    told = json.loads(ran.stdout)
    fit = Fit.read(file)
    assert told["written"] == str(file)
    assert fit.floor == told["fit"]["floor"] > 0.2
    assert fit.gate is not None
    assert fit.gate.slope == pytest.approx(told["fit"]["gate"]["slope"], abs=1e-3)
    async with Router(path, options=Options(calibration=str(file))) as router:
        assert router.options.floor == fit.floor


def test_the_table_names_each_kind_of_finding_and_the_remedy(tmp_path: Path, toolroute: Run) -> None:
    ran = toolroute("doctor", "--catalogue", written(tmp_path, [*ALIKE, tool("x:of")]))
    assert ran.exit_code == 0
    shown = ran.stdout
    assert "6 tools: " in shown
    assert "Flagged" not in shown
    assert all(title in shown for title in ("Cannot be found", "Collide", "Say nothing", "Abstain below"))
    assert "x:of" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--write", "fit.json"), "give --catalogue"),
        (("--maps",), "give --catalogue"),
        (("--catalogue", "TOOLS", "--maps"), "give --write FILE"),
        (("--catalogue", "TOOLS", "--user", "7"), "without --store, --config and a tenant"),
        (("--catalogue", "EMPTY"), "has no tools"),
        (("--catalogue", "nowhere.jsonl"), "nowhere.jsonl does not exist: give a tools.jsonl"),
        (("--catalogue", "TOOLS", "--write", "nowhere/fit.json"), "cannot be written"),
    ],
)
def test_what_cannot_be_examined_is_said_with_the_remedy(
    arguments: tuple[str, ...], said: str, tmp_path: Path, toolroute: Run
) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    paths: dict[str, Any] = {"TOOLS": written(tmp_path, ALIKE[2:]), "EMPTY": tmp_path / "empty.jsonl"}
    ran = toolroute("doctor", *(paths.get(argument, argument) for argument in arguments))
    assert ran.exit_code == 2
    assert said in ran.stderr


def test_without_a_catalogue_it_still_says_what_works_here(tmp_path: Path, toolroute: Run) -> None:
    ran = toolroute("doctor", "--store", tmp_path / "store", "-o", "json")
    assert ran.exit_code == 0
    found = {finding["what"]: finding for finding in json.loads(ran.stdout)}
    assert found["embedder"]["state"] == "works"
    assert (found["store"]["state"], found["store"]["remedy"][:22]) == ("missing", "toolroute tools import")
    assert "store (does not exist yet): 0 tools" in found["store"]["detail"]
    assert not (tmp_path / "store").exists()
