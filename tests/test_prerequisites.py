"""A likely tool's requirement is found with it if another tool of its server provides it."""

from typing import Any

import pytest

from orchestrator import (
    Catalogue,
    Decision,
    Gives,
    Match,
    Models,
    Options,
    RouteHint,
    Router,
    RouteRequest,
    Tool,
    Turn,
    choose_action,
    decision_context,
)
from orchestrator.index.index import Index
from orchestrator.testing import ScriptedModel
from tests.catalogues import EXAMPLES, keys, taking, tool
from tests.command_line import Run
from tests.decisions import plan_without_model

POST = tool("chat:post_message", "Post a message.", input_schema=taking("channel_id", "text", channel_id="", text=""))
CHANNELS = tool("chat:list_channels", "All there are, with their topics.")
OTHERS = [
    tool("chat:set_topic", "Say what it is about."),
    tool("mail:send", "Send a mail."),
    tool("wiki:edit", "Edit."),
]


async def routed(query: str, *tools: Tool, **given: Any) -> Decision:
    async with Router(Catalogue([POST, CHANNELS, *OTHERS, *tools])) as router:
        return await router.route(RouteRequest(query=query, tenant="local", **given))


def match_of(decision: Decision, key: str) -> Match | None:
    return next((match for match in decision.matches if match.tool.key == key), None)


@pytest.mark.parametrize("hint", list(RouteHint))
async def test_the_tool_that_gives_an_identifier_stands_behind_the_one_that_requires_it(hint: RouteHint) -> None:
    decision = await routed("post a message that lunch is ready", route_hint=hint, limit=2)
    assert keys(decision) == ["chat:post_message", "chat:list_channels"]
    first, second = decision.matches
    assert second.probability < first.probability
    # The evidence is of before the confidence limits the probabilities.
    assert first.probability / 2 <= second.evidence["required"] <= 0.5
    assert second.gives == Gives(parameter="channel_id", tool="chat:post_message")
    assert "gives the channel_id that chat:post_message requires" in second.why


@pytest.mark.parametrize(
    ("task", "first", "second"),
    [
        ("share the quarterly budget with Ana on google drive", "google_drive:shareFile", "google_drive:searchFiles"),
        ("book an appointment for the patient Mrs Lee", "ehr:book_appointment", "ehr:find_patient"),
    ],
)
async def test_real_tasks_get_the_tool_that_looks_up_what_they_name(
    router: Router, task: str, first: str, second: str
) -> None:
    decision = await router.route(RouteRequest(query=task, tenant="local", limit=3))
    found = keys(decision)
    assert found[0] == first
    assert second in found


async def test_what_the_task_says_itself_or_an_earlier_turn_looked_up_needs_no_other_tool() -> None:
    before = Turn(text="which channels are there", tools=("chat:list_channels",))
    for task, conversation, raised in (
        ("post a message that lunch is ready", (), True),
        ("post a message that lunch is ready", (before,), False),
        ("post a message to channel C0142 that lunch is ready", (), False),
    ):
        decision = await routed(task, conversation=conversation, route_hint=RouteHint.SEMANTIC)
        found = match_of(decision, "chat:list_channels")
        assert found is not None
        assert ("required" in found.evidence) is raised


async def test_filters_leave_out_what_a_tool_requires() -> None:
    listing = tool(CHANNELS.key, CHANNELS.description, labels={"maturity": "emerging"})
    posting = tool(POST.key, POST.description, input_schema=POST.input_schema, labels={"maturity": "stable"})
    async with Router(Catalogue([posting, listing, *OTHERS])) as router:
        request = RouteRequest(query="post a message", tenant="local", filters={"maturity": "stable"})
        assert keys(await router.route(request)) == ["chat:post_message"]


async def test_what_gives_an_identifier_is_not_planned_in_place_of_what_was_asked_for() -> None:
    cancel = tool("shop:cancel_order", "Cancel an order.", input_schema=taking("order_id", order_id=""))
    find = tool("shop:find_order", "Find an order by its email.", input_schema=taking("email", email=""))
    decision = await routed("cancel the order of ana@example.com", cancel, find)
    assert [match.tool.key for match in decision.matches[:2]] == ["shop:cancel_order", "shop:find_order"]
    (step,) = (await plan_without_model(decision)).steps
    assert step.tool == "shop:cancel_order"
    assert step.missing == ("order_id",)


def test_a_plan_shows_which_tool_gives_what_a_step_lacks(toolroute: Run) -> None:
    ran = toolroute("plan", "book an appointment for the patient Mrs Lee", "--catalogue", EXAMPLES / "tools.jsonl")
    assert "ehr:find_patient gives s1.patient_id" in ran.stdout


async def test_a_model_reads_which_tool_gives_what_another_requires() -> None:
    decision = await routed("post a message that lunch is ready")
    line = "chat:list_channels gives the channel_id that chat:post_message requires"
    assert line in decision_context(decision).markdown
    none = {"action": "none", "reasons": ["because"], "confidence": 0.9}
    async with ScriptedModel([none]) as server:
        async with Models(Options(model="m", model_url=server.url), api_key="k") as client:
            await choose_action(client, decision)
        assert line in server.asked[0].text


def test_only_tools_of_the_same_server_are_read_for_what_a_tool_requires() -> None:
    others = [tool(f"forum{n}:list_channels", "All there are.") for n in range(5)]
    catalogue = Catalogue([POST, CHANNELS, *OTHERS, *others])
    index = Index(catalogue, reading=Index(catalogue).reading)  # As from a file: no tool was read by this process.
    position = catalogue.positions[POST.key]
    (requirement,) = index.prerequisites.of(position)
    assert [catalogue.tools[place].key for place in requirement.sources] == [CHANNELS.key]
    assert {document.tool.server for document in index.documents.known.values()} == {"chat"}
