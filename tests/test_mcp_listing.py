"""Listings and answers of servers: read as far as possible, followed after changes, with trusted and other hints."""

import logging
from dataclasses import replace
from typing import Any

import anyio
import pytest

from orchestrator import Annotations, Catalogue, Connections, Router, Tool
from orchestrator.catalogue.export import export
from orchestrator.catalogue.formats import tool_from, tool_to_json
from orchestrator.errors import InvalidCatalogue, OutcomeUnknown, StoreUnavailable
from orchestrator.mcp.listing import changes
from orchestrator.mcp.transports.http_client import repaired_line
from orchestrator.mcp.transports.json_repair import repaired, request_of
from orchestrator.store.tools.tool_records import stored_tool, tool_payload
from tests.servers.start import config, entry, free_port, running
from tests.waiting import until


async def test_tools_that_cannot_be_read_are_named_once_and_take_no_other_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with Connections(config(bad=entry("faulty.py", "odd", API_KEY="sec-told"))) as servers:
        for _ in range(2):
            tools = await servers.tools("bad", fresh=True)
            assert [tool.name for tool in tools] == ["it", "untyped"]
        assert tools[1].input_schema == {"type": "object", "required": ["a"]}
        assert (await servers.call("bad:it")).text == "fine"
    left_out = [record.getMessage() for record in caplog.records if record.name == "orchestrator.mcp.listing.tools"]
    named = (r"'***' cannot be read (description: ", "'array' ", "number 5 of its page ", "'' ", "'deep' ")
    assert len(left_out) == len(named)
    for said, expected in zip(left_out, named, strict=True):
        assert said.startswith(f"server bad: its tool {expected}")
        assert said.endswith("and is skipped")
    assert "nested deeper than 64 levels" in left_out[-1]


async def test_text_that_strict_json_refuses_is_repaired() -> None:
    async with Connections(config(odd=entry("faulty.py", "odd_text"))) as servers:
        assert (await servers.tools("odd"))[0].description == "half \ufffd of it"
        result = await servers.call("odd:it")
        assert result.text == "half \ufffd of it"
        assert result.structured == {"n": None}


@pytest.mark.parametrize(
    ("message", "strict"),
    [
        (b'{"a": "bell \x07"}', b'{"a": "bell \\u0007"}'),
        (b'{"a": "\\ud83d\\ude00"}', b'{"a": "\\ud83d\\ude00"}'),
        (b'{"a": "\\ude00", "b": -Infinity}', b'{"a": "\xef\xbf\xbd", "b": null}'),
        (b'{"a": NaN, "b": ' + b"9" * 5_000 + b"}", b'{"a": null, "b": null}'),
        (b"not JSON \x07", b"not JSON \x07"),
        (b"[" * 100_000 + b"\x07", b"[" * 100_000 + b"\x07"),
    ],
)
def test_only_messages_with_a_fault_are_changed(message: bytes, strict: bytes) -> None:
    assert repaired(message) == strict
    assert repaired_line(b"data: " + message) == (b"data: " + strict if strict == message else b"data:" + strict)


async def test_an_answer_that_nobody_can_read_is_an_error_and_is_not_awaited() -> None:
    async with Connections(config(deep={**entry("faulty.py", "nested"), "toolroute": {"timeout_s": 600}})) as servers:
        with pytest.raises(OutcomeUnknown, match=r"its answer cannot be read: .* nested more than 200 deep"):
            await servers.call("deep:it")
        assert [tool.name for tool in await servers.tools("deep", fresh=True)] == ["it"]


@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":[[', 7),
        (b'{"result": {"id": 1}, "jsonrpc": "2.0", "id": "a-7" }', "a-7"),
        (b'{"id":7,"method":"sampling/createMessage","params":[', None),
        (b'{"result":{"id":7', None),
        (b"a line of a log", None),
        (b'{"level":"info","message":"made","id":7}', None),
        (b'{"id":7,"level":"info"}', None),
        (b'sent {"jsonrpc":"2.0","id":7}', None),
        (b'{"jsonrpc":"2.0","result":[[],"id":7}', 7),
        (b'{"id":7,"result":[[],"jsonrpc":"2.0"}', 7),
    ],
)
def test_the_request_of_an_unreadable_answer_is_found(message: bytes, request_id: object) -> None:
    assert request_of(message) == request_id


