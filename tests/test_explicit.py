"""Explicit servers: names in the task, exclusions before a name, and names that are ordinary words."""

import re
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from orchestrator import Catalogue, Router, Store
from tests.catalogues import tool, understood
from tests.decisions import plan_without_model
from tests.stores import shipped

COMMON = ("time", "memory", "fetch", "git")
OTHERS = (
    "slack github jira linear playwright google_calendar io.github.acme/postgres-mcp-server shopify-remote qr_code 42"
)


class Names(NamedTuple):
    """The servers that a task wants, leaves out, or names though they have no tools."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


async def names(router: Router, query: str) -> Names:
    decision = await router.route(query)
    found = decision.named_servers
    return Names(
        wanted=tuple(name.server for name in found if name.server),
        unwanted=tuple(re.findall("the task excludes the server '(.+)'", "\n".join(decision.warnings))),
        absent=tuple(name.said for name in found if not name.server),
    )


@pytest.fixture(scope="module")
async def desk() -> AsyncIterator[Router]:
    """A router over many servers. Descriptions use the words code and calendar."""
    servers = [*OTHERS.split(), *COMMON]
    words = tool("paper:print", "Print the code of a calendar")
    async with Router(Catalogue([words, *(tool(f"{server}:act", "Act") for server in servers)])) as router:
        yield router


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
async def test_a_name_in_the_task_is_its_server(desk: Router, query: str, server: str) -> None:
    assert await names(desk, query) == Names(wanted=(server,))


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
        "text " * 800 + "use slack to post",
        "use 42 to act",
    ],
)
async def test_ordinary_unknown_and_quoted_words_name_none(desk: Router, query: str) -> None:
    assert await names(desk, query) == Names()


async def test_a_word_of_descriptions_needs_a_cue() -> None:
    tools = [tool("apex:laps", "Lap times"), tool("race:line", "Finds the apex of a corner")]
    async with Router(Catalogue(tools)) as router:
        assert (await names(router, "brake with apex in sight")).wanted == ()
        assert (await names(router, "use apex to time the laps")).wanted == ("apex",)


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
async def test_an_everyday_word_after_a_negation_excludes_nothing(desk: Router, query: str) -> None:
    assert await names(desk, query) == Names()


async def test_listed_names_share_the_cue_and_the_negation(desk: Router) -> None:
    assert (await names(desk, "use slack, memory and git to note it")).wanted == ("slack", "memory", "git")
    assert (await names(desk, "note it without slack, jira or linear")).unwanted == ("slack", "jira", "linear")


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
        ("post it not only in slack but also in jira", ()),
        ("don't forget to post it in slack", ()),
        ("don't wait, post it in slack", ()),
        ("list the people, but don't sort it using memory twice", ()),
        ("say 'never post to slack' to everybody", ()),
    ],
)
async def test_a_negation_shortly_before_excludes_the_server(
    desk: Router, query: str, unwanted: tuple[str, ...]
) -> None:
    assert (await names(desk, query)).unwanted == unwanted


@pytest.mark.parametrize(
    "query",
    [
        "use slack and not jira to say it",
        "don't use jira, use slack to say it",
        "without jira, say it in slack",
    ],
)
async def test_one_server_may_be_wanted_instead_of_another(desk: Router, query: str) -> None:
    assert await names(desk, query) == Names(wanted=("slack",), unwanted=("jira",))
    assert not (await understood(query)).asks_nothing


async def test_a_reminder_leaves_nothing_out() -> None:
    assert not (await understood("don't forget to post it in slack")).asks_nothing


async def test_a_plan_asks_about_a_server_that_is_wanted_and_left_out(router: Router) -> None:
    made = await plan_without_model(await router.route("create an issue in jira, not in jira"))
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
    assert (await plan_without_model(decision)).needs_input == (
        f"the task names the server {name!r}, but its tools are not listed yet: run `toolroute tools sync`",
    )


async def test_a_configured_server_without_tools_is_absent() -> None:
    store = Store(embedder=shipped())
    store.replace_server("local", "gitlab", [tool("gitlab:create_issue", "Create an issue")])
    store.records.note_failures("local", {"github": "connection refused"})
    async with Router(store=store) as router:
        assert await names(router, "create an issue on GitHub") == Names(absent=("github",))
        assert await names(router, "create an issue, but not on GitHub") == Names()
        assert await names(router, "create an issue on GitLab") == Names(wanted=("gitlab",))


async def test_a_decision_keeps_to_wanted_servers(router: Router) -> None:
    wanted = await router.route("use jira to create an issue for the broken login")
    assert wanted.recommended == ("jira:create_issue",)
    assert 'the task names its server as "jira"' in wanted.matches[0].why
    without = await router.route("don't use jira, create an issue")
    assert not any(match.tool.server == "jira" for match in without.matches)
    assert any("excludes the server 'jira'" in item.why for item in without.rejected)
