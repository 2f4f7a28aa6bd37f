"""Measures the costs and savings of lazy connections: `python -m benchmarks.connections [--calls N]`. Prints Markdown.

1. Knowing 1,000 tools from the store, against connecting and listing real servers.
2. First and warm calls of each real server through the pool, against the bare MCP client.
3. Connections opened over 200 mixed tasks on 15 servers.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

from benchmarks.office.tasks import entries, furnish, tasks
from orchestrator import Connections, McpConfig, Options, Router, RouteRequest, Store, Tool
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.mcp.sync import sync
from tests.servers.real import node_entry, node_servers_installed, python_entry

TENANT = "org:bench"


def real_servers(folder: Path) -> dict[str, tuple[dict[str, Any], str, dict[str, Any]]]:
    """Name to entry, tool and arguments of a call without side effects."""
    servers: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
        "time": (python_entry("mcp_server_time"), "get_current_time", {"timezone": "UTC"}),
        "git": (python_entry("mcp_server_git"), "git_status", {"repo_path": str(Path.cwd())}),
    }
    if node_servers_installed:
        memory = node_entry("memory", MEMORY_FILE_PATH=str(folder / "memory.json"))
        servers["everything"] = (node_entry("everything"), "echo", {"message": "hello"})
        servers["filesystem"] = (
            node_entry("filesystem", str(folder)),
            "list_directory",
            {"path": str(folder)},
        )
        servers["memory"] = (memory, "read_graph", {})
    return servers


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    times.append((time.perf_counter() - begin) * 1000)


async def knowing(folder: Path) -> None:
    """Table 1."""
    store = Store(folder / "store", embedder=lambda: embedder_for(Options()))
    for number in range(50):
        tools = [
            Tool(
                server=f"server{number}",
                name=f"tool_{position}",
                description=f"Task {position} of part {number}",
            )
            for position in range(20)
        ]
        store.replace_server(TENANT, f"server{number}", tools)
    cold: list[float] = []
    for _ in range(5):
        fresh = Store(folder / "store", embedder=lambda: embedder_for(Options()))
        with timed(cold):
            assert len(fresh.load(TENANT).tools) == 1000
    servers = real_servers(folder)
    listing: list[float] = []
    counts: list[int] = []
    for _ in range(3):
        async with Connections(
            {"mcpServers": {name: spec for name, (spec, _, _) in servers.items()}}
        ) as pool:
            with timed(listing):
                listed = await asyncio.gather(*map(pool.tools, servers))
            counts.append(sum(map(len, listed)))
    print("| known how | servers | tools | ms (median) |\n| --- | --- | --- | --- |")
    print(f"| from the store (a folder) | 50 | 1,000 | {statistics.median(cold):.0f} |")
    print(
        f"| connected and listed | {len(servers)} | {counts[0]} | {statistics.median(listing):.0f} |\n"
    )


async def calling(folder: Path, calls: int) -> None:
    """Return table 2. The two ways take turns, so that a busy machine slows both. The ratio is the median of their
    ratios.
    """
    print(
        "| server | first call, bare (ms) | first call, pool | warm p50, bare | warm p50, pool | ratio |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (spec, tool, arguments) in real_servers(folder).items():
        first_bare: list[float] = []
        first_pool: list[float] = []
        warm_bare: list[float] = []
        warm_pool: list[float] = []
        for _ in range(3):
            await _bare(spec, tool, arguments, first_bare)
            await _pooled(name, spec, tool, arguments, first_pool)
        await _bare(spec, tool, arguments, [], (name, calls, warm_bare, warm_pool))
        bare, pool = statistics.median(warm_bare), statistics.median(warm_pool)
        ratio = statistics.median(
            pooled / alone for pooled, alone in zip(warm_pool, warm_bare, strict=True)
        )
        firsts = f"{statistics.median(first_bare):.0f} | {statistics.median(first_pool):.0f}"
        print(f"| {name} | {firsts} | {bare:.2f} | {pool:.2f} | {ratio:.2f} |")
    print()


async def _bare(
    spec: dict[str, Any],
    tool: str,
    arguments: dict[str, Any],
    first: list[float],
    turns: tuple[str, int, list[float], list[float]] | None = None,
) -> None:
    parameters = StdioServerParameters(
        command=spec["command"], args=spec["args"], env=spec.get("env")
    )
    with open("/dev/null", "w") as nothing:  # noqa: ASYNC230, PTH123
        begin = time.perf_counter()
        async with Client(stdio_client(parameters, errlog=nothing)) as client:
            await client.list_tools()
            await client.call_tool(tool, arguments)
            first.append((time.perf_counter() - begin) * 1000)
            if turns is not None:
                name, calls, warm_bare, warm_pool = turns
                async with Connections({"mcpServers": {name: spec}}) as pool:
                    await pool.call(f"{name}:{tool}", arguments)
                    await _in_turns(
                        calls,
                        (lambda: client.call_tool(tool, arguments), warm_bare),
                        (lambda: pool.call(f"{name}:{tool}", arguments), warm_pool),
                    )


async def _in_turns(calls: int, *ways: tuple[Callable[[], Awaitable[Any]], list[float]]) -> None:
    for turn in range(calls):
        for call, times in ways[:: 1 if turn % 2 else -1]:
            with timed(times):
                await call()


async def _pooled(
    name: str, spec: dict[str, Any], tool: str, arguments: dict[str, Any], first: list[float]
) -> None:
    async with Connections({"mcpServers": {name: spec}}) as pool:
        with timed(first):
            await pool.call(f"{name}:{tool}", arguments)


async def lazily(folder: Path) -> None:
    """Table 3: each task is routed, and its tool is called where the Decision offers it, as a model would pick it."""
    furnish(folder)
    specs = {name: spec for name, (spec, _, _) in real_servers(folder).items()} | entries()
    store = Store(folder / "tasks", embedder=lambda: embedder_for(Options()))
    config = McpConfig.parse({"mcpServers": specs})
    async with Connections(config) as pool:
        assert (await sync(pool, store, TENANT)).exit_code == 0
    todo, called, first, calls, errors = tasks(folder, specs), set[str](), 0, 0, list[str]()
    begin = time.perf_counter()
    async with Router(store=store) as router, Connections(config) as pool:
        for task in todo:
            decision = await router.route(RouteRequest(query=task.query, tenant=TENANT, limit=5))
            offered = {match.tool.key: match.tool for match in decision.matches}
            first += next(iter(offered), "") == task.key
            if task.key not in offered:
                continue
            called.add(task.server)
            calls += 1
            result = await pool.call(offered[task.key], task.arguments)
            errors += [f"{task.key}: {result.text}"] if result.is_error else []
        opened = [state.server for state in pool.states() if state.tools is not None]
    seconds = time.perf_counter() - begin
    assert set(opened) == called, (opened, called)
    print(
        "| servers | tasks | right tool first | among five, and called | connections opened | failed calls | seconds |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for error in errors:
        print(error, file=sys.stderr)
    print(
        f"| {len(specs)} | {len(todo)} | {first} | {calls} | {len(opened)} | {len(errors)} | {seconds:.1f} |"
    )


async def measure(calls: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        await knowing(Path(name))
        await calling(Path(name), calls)
        await lazily(Path(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=300, help="warm calls of each server")
    asyncio.run(measure(parser.parse_args().calls))


if __name__ == "__main__":
    main()