async def test_a_line_of_a_log_that_names_an_id_ends_no_request() -> None:
    async with Connections(config(logs=entry("faulty.py", "structured"))) as servers:
        assert (await servers.call("logs:it")).text == "fine"


async def test_a_long_name_fills_no_log_and_a_long_cursor_ends_the_listing(caplog: pytest.LogCaptureFixture) -> None:
    async with Connections(config(bad=entry("faulty.py", "wordy"))) as servers:
        with pytest.raises(InvalidCatalogue, match="a cursor of 100,000 characters, the limit is 65,536"):
            await servers.tools("bad")
    assert "nnn..." in caplog.text
    assert len(caplog.text) < 5_000


async def test_a_server_without_tools_is_connected_and_has_none() -> None:
    async with Connections(config(bare=entry("faulty.py", "toolless"))) as servers:
        assert await servers.tools("bare") == ()
        async with servers.using("bare") as connection:
            connection.doubt()  # It is asked whether it is still there.
            await until(lambda: not connection.lifetime.suspect)
            assert connection.usable
        assert (servers.states()[0].state, servers.states()[0].tools) == ("ready", 0)


async def test_odd_forms_of_a_definition_take_no_tool_away() -> None:
    async with Connections(config(bad=entry("faulty.py", "loose"), none=entry("faulty.py", "nil"))) as servers:
        tools = await servers.tools("bad")
        assert [tool.name for tool in tools] == ["it", "nullable", "upper"]
        assert [list(export([tool], "openai")[0]["parameters"]["properties"]) for tool in tools] == [["a"], ["a"], []]
        assert await servers.tools("none") == ()


@pytest.mark.parametrize(
    ("fault", "lines"),
    [
        ("alone", ["fine"]),
        ("list", ['["Io","Europa"]']),
        (
            "loose",
            [
                *("plain", "untyped", '{"of":1}', "annotated", '{"type":"image","url":"https://a.example"}'),
                '{"type":"resource","resource":{"text":"no address"}}',
            ],
        ),
    ],
)
async def test_a_block_that_cannot_be_read_is_shown_as_text_and_takes_no_answer_away(
    fault: str, lines: list[str]
) -> None:
    async with Connections(config(bad=entry("faulty.py", fault))) as servers:
        result = await servers.call("bad:it")
    assert (result.text.splitlines(), result.is_error) == (lines, False)


async def test_titles_are_kept_found_shown_and_exported() -> None:
    async with Connections(config(bad=entry("faulty.py", "titles"))) as servers:
        tools = await servers.tools("bad")
    assert [tool.title for tool in tools] == ["List unpaid invoices", "Pay an invoice", ""]
    assert [tool_from(tool_to_json(tool)) for tool in tools] == list(tools)
    assert stored_tool(tool_payload(tools[0])) == tools[0]
    async with Router(Catalogue(tools)) as router:
        decision = await router.route("which invoices are unpaid?")
    assert decision.recommended == ("bad:inv_07",)
    assert "name" in decision.matches[0].words
    assert export([tools[1]], "mcp")[0]["title"] == "Pay an invoice"
    assert export([replace(tools[1], description="")], "openai")[0]["description"] == "Pay an invoice"


