"""How `toolroute serve` shows tools and results: short at first, and everything on request."""

import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, types

from orchestrator import Match
from orchestrator.errors import InvalidArguments
from orchestrator.server.search_answer import matches_shown
from orchestrator.server.sessions.kept_results import KeptResults, ReadArguments
from tests.catalogues import tokens_of, tool
from tests.gateway import serving
from tests.servers.start import config, entry, text_of

LIMIT = 400


@asynccontextmanager
async def served(tmp_path: Path, audit: Path | None = None) -> AsyncIterator[Client]:
    servers = config(talking=entry("talking.py", API_KEY="s3cret-key"))
    async with (
        serving(tmp_path, servers, max_result_tokens=LIMIT, audit=audit) as gateway,
        gateway.client("local") as client,
    ):
        yield client


async def search(client: Client, **arguments: Any) -> Any:
    return json.loads(text_of(await client.call_tool("search", arguments)))


async def rows(client: Client, number: int) -> types.CallToolResult:
    return await client.call_tool("call_tool", {"tool": "talking:rows", "arguments": {"text": str(number)}})


async def read_on(client: Client, result: types.CallToolResult, **how: Any) -> str:
    handle = json.loads(text_of(result, -1).partition("with ")[2].rstrip("]"))["handle"]
    return text_of(await client.call_tool("read_result", {"handle": handle, **how}))


async def test_the_first_match_is_whole_and_others_are_described_on_request(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        first, second, *_ = (await search(client, query="talking rows", limit=5))["matches"]
        assert (first["tool"], first["title"]) == ("talking:rows", "Rows")
        assert first["server_instructions"] == "Always call `ask` before `think`."
        assert second.keys() == {"tool", "description", "required", "probability"}
        described = await search(client, describe=[second["tool"], "talking:rows"])
        assert [tool["tool"] for tool in described["tools"]] == [second["tool"], "talking:rows"]
        assert described["tools"][0]["input_schema"]["properties"] == {"text": {"type": "string"}}
        whole = described["tools"][1]
        assert whole["output_schema"]["properties"] == {"rows": {"type": "array"}}
        assert whole["icons"][0]["src"] == "https://icons.example/note.png"
        both = await search(client, query="talking rows", describe=[second["tool"]])
        assert (both["matches"][0]["tool"], both["tools"][0]["tool"]) == ("talking:rows", second["tool"])
        nothing = await client.call_tool("search", {})
        assert (nothing.is_error, "query" in text_of(nothing)) == (True, True)


def test_a_match_has_no_titles_that_repeat_names() -> None:
    schema = {
        "title": "logArguments",
        "type": "object",
        "properties": {
            "repo_path": {"title": "Repo Path", "type": "string"},
            "to": {"title": "Recipient"},
            "title": {"type": "string"},
        },
        "additionalProperties": False,
    }
    match = Match(tool=tool("git:log", "Show the log", input_schema=schema), probability=0.98765)
    [shown] = matches_shown([match], {}, (), first_complete=True)
    properties = {"repo_path": {"type": "string"}, "to": {"title": "Recipient"}, "title": {"type": "string"}}
    assert shown["input_schema"] == {"type": "object", "properties": properties}
    assert shown["probability"] == 0.99


async def test_the_rest_of_a_cut_result_is_read_by_offset_and_text(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await search(client, query="rows")
        whole = await rows(client, 3)
        assert whole.structured_content is not None
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "call_tool"]
        result = await rows(client, 2_000)
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "call_tool", "read_result"]
        structured = result.structured_content
        assert structured is not None
        assert structured["rows"][0] == {"id": 0, "word": "word 0"}
        assert 0 < len(structured["rows"]) < 2_000
        text, offset = "", 0
        while len(text) < 3_000:
            part, _, mark = (await read_on(client, result, offset=offset)).rpartition("\n[")
            text, offset = text + part, int(mark.rpartition("offset ")[2].rstrip("]"))
        assert "\n".join(f"word {number}" for number in range(2_000)).startswith(text)
        assert "offset " in (await read_on(client, result, find="WORD 1234"))
        assert '{"id":1234,' in (await read_on(client, result, find='{"id":1234,'))
        by_call = {"tool": "read_result", "arguments": {"handle": "result-of-nobody"}}
        unknown = await client.call_tool("call_tool", by_call)
        assert (unknown.is_error, "unknown result 'result-of-nobody'" in text_of(unknown)) == (True, True)


