"""`_meta` and resources with a scheme of their own, through `toolroute serve`, for clients of both protocols."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client import advertise
from mcp.types import EmbeddedResource

from tests.gateway import serving
from tests.servers.start import config, entry, text_of

META = {"tool": "talking:meta"}
MODES = ["auto", "legacy"]


@asynccontextmanager
async def connected(folder: Path, mode: Any, **settings: Any) -> AsyncIterator[Client]:
    servers = config(talking=entry("talking.py", API_KEY="s3cret-key"))
    async with serving(folder, servers) as served, served.client("local", mode=mode, **settings) as client:
        yield client


@pytest.mark.parametrize("mode", MODES)
async def test_a_clients_meta_reaches_the_server(tmp_path: Path, mode: str) -> None:
    sent: Any = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "example.com/user": "ada"}
    async with connected(tmp_path, mode) as client:
        received = json.loads(text_of(await client.call_tool("call_tool", META, meta={**sent, "toolroute/any": 1})))
    assert received["example.com/user"] == "ada"
    assert "4bf92f3577b34da6a3ce929d0e0e4736" in received["traceparent"]
    assert "toolroute/any" not in received


@pytest.mark.parametrize("mode", MODES)
async def test_a_results_meta_reaches_the_client(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode) as client:
        meta = (await client.call_tool("call_tool", META)).meta
    assert meta is not None
    assert meta["example.com/of"] == "result"
    assert meta["example.com/key"] == "***"


@pytest.mark.parametrize("mode", MODES)
async def test_a_listed_resource_has_its_meta(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode) as client:
        resources = {resource.uri: resource.meta for resource in (await client.list_resources()).resources}
    assert resources["toolroute://talking/memo://first"] == {"of": "memo://first"}


async def test_ten_megabytes_of_meta_are_refused(tmp_path: Path) -> None:
    async with connected(tmp_path, "auto") as client:
        refused = await client.call_tool("call_tool", META, meta={"example.com/large": "x" * 10 * 2**20})
        assert text_of(refused).startswith("InvalidArguments: _meta has more than 256 KiB")
        assert not (await client.call_tool("call_tool", META)).is_error


async def test_an_app_of_a_server_with_any_name_keeps_its_scheme(tmp_path: Path) -> None:
    async with serving(tmp_path, config(**{"my clock": entry("clock.py")})) as served, served.client() as client:
        [app] = [resource.uri for resource in (await client.list_resources()).resources if "app.html" in resource.uri]
        assert app.startswith("ui://")
        assert "<h1>clock</h1>" in str((await client.read_resource(app)).contents[0])


@pytest.mark.parametrize("settings", [{"mimeTypes": ["text/html;profile=of-this-host"]}, None])
async def test_servers_learn_which_apps_their_client_shows(tmp_path: Path, settings: Any) -> None:
    extensions = [advertise("io.modelcontextprotocol/ui", settings)] if settings else []
    async with connected(tmp_path, "auto", extensions=extensions) as client:
        received = json.loads(text_of(await client.call_tool("call_tool", META)))
    declared = received["io.modelcontextprotocol/clientCapabilities"]["extensions"]
    assert declared.get("io.modelcontextprotocol/ui") == settings


async def test_an_embedded_resource_has_an_address_that_can_be_read(tmp_path: Path) -> None:
    async with connected(tmp_path, "auto") as client:
        embedded = (await client.call_tool("call_tool", {"tool": "talking:link"})).content[2]
        assert isinstance(embedded, EmbeddedResource)
        assert embedded.resource.uri == "toolroute://talking/memo://embedded"
        assert (await client.read_resource(embedded.resource.uri)).contents[0].uri == embedded.resource.uri
