"""Relations: stated in records, in a file and by servers. Needed tools come along, and former names still work."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalogue, Connections, Relation, Router, RouteRequest, Tool
from orchestrator.errors import InvalidCatalogue, UnknownTool
from orchestrator.index.index import Index
from tests.command_line import Run
from tests.gateway import serving
from tests.redefined import Redefined
from tests.servers.byhand import tool as definition
from tests.servers.start import config

STATED = "toolroute/relations"

RECORDS: list[dict[str, Any]] = [
    {"server": "shop", "name": "order_pizza", "description": "Order a pizza", "relations": [{"to": "log_in"}]},
    {"server": "shop", "name": "log_in", "description": "Open a session", "relations": [{"to": "net:turn_on_wifi"}]},
    {
        "server": "net",
        "name": "turn_on_wifi",
        "description": "Switch the radio on",
        "relations": [{"to": "net:power"}, {"to": "shop:log_in", "type": "reports_to"}],
    },
    {"server": "net", "name": "power", "description": "Say how much charge is left", "relations": [{"to": "net:far"}]},
    {"server": "net", "name": "far", "description": "Nothing near"},
    {"server": "shop", "name": "eat_pizza", "description": "Eat", "relations": [{"to": "far", "type": "used_with"}]},
]


def stated(*relations: tuple[str, str, str]) -> str:
    return "\n".join(json.dumps({"from": source, "to": to, "type": kind}) for source, to, kind in relations)


async def test_what_the_best_tool_needs_comes_right_behind_it_with_the_reason_and_the_excerpt() -> None:
    decision = await Router(Catalogue(RECORDS)).route("order a pizza")
    assert [match.tool.name for match in decision.matches[:4]] == ["order_pizza", "log_in", "turn_on_wifi", "power"]
    assert "needed by shop:order_pizza" in decision.matches[1].why
    assert decision.matches[1].evidence["required"] < decision.matches[0].probability
    assert decision.recommended == ("shop:order_pizza",)
    assert [(own.tool, own.hops, own.via) for own in decision.related] == [
        ("shop:log_in", 1, "shop:order_pizza"),
        ("net:turn_on_wifi", 2, "shop:log_in"),
    ]
    edges = {(edge.source, edge.type, edge.to) for edge in decision.graph}
    assert ("net:turn_on_wifi", "reports_to", "shop:log_in") in edges
    assert decision.to_json()["related"][0]["tool"] == "shop:log_in"


async def test_needs_stay_within_the_limit_and_what_a_filter_leaves_out_stays_out() -> None:
    router = Router(Catalogue(RECORDS))
    two = await router.route(RouteRequest(query="order a pizza", tenant="local", limit=2))
    assert [match.tool.name for match in two.matches] == ["order_pizza", "log_in"]
    own = await router.route(RouteRequest(query="order a pizza", tenant="local", filters={"server": "shop"}))
    assert {match.tool.server for match in own.matches} == {"shop"}


async def test_a_catalogue_without_relations_is_answered_as_before() -> None:
    bare = [{name: own for name, own in record.items() if name != "relations"} for record in RECORDS]
    decision = await Router(Catalogue(bare)).route("order a pizza")
    assert not decision.related
    assert not any("required" in match.evidence for match in decision.matches)
    assert Catalogue(bare).tools[0].hash == Tool(server="net", name="far", description="Nothing near").hash


def test_a_file_of_relations_is_read_and_what_it_gets_wrong_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [{name: own for name, own in record.items() if name != "relations"} for record in RECORDS]
    (tmp_path / "tools.jsonl").write_text("\n".join(map(json.dumps, tools)))
    file = tmp_path / "relations.jsonl"
    file.write_text(stated(("shop:order_pizza", "shop:log_in", "needs"), ("shop:gone", "shop:log_in", "needs")))
    for path in (tmp_path, tmp_path / "tools.jsonl"):
        catalogue = Catalogue.read(path)
        assert catalogue["shop:order_pizza"].relations == (Relation(to="shop:log_in"),)
    assert "the relations of 'shop:gone' are ignored" in caplog.text
    file.write_text(stated(("shop:order_pizza", "shop:nowhere", "needs")))
    with caplog.at_level(logging.WARNING):
        Index(Catalogue.read(tmp_path))
    assert "relations to 'shop:nowhere' are ignored" in caplog.text
    for wrong, said in (
        ('{"to": "shop:log_in"}', '"from"'),
        ('{"from": "shop:log_in", "to": ""}', "relations.0.to"),
        ('{"from": "shop:log_in", "to": "net:far", "tpye": "used_with"}', "relations.0.tpye: Extra inputs"),
    ):
        file.write_text(wrong)
        with pytest.raises(InvalidCatalogue, match=said):
            Catalogue.read(tmp_path)


async def test_a_former_name_finds_the_new_tool_and_is_lowered_where_it_is_still_there() -> None:
    new = {
        "server": "shop",
        "name": "submit",
        "description": "Pay",
        "relations": [{"to": "checkout", "type": "replaces"}],
    }
    catalogue = Catalogue([new, *RECORDS])
    assert catalogue["shop:checkout"].name == "submit"
    assert (await Router(catalogue).route("checkout")).matches[0].tool.name == "submit"
    both = Catalogue([new, {"server": "shop", "name": "checkout", "description": "Pay"}, *RECORDS])
    assert both["shop:checkout"].name == "checkout"
    assert (await Router(both).route("pay the bill")).matches[0].tool.name == "submit"


RELATED = (
    {**definition("publish"), "_meta": {STATED: [{"to": "log_in", "type": "needs"}, {"to": "other:steal"}]}},
    {**definition("log_in"), "_meta": {STATED: [{"to": "sign_in", "type": "replaces"}], "other": 1}},
    {**definition("odd"), "_meta": {STATED: "publish"}},
)
"""The tools of a server with relations to its own tools, to another server's, and in an unreadable form."""


