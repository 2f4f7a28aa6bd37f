"""Measures the cost of a search through `toolroute serve` above its route, and the length of its answer.

python -m benchmarks.searching --data FOLDER [--tools 13000] [--searches 100]: FOLDER/bench has the development sets.
The two take turns, so that a busy machine slows both. The ratio is of CPU time.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from mcp.types import CallToolResult, TextContent

from benchmarks.scale import tools_of
from orchestrator import McpConfig, Options, Router, RouteRequest, Store, Tool
from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.server.gateway import Gateway
from orchestrator.server.gateway_tools import SearchArguments
from orchestrator.server.sessions.outcome_recorder import Conversation

TENANT, LIMIT, CAP = "local", 5, 8_000
WHO = Conversation(TENANT, "benchmark", "")


def queries(data: Path, most: int) -> list[str]:
    file = data / "bench" / "mcp_catalog_toucan" / "servers.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()[:most]
    return [str(json.loads(line)["description"])[:300] or "send an email" for line in lines]


async def measure(data: Path, size: int, searches: int) -> None:
    servers: dict[str, list[Tool]] = {}
    for tool in tools_of(data, size):
        servers.setdefault(tool.server, []).append(tool)
    config = McpConfig.parse(
        {"mcpServers": {name: {"command": "never-started"} for name in servers if name}}
    )
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder, embedder=embedder_for(Options()), timeout_s=60)
        store.replace_servers(TENANT, servers)
        router = Router(store=store)
        async with Gateway(config, router) as gateway:
            await compare(router, gateway, queries(data, searches), sum(map(len, servers.values())))


async def compare(router: Router, gateway: Gateway, tasks: list[str], size: int) -> None:
    routed, searched, once, twice, tokens = (
        list[float](),
        list[float](),
        list[int](),
        list[int](),
        list[int](),
    )
    for task in [tasks[0], *tasks]:
        asked = RouteRequest(query=task, tenant=TENANT, limit=LIMIT, token_cap=CAP)
        routed.append((await _timed(router.route(asked)))[0])
        servers = await gateway.up_to_date_servers(TENANT)
        arguments = SearchArguments(query=task, limit=LIMIT)
        seconds, found = await _timed(gateway.searches.answer(servers, WHO, arguments))
        searched.append(seconds)
        text = compact(found)
        once.append(_bytes(CallToolResult(content=[TextContent(text=text)])))
        spaced = TextContent(text=json.dumps(found, ensure_ascii=False))
        twice.append(_bytes(CallToolResult(content=[spaced], structured_content=found)))
        tokens.append(count_tokens(text))
    route, search = (1000 * statistics.median(times[1:]) for times in (routed, searched))
    print(
        "| tools | route (ms of CPU, p50) | search through serve | ratio |\n| --- | --- | --- | --- |"
    )
    print(f"| {size:,} | {route:.1f} | {search:.1f} | {search / route:.2f} |\n")
    print("| answer | bytes (mean) |\n| --- | --- |")
    print(f"| text and structured content | {statistics.mean(twice):,.0f} |")
    print(f"| text alone, {statistics.mean(tokens):,.0f} tokens | {statistics.mean(once):,.0f} |")


async def _timed(work: Awaitable[Any]) -> tuple[float, Any]:
    begin = time.process_time()
    result = await work
    return time.process_time() - begin, result


def _bytes(result: CallToolResult) -> int:
    return len(result.model_dump_json(by_alias=True, exclude_none=True).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tools", type=int, default=13_000)
    parser.add_argument("--searches", type=int, default=100)
    given = parser.parse_args()
    asyncio.run(measure(given.data, given.tools, given.searches))


if __name__ == "__main__":
    main()
