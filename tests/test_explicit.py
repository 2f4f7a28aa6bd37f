"""Explicit servers: what names a server, what leaves one out, and what only looks like it."""

from pathlib import Path

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.index import Index
from orchestrator.index.servers import Explicit, Form, ServerIndex
from research.explicit import measure
from tests.catalogues import tool
from tests.shared_data import query_sets

COMMON = ("time", "memory", "fetch", "git")
SERVERS = ServerIndex(
    "slack github jira linear google_calendar io.github.acme/postgres-mcp-server shopify-remote k8s".split()
    + list(COMMON)
)


def named(query: str) -> Explicit:
    return SERVERS.find(query)


@pytest.mark.parametrize(
    ("query", "server"),
    [
        ("use slack to post hello", "slack"),
        ("use the Slack MCP for this", "slack"),
        ("using github for the release, list the changes", "github"),
        ("post hello with the slack server", "slack"),
        ("from the jira mcp get the open bugs", "jira"),
        ("get the bugs from the jira server", "jira"),
        ("@linear open a ticket", "linear"),
        ("the linear integration should open a ticket", "linear"),
        ("use google calendar to book an hour", "google_calendar"),
        ("use postgres to list the tables", "io.github.acme/postgres-mcp-server"),
        ("get the orders from the shopify server", "shopify-remote"),
    ],
)
def test_the_strong_form_names_a_server(query: str, server: str) -> None:
    (mention,) = named(query).mentions
    assert (mention.server, mention.form, mention.negated) == (server, Form.STRONG, False)


@pytest.mark.parametrize(
    "query",
    [
        "post hello via slack",
        "post hello with slack",
        "post hello through my slack",
        "post hello in Slack",
        "send it instead via slack",
        "use slack and be polite",
    ],
)
def test_the_weak_form_names_a_server_with_a_name_of_its_own(query: str) -> None:
    assert named(query).wanted == ("slack",)


@pytest.mark.parametrize(
    "query",
    [
        "with time and patience",
        "from memory, who was it",
        "go and fetch the file from git",
        "using memory wisely",
        "in time for the party",
        "use bullet points to list them",
        "the slack in the rope",
        "why is slack not working",
        "it is a linear function of time",
    ],
)
def test_everyday_words_name_no_server(query: str) -> None:
    assert named(query) == Explicit()


@pytest.mark.parametrize("server", COMMON)
def test_a_server_with_an_everyday_name_is_named_by_the_strong_form(server: str) -> None:
    for query in (f"use {server} to do it", f"with the {server} mcp", f"use the {server} server", f"@{server} do it"):
        assert named(query).wanted == (server,), query


def test_a_word_that_tools_use_in_their_descriptions_names_a_server_in_the_strong_form_alone() -> None:
    index = Index(Catalogue([tool("apex:laps", "Lap times"), tool("race:line", "Finds the apex of a corner")]))
    assert index.servers.find("brake with apex in sight").wanted == ()
    assert index.servers.find("use apex to time the laps").wanted == ("apex",)


@pytest.mark.parametrize(
    "query", ["list the laps, not from apex", "without apex, list the laps", "list laps except apex"]
)
def test_such_a_server_is_left_out_where_the_part_ends_behind_its_name(query: str) -> None:
    index = Index(Catalogue([tool("apex:laps", "Lap times"), tool("race:line", "Finds the apex of a corner")]))
    assert index.servers.find(query).unwanted == ("apex",)
    assert index.servers.find("list the laps without apex speed").unwanted == ()


@pytest.mark.parametrize(
    "query",
    [
        "use slack and github to announce it",
        "use slack, github to announce it",
        "post it with slack and github",
        "post it in Slack and in GitHub",
        "use the slack mcp and the github mcp to announce it",
    ],
)
def test_several_servers_may_be_named(query: str) -> None:
    assert named(query).wanted == ("slack", "github")


def test_a_list_of_three_is_read_whole_with_everyday_names_in_it() -> None:
    assert named("use slack, memory and git to note it").wanted == ("slack", "memory", "git")


