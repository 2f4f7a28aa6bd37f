"""Explicit servers: what names a server, what leaves one out, and what only looks like it."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.index import Index
from orchestrator.index.servers import ServerIndex, aliases
from orchestrator.routing.clauses import MAX_CUT
from orchestrator.routing.router import Router
from orchestrator.routing.stages.explicit import Explicit, find_servers
from tests.catalogues import tool

COMMON = ("time", "memory", "fetch", "git")
OTHERS = "slack github jira linear google_calendar io.github.acme/postgres-mcp-server shopify-remote k8s".split()
SERVERS = ServerIndex([*OTHERS, *COMMON])


def named(query: str) -> Explicit:
    return find_servers(query, SERVERS)


@pytest.mark.parametrize(
    ("query", "server"),
    [
        ("use slack to post hello", "slack"),
        ("use the Slack MCP for this", "slack"),
        ("get the bugs from the jira server", "jira"),
        ("@linear open a ticket", "linear"),
        ("the linear integration should open a ticket", "linear"),
        ("use google calendar to book an hour", "google_calendar"),
        ("use postgres to list the tables", "io.github.acme/postgres-mcp-server"),
        *((f"use {name} to do it", name) for name in COMMON),
        *((f"with the {name} mcp", name) for name in COMMON),
    ],
)
def test_the_strong_form_names_any_server(query: str, server: str) -> None:
    (mention,) = named(query).mentions
    assert (mention.server, mention.strong, mention.unwanted) == (server, True, False)


@pytest.mark.parametrize("query", ["post hello via slack", "post it through my slack", "post hello in Slack"])
def test_the_weak_form_names_a_server_whose_name_is_no_everyday_word(query: str) -> None:
    assert named(query).wanted == ("slack",)
    assert named(query).clearly_wanted == frozenset()


@pytest.mark.parametrize(
    "query",
    [
        "with time and patience",
        "from memory, who was it",
        "go and fetch the file from git",
        "use bullet points to list them",
        "the slack in the rope",
        "text " * (MAX_CUT // 5) + "use slack to post",
    ],
)
def test_everyday_words_and_pasted_documents_name_no_server(query: str) -> None:
    assert named(query) == Explicit()


def test_a_word_of_the_tools_descriptions_names_a_server_in_the_strong_form_alone() -> None:
    index = Index(Catalogue([tool("apex:laps", "Lap times"), tool("race:line", "Finds the apex of a corner")]))
    assert find_servers("brake with apex in sight", index.servers).wanted == ()
    assert find_servers("use apex to time the laps", index.servers).wanted == ("apex",)


def test_a_list_of_servers_is_read_whole_with_everyday_names_in_it() -> None:
    assert named("use slack, memory and git to note it").wanted == ("slack", "memory", "git")


@pytest.mark.parametrize(
    ("query", "unwanted"),
    [
        ("post it without slack", ("slack",)),
        ("don't use slack, send a letter", ("slack",)),
        ("create an issue without jira or linear", ("jira", "linear")),
        ("Do not use memory. Write it down.", ("memory",)),
        ("write it down, no memory mcp please", ("memory",)),
        ("list the people, but don't sort it using memory twice", ()),
        ("list the issues that are not in Jira", ()),
        ("say 'never post to slack' to everybody", ()),
    ],
)
def test_a_server_within_what_the_task_leaves_out_is_unwanted(query: str, unwanted: tuple[str, ...]) -> None:
    assert named(query).unwanted == unwanted


def test_one_server_may_be_wanted_in_place_of_another() -> None:
    found = named("use slack instead of jira to say it")
    assert (found.wanted, found.unwanted) == (("slack",), ("jira",))


def test_a_slip_is_corrected_in_the_strong_form_and_between_two_servers_a_question() -> None:
    for said, server in (("slak", "slack"), ("gihtub", "github"), ("linaer", "linear")):
        (mention,) = named(f"use {said} to do it").mentions
        assert (mention.server, mention.said, mention.corrected) == (server, said, True)
        assert named(f"do it with {said}") == Explicit()
    found = find_servers("use strike to charge it", ServerIndex(["stripe", "strive"]))
    assert found == Explicit(unknown={"strike": ("stripe", "strive")})


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("use the trello mcp to add a card", {"trello": ()}),
        ("add a card with trello", {}),
        ("use a foobar to cut it", {}),
        ("use paper to write it down", {}),
    ],
)
def test_only_the_strong_form_reports_an_unknown_server(query: str, unknown: dict[str, tuple[str, ...]]) -> None:
    assert named(query) == Explicit(unknown=unknown)
    assert find_servers(query, ServerIndex([])).unknown == unknown


def test_a_server_goes_by_its_name_without_owner_and_generic_words() -> None:
    assert {"postgres", "io.github.acme/postgres-mcp-server"} <= aliases("io.github.acme/postgres-mcp-server")
    assert aliases("42") == set()


async def test_a_decision_keeps_to_the_named_server_and_leaves_out_the_unwanted_one(router: Router) -> None:
    named_one = await router.route("use jira to create an issue for the broken login")
    assert named_one.recommended == ("jira:create_issue",)
    assert 'server named by "jira"' in named_one.matches[0].why
    without = await router.route("don't use jira, create an issue")
    assert not any(match.tool.server == "jira" for match in without.matches)
    assert any("leaves out 'jira'" in item.why for item in without.rejected)
    unknown = await router.route("use the jirra mcp to create an issue")
    assert "'jirra' is read as the server 'jira'" in unknown.warnings
    no_tool = await router.route("use the trello mcp to add a card")
    assert any("no server 'trello' is known here" in warning for warning in no_tool.warnings)