@pytest.mark.parametrize(("fault", "names"), [("circle", ["it"]), ("repeating", ["it", "other"])])
async def test_a_listing_that_repeats_a_page_ends_with_a_warning(
    fault: str, names: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with Connections(config(bad=entry("faulty.py", fault))) as servers:
        assert [tool.name for tool in await servers.tools("bad")] == names
    assert "server bad: it repeats a page of its tools. The listing was ended there" in caplog.messages


@pytest.mark.parametrize("fault", ["restart", "twins"])
async def test_an_empty_cursor_is_the_end_and_a_name_stands_for_one_tool(fault: str) -> None:
    async with Connections(config(bad=entry("faulty.py", fault))) as servers:
        assert [tool.name for tool in await servers.tools("bad")] == ["it", "other"]


@pytest.mark.parametrize(
    ("trusted", "hints"),
    [
        (True, [Annotations(read_only=True, idempotent=True), Annotations(destructive=False)]),
        (False, [Annotations(), Annotations()]),
    ],
)
async def test_hints_of_a_server_that_is_not_trusted_count_only_where_they_are_stricter(
    trusted: bool, hints: list[Annotations]
) -> None:
    async with Connections(config(it=entry("faulty.py", "hints") | {"trust_annotations": trusted})) as servers:
        soft, safe, strict = await servers.tools("it")
        assert [soft.annotations, safe.annotations] == hints
        assert strict.annotations == Annotations(read_only=False, destructive=True, idempotent=False, open_world=True)


async def test_names_and_types_stay_whatever_the_entry_holds_for_a_secret() -> None:
    quick = entry("quick.py", "--secret=seconds", AUTH_TOKEN="true", API_KEY="integer", API_TOKEN="crash_once")
    async with Connections(config(quick=quick)) as servers:
        listed = {tool.name: tool for tool in await servers.tools("quick")}
        assert listed["crash_once"].annotations.read_only is True
        assert listed["crash_once"].description == "The tool ***."
        assert listed["add"].input_schema["properties"]["a"] == {"type": "integer"}
        assert list(listed["wait"].input_schema["properties"]) == ["seconds"]
        assert (await servers.call("quick:wait", {"seconds": 0})).text == "waited"


@pytest.mark.parametrize(
    ("fault", "text", "structured"),
    [
        ("bare", '{"count":1}', {"count": 1}),
        ("empty", "", None),
        ("video", "[video]\nafter", None),
        ("javascript", "fine", {"word": "fine"}),
        ("chatty", "fine", None),
    ],
)
async def test_an_answer_that_the_library_would_refuse_is_shown(fault: str, text: str, structured: Any) -> None:
    async with Connections(config(bad=entry("faulty.py", fault))) as servers:
        result = await servers.call("bad:it")
        assert (result.text, result.structured, result.is_error) == (text, structured, False)


class Heard(list[set[str]]):
    """Records each listing that was passed on, by its tools' names. The first ones fail."""

    def __init__(self, failing: int = 0) -> None:
        self._failing = failing

    async def __call__(self, server: str, tools: tuple[Tool, ...]) -> None:
        self.append({tool.name for tool in tools})
        if len(self) <= self._failing:
            raise StoreUnavailable("the store is away")


@pytest.mark.parametrize("transport", ["stdio", "legacy", "http"])
async def test_a_changed_listing_is_passed_on(transport: str) -> None:
    heard, port = Heard(), free_port()
    async with running("plain.py", port, transport):
        plain = entry("plain.py") if transport == "stdio" else {"url": f"http://127.0.0.1:{port}/mcp"}
        async with Connections(config(plain=plain), on_listed=heard) as servers:
            # The very first call: nothing that a server says after its listing may be missed.
            await servers.call("plain:grow")
            await until(lambda: "grown" in heard[-1])
            assert (await servers.call("plain:grown", {"text": "new"})).text == "new"


async def test_a_listing_that_could_not_be_taken_over_is_passed_on_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_GAP_S", 0.01)
    heard = Heard(failing=2)
    async with Connections(config(plain=entry("plain.py")), on_listed=heard) as servers:
        await servers.call("plain:grow")
        await until(lambda: len(heard) > 2 and "grown" in heard[-1])


@pytest.mark.parametrize(("fault", "slows"), [("restless", True), ("growing", False)])
async def test_a_server_that_reports_a_change_at_each_listing_is_listed_more_and_more_seldom(
    fault: str, slows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = list[float]()
    monkeypatch.setattr(changes, "_GAP_S", 0.01)
    monkeypatch.setattr(anyio, "sleep", lambda seconds, real=anyio.sleep: (pauses.append(seconds), real(seconds))[1])
    async with Connections(config(it=entry("faulty.py", fault)), on_listed=Heard()) as servers:
        assert (await servers.call("it:it")).text == "fine"
        pauses.clear()  # The first was the deadline of its start.
        await until(lambda: sum(pause >= 0.01 for pause in pauses) >= 5)
    assert (max(pauses) >= 0.08) is slows, "what brings news is never waited for longer"
