"""Listings and answers that a strict reading would lose for one odd part, shown as far as they go."""

import logging
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orchestrator import Connections
from tests.loopback import served
from tests.servers.byhand import HELLO
from tests.servers.start import config, entry


async def test_a_tool_that_cannot_be_read_is_named_once_and_takes_no_other_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with Connections(config(bad=entry("faulty.py", "odd", API_KEY="told"))) as servers:
        tools = await servers.tools("bad")
        assert [tool.name for tool in tools] == ["it", "untyped"]
        assert tools[1].input_schema == {"type": "object", "required": ["a"]}
        assert (await servers.call("bad:it")).text == "fine"
        await servers.tools("bad", fresh=True)
    of_tools = [record.getMessage() for record in caplog.records if record.name == "orchestrator.mcp.repairs"]
    named = ("its tool '***' cannot be read (description: ", "its tool 'array' ", "its tool number 5 of its page ")
    assert len(of_tools) == len(named)
    for said, expected in zip(of_tools, named, strict=True):
        assert said.startswith(f"server bad: {expected}")
        assert said.endswith("and is left out")


@pytest.mark.parametrize(
    ("fault", "text", "structured"),
    [("bare", '{"count":1}', {"count": 1}), ("empty", "", None), ("video", "[video]\nafter", None)],
)
async def test_an_answer_without_content_or_with_an_unknown_block_is_shown(
    fault: str, text: str, structured: Any
) -> None:
    async with Connections(config(bad=entry("faulty.py", fault))) as servers:
        result = await servers.call("bad:it")
        assert (result.text, result.structured, result.is_error) == (text, structured, False)


async def test_both_are_mended_over_http_too() -> None:
    results = {
        "initialize": {**HELLO, "capabilities": {"tools": {}}},
        "tools/list": {"tools": [{"name": "it"}, {"name": 7}]},
        "tools/call": {"structuredContent": {"count": 1}},
    }

    async def answer(request: Request) -> Response:
        asked = await request.json()
        if asked["method"] not in results:
            return Response(status_code=202 if "id" not in asked else 404)
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]})

    with served(Starlette(routes=[Route("/mcp", answer, methods=["POST"])])) as web:
        async with Connections(config(bad={"url": f"{web}/mcp"})) as servers:
            assert [tool.name for tool in await servers.tools("bad")] == ["it"]
            assert (await servers.call("bad:it")).structured == {"count": 1}
