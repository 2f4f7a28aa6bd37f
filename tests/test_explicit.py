"""Explicit servers: what names a server, what leaves one out, and what only looks like it."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.index import Index
from orchestrator.index.servers import ServerIndex, aliases
from orchestrator.pipeline.clauses import MAX_CUT
from orchestrator.pipeline.legs.explicit import Explicit, find_servers
from orchestrator.runtime.router import Router
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


KIN = ServerIndex(["stripe-live", "github", "google_calendar", "calendar"])
WORDINGS = [
    "use {} to drop it",
    "use `{}` to drop it",
    "drop it on {}",
    "with {}, drop it",
    "drop it via {}",
    "@{} drop it",
    "on the {} server, drop it",
]


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_name_built_like_that_of_a_known_server_is_that_of_none(wording: str) -> None:
    for said, near in (
        ("stripe-test", ("stripe-live",)),
        ("STRIPE_TEST", ("stripe-live",)),
        ("github-old", ("github",)),
    ):
        found = find_servers(wording.format(said), KIN)
        assert (found.wanted, dict(found.unknown)) == ((), {said: near}), said
    assert [m.strong for m in find_servers(wording.format("stripe-live"), KIN).mentions] == [True]


@pytest.mark.parametrize("wording", [wording for wording in WORDINGS if "`" not in wording])
def test_a_word_that_nobody_knows_is_a_slip_of_one_name_or_a_name_that_is_not_known(wording: str) -> None:
    for said in ("gihtub", "githubb", "stripe-lve"):
        (mention,) = find_servers(wording.format(said), KIN).mentions
        assert (mention.corrected, mention.said) == (True, said)
    assert find_servers(wording.format("giithubb"), KIN).unknown == {"giithubb": ("github",)}


@pytest.mark.parametrize(
    "query",
    [
        "drop stripe-test",  # Nothing leads to it, and it may be what is dropped: but of the same build.
        "drop the stripe-test table",
        "find it on Stripe Test",
    ],
)
def test_a_name_of_the_same_build_needs_nothing_before_it(query: str) -> None:
    assert list(find_servers(query, KIN).unknown.values()) == [("stripe-live",)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("list contacts on globex-crm", "globex-crm"),  # Its last part is that of a known name.
        ("list contacts on globex_crm", "globex_crm"),
        *((f"{lead} globex and list contacts", "globex") for lead in ("use", "via", "using", "through")),
        ("using globex, list contacts", "globex"),
        ("ask globex to list contacts", "globex"),
        ("list contacts with the globex plugin", "globex"),
        ("run a query on postgres dev", "postgres dev"),
        ("stripe_test.drop_table()", "stripe_test.drop_table"),
    ],
)
def test_a_server_that_nobody_knows_is_never_another(query: str, said: str) -> None:
    servers = ServerIndex(["acme-crm", "postgres-prod", "stripe-live"], used={"contacts"})
    assert find_servers(query, servers) == Explicit(unknown={said: servers.alike(said)})


@pytest.mark.parametrize(
    "query",
    [
        "list the dashes via contacts",
        "cook it using chickpeas stew",
        "list contacts using the real-time feed",
        "drive from globex to murray",
        "cook it with globex, then rest",
    ],
)
def test_what_a_task_works_with_is_no_unknown_server(query: str) -> None:
    assert find_servers(query, ServerIndex(["acme-crm", "stripe-live", "world-time"], used={"contacts"})) == Explicit()


@pytest.mark.parametrize(
    "query",
    [
        "restart it on the production server",
        "read the file from github-backup",
        "fork github-2 and real-time it",
        "book it on Google Calendar",
        "put it on my Google Calendar",
        "invite Ana-Maria to it",
        "search for 'stripe-test'",
    ],
)
def test_what_is_a_servers_data_names_none(query: str) -> None:
    assert find_servers(query, KIN).unknown == {}


def test_a_configured_server_that_could_not_be_listed_is_named_and_has_no_tools() -> None:
    servers = ServerIndex(["gitlab"], absent=["github"])
    assert find_servers("create an issue on GitHub", servers) == Explicit(unknown={"github": ()})
    assert find_servers("create an issue on GitLab", servers).wanted == ("gitlab",)


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
