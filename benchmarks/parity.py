"""Compare each server of an mcpServers file directly with the same server through `toolroute serve`.

Every tool, resource, template, prompt and skill is compared, and every extension. Tools that need no argument and only
read are called, and those that are named. The client answers questions, and its answers are compared, too:

    python -m benchmarks.parity mcp.json --call everything:trigger-elicitation-request
    everything  stdio 2026-07-28  41 same, 0 lost
    everything  stdio 2025-11-25  41 same, 1 lost
                lost: call get-roots-list: direct {...}; through {...}
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client, types
from mcp.client import advertise
from mcp.client.streamable_http import streamable_http_client

from orchestrator import McpConfig
from orchestrator.common.lines import as_json
from orchestrator.mcp.listing.skills import EXTENSION as SKILLS
from orchestrator.server.uris import shown_uri

SERVE = [
    sys.executable,
    "-m",
    "orchestrator",
    "serve",
    "--approve",
    "never",
    "--max-result-tokens",
    "1000000",
]
KINDS = [
    f"{transport} {protocol}"
    for transport in ("stdio", "http")
    for protocol in ("2026-07-28", "2025-11-25")
]
SESSION_META = ("io.modelcontextprotocol/", "progressToken")
MOST_READ = 20

Values = dict[str, Any]
"""What a client gets of each feature."""


class Answers:
    """The user behind a client, whose answers are always the same."""

    async def elicit(self, _: object, params: Any) -> types.ElicitResult:
        return types.ElicitResult(
            action="accept", content=None if params.mode == "url" else {"name": "Ada"}
        )

    async def sample(self, _: object, __: object) -> types.CreateMessageResult:
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(text="thought"), model="m"
        )

    async def roots(self, _: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": "file:///here"})])

    def settings(self, protocol: str) -> dict[str, Any]:
        apps = advertise("io.modelcontextprotocol/ui", {"mimeTypes": ["text/html;profile=mcp-app"]})
        return {
            "mode": "auto" if protocol == "2026-07-28" else "legacy",
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
            "extensions": [apps],
        }


def plain(value: Any) -> Any:
    """Return a model of the protocol as JSON, without what belongs to one session."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(by_alias=True, mode="json", exclude_none=True)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {
        name: plain(item)
        for name, item in value.items()
        if name not in ("ttlMs", "cacheScope", "resultType")
    }
    if "_meta" in fields:
        meta = {
            key: item for key, item in fields["_meta"].items() if not key.startswith(SESSION_META)
        }
        fields["_meta"] = meta
    return {name: item for name, item in fields.items() if item not in ({}, [])}


async def kept(values: Values, feature: str, ask: Awaitable[Any]) -> Any:
    """Keep the answer to a request, or its error."""
    try:
        async with asyncio.timeout(60):
            answer = await ask
    except MCPError as error:
        values[feature] = {"error": error.error.message}
        return None
    values[feature] = plain(answer)
    return answer


class Direct:
    """A server without toolroute."""

    def __init__(self, client: Client, server: str) -> None:
        self.client = client
        self.server = server

    def uri(self, uri: str) -> str:
        return uri

    def prompt(self, name: str) -> str:
        return name

    async def tools(self) -> dict[str, Any]:
        return {
            tool.name: definition(plain(tool)) for tool in (await self.client.list_tools()).tools
        }

    async def call(self, name: str) -> Any:
        return await self.client.call_tool(name, {})


