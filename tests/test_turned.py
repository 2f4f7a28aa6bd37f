"""A small word that turns a verb round ("turn on", "turn off") tells one tool from its twin."""

import pytest

from orchestrator import Catalogue, Router
from orchestrator.language.opposites import turned
from orchestrator.planning.effects import flags
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from tests.catalogues import tool

TWINS = Catalogue(
    [
        tool("home:turn_off_light", "Turn off a light in a room."),
        tool("home:turn_on_light", "Turn on a light in a room."),
        tool("map:zoom_in", "Zoom in on the map."),
        tool("map:zoom_out", "Zoom out of the map."),
        tool("site:log_in", "Start a session."),
        tool("site:log_out", "End a session."),
        tool("player:volume_down", "Make the sound quieter."),
        tool("player:volume_up", "Make the sound louder."),
    ]
)


@pytest.mark.parametrize(
    ("task", "found"),
    [
        ("turn on the light in the kitchen", "home:turn_on_light"),
        ("turn off the light in the kitchen", "home:turn_off_light"),
        ("turn the kitchen light off", "home:turn_off_light"),
        ("zoom in", "map:zoom_in"),
        ("zoom out a bit", "map:zoom_out"),
        ("log in", "site:log_in"),
        ("log out", "site:log_out"),
        ("turn the volume up", "player:volume_up"),
        ("turn the volume down", "player:volume_down"),
    ],
)
async def test_of_twins_the_one_is_found_that_turns_the_same_way(task: str, found: str) -> None:
    async with Router(TWINS) as router:
        assert (await router.route(task)).matches[0].tool.key == found


@pytest.mark.parametrize("task", ["turn on the light in the kitchen", "switch the light on please"])
async def test_no_step_turns_the_other_way(task: str) -> None:
    async with Router(TWINS.without(["home:turn_on_light"])) as router:
        made = plan(PlanRequest(decision=await router.route(task)))
    assert not made.steps
    assert "home:turn_off_light does the opposite" in made.reasons[0]


@pytest.mark.parametrize(("task", "on"), [("turn on the light", True), ("switch it off", False)])
def test_a_switch_is_turned_as_the_task_says(task: str, on: bool) -> None:
    schema = {"type": "object", "properties": {"on": {"type": "boolean"}}}
    assert flags(tool("home:switch_light", "Switch a light.", input_schema=schema), task) == {"on": on}


@pytest.mark.parametrize(
    "task",
    ["sign the contract on Monday", "log the bug on the board", "check the weather in Oslo", "turn this into a pdf"],
)
def test_where_and_when_turn_nothing(task: str) -> None:
    assert turned(task) == ""