async def test_a_server_speaks_for_its_own_tools_and_a_call_of_a_former_name_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    web = Redefined(tmp_path, *RELATED)
    async with Connections(config(web=web.entry)) as servers:
        tools = {tool.name: tool for tool in await servers.tools("web")}
        assert tools["publish"].relations == (Relation(to="web:log_in"),)
        assert tools["odd"].relations == ()
        assert "a relation of its tool 'odd' is ignored" in caplog.text
        result = await servers.call("web:sign_in")
        assert result.warnings == ("the tool web:sign_in was renamed to web:log_in: use the new name",)
        assert web.calls == ["log_in"]
        with pytest.raises(UnknownTool, match="no tool 'sign_on'"):
            await servers.call("web:sign_on")


async def test_serve_calls_a_tool_by_its_former_name_and_says_so(tmp_path: Path) -> None:
    web = Redefined(tmp_path, *RELATED)
    async with serving(tmp_path, config(web=web.entry)) as served:
        await served.call("web:sign_in")
    assert web.calls == ["log_in"]
    assert served.notes[-1].startswith("the tool web:sign_in was renamed to web:log_in")


def test_the_graph_is_shown_of_a_tool_a_server_and_all(tmp_path: Path, toolroute: Run) -> None:
    (tmp_path / "tools.jsonl").write_text("\n".join(map(json.dumps, RECORDS)))

    def shown(*arguments: str) -> str:
        result = toolroute("tools", "graph", "--catalogue", tmp_path, *arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    assert '["shop:order_pizza"]' in shown("shop:order_pizza").splitlines()[1]
    assert shown("shop:order_pizza").startswith("graph LR\n")
    found = json.loads(shown("shop", "-o", "json"))
    assert {edge["source"].partition(":")[0] for edge in found["edges"]} == {"shop"}
    assert '["net:power"]' in shown("net:far")
    wrong = toolroute("tools", "graph", "--catalogue", tmp_path, "shop:order_piza")
    assert "did you mean shop:order_pizza" in wrong.stderr
