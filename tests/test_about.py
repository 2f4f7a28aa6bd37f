"""Questions about tools: read by the names in them and by examples, answered by tools without a search."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalogue, Decision, Options, Router
from orchestrator.errors import InvalidConfig
from orchestrator.index.index import Index
from orchestrator.llm.context import for_decision
from orchestrator.pipeline.legs.entities import entities
from orchestrator.planning.planner import plan
from orchestrator.records.about import Entity
from orchestrator.records.plan import PlanRequest
from orchestrator.records.relation import Relation
from orchestrator.records.tool import Tool
from tests.catalogues import taking, tool

DESK = Catalogue(
    [
        tool("desk:close_ticket", "Close a ticket", input_schema=taking("ticket_id", ticket_id="which")),
        tool(
            "desk:reply_ticket",
            "Reply to a customer's ticket",
            input_schema=taking("ticket_id", ticket_id="which", text="what to say"),
            relations=(Relation(to="desk:find_ticket"), Relation(to="mail:send_mail", type="used_with")),
        ),
        tool("desk:find_ticket", "Find the ticket of a customer", labels={"team": "support"}),
        tool("mail:send_mail", "Send a mail to a customer"),
        tool("post:send_mail", "Send a mail to a customer", labels={"language": "python"}),
        tool("github:list_issues", "List the issues of a repository"),
        tool("github:search", "Search a repository's code"),
        tool("time:now", "The time of day in a city"),
    ]
)


@pytest.fixture(scope="module")
async def desk() -> AsyncIterator[Router]:
    async with Router(DESK, pipeline="coderag") as router:
        yield router


def told(decision: Decision) -> list[str]:
    assert decision.about
    return [own.tool for own in decision.about.tools]


@pytest.mark.parametrize(
    ("question", "intent", "tools"),
    [
        ("what does desk:reply_ticket take?", "definition", ["desk:reply_ticket"]),
        (
            "Which tools go with reply_ticket?",
            "usage",
            ["desk:reply_ticket", "desk:find_ticket", "mail:send_mail"],
        ),
        ("which tools use desk:find_ticket", "usage", ["desk:find_ticket", "desk:reply_ticket"]),
        ("what can the GitHub server do?", "overview", ["github:list_issues", "github:search"]),
        ("What can the time server do?", "overview", ["time:now"]),
        ("alternatives to mail:send_mail", "similar", ["mail:send_mail", "post:send_mail"]),
    ],
)
async def test_a_question_about_tools_is_answered_by_them(
    question: str, intent: str, tools: list[str], desk: Router
) -> None:
    found = await desk.route(question)
    assert found.about
    assert found.about.intent == intent
    assert told(found)[: len(tools)] == tools
    assert {match.tool.key for match in found.matches} >= set(told(found))
    assert (found.stage, found.recommended, found.semantic_ran) == ("explicit", (), False)
    assert plan(PlanRequest(decision=found)).steps == ()
    assert found.to_json()["about"]["intent"] == intent


async def test_a_definition_says_what_the_tool_takes(desk: Router) -> None:
    found = await desk.route("what does desk:reply_ticket take")
    assert found.about
    assert found.about.tools[0].takes == ("ticket_id (string, required)", "text (string)")


@pytest.mark.parametrize("schema", [{"required": None}, {"required": True, "properties": {"a": {}}}])
async def test_a_definition_with_an_odd_schema_is_told_all_the_same(schema: dict[str, Any]) -> None:
    odd = Tool(
        server="odd", name="get_report", description="Return a report", input_schema={"type": "object", **schema}
    )
    async with Router(Catalogue([odd]), pipeline="coderag") as router:
        found = await router.route("what does odd:get_report take")
    assert told(found) == ["odd:get_report"]


@pytest.mark.parametrize(
    "task",
    ["use reply_ticket to tell the customer that it is done", "list the issues on github", "what is the time in Rome"],
)
async def test_a_task_that_only_names_a_tool_is_searched(task: str, desk: Router) -> None:
    found = await desk.route(task)
    assert found.about
    assert (found.about.intent, found.about.tools) == ("general", ())
    assert found.semantic_ran


async def test_what_is_left_out_or_filtered_out_answers_nothing(desk: Router) -> None:
    found = await desk.route("what does desk:reply_ticket take", filters={"server": "mail"})
    assert found.about
    assert found.about.tools == ()
    assert {match.tool.server for match in found.matches} == {"mail"}


def test_entities_are_names_of_the_catalogue_and_forms() -> None:
    said = "run desk:find_ticket, `search` and search_all on ~/a/b.txt and https://x.y/a of github's list_issues"
    found, plain = entities(said, Index(DESK))
    assert [(own.kind, own.text) for own in found] == [
        ("tool", "desk:find_ticket"),
        ("tool", "search"),
        ("identifier", "search_all"),
        ("path", "~/a/b.txt"),
        ("url", "https://x.y/a"),
        ("server", "github"),
        ("tool", "list_issues"),
    ]
    assert found[1] == Entity(text="search", kind="tool", means=("github:search",))
    assert plain == "run , and search_all on ~/a/b.txt and https://x.y/a of"


async def test_filters_are_suggested_and_synonyms_expand_the_search(tmp_path: Path) -> None:
    words = tmp_path / "synonyms.json"
    words.write_text(json.dumps({"Epistle": ["mail"]}), encoding="utf-8")
    for synonyms, first in (("", False), (str(words), True)):
        async with Router(DESK, pipeline="coderag", options=Options(synonyms=synonyms)) as router:
            found = await router.route("an epistle about python, for support")
        assert (found.matches[0].tool.name == "send_mail") is first
        assert found.about
        assert found.about.filters == {"team": "support", "language": "python"}
    assert found.about.expanded == {"epistle": ("mail",)}


async def test_example_questions_are_the_users_own_and_a_wrong_file_is_named(tmp_path: Path) -> None:
    own = tmp_path / "intents.json"
    own.write_text(json.dumps({"overview": ["was kann X"]}), encoding="utf-8")
    async with Router(DESK, pipeline="coderag", options=Options(intents=str(own))) as router:
        assert told(await router.route("Was kann github?")) == ["github:list_issues", "github:search"]
    for wrong, said in (
        ("[]", ""),
        ("{}", "holds no example"),
        ('{"nosuch": ["who"]}', "'nosuch' is no intent: give "),
    ):
        own.write_text(wrong, encoding="utf-8")
        async with Router(DESK, pipeline="coderag", options=Options(intents=str(own))) as router:
            with pytest.raises(InvalidConfig, match=rf"intents\.json.*{said}"):
                await router.route("what can github do")


async def test_the_context_of_a_decision_holds_the_excerpt_of_the_graph(desk: Router) -> None:
    found = await desk.route("reply to the ticket of a customer that it is done")
    assert "desk:reply_ticket needs desk:find_ticket" in for_decision(found).markdown