class Through(Direct):
    """The same server through `toolroute serve`."""

    def __init__(self, client: Client, server: str, names: list[str]) -> None:
        super().__init__(client, server)
        self.names = names

    def uri(self, uri: str) -> str:
        return shown_uri(self.server, uri)

    def prompt(self, name: str) -> str:
        return f"{self.server}:{name}"

    async def tools(self) -> dict[str, Any]:
        tools = {}
        for name in self.names:
            [answer] = (
                await self.client.call_tool("search", {"describe": [f"{self.server}:{name}"]})
            ).content
            assert isinstance(answer, types.TextContent)
            [tool] = json.loads(answer.text)["tools"]
            tools[name] = definition(
                {
                    "description": tool.get("description"),
                    "title": tool.get("title"),
                    "inputSchema": tool.get("input_schema"),
                    "outputSchema": tool.get("output_schema"),
                    "icons": tool.get("icons"),
                    "_meta": {"ui": tool["ui"]} if "ui" in tool else {},
                }
            )
        return tools

    async def call(self, name: str) -> Any:
        return await self.client.call_tool(
            "call_tool", {"tool": f"{self.server}:{name}", "arguments": {}}
        )


def definition(tool: dict[str, Any]) -> dict[str, Any]:
    """Return what a model reads of a tool, and its interface."""
    ui = tool.get("_meta", {}).get("ui")
    texts = {name: tool.get(name) for name in ("description", "title", "icons")}
    names = {
        name: sorted((tool.get(name) or {}).get("properties", {}))
        for name in ("inputSchema", "outputSchema")
    }
    return {**{name: value for name, value in texts.items() if value}, **names, "ui": ui}


async def features(side: Direct, calls: list[str]) -> Values:
    """Return what this side gives of each feature, by the names that the server itself uses."""
    values = Values()
    client = side.client
    capabilities = client.server_capabilities
    for name, tool in (await side.tools()).items():
        values[f"tool {name}"] = tool
    for name in calls:
        await kept(values, f"call {name}", side.call(name))
    if capabilities.resources is not None:
        await resources(side, values)
    if capabilities.prompts is not None:
        for prompt in (await client.list_prompts()).prompts:
            values[f"prompt {prompt.name}"] = plain(prompt)
            if not any(argument.required for argument in prompt.arguments or ()):
                await kept(
                    values, f"prompt {prompt.name}: text", client.get_prompt(prompt.name, {})
                )
    for extension in (SKILLS, "io.modelcontextprotocol/tasks"):
        if extension in (capabilities.extensions or {}):
            values[f"extension {extension}"] = True
    return values


async def resources(side: Direct, values: Values) -> None:
    client = side.client
    listed = (await client.list_resources()).resources
    for resource in listed:
        values[f"resource {resource.uri}"] = plain(resource)
    for resource in listed[:MOST_READ]:
        await kept(values, f"resource {resource.uri}: content", client.read_resource(resource.uri))
    await kept(values, "templates", client.list_resource_templates())


def through_names(value: Any, side: Through) -> Any:
    """Return a value of the direct side with the names that `toolroute serve` shows."""
    if isinstance(value, dict):
        return {name: _shown(name, item, side) for name, item in value.items()}
    if isinstance(value, list):
        return [through_names(item, side) for item in value]
    return value


def _shown(name: str, value: Any, side: Through) -> Any:
    if name in ("uri", "uriTemplate", "resourceUri") and isinstance(value, str):
        return side.uri(value)
    return through_names(value, side)


def expected(direct: Values, side: Through) -> Values:
    """Return the values of the direct side by the features' names on the other side."""
    values = Values()
    for feature, value in direct.items():
        kind, _, name = feature.partition(" ")
        name, colon, part = (
            name.partition(": ") if kind in ("resource", "prompt") else (name, "", "")
        )
        shown = through_names(value, side)
        if kind == "resource":
            name = side.uri(name)
        if kind == "prompt":
            name = side.prompt(name)
            if not part:
                shown = {**shown, "name": name}
        if kind == "call" and isinstance(shown, dict) and "ui" in direct.get(f"tool {name}", {}):
            shown.pop("_meta", None)  # The gateway adds the tool's interface there.
        values[f"{kind} {name}{colon}{part}".strip()] = shown
    return values