@pytest.mark.parametrize(
    ("query", "unwanted"),
    [
        ("post it without slack", ("slack",)),
        ("don't use slack, send a letter", ("slack",)),
        ("do not use the slack server", ("slack",)),
        ("create an issue, but not in jira", ("jira",)),
        ("create an issue without jira or linear", ("jira", "linear")),
        ("never post to slack", ("slack",)),
        ("anything but slack", ("slack",)),
        ("write it down without using memory", ("memory",)),
        ("Do not use memory. Write it down.", ("memory",)),
        ("write it down anywhere except the memory server", ("memory",)),
        ("write it down, no memory mcp please", ("memory",)),
        ("tell the team, but don't post it to slack", ("slack",)),
        ("use neither slack nor jira to say so", ("slack", "jira")),
        ("no slack please, email Ana", ("slack",)),
        ("say so to the team, no slack", ("slack",)),
        ("use neither trello nor jira to say so", ("jira",)),
        ("create an issue for this, nothing on jira", ("jira",)),
        ("tell the team, nothing via slack please", ("slack",)),
    ],
)
def test_a_negated_server_is_left_out(query: str, unwanted: tuple[str, ...]) -> None:
    assert (named(query).wanted, named(query).unwanted) == ((), unwanted)


def test_one_server_may_be_wanted_in_place_of_another() -> None:
    for query in ("use slack instead of jira to say it", "use slack to say it rather than jira"):
        assert (named(query).wanted, named(query).unwanted) == (("slack",), ("jira",)), query


@pytest.mark.parametrize(
    "query",
    [
        "don't forget to use slack to say so",
        "list the issues that are not in Jira",
        "if not in Jira, add it",
        "there are no jira issues",
        "list the people with no slack",
        "no slack channels were found, say so",
        "nothing in jira works",
        "list the people with a phone and no slack",
        "I found nothing in slack, say so",
        "sort it without using memory twice",
        "say 'the team must not use slack' to everybody",
        'close the issue "search fails without github"',
    ],
)
def test_not_every_negation_is_about_the_server(query: str) -> None:
    assert named(query).unwanted == ()


@pytest.mark.parametrize(
    ("said", "server"), [("slak", "slack"), ("gihtub", "github"), ("jiira", "jira"), ("linaer", "linear")]
)
def test_a_slip_of_the_hand_is_corrected_in_the_strong_form(said: str, server: str) -> None:
    (mention,) = named(f"use {said} to do it").mentions
    assert (mention.server, mention.said, mention.corrected) == (server, said, True)
    assert named(f"do it with {said}") == Explicit()


def test_a_slip_between_two_servers_is_a_question() -> None:
    found = ServerIndex(["stripe", "strive"]).find("use strike to charge it")
    assert found.mentions == ()
    assert found.unknown == {"strike": ("stripe", "strive")}


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("use the trello mcp to add a card", {"trello": ()}),
        ("use Trello to add a card", {"Trello": ()}),
        ("from the trello server get the cards", {"trello": ()}),
        ("add a card with trello", {}),
        ("use foobar to cut it", {"foobar": ()}),
        ("use a foobar to cut it", {}),
        ("use paper to write it down", {}),
        ("write an mcp server", {}),
        ("use it to cut", {}),
        ("tell the weather, don't use Celsius", {}),
    ],
)
def test_an_unknown_server_is_told_in_the_strong_form_alone(query: str, unknown: dict[str, tuple[str, ...]]) -> None:
    assert named(query) == Explicit(unknown=unknown)


def test_a_catalogue_without_servers_names_none() -> None:
    assert ServerIndex([]).find("post it with slack") == Explicit()
    assert ServerIndex([]).find("use slack to post") == Explicit(unknown={"slack": ()})


def test_what_a_pasted_document_says_far_down_names_no_server() -> None:
    assert named("text " * 1_000 + "use slack to post").wanted == ()


def test_false_mentions_stay_under_half_a_percent_of_the_query_sets(bench: Path) -> None:
    queries = false = 0
    for folder in query_sets(bench):
        row = measure(folder, step=5)
        queries, false = queries + row.queries, false + row.false
    assert queries > 1_500
    assert false <= 0.005 * queries
