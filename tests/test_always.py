"""Always-available capabilities: which phrases ask for one, and when that settles the task."""

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.always import DEFAULT_CAPABILITIES, AlwaysHit, Capability
from orchestrator.index.index import Index
from orchestrator.records.tool import Stage, Tool
from orchestrator.routing.router import Router
from tests.catalogues import sample, tool

BUILT_IN = [tool(f"builtin:{capability.tool}") for capability in DEFAULT_CAPABILITIES]


@pytest.fixture(scope="module")
def index() -> Index:
    return Index(sample(), DEFAULT_CAPABILITIES)


def hits(index: Index, clause: str) -> dict[str, AlwaysHit]:
    return {index.catalogue.tools[hit.tool].name: hit for hit in index.always.match(clause)}


@pytest.mark.parametrize(
    ("clause", "name"),
    [
        ("search my documents for the travel policy", "workspace_rag_query"),
        ("search through all of my old documents", "workspace_rag_query"),
        ("Searching the documents", "workspace_rag_query"),
        ("find the travel policy in our docs", "workspace_rag_query"),
        ("search docs for the limits", "workspace_rag_query"),
        ("what does our knowledge base say about parental leave", "workspace_rag_query"),
        ("search the web for the latest news on Mars", "web_search"),
        ("google the capital of France", "web_search"),
        ("look up who won in 1998", "web_search"),
        ("look it up", "web_search"),
        ("find a good restaurant online", "web_search"),
        ("what do you remember about my preferences", "memory_recall"),
        ("ask me before you go on", "ask_user"),
    ],
)
def test_a_phrase_settles_the_task_in_any_form_and_with_gaps(index: Index, clause: str, name: str) -> None:
    found = hits(index, clause)
    assert set(found) == {name}
    assert found[name].settles


@pytest.mark.parametrize(
    ("clause", "name"),
    [
        ("create an event in Google Calendar", "web_search"),
        ("look up the order in Shopify", "web_search"),
        ("share the Google Drive folder with Ana", "web_search"),
        ("search the web for flights to Rome", "web_search"),
        ("translate the document into French", "workspace_rag_query"),
        ("search my documents in Notion", "workspace_rag_query"),
        ("ask me before you delete the s3 object", "ask_user"),
    ],
)
def test_a_task_that_names_another_tool_or_server_is_not_swallowed(index: Index, clause: str, name: str) -> None:
    found = hits(index, clause)
    assert set(found) == {name}
    assert not found[name].settles


@pytest.mark.parametrize("tools", [BUILT_IN, [*BUILT_IN, tool("crm:add_lead")]])
def test_part_of_a_name_settles_nothing_even_where_no_tool_bears_the_name(tools: list[Tool]) -> None:
    found = hits(Index(Catalogue(tools), DEFAULT_CAPABILITIES), "put it into Google Calendar")
    assert not found["web_search"].settles


def test_no_phrase_goes_on_behind_a_negation(index: Index) -> None:
    assert set(hits(index, "search the docs, no web")) == {"workspace_rag_query"}


@pytest.mark.parametrize(
    "clause",
    [
        "answer without searching the web",
        "don't google it",
        "search everywhere except the web",
        "do not search my documents",
        "book a desk for Monday",
        "look at the picture that hangs up there",
        "the web has a spider that I search for",
        "",
    ],
)
def test_what_asks_for_no_capability_hits_none(index: Index, clause: str) -> None:
    assert hits(index, clause) == {}


def test_a_phrase_that_may_mean_something_else_is_not_clear(index: Index) -> None:
    assert not hits(index, "look up the order in Shopify")["web_search"].clear
    assert not hits(index, "upload it to google drive")["web_search"].clear
    assert hits(index, "search the web for flights")["web_search"].clear


def test_a_clause_may_ask_for_several_capabilities(index: Index) -> None:
    assert set(hits(index, "search the docs and ask me")) == {"workspace_rag_query", "ask_user"}


def test_a_capability_that_the_catalogue_lacks_is_not_active() -> None:
    index = Index(Catalogue([tool("crm:add_lead")]), DEFAULT_CAPABILITIES)
    assert index.always.tools == ()
    assert hits(index, "search the web") == {}


def test_a_bare_name_means_the_built_in_tool_else_the_only_one_of_that_name() -> None:
    def active(*keys: str) -> list[str]:
        index = Index(Catalogue([tool(key) for key in keys]), DEFAULT_CAPABILITIES)
        return [index.catalogue.tools[position].key for position in index.always.tools]

    assert active("exa:web_search", "builtin:web_search") == ["builtin:web_search"]
    assert active("exa:web_search") == ["exa:web_search"]
    assert active("exa:web_search", "brave:web_search") == []


def test_users_set_their_own_capabilities_in_any_language() -> None:
    own = (
        Capability(tool="ops:deploy", phrases=("ship it", "выкатить релиз", "搜索文档")),
        Capability(tool="ops:none", phrases=("ship it",)),
    )
    index = Index(Catalogue([tool("ops:deploy"), tool("ops:stop")]), own)
    for clause in ("please ship it", "надо выкатить новый релиз", "请搜索文档中的政策"):
        assert set(hits(index, clause)) == {"deploy"}, clause


@pytest.mark.parametrize(
    ("query", "name", "score"),
    [
        ("search the web for flights to Rome", "web_search", 0.75),
        ("create an event in Google Calendar", "web_search", 0.3),
        ("search my documents for the travel policy, then refund charge ch_3PqX", "workspace_rag_query", 1.0),
    ],
)
async def test_beside_something_else_its_score_says_how_clearly_it_is_asked_for(
    router: Router, query: str, name: str, score: float
) -> None:
    assert [match.score for match in (await router.route(query)).matches if match.tool.name == name] == [score]


async def test_what_a_quotation_says_asks_for_no_capability_and_keeps_none_from_settling(router: Router) -> None:
    quoted = await router.route("send Ana an email saying 'please look it up and search my documents'")
    assert not any("always" in match.evidence for match in quoted.matches)
    settled = await router.route("search the web for 'refund a charge in Stripe'")
    assert (settled.stage, settled.recommended) == (Stage.ALWAYS, ("builtin:web_search",))


async def test_what_is_settled_stays_ahead_of_tools_for_the_other_parts(router: Router) -> None:
    decision = await router.route("Search my documents for the policy. Then refund charge ch_3PqX.")
    names = [match.tool.name for match in decision.matches]
    assert names[:2] == ["workspace_rag_query", "refund_charge"]
    assert (decision.stage, decision.confidence) == (Stage.ALWAYS, 1.0)
