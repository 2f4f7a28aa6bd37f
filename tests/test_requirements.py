"""Which tools give what a tool requires, and how far that raises them."""

from typing import Any

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.index import Index
from orchestrator.index.prerequisites import Requirement, raised_among
from orchestrator.language.identified import identified_in
from orchestrator.records.tool import Tool
from tests.catalogues import taking, tool


def needing(parameter: str, description: str = "", name: str = "s:update_order") -> Tool:
    return tool(name, "Change it.", input_schema=taking(parameter, **{parameter: description}))


def sources(wanting: Tool, *others: Tool, task: str = "") -> list[str]:
    """The keys of the tools that give what the first one requires and the task does not."""
    index = Index(Catalogue([wanting, *others]))
    given = identified_in(task)
    needs = [need for need in index.prerequisites.of(index.catalogue.positions[wanting.key]) if not need.met_by(given)]
    return [index.catalogue.tools[position].key for need in needs for position in need.sources]


def test_the_tool_that_a_parameter_s_description_names_gives_it() -> None:
    wanting = needing("library", "The exact name, from resolve-library first.", "docs:get-docs")
    others = [tool("docs:resolve-library"), tool("docs:list-libraries"), tool("other:resolve-library")]
    assert sources(wanting, *others) == ["docs:resolve-library"]
    assert sources(needing("url", "As getLinks returned it.", "s:read"), tool("s:getLinks")) == ["s:getLinks"]
    orders = [tool("s:list_orders"), tool("s:find-parcel")]
    assert sources(needing("order_id", "Of find-parcel, find-parcel only."), *orders) == ["s:find-parcel"]
    assert sources(needing("page", "Of an earlier update_order.")) == []
    assert sources(needing("q", "What to search for, or list.", "s:read"), tool("s:search"), tool("s:list")) == []


@pytest.mark.parametrize("parameter", ["order_id", "orderId", "order-key", "orderIds", "order_slug"])
def test_an_identifier_comes_from_what_lists_or_finds_its_thing(parameter: str) -> None:
    assert sources(needing(parameter), tool("s:list_orders"), tool("s:list_users")) == ["s:list_orders"]
    assert sources(needing(parameter), tool("s:findOrder"), tool("s:create_order")) == ["s:findOrder"]


def test_the_name_that_says_least_else_is_chosen_and_equals_share() -> None:
    assert sources(needing("order_id"), tool("s:list_orders"), tool("s:list_order_items")) == ["s:list_orders"]
    assert sources(needing("order_id"), tool("s:list_orders"), tool("s:s_orders_get")) == [
        "s:list_orders",
        "s:s_orders_get",
    ]
    named = [tool("shop:shop_orders_get"), tool("shop:find_order_id"), tool("shop:list_orders")]
    assert len(sources(needing("order_id", "", "shop:update_order"), *named)) == 3
    for listing in ("s:list_prs", "s:list_pull_requests"):
        assert sources(needing("pr_id"), tool(listing), tool("s:list_repositories")) == [listing]
    assert sources(needing("line_item_id"), tool("s:list_lines"), tool("s:list_line_items")) == ["s:list_line_items"]


def test_the_first_verb_of_a_name_says_what_it_does_or_the_last_where_it_begins_otherwise() -> None:
    wanting = needing("task_id", "", "s:update_task")
    assert sources(wanting, tool("s:create_task_list"), tool("s:task_list_remove")) == []
    assert sources(wanting, tool("s:task_list"), tool("s:remove_tasks")) == ["s:task_list"]
    assert sources(wanting, tool("s:list_removed_tasks")) == ["s:list_removed_tasks"]
    assert sources(needing("author_id"), tool("s:list_authors")) == ["s:list_authors"]
    assert sources(needing("paper_id"), tool("s:get_paper_author"), tool("s:find_papers")) == ["s:find_papers"]


def test_what_creates_a_thing_is_given_an_identifier_of_the_caller_s_choice() -> None:
    listing = tool("s:list_orders")
    for name in ("s:create_order", "s:new_order"):
        assert sources(needing("order_id", "", name), listing) == []
        assert sources(needing("id", "", name), listing) == []
    assert sources(needing("order_id", "", "s:create_order_note"), listing) == ["s:list_orders"]


def test_neither_other_servers_nor_what_ends_or_needs_the_same_give_it() -> None:
    wanting = needing("order_id")
    assert sources(wanting, tool("t:list_orders"), tool("s:delete_order"), tool("s:create_order")) == []
    assert sources(wanting, needing("orderId", "", "s:get_order")) == []
    assert sources(wanting, needing("id", "", "s:get_order")) == []
    assert sources(needing("id"), needing("order_id", "", "s:get_order")) == []
    assert sources(needing("item_id"), needing("order_id", "", "s:list_items")) == ["s:list_items"]


