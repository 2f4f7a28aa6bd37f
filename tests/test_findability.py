"""`toolroute doctor --catalogue`: tools that cannot be found, pairs that collide, and the floor."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.formats import tool_to_json
from orchestrator.evaluate import findability
from orchestrator.evaluate.findability import MOST_QUERIES, Findability, examine, made_queries
from orchestrator.options import Options
from orchestrator.records.tool import Tool
from tests.catalogues import sample, taking, tool
from tests.command_line import Run

VAULT = "List everything that is kept in the vault of a subscription. Names come back, values do not."
ALIKE = [
    tool("vault:north_list", VAULT),
    tool("vault:south_list", VAULT),
    tool("mail:send", "Send a letter to a person by electronic mail, with files attached."),
    tool("weather:forecast", "Tell how warm and how wet the coming days will be in a city."),
    tool("music:play", "Play a song or a whole album on the speakers of a room."),
]


def examined(tools: list[Tool]) -> Findability:
    return asyncio.run(examine(Catalogue(tools), Options(embedder="static")))


def written(folder: Path, tools: list[Tool]) -> Path:
    path = folder / "tools.jsonl"
    path.write_text("".join(json.dumps(tool_to_json(tool)) + "\n" for tool in tools), encoding="utf-8")
    return path


def test_queries_are_made_of_the_tools_own_words_without_its_name_and_always_the_same() -> None:
    refund = sample()["stripe:refund_charge"]
    queries = made_queries(refund)
    assert 0 < len(queries) <= MOST_QUERIES
    assert queries == made_queries(replace(refund))
    text = f"{refund.description} {' '.join(refund.keywords)}".lower()
    assert all(word.lower() in text for query in queries for word in query.split())
    assert "refund" not in queries[0].lower().split()
    silent = tool("a:run_report", input_schema=taking(quarter="The quarter of the year"))
    assert made_queries(silent) == ["run report quarter The quarter of the year"]
    assert made_queries(tool("a:of")) == []


def test_two_tools_with_one_description_collide() -> None:
    (pair,) = examined(ALIKE).collisions
    assert pair.tools == ("vault:north_list", "vault:south_list")
    assert max(pair.lost) > 0


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
    assert (found.unfound, found.brought, found.seed) == ((), 1, None)


def test_a_large_catalogue_is_drawn_from_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findability, "MOST_TOOLS", 10)
    found = examined(list(sample().tools[:20]))
    assert (found.seed, found.tried, found.tools) == (findability.SEED, 10, 20)
    assert found == examined(list(sample().tools[:20]))


def test_the_table_names_each_kind_of_finding_and_one_tool_alone_is_found(tmp_path: Path, toolroute: Run) -> None:
    ran = toolroute("doctor", "--catalogue", written(tmp_path, [*ALIKE, tool("x:of")]))
    assert ran.exit_code == 0
    assert "6 tools: " in ran.stdout
    assert "Flagged" not in ran.stdout
    assert all(title in ran.stdout for title in ("Cannot be found", "Collide", "Say nothing", "x:of"))
    found = json.loads(toolroute("doctor", "--catalogue", written(tmp_path, [ALIKE[2]]), "-o", "json").stdout)
    assert (found["tools"], found["unfound"], found["collisions"], found["flagged"]) == (1, [], [], {})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--catalogue", "TOOLS", "--user", "7"), "without --store, --config and a tenant"),
        (("--catalogue", "EMPTY"), "has no tools"),
        (("--catalogue", "nowhere.jsonl"), "nowhere.jsonl: cannot be read (No such file or directory)"),
    ],
)
def test_what_cannot_be_examined_is_named_with_the_remedy(
    arguments: tuple[str, ...], named: str, tmp_path: Path, toolroute: Run
) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    paths: dict[str, Any] = {"TOOLS": written(tmp_path, ALIKE[2:]), "EMPTY": tmp_path / "empty.jsonl"}
    ran = toolroute("doctor", *(paths.get(argument, argument) for argument in arguments))
    assert ran.exit_code == 2
    assert named in ran.stderr
