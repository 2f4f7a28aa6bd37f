"""Our own cases: tasks and their right tools, by category, on twenty servers. Each category keeps its minimum.

A line of `tests/cases/CATEGORY.jsonl` has a query and the tools that must all be among the first matches (`a|b`: either
tool is right). `without` names servers whose tools must not be among the matches. A category without tools must end at
`none`.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.office.server import FILE as OFFICE
from orchestrator import Catalogue, Decision, Options, Router, RouteRequest, Stage, Tool, Turn

HERE = Path(__file__).parent / "cases"
FIRST_AND_FLOOR = {
    "exact": (1, 0.94),
    "conceptual": (3, 0.75),
    "multi-term": (5, 0.88),
    "ambiguous": (5, 0.5),
    "no-tool": (0, 0.83),
    "negated": (3, 0.66),
    "forbidden": (1, 0.87),
    "misspelt": (3, 0.94),
    "multilingual": (3, 0.85),
    "follow-up": (3, 0.93),
    "story": (10, 0.81),
}
"""Within how many matches the tools of a category's cases must be, and the share of its cases that must be right, one
case below what is reached. The cases were written first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    query: str
    tools: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    conversation: tuple[Turn, ...] = ()

    def met_by(self, decision: Decision, first: int) -> bool:
        """Return True if the Decision meets the case."""
        keys = [match.tool.key for match in decision.matches]
        if any(key.partition(":")[0] in self.without for key in keys):
            return False
        if not self.tools:
            return decision.stage is Stage.NONE
        return all(set(key.split("|")) & set(keys[:first]) for key in self.tools)


def read(category: str) -> list[Case]:
    lines = (HERE / f"{category}.jsonl").read_text(encoding="utf-8").splitlines()
    return [_case(json.loads(line)) for line in lines]


def _case(record: dict[str, Any]) -> Case:
    turns = (Turn(**{**turn, "tools": tuple(turn.get("tools", ()))}) for turn in record.get("conversation", ()))
    return Case(
        query=record["query"],
        tools=tuple(record.get("tools", ())),
        without=tuple(record.get("without", ())),
        conversation=tuple(turns),
    )


def catalogue() -> Catalogue:
    """The servers of `tests/cases/tools.json` and those of the office: a description and parameters for each tool."""
    servers = json.loads((HERE / "tools.json").read_text()) | json.loads(OFFICE.read_text())
    return Catalogue(
        Tool(server=server, name=name, description=description, input_schema=_schema(parameters))
        for server, tools in servers.items()
        for name, (description, *parameters) in tools.items()
    )


def _schema(parameters: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in parameters}}


@pytest.fixture(scope="module")
async def router() -> AsyncIterator[Router]:
    # The floors are those of an installation without the extra `languages`.
    async with Router(catalogue(), options=Options(languages="off")) as router:
        yield router


def test_every_file_of_cases_has_a_floor_and_names_tools_that_are_there() -> None:
    known = {tool.key for tool in catalogue()}
    servers = {tool.server for tool in catalogue()}
    assert {path.stem for path in HERE.glob("*.jsonl")} == FIRST_AND_FLOOR.keys()
    for category in FIRST_AND_FLOOR:
        for case in read(category):
            assert {key for keys in case.tools for key in keys.split("|")} <= known, case.query
            assert servers.issuperset(case.without), case.query
            assert bool(case.tools) != (category == "no-tool"), case.query
            assert bool(case.without) == (category == "negated"), case.query
            assert bool(case.conversation) == (category == "follow-up"), case.query


@pytest.mark.parametrize("category", FIRST_AND_FLOOR)
async def test_each_category_holds_its_floor(router: Router, category: str) -> None:
    cases, missed = read(category), []
    first, floor = FIRST_AND_FLOOR[category]
    for case in cases:
        decision = await router.route(RouteRequest(query=case.query, tenant="local", conversation=case.conversation))
        if not case.met_by(decision, first):
            missed.append(_shown(case, decision))
    right = 1 - len(missed) / len(cases)
    assert right >= floor, f"{category}: {right:.2f} right, floor {floor}:\n" + "\n".join(missed)


def _shown(case: Case, decision: Decision) -> str:
    found = ", ".join(f"{match.tool.key} {match.probability:.2f}" for match in decision.matches[:5])
    return (
        f"{case.query!r} wants {' + '.join(case.tools) or 'none'}: {decision.stage} {decision.confidence:.2f}, {found}"
    )