def test_a_bare_id_is_of_what_the_tool_is_about() -> None:
    assert sources(needing("id", "", "s:delete_order"), tool("s:list_orders"), tool("s:list_users")) == [
        "s:list_orders"
    ]
    assert sources(needing("id", "", "s:delete_order_item"), tool("s:list_items"), tool("s:list_order_items")) == [
        "s:list_order_items"
    ]
    assert sources(needing("id", "", "s:delete_order"), tool("s:list_order_items")) == []
    assert sources(needing("key", "", "s:press_key"), tool("s:list_keys")) == []
    assert sources(needing("slug", "", "s:update_order"), tool("s:list_orders")) == []
    assert sources(needing("key_id", "", "s:press"), tool("s:list_keys")) == ["s:list_keys"]
    assert sources(needing("orderIdOrKey"), tool("s:list_orders"), tool("s:search")) == ["s:list_orders"]


def test_a_server_s_general_search_gives_what_nothing_is_named_for() -> None:
    assert sources(needing("folder_id"), tool("s:search"), tool("s:list_users")) == ["s:search"]
    assert sources(needing("folder_id"), tool("s:search"), tool("s:list_folders")) == ["s:list_folders"]
    assert sources(needing("folder_id"), tool("s:search_users")) == []


def test_a_token_comes_from_what_makes_one_and_an_api_key_from_none() -> None:
    assert sources(needing("access_token"), tool("s:create_token")) == ["s:create_token"]
    assert sources(needing("session_id"), tool("s:start_session"), tool("s:list_orders")) == ["s:start_session"]
    assert sources(needing("access_token"), tool("s:search"), tool("s:list_orders")) == []
    assert sources(needing("cookie"), tool("s:open_cookie_jar")) == ["s:open_cookie_jar"]
    assert sources(needing("max_tokens"), tool("s:create_token")) == []
    for parameter in ("api_key", "google_api_key", "secret_key", "access-key"):
        assert sources(needing(parameter), tool("s:get_api"), tool("s:get_access"), tool("s:search")) == []
    assert sources(needing("api_id"), tool("s:list_apis")) == ["s:list_apis"]


def test_what_the_task_identifies_itself_needs_no_source() -> None:
    for wanting in (needing("order_id"), needing("id")):
        assert sources(wanting, tool("s:list_orders"), task="update order 4711") == []
        assert sources(wanting, tool("s:list_orders"), task="update 3 orders") == ["s:list_orders"]
    item = needing("order_item_id"), tool("s:list_order_items")
    assert sources(*item, task="update order item 5") == []
    assert sources(*item, task="update the item of order 5") == ["s:list_order_items"]
    noting = needing("id", "", "s:update_order_note"), tool("s:list_order_notes")
    assert sources(*noting, task="update note 5") == []
    assert sources(*noting, task="update the note with id 5") == []
    assert sources(*noting, task="update 5 notes") == ["s:list_order_notes"]


def test_what_a_description_names_is_met_by_the_parameter_s_own_name() -> None:
    wanting, resolving = needing("library", "From resolve-library.", "s:get-docs"), tool("s:resolve-library")
    assert sources(wanting, resolving, task="docs 5 of it") == ["s:resolve-library"]
    assert sources(wanting, resolving, task="docs of library 5") == []


def raised(needs: dict[int, tuple[int, ...]], scores: dict[int, float]) -> dict[int, tuple[int, float, float]]:
    """Each raised tool's score and chance, and which tool requires what it gives. needs: the sources of each tool."""

    def unmet(position: int) -> list[Requirement]:
        sources = needs.get(position)
        return [Requirement("order_id", (frozenset(("order",)),), sources)] if sources else []

    found = raised_among(scores, unmet).items()
    return {position: (own.required_by, round(own.score, 9), round(own.chance, 9)) for position, own in found}


def test_sources_of_the_same_share_the_chance_and_one_that_is_no_candidate_takes_none() -> None:
    assert raised({0: (1, 2)}, {0: 0.8, 1: 0.1, 2: 0.0}) == {1: (0, 0.28, 0.2), 2: (0, 0.2, 0.2)}
    assert raised({0: (1, 9)}, {0: 0.8, 1: 0.1}) == {1: (0, 0.46, 0.4)}


def test_the_best_five_raise_sources_whatever_the_order_they_are_given_in() -> None:
    scores = {6: 0.1, 5: 0.4, 4: 0.5, 3: 0.6, 2: 0.7, 1: 0.8, 0: 0.9}
    assert raised({4: (6,)}, scores) == {6: (4, 0.325, 0.25)}
    assert raised({5: (6,)}, scores) == {}


def test_a_source_of_several_is_raised_by_the_best_and_never_ahead_of_it() -> None:
    assert raised({0: (2,), 1: (2,)}, {0: 0.8, 1: 0.6, 2: 0.0}) == {2: (0, 0.4, 0.4)}
    assert raised({0: (1,)}, {0: 0.8, 1: 0.7}) == {1: (0, 0.76, 0.4)}
    assert raised({0: (1,)}, {0: 0.8, 1: 0.79}) == {}


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"required": "order_id"},
        {"required": 7},
        {"required": [7, None, ""]},
        {"required": ["order_id"], "properties": [1]},
        {"required": ["order_id"], "properties": {"order_id": {"description": 5}}},
    ],
)
def test_schemas_that_are_none_require_what_can_be_read_of_them(schema: Any) -> None:
    named = isinstance(schema, dict) and schema.get("required") == ["order_id"]
    found = sources(tool("s:update_order", input_schema=schema), tool("s:list_orders"))
    assert found == (["s:list_orders"] if named else [])
