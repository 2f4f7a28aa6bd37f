"""What a Decision makes of the servers that a task names or leaves out."""

from pathlib import Path

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.options import Options
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Stage
from orchestrator.routing.router import Router
from tests.catalogues import sample, tool


async def test_an_unknown_server_never_stops_the_search(router: Router) -> None:
    decision = await router.route("use trelo mcp to list the open pull requests of the repository")
    assert "no server 'trelo' is known here; `toolroute servers` shows the known ones" in decision.warnings
    assert decision.recommended == ("github:list_pull_requests",)


async def test_a_server_of_another_tenant_is_unknown(tmp_path: Path) -> None:
    async with Router(store=tmp_path) as router:
        assert router.store is not None
        router.store.replace_servers("org:1", {"slack": [tool("slack:post", "Post a message")]})
        router.store.replace_servers("org:2", {"mail": [tool("mail:send", "Send a message")]})
        theirs, ours = [
            await router.route(RouteRequest(query="use the slack mcp to post a message", tenant=tenant))
            for tenant in ("org:1", "org:2")
        ]
    assert (theirs.stage, theirs.servers) == (Stage.EXPLICIT, ("slack",))
    assert "no server 'slack' is known here; `toolroute servers` shows the known ones" in ours.warnings
    assert [match.tool.key for match in ours.matches] == ["mail:send"]
    assert "slack" not in {item.tool.partition(":")[0] for item in ours.rejected}


async def test_the_named_servers_fitting_tools_win_and_it_alone_is_connected() -> None:
    tools = [tool(f"{server}:create_issue", "Create an issue") for server in ("github", "jira", "linear")]
    async with Router(Catalogue([*tools, tool("jira:set_colour", "Paint the board")])) as router:
        decision = await router.route("use jira to create an issue")
    assert decision.stage is Stage.EXPLICIT
    assert decision.servers == ("jira",)
    assert decision.matches[0].tool.key == "jira:create_issue"
    lifted = {match.tool.key: match.evidence["explicit"] for match in decision.matches if "explicit" in match.evidence}
    assert lifted == {"jira:create_issue": Options().explicit_floor}
    assert all(match.score >= 0.95 for match in decision.matches if "explicit" in match.evidence)


THINGS = "invoice letter parcel ticket order review lead deal quote budget".split()
VERBS = "create list get update delete archive approve reject".split()
EIGHTY = [tool(f"acme:{verb}_{thing}", f"{verb.capitalize()} one {thing}") for verb in VERBS for thing in THINGS]


@pytest.mark.parametrize(
    "query",
    [
        "use acme to approve an invoice",
        "use acme to update everything",
        "use acme to send a message to Ana",
        "use acme to get the weather in Paris",
        "use acme to sort it out",
    ],
)
async def test_a_named_server_with_eighty_tools_does_not_fill_the_answer(query: str) -> None:
    async with Router(Catalogue([*EIGHTY, *sample()])) as router:
        decision = await router.route(query)
    lifted = [match.tool.key for match in decision.matches if "explicit" in match.evidence]
    assert len(lifted) <= 5
    assert set(decision.servers) <= {"acme"}
    assert query != "use acme to approve an invoice" or lifted == ["acme:approve_invoice"]


async def test_a_named_server_is_searched_even_where_many_others_say_more() -> None:
    crowd = [tool(f"crowd{n}:send", "Send the quarterly figures to the board of directors") for n in range(60)]
    async with Router(Catalogue([*crowd, tool("pigeon:carry", "Bring figures somewhere")])) as router:
        decision = await router.route("use pigeon to send the quarterly figures to the board of directors")
    assert decision.recommended == ("pigeon:carry",)
    assert decision.servers == ("pigeon",)


async def test_a_named_server_without_a_fitting_tool_is_told_and_the_search_goes_on() -> None:
    async with Router(Catalogue([tool("acme:polish_shoes", "Shine leather"), *sample()])) as router:
        decision = await router.route("use acme to refund the charge of a customer")
    assert "the query names the server 'acme', but none of its tools fits" in decision.warnings
    assert decision.matches[0].tool.key == "stripe:refund_charge"


@pytest.mark.parametrize(
    ("query", "stage"),
    [("use acme to approve it", Stage.EXPLICIT), ("approve it via acme", Stage.NONE)],
    ids=["strong", "weak"],
)
async def test_only_a_clearly_named_server_has_its_tools_however_little_is_sure(query: str, stage: Stage) -> None:
    async with Router(Catalogue([*EIGHTY, *sample()]), options=Options(floor=0.999)) as router:
        decision = await router.route(query)
    assert decision.matches[0].tool.server == "acme"
    assert decision.stage is stage
    assert decision.servers == (("acme",) if stage is Stage.EXPLICIT else ())


async def test_a_named_server_is_searched_by_meaning_where_the_words_are_anothers() -> None:
    others = [tool("drive:share_file", "Share a file"), tool("drive:copy_file", "Copy a file")]
    async with Router(Catalogue([*others, tool("signer:send_document", "Send a document to others")])) as router:
        alone, named = [await router.route(query) for query in ("share the file", "use signer to share the file")]
    assert (alone.semantic_ran, named.semantic_ran) == (False, True)
    assert named.gate_confidence >= Options().gate


async def test_a_corrected_name_is_told(router: Router) -> None:
    decision = await router.route("use jiira to create a bug")
    assert decision.recommended == ("jira:create_issue",)
    assert "'jiira' is read as the server 'jira'" in decision.warnings


async def test_a_reason_says_by_which_word_its_own_server_is_named(router: Router) -> None:
    decision = await router.route("use jira to create an issue, then use slakc to post a message")
    named = {(match.tool.server, match.why.split(";")[0]) for match in decision.matches if "explicit" in match.evidence}
    assert named == {("jira", 'server named by "jira"'), ("slack", 'server named by "slakc"')}


async def test_tools_of_a_server_that_is_left_out_are_rejected_with_the_reason(router: Router) -> None:
    decision = await router.route("create an issue, but not in jira")
    assert all(match.tool.server != "jira" for match in decision.matches)
    assert {(item.tool, item.why) for item in decision.rejected} >= {
        ("jira:create_issue", "the query leaves out 'jira'")
    }


@pytest.mark.parametrize(
    "query", ["create an issue about the typo, but not on github", "without github, create an issue about the typo"]
)
async def test_what_is_left_out_is_no_word_of_the_task(router: Router, query: str) -> None:
    whole, bare = await router.route(query), await router.route("create an issue about the typo")
    of_others = [match for match in bare.matches if match.tool.server != "github"]
    assert [match.tool.key for match in whole.matches[:2]] == [match.tool.key for match in of_others[:2]]
    assert not any("github" in words for match in whole.matches for words in match.words.values())


async def test_a_server_whose_tool_is_recommended_for_a_part_is_not_said_to_fit_nothing() -> None:
    async with Router(sample()) as router:
        decision = await router.route("refund charge ch_3PqX, then tell the customer in Slack")
    assert "slack:post_message" in decision.recommended
    assert not any("none of its tools fits" in warning for warning in decision.warnings)
