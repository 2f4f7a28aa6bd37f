"""A client of `toolroute serve` has all that a server offers directly: resources, prompts, questions, logs, changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, types
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.gateway import Served, serving
from tests.serve_program import client_of, connected, over_http, write_servers, write_tokens
from tests.servers.real import node_entry
from tests.servers.start import config, entry, text_of
from tests.test_real_servers import needs_node
from tests.waiting import until

TALKING = entry("talking.py", API_KEY="s3cret-key", OWNER="Ada")
FIRST, BY = "toolroute://talking/memo://first", "toolroute://talking/memo://by/{author}"
KINDS = [
    "stdio 2026-07-28",
    "stdio 2025-11-25",
    "stdio 2025-06-18",
    "http 2026-07-28",
    "http 2025-11-25",
    "http 2025-06-18",
]


class Heard:
    """The messages to a client: its user's questions, logs, and notifications by type."""

    def __init__(self) -> None:
        self.questions, self.logs, self.messages = list[str](), list[Any](), list[Any]()
        self.loggers = list[str | None]()

    async def elicit(self, _: object, params: Any) -> types.ElicitResult:
        self.questions.append(params.message)
        return types.ElicitResult(action="accept", content=None if params.mode == "url" else {"name": "Ada"})

    async def sample(self, _: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.questions.append(f"{params.max_tokens} tokens")
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="thought"), model="m")

    async def roots(self, _: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": "file:///here"})])

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(params.data)
        self.loggers.append(params.logger)

    async def note(self, message: Any) -> None:
        self.messages.append(message)

    def got(self, kind: type[Any], uri: str = "") -> bool:
        return any(isinstance(one, kind) and (not uri or one.params.uri == uri) for one in self.messages)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_servers(tmp_path / "mcp.json", talking=TALKING)


@asynccontextmanager
async def listener(
    kind: str, file: Path, monkeypatch: pytest.MonkeyPatch, able: bool = True
) -> AsyncIterator[tuple[Client, Heard]]:
    """Connect a client with this transport and protocol. `able`: it answers servers' questions."""
    transport, _, protocol = kind.partition(" ")
    heard, modern = Heard(), protocol == "2026-07-28"
    if not modern:
        monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", protocol)
    answers: dict[str, Any] = {
        "elicitation_callback": heard.elicit,
        "sampling_callback": heard.sample,
        "list_roots_callback": heard.roots,
    }
    async with connected(
        transport,
        file,
        mode=protocol if modern else "legacy",
        logging_callback=heard.log,
        message_handler=heard.note,
        log_level="debug" if modern else None,
        **(answers if able else {}),
    ) as client:
        yield client, heard


async def call(client: Client, tool: str, text: str = "", server: str = "talking") -> types.CallToolResult:
    return await client.call_tool(
        "call_tool", {"tool": f"{server}:{tool}", "arguments": {"text": text} if text else {}}
    )


def read(result: types.ReadResourceResult) -> str:
    content = result.contents[0]
    assert isinstance(content, types.TextResourceContents)
    return content.text


@pytest.mark.parametrize("kind", ["stdio 2025-11-25", "http 2025-11-25"])
async def test_an_older_client_answers_what_a_newer_server_asks(
    kind: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_servers(file, asking=entry("asking.py"))
    async with listener(kind, file, monkeypatch) as (client, heard):
        assert "accept name='Ada'" in text_of(await call(client, "ask", server="asking"))
        assert "thought" in text_of(await call(client, "think", server="asking"))
        assert "file:///here" in text_of(await call(client, "roots", server="asking"))
        assert heard.questions == ["Server 'asking' asks: Your name?", "5 tokens"]


async def test_a_resource_of_more_than_a_mebibyte_reaches_an_older_client(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's library refuses events of more than 1 MiB, and reads JSON of any length."""
    async with listener("http 2025-11-25", file, monkeypatch) as (client, _):
        assert len(read(await client.read_resource(BY.replace("{author}", "long")))) == 1_200_000


async def test_a_server_that_ignores_the_log_level_delays_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_servers(tmp_path / "mcp.json", talking=entry("faulty.py", "voiceless"))
    async with listener("stdio 2025-11-25", file, monkeypatch) as (client, _):
        assert text_of(await call(client, "it")) == "fine"
        async with asyncio.timeout(150):
            with pytest.warns(MCPDeprecationWarning):
                await client.session.set_logging_level("debug")
            assert text_of(await call(client, "it")) == "fine"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_resources_prompts_and_completions_are_those_of_the_servers(
    file: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listener(kind, file, monkeypatch) as (client, _):
        assert client.protocol_version == kind.partition(" ")[2]
        assert [one.uri for one in (await client.list_resources()).resources] == ["toolroute://servers", FIRST]
        assert [one.uri_template for one in (await client.list_resource_templates()).resource_templates] == [BY]
        assert read(await client.read_resource(FIRST)) == "memo://first of Ada ***"
        assert "memo://by/Grace of Ada" in read(await client.read_resource(BY.replace("{author}", "Grace")))
        prompt = (await client.list_prompts()).prompts[0]
        assert (prompt.name, prompt.arguments) == (
            "talking:write",
            [types.PromptArgument(name="topic", required=True)],
        )
        got = await client.get_prompt("talking:write", {"topic": "tools"})
        assert got.messages[0].content == types.TextContent(text="Write about tools")
        for ref in (types.PromptReference(name="talking:write"), types.ResourceTemplateReference(uri=BY)):
            found = await client.complete(ref, {"name": "author", "value": "A"})
            assert found.completion.values == ["Ada", ref.type]
        link = (await call(client, "link")).content[1]
        assert isinstance(link, types.ResourceLink)
        assert "memo://linked of Ada" in read(await client.read_resource(link.uri))
        for missing in ("memo://nobody", "toolroute://other/memo://first"):
            with pytest.raises(MCPError, match="unknown resource"):
                await client.read_resource(missing)
        with pytest.raises(MCPError, match="unknown prompt"):
            await client.get_prompt("talking:nothing")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_servers_questions_logs_and_changes_reach_the_client(
    file: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listener(kind, file, monkeypatch) as (client, heard):
        by_url = "2025-06-18" not in kind  # That protocol has no elicitation by URL.
        visited = "accept" if by_url else "does not support elicitation by URL"
        for tool, answer in {"ask": "Ada", "visit": visited, "think": "thought", "roots": "file:///here"}.items():
            assert answer in text_of(await call(client, tool))
        asked = "Server 'talking' asks: "
        assert heard.questions == [f"{asked}Your name?", *([f"{asked}Pay"] if by_url else []), "5 tokens"]
        await call(client, "log", "hello")
        await until(lambda: "hello ***" in heard.logs)
        assert {str(logger).partition(":")[0] for logger in heard.loggers} == {"talking"}
        async with listening(client, heard, FIRST):
            await call(client, "touch")
            await until(lambda: heard.got(types.ResourceUpdatedNotification, FIRST))
            heard.messages.clear()
            await call(client, "add_note", "second")
            await until(lambda: heard.got(types.ResourceListChangedNotification))
            uris = [one.uri for one in (await client.list_resources()).resources]
            assert "toolroute://talking/memo://second" in uris
            heard.messages.clear()
            write_servers(file, talking=TALKING, other=TALKING)
            for changed in (types.ToolListChangedNotification, types.PromptListChangedNotification):
                await until(lambda changed=changed: heard.got(changed))  # type: ignore[misc]
            while "other:write" not in [one.name for one in (await client.list_prompts()).prompts]:
                heard.messages.clear()  # It is told of once more when the new server has been listed.
                await until(lambda: heard.got(types.PromptListChangedNotification))


@asynccontextmanager
async def listening(client: Client, heard: Heard, uri: str) -> AsyncIterator[None]:
    """Subscribe to a resource and to all changes, in the way of the protocol."""
    if client.protocol_version != "2026-07-28":
        params = types.SubscribeRequestParams(uri=uri)
        await client.session.send_request(types.SubscribeRequest(params=params), types.EmptyResult)
        yield
        return
    wanted: Any = {f"{kind}_list_changed": True for kind in ("tools", "prompts", "resources")}
    async with client.listen(**wanted, resource_subscriptions=[uri]):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stdio 2026-07-28", "http 2025-11-25"])
async def test_a_client_that_cannot_answer_is_not_asked(file: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with listener(kind, file, monkeypatch, able=False) as (client, heard):
        for tool, lacking in {"ask": "elicitation by form", "visit": "elicitation by URL", "think": "sampling"}.items():
            refused = await call(client, tool)
            assert refused.is_error
            assert f"the client of toolroute does not support {lacking}" in text_of(refused)
        assert heard.questions == []


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_published_server_of_an_older_protocol_loses_nothing(
    file: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_servers(file, everything=node_entry("everything"))
    async with listener(kind, file, monkeypatch) as (client, _):
        assert len((await client.list_resources()).resources) > 5

        async def run(tool: str, **arguments: Any) -> types.CallToolResult:
            given = {"tool": f"everything:{tool}", "arguments": arguments}
            return await client.call_tool("call_tool", given)

        links = await run("get-resource-links", count=2)
        for link in links.content[1:]:
            assert isinstance(link, types.ResourceLink)
            assert (await client.read_resource(link.uri)).contents[0].uri == link.uri
        assert "Ada" in text_of(await run("trigger-elicitation-request"), 1)
        assert "thought" in text_of(await run("trigger-sampling-request", prompt="hi", maxTokens=10))
        assert "file:///here" in text_of(await run("get-roots-list"))
        got = await client.get_prompt("everything:args-prompt", {"city": "Paris"})
        assert isinstance(got.messages[0].content, types.TextContent)
        assert "Paris" in got.messages[0].content.text
        prompt = types.PromptReference(name="everything:completable-prompt")
        found = await client.complete(prompt, {"name": "department", "value": "E"})
        assert found.completion.values == ["Engineering"]


@pytest.mark.slow
async def test_one_tenant_reads_no_other_tenants_resources(file: Path) -> None:
    async with (
        over_http(file, "--tokens", str(write_tokens(file.parent))) as (url, _),
        client_of(url, "org:1") as own,
        client_of(url, "org:2") as other,
    ):
        await call(own, "add_note", "private")

        async def uris(client: Client) -> list[str]:
            return [one.uri for one in (await client.list_resources()).resources]

        while "toolroute://talking/memo://private" not in await uris(own):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert "toolroute://talking/memo://private" not in await uris(other)


# --- subscriptions of clients before 2026-07-28, which no request holds open


@asynccontextmanager
async def behind(tmp_path: Path, **env: str) -> AsyncIterator[Served]:
    async with serving(tmp_path, config(talking=entry("talking.py", **env))) as gateway:
        yield gateway


async def subscribe(client: Client) -> None:
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=FIRST))
    await client.session.send_request(request, types.EmptyResult)


async def test_a_client_that_leaves_ends_its_subscriptions(tmp_path: Path) -> None:
    async with behind(tmp_path) as gateway:
        async with gateway.client("local", mode="legacy") as client:
            await subscribe(client)
            assert await gateway.calls_in_flight("local") == 1
        while await gateway.calls_in_flight("local"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_client_that_has_left_is_notified_no_more(tmp_path: Path) -> None:
    async with behind(tmp_path) as gateway:
        async with gateway.client("org:2", mode="legacy"):
            await until(lambda: gateway.notified == {"org:2"})
        await until(lambda: not gateway.notified)


async def test_a_subscription_that_failed_is_made_anew(tmp_path: Path) -> None:
    heard = Heard()
    async with (
        behind(tmp_path, REFUSED_SUBSCRIPTIONS="1") as gateway,
        gateway.client("local", mode="legacy") as first,
        gateway.client("local", mode="legacy", message_handler=heard.note) as second,
    ):
        await first.list_resources()
        refused = await asyncio.gather(subscribe(first), subscribe(second), return_exceptions=True)
        assert [type(error) for error in refused] == [MCPError, MCPError]
        await subscribe(second)
        await call(second, "touch")
        await until(lambda: heard.got(types.ResourceUpdatedNotification, FIRST))


async def test_one_tenants_open_questions_end_no_other_tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.server.sessions.questions._MAX_WAITING", 2)
    asked, may_answer = asyncio.Semaphore(0), asyncio.Event()

    async def answer(*_: Any) -> types.ElicitResult:
        asked.release()
        await may_answer.wait()
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async with (
        behind(tmp_path) as gateway,
        gateway.client("org:1", elicitation_callback=answer) as busy,
        gateway.client("org:2", elicitation_callback=answer) as other,
    ):
        calls = []
        for client in (other, busy, busy, busy):
            calls.append(asyncio.create_task(call(client, "ask")))
            await asked.acquire()
        may_answer.set()
        assert "Ada" in text_of(await calls[0])
        await asyncio.gather(*calls, return_exceptions=True)
