"""Tools that past tasks used together: their relations, and the tools that rise behind the best tool."""

import json
from pathlib import Path

from orchestrator import Offer, Router, RouteRequest, Use
from tests.catalogues import sample
from tests.command_line import Run
from tests.past import JARGON, outcome, stored
from tests.stores import shipped

REFUNDING = ["zendesk:search_tickets", "stripe:refund_charge", "slack:post_message"]


async def test_what_a_tenants_tasks_used_together_and_in_which_order_are_its_relations() -> None:
    router = Router(sample())
    for number in range(4):
        await router.record(f"case {number}: look, refund, tell", used=REFUNDING[: 3 - number // 3], tenant="org:a")
    past, first = router.engine.experience.at_hand("org:a"), sample()[REFUNDING[0]]
    after = past.co_use.after((first.key, first.hash)) if past else ()
    assert [(own.name[0], own.tasks, own.of) for own in after] == [(REFUNDING[1], 4, 4), (REFUNDING[2], 3, 4)]
    own, other = [
        await router.route(RouteRequest(query="refund charge ch_3PqX", tenant=tenant)) for tenant in ("org:a", "org:b")
    ]
    edges = {(edge.source, edge.type, edge.to) for edge in own.graph if edge.origin == "experience"}
    assert {
        (REFUNDING[1], "used_after", REFUNDING[0]),
        (REFUNDING[1], "used_with", REFUNDING[2]),
    } <= edges
    assert (REFUNDING[0], "used_after", REFUNDING[1]) not in edges
    assert {REFUNDING[0], REFUNDING[2]} <= {related.tool for related in own.related}
    assert not any(edge.origin == "experience" for edge in other.graph)


def test_the_graph_of_a_store_shows_what_its_tasks_used_together(tmp_path: Path, toolroute: Run) -> None:
    store, pair = stored(tmp_path), sample().tools[:2]
    used = tuple(Use(tool=tool.key) for tool in pair)
    offered = tuple(Offer(tool=tool.key, hash=tool.hash, chance=0.5) for tool in pair)
    tasks = [outcome(number, used=used, offered=offered) for number in range(3)]
    store.outcomes.add("local", tasks, shipped().embed(JARGON), 365)
    store.close()
    edges = json.loads(toolroute("tools", "graph", "--store", tmp_path / "store", "-o", "json").stdout)["edges"]
    found = {(edge["source"], edge["type"], edge["to"]) for edge in edges if edge["origin"] == "experience"}
    first, second = (tool.key for tool in pair)
    assert found == {(second, "used_after", first), (second, "used_with", first), (first, "used_with", second)}


async def test_what_past_tasks_used_with_the_best_tool_rises_behind_it_with_the_reason() -> None:
    router, query = Router(sample()), "refund charge ch_3PqX, the customer paid twice"
    for number in range(8):
        await router.record(f"case {number}: look, refund, tell", used=REFUNDING[1:])
    first, second, *_ = (await router.route(query)).matches
    assert [first.tool.key, second.tool.key] == REFUNDING[1:]
    assert "used with stripe:refund_charge in 8 of 8" in second.why
    assert second.evidence["used_with"] < second.probability < first.probability