@asynccontextmanager
async def serving(kind: str, config: Path, store: Path) -> AsyncIterator[Client]:
    """Yield a client of `toolroute serve` with this transport and protocol."""
    transport, _, protocol = kind.partition(" ")
    arguments = [*SERVE[1:], "--config", str(config), "--store", str(store)]
    async with AsyncExitStack() as stack:
        opened: Any = stdio_client(StdioServerParameters(command=SERVE[0], args=arguments))
        if transport == "http":
            url, token = await stack.enter_async_context(listening(arguments))
            headers = {"Authorization": f"Bearer {token}"}
            web = await stack.enter_async_context(
                httpx2.AsyncClient(headers=headers, timeout=150, trust_env=False)
            )
            opened = streamable_http_client(url, http_client=web)
        yield await stack.enter_async_context(Client(opened, **Answers().settings(protocol)))


@asynccontextmanager
async def listening(arguments: list[str]) -> AsyncIterator[tuple[str, str]]:
    """Yield the address and the token of a `toolroute serve` over HTTP."""
    http = [*arguments, "--transport", "http", "--port", "0"]
    process = await asyncio.create_subprocess_exec(SERVE[0], *http, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        url = re.search(r"http://\S+", line)
        assert url, line
        token = (await process.stderr.readline()).decode().rpartition("Bearer ")[2].strip()
        drain = asyncio.create_task(process.stderr.read())
        yield url.group(), token
        drain.cancel()
    finally:
        process.terminate()
        await process.wait()


def parameters(config: McpConfig, server: str) -> Any:
    launch = config.servers[server].launch()
    if launch.url:
        return streamable_http_client(launch.url)
    return stdio_client(
        StdioServerParameters(
            command=launch.command, args=list(launch.args), env=launch.env or None
        )
    )


def callable_tools(tools: list[types.Tool], named: list[str]) -> list[str]:
    """Return the tools that need no argument and only read, and those that are named."""
    return [
        tool.name
        for tool in tools
        if tool.name in named
        or (
            tool.annotations
            and tool.annotations.read_only_hint
            and not tool.input_schema.get("required")
        )
    ]


async def compare(
    config: McpConfig, server: str, kind: str, named: list[str], folder: Path
) -> tuple[int, list[str]]:
    """Return the number of features that are the same, and a line for each that is lost."""
    protocol = kind.partition(" ")[2]
    async with Client(parameters(config, server), **Answers().settings(protocol)) as client:
        tools = (await client.list_tools()).tools
        calls = callable_tools(tools, named)
        direct = await features(Direct(client, server), calls)
    file = folder / "mcp.json"
    async with serving(kind, file, folder / f"store-{kind.replace(' ', '-')}") as client:
        side = Through(client, server, [tool.name for tool in tools])
        await client.call_tool("search", {"query": server})
        through = await features(side, calls)
    same = 0
    lost = []
    for feature, value in expected(direct, side).items():
        other = through.get(feature, "nothing")
        if (
            kind_of(feature) == "call"
            and isinstance(other, dict)
            and isinstance(value, dict)
            and "_meta" not in value
        ):
            other.pop("_meta", None)
        if value == other:
            same += 1
        else:
            lost.append(f"{feature}: direct {as_json(value)[:300]}; through {as_json(other)[:300]}")
    return same, lost


def kind_of(feature: str) -> str:
    return feature.partition(" ")[0]


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("config", type=Path)
    parser.add_argument(
        "--call", action="append", default=[], help="SERVER:TOOL that is called without arguments"
    )
    options = parser.parse_args()
    config = McpConfig.read(options.config)
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for server in config.servers:
            (folder / "mcp.json").write_text(
                json.dumps({"mcpServers": {server: entry_of(options.config, server)}})
            )
            named = [key.partition(":")[2] for key in options.call if key.startswith(f"{server}:")]
            for kind in KINDS:
                same, lost = await compare(config, server, kind, named, folder)
                print(f"{server}  {kind}  {same} same, {len(lost)} lost", flush=True)
                for line in lost:
                    print(f"    lost: {line}", flush=True)
                failures += len(lost)
    return 1 if failures else 0


def entry_of(file: Path, server: str) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads(file.read_text())["mcpServers"]
    entry: dict[str, Any] = entries[server]
    return entry


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
