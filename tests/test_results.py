"""`serve` passes on a server's result without secrets and within the limit, whatever block it is in."""

from typing import Any

import pytest
from mcp import MCPError
from mcp.types import (
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from orchestrator.common.redact import Secrets
from orchestrator.mcp.results import Answered, as_mcp_result, as_tool_result
from tests.catalogues import tokens_of

SECRET = "sk-live-9a8b7c6d"


def passed_on(*blocks: ContentBlock, structured: Any = None, max_tokens: int = 200) -> CallToolResult:
    answer = CallToolResult(content=list(blocks), structured_content=structured)
    return as_mcp_result(Answered(result=answer, key="shop:read", secrets=Secrets([SECRET]), max_tokens=max_tokens))


def resource(text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=f"mem://{SECRET}", text=text))


@pytest.mark.parametrize(
    "block",
    [
        TextContent(text=f"the key is {SECRET}"),
        resource(f"the key is {SECRET}"),
        ResourceLink(name=f"n {SECRET}", uri=f"https://shop.example/?k={SECRET}", description=SECRET),
        TextContent(text="fine", _meta={"said": SECRET}),
    ],
    ids=["text", "resource", "link", "meta"],
)
def test_no_block_carries_a_secret(block: ContentBlock) -> None:
    written = passed_on(block).model_dump_json()
    assert SECRET not in written
    assert "***" in written


def test_a_refused_call_shows_no_secret() -> None:
    secrets = Secrets([SECRET])
    refused = MCPError(code=-32000, message=f"no {SECRET}")
    answered = Answered(result=refused, key="shop:read", secrets=secrets, max_tokens=200)
    told = "shop:read refused the call: no ***"
    assert as_tool_result(answered).text == told
    assert as_mcp_result(answered).content == [TextContent(text=told)]


def test_a_long_resource_is_cut_like_a_text() -> None:
    (block,) = passed_on(resource("word " * 100_000)).content
    assert isinstance(block, EmbeddedResource)
    assert isinstance(block.resource, TextResourceContents)
    assert tokens_of(block.resource.text) <= 200
    assert "[cut: " in block.resource.text


@pytest.mark.parametrize(
    "block", [TextContent(text="word " * 50), ResourceLink(name="report", uri="https://shop.example/" + "report/" * 20)]
)
def test_blocks_beyond_the_limit_are_left_out_and_told_once(block: ContentBlock) -> None:
    shown = passed_on(*[block] * 20_000).content
    assert len(shown) < 10
    last = shown[-1]
    assert isinstance(last, TextContent)
    assert f"{20_000 - len(shown) + 1:,} more blocks omitted" in last.text


def test_an_image_is_passed_on_whole_behind_a_long_text() -> None:
    image = ImageContent(data="A" * 40_000, mime_type="image/png")
    assert passed_on(TextContent(text="word " * 1000), image).content[1] == image


def test_an_answer_that_is_only_structured_and_too_long_is_cut_where_it_would_be_empty() -> None:
    result = passed_on(structured={"rows": ["word"] * 10_000})
    assert result.structured_content is None
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert block.text.startswith('{"rows":["word"')
    assert "[cut: " in block.text


def test_an_answer_that_is_only_structured_is_shown_as_text_too() -> None:
    result = passed_on(structured={"count": 1, "key": SECRET})
    assert result.structured_content == {"count": 1, "key": "***"}
    assert result.content == [TextContent(text='{"count":1,"key":"***"}')]