async def test_links_that_a_call_needs_first_reach_the_client(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await search(client, query="pay")
        with pytest.raises(MCPError, match="pay first") as error:
            await client.call_tool("call_tool", {"tool": "talking:pay"})
        assert error.value.code == types.URL_ELICITATION_REQUIRED
        assert error.value.data["elicitations"][0]["url"] == "https://pay.example/***"


def test_a_kept_result_is_read_by_nobody_else_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.server.sessions.kept_results._MAX_RESULTS_PER_TENANT", 2)
    kept = KeptResults()
    handles = [kept.keep(("org:1", "me"), f"text {number}", None) for number in range(3)]
    assert kept.read(("org:1", "me"), ReadArguments(handle=handles[2])).startswith("text 2\n")
    for who, handle in ((("org:2", "me"), handles[2]), (("org:1", "you"), handles[2]), (("org:1", "me"), handles[0])):
        with pytest.raises(Exception, match="unknown result"):
            kept.read(who, ReadArguments(handle=handle))


def kept_results(tenant: str, *, results: int, structured: Any) -> tuple[KeptResults, list[str]]:
    kept = KeptResults()
    return kept, [kept.keep((tenant, "me"), "a short text", structured) for _ in range(results)]


def is_kept(kept: KeptResults, tenant: str, handle: str) -> bool:
    try:
        kept.read((tenant, "me"), ReadArguments(handle=handle))
    except InvalidArguments:
        return False
    return True


def incompressible(mebibytes: int) -> str:
    return base64.b64encode(os.urandom(mebibytes * 2**20)).decode()


def test_structured_content_counts_as_kept_memory() -> None:
    kept, handles = kept_results("org:1", results=20, structured={"blob": incompressible(2)})
    still = [is_kept(kept, "org:1", handle) for handle in handles]
    assert 6 <= sum(still) <= 8, "16 MiB are kept"
    assert still == sorted(still), "the oldest go first"


def test_a_kept_result_takes_less_memory_than_its_text() -> None:
    kept, handles = kept_results("org:1", results=20, structured={"log": "all is well\n" * 2**19})
    assert all(is_kept(kept, "org:1", handle) for handle in handles)


def test_half_of_a_character_is_kept() -> None:
    kept = KeptResults()
    handle = kept.keep(("org:1", "me"), "half \ud83d of it", None)
    assert kept.read(("org:1", "me"), ReadArguments(handle=handle)).startswith("half \ud83d of it")


def test_one_tenants_results_push_out_no_other_tenants() -> None:
    kept, [first] = kept_results("org:2", results=1, structured=None)
    for _ in range(300):
        kept.keep(("org:1", "me"), "another text", None)
    text = incompressible(2)
    for _ in range(20):
        kept.keep(("org:1", "me"), text, None)
    assert is_kept(kept, "org:2", first)


def test_the_places_with_a_text_stay_within_the_limit_and_lead_on() -> None:
    kept, who = KeptResults(200), ("local", "")
    handle = kept.keep(who, "\n".join(f"row {number} of the table" for number in range(1_000)), None)
    seen, offset = list[str](), 0
    for _ in range(3):
        found = kept.read(who, ReadArguments(handle=handle, find="row", offset=offset))
        assert tokens_of(found) < 300
        seen += [line.partition(":")[0] for line in found.splitlines() if line.startswith("offset ")]
        assert "to see more places, give offset " in found
        offset = int(found.rpartition("offset ")[2].rstrip("]"))
    assert len({*seen}) == len(seen) >= 3
    last = kept.read(who, ReadArguments(handle=handle, find="row 999"))
    assert last.endswith("[places with 'row 999': 1]")
    assert len(kept.read(who, ReadArguments(handle=handle, find="x" * 10_000))) < 1_000
