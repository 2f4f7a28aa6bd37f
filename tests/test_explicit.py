"""Explicit servers: names in the task, exclusions before a name, and names that are ordinary words."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.index import Index
from orchestrator.index.servers import ServerIndex, aliases
from orchestrator.pipeline.clauses import MAX_CUT
from orchestrator.pipeline.legs.explicit import Explicit, find_servers
from orchestrator.pipeline.understand import understand
from orchestrator.planning.planner import plan
from orchestrator.records.plan import PlanRequest
from orchestrator.runtime.router import Router
from tests.catalogues import tool

COMMON = ("time", "memory", "fetch", "git")
OTHERS = "slack github jira linear playwright google_calendar io.github.acme/postgres-mcp-server shopify-remote qr_code"
SERVERS = ServerIndex([*OTHERS.split(), *COMMON], used={"code", "calendar"})


def named(query: str) -> Explicit:
    return find_servers(query, SERVERS)


@pytest.mark.parametrize(
    ("query", "server"),
    [
        ("use slack to post hello", "slack"),
        ("post hello in Slack.", "slack"),
        ("open a ticket in jira", "jira"),
        ("a jira ticket", "jira"),
        ("get the bugs from Jira's server", "jira"),
        ("@linear open a ticket", "linear"),
        ("book it on my Google Calendar", "google_calendar"),
        ("use postgres to list the tables", "io.github.acme/postgres-mcp-server"),
        ("use `shopify-remote` for it", "shopify-remote"),
        *((f"use {name} to do it", name) for name in COMMON),
        *((f"with the {name} mcp", name) for name in COMMON),
    ],
)
def test_a_name_in_the_task_is_its_server(query: str, server: str) -> None:
    assert (named(query).wanted, named(query).unwanted) == ((server,), ())


@pytest.mark.parametrize(
    "query",
    [
        "with time and patience",
        "from memory, who was it",
        "go and fetch the file from git",
        "put a QR code on it",  # A word of two letters, and one that descriptions use.
        "say 'post it to slack' to everybody",
        "open slack.example.com",
        "add a card with trello",
        "use the trello mcp to add a card",
        "text " * (MAX_CUT // 5) + "use slack to post",
    ],
)
def test_ordinary_unknown_and_quoted_words_name_none(query: str) -> None:
    assert named(query) == Explicit()


def test_a_word_of_descriptions_needs_a_cue() -> None:
    index = Index(Catalogue([tool("apex:laps", "Lap times"), tool("race:line", "Finds the apex of a corner")]))
    assert find_servers("brake with apex in sight", index.servers).wanted == ()
    assert find_servers("use apex to time the laps", index.servers).wanted == ("apex",)


WORDINGS = (
    "{task}, not with {server}",
    "{task} without {server}",
    "don't use {server}, {task}",
    "{task}, use anything but {server}",
    "{task}, but not with {server}",
)


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("server", ["sentry", "stripe", "plane"])
async def test_an_excluded_server_is_left_out(server: str, wording: str) -> None:
    """`sentry` is a word of a description, and `plane` an everyday word."""
    issues = tool(f"{server}:search_issues", "Search the issues of a project")
    others = [tool("jira:search_issues", "Search issues"), tool("web:fetch", "Fetch a page such as sentry.io, sentry")]
    query = wording.format(task="search the issues of last week", server=server)
    async with Router(Catalogue([issues, *others])) as router:
        decision = await router.route(query)
    assert decision.recommended == ("jira:search_issues",)
    assert f"the task excludes the server {server!r}: its tools do not match" in decision.warnings


@pytest.mark.parametrize("query", ["read it without memory loss", "don't waste time on it", "not from memory alone"])
def test_an_everyday_word_after_a_negation_excludes_nothing(query: str) -> None:
    assert named(query) == Explicit()


def test_listed_names_share_the_cue_and_the_negation() -> None:
    assert named("use slack, memory and git to note it").wanted == ("slack", "memory", "git")
    assert named("note it without slack, jira or linear").unwanted == ("slack", "jira", "linear")


@pytest.mark.parametrize(
    ("query", "unwanted"),
    [
        ("post it without slack", ("slack",)),
        ("don't use slack, send a letter", ("slack",)),
        ("don't post it in the busy slack channel", ("slack",)),
        ("Do not use the memory server. Write it down.", ("memory",)),
        ("write it down, no memory mcp please", ("memory",)),
        ("open example.com but not with playwright", ("playwright",)),
        ("but not playwright", ("playwright",)),
        ("not in playwright", ("playwright",)),
        ("anything but playwright", ("playwright",)),
        ("post it in jira instead of slack", ("slack",)),
        ("post it not only in slack but also in jira", ()),
        ("don't forget to post it in slack", ()),
        ("don't wait, post it in slack", ()),
        ("list the people, but don't sort it using memory twice", ()),
        ("say 'never post to slack' to everybody", ()),
    ],
)
def test_a_negation_shortly_before_excludes_the_server(query: str, unwanted: tuple[str, ...]) -> None:
    assert named(query).unwanted == unwanted


@pytest.mark.parametrize(
    "query",
    [
        "use slack and not jira to say it",
        "don't use jira, use slack to say it",
        "without jira, say it in slack",
    ],
)
def test_one_server_may_be_wanted_instead_of_another(query: str) -> None:
    assert (named(query).wanted, named(query).unwanted) == (("slack",), ("jira",))
    assert not understand(query).asks_nothing


def test_a_reminder_leaves_nothing_out() -> None:
    assert not understand("don't forget to post it in slack").asks_nothing


async def test_a_plan_asks_about_a_server_that_is_wanted_and_left_out(router: Router) -> None:
    made = plan(PlanRequest(decision=await router.route("create an issue in jira, not in jira")))
    assert not made.steps
    assert made.needs_input == ("the task both asks for and excludes the server 'jira': state whether to use it",)


async def test_a_server_that_is_left_out_is_named_in_a_warning(router: Router) -> None:
    decision = await router.route("list the issues that are not in Jira")
    assert "the task excludes the server 'jira': its tools do not match" in decision.warnings


@pytest.mark.parametrize("query", ["use jira-test to create an issue", "with the jira_test mcp create an issue"])
async def test_an_unknown_name_near_a_servers_is_asked_about(router: Router, query: str) -> None:
    decision = await router.route(query)
    (name,) = [own.said for own in decision.named_servers]
    assert f"the task names the server {name!r}, which is unknown; similar names: jira" in decision.warnings
    assert plan(PlanRequest(decision=decision)).needs_input == (
        f"the task names the server {name!r}, but its tools are not listed yet: run `toolroute tools sync`",
    )


def test_a_configured_server_without_tools_is_absent() -> None:
    servers = ServerIndex(["gitlab"], absent=["github"])
    assert find_servers("create an issue on GitHub", servers) == Explicit(absent=("github",))
    assert find_servers("create an issue, but not on GitHub", servers) == Explicit()
    assert find_servers("create an issue on GitLab", servers).wanted == ("gitlab",)


def test_names_go_without_owner_and_generic_words() -> None:
    assert {"postgres", "io.github.acme/postgres-mcp-server"} <= aliases("io.github.acme/postgres-mcp-server")
    assert aliases("42") == set()


async def test_a_decision_keeps_to_wanted_servers(router: Router) -> None:
    wanted = await router.route("use jira to create an issue for the broken login")
    assert wanted.recommended == ("jira:create_issue",)
    assert 'the task names its server as "jira"' in wanted.matches[0].why
    without = await router.route("don't use jira, create an issue")
    assert not any(match.tool.server == "jira" for match in without.matches)
    assert any("excludes the server 'jira'" in item.why for item in without.rejected)
