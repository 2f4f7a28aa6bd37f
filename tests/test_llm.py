"""The model's client against a real HTTP endpoint that answers well, badly, late or not at all."""

import asyncio
import json
import logging
from contextlib import closing, suppress
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from orchestrator import Models, Options, Usage
from orchestrator.common import bounded_http
from orchestrator.errors import (
    AnswerInvalid,
    InvalidConfig,
    InvalidInput,
    ModelRefused,
    ModelUnavailable,
    NoCredit,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.llm.answers import MOST_CHARS_PER_TOKEN
from orchestrator.testing import (
    NO_CREDIT,
    Billed,
    CutOff,
    Fault,
    ModelRequest,
    Raw,
    Refusal,
    ScriptedModel,
    Slow,
    Truncated,
)

KEY = "sk-test-never-shown"
ASK = [{"role": "user", "content": "the sky?"}]


class Sky(BaseModel):
    colour: Literal["blue", "grey"]
    notes: list[str] = Field(default_factory=list)


LIMITS = {"max_tokens", "max_completion_tokens"}
GOOD = {"colour": "blue", "notes": []}
GREEN = Billed({"colour": "green"}, input=10, output=1)


def _said(message: Any, usage: Any = None) -> Raw:
    choice = {"index": 0, "finish_reason": "stop", **({} if message is None else {"message": message})}
    return Raw(json.dumps({"id": "x", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage}))


def models(server: ScriptedModel, *, tries: int = 1, **options: Any) -> Models:
    return Models(Options(**{"model": "m", "model_url": server.url, **options}), api_key=KEY, tries=tries)


@pytest.mark.parametrize("first", ['{"colour": "green"}', "no json", "", Truncated('{"colour": "bl')])
async def test_a_wrong_answer_goes_back_with_its_faults(first: Any) -> None:
    script = [Billed(first, input=10, output=1), Billed(GOOD, input=20, output=2)]
    async with ScriptedModel(script) as server, models(server) as client:
        _, usage = await client.ask("m", ASK, Sky)
    assert usage == Usage(input=30, output=3)
    assert "cannot be used" in server.asked[1].text
    assert "cannot be used" not in server.asked[0].text


@pytest.mark.parametrize(
    ("second", "error", "named", "usage"),
    [
        (GREEN, AnswerInvalid, "colour: Input should be 'blue' or 'grey'", Usage(input=20, output=2)),
        (Fault(503), ModelUnavailable, "HTTP 503", Usage(input=10, output=1)),
        (Fault(400, "too long"), InvalidInput, "too long", Usage(input=10, output=1)),
    ],
)
async def test_an_error_holds_the_tokens_spent_before_it(
    second: Any, error: type[ToolrouteError], named: str, usage: Usage
) -> None:
    async with ScriptedModel([GREEN, second, GREEN]) as server, models(server) as client:
        with pytest.raises(error, match=named) as raised:
            await client.ask("m", ASK, Sky)
    assert (raised.value.usage, len(server.asked)) == (usage, 2)


@pytest.mark.parametrize(
    ("fault", "error", "named"),
    [
        (Fault(400, "too long"), InvalidInput, "HTTP 400: too long"),
        (Fault(401, f"Incorrect API key: {KEY}"), Unauthorised, "OPENAI_API_KEY"),
        (Fault(403), Unauthorised, "HTTP 403"),
        (Fault(404, "no such model"), InvalidConfig, "TOOLROUTE_MODEL"),
        (Fault(422, f"odd {KEY}"), InvalidInput, r"odd \*\*\*"),
        (NO_CREDIT, NoCredit, "no quota left"),
        (Refusal("not that"), ModelRefused, "refused the question: not that"),
    ],
)
async def test_a_lasting_fault_is_asked_once(fault: Any, error: type[ToolrouteError], named: str) -> None:
    async with ScriptedModel([fault, GOOD]) as server, models(server, tries=3) as client:
        with pytest.raises(error, match=named) as raised:
            await client.ask("m", ASK, Sky)
    assert not raised.value.retry
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (Fault(500), "HTTP 500"),
        (Fault(429, "slow down"), "HTTP 429: slow down"),
        (Slow(120), "the answer took too long|within 3 seconds"),
        (CutOff(), "did not answer"),
        (Raw("<html>"), "chat completion"),
        (Raw('{"choices": []}'), "chat completion"),
        (_said({"role": "assistant", "content": [{"type": "text", "text": "{}"}]}), "chat completion"),
        (_said({"role": "assistant", "content": "", "refusal": {"why": "x"}}), "chat completion"),
        (_said(None), "chat completion"),
    ],
)
async def test_a_passing_fault_can_be_retried(fault: Any, named: str) -> None:
    patience = 3.0 if isinstance(fault, Slow) else 30.0  # A busy machine needs seconds for the first connection.
    async with ScriptedModel([fault, GOOD]) as server, models(server, model_timeout_s=patience) as client:
        with pytest.raises(ModelUnavailable, match=named) as raised:
            await client.ask("m", ASK, Sky)
        assert raised.value.retry
        assert len(server.asked) <= 1


async def test_the_client_tries_three_times() -> None:
    async with ScriptedModel([Fault(500), CutOff(), GOOD]) as server, models(server, tries=3) as client:
        assert (await client.ask("m", ASK, Sky))[0].colour == "blue"
    assert len(server.asked) == 3


async def test_an_endpoint_that_trickles_is_given_up_too() -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n")
        with closing(writer), suppress(ConnectionError):
            for _ in range(100):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)

    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with Models(Options(model="m", model_url=url, model_timeout_s=0.5), tries=1) as client:
            with pytest.raises(ModelUnavailable, match=r"did not finish its answer within 0\.5 s"):
                await client.write("m", ASK)


async def test_a_short_retry_after_is_waited_for() -> None:
    script = [Fault(429, retry_after=0.2), Fault(429, retry_after=900), GOOD]
    async with ScriptedModel(script) as server, models(server, tries=3) as client:
        with pytest.raises(ModelUnavailable) as raised:
            await client.ask("m", ASK, Sky)
        assert (raised.value.retry_after_s, raised.value.retry, server.left) == (900, False, 1)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": "100", "completion_tokens": "10"}, Usage(input=100, output=10)),
        ({"prompt_tokens": -5, "completion_tokens": 3}, Usage(output=3)),
        (None, Usage()),
    ],
)
async def test_figures_of_any_form_are_whole_numbers_in_the_end(usage: Any, counted: Usage) -> None:
    answer = _said({"role": "assistant", "content": json.dumps(GOOD)}, usage)
    async with ScriptedModel([answer]) as server, models(server) as client:
        assert (await client.ask("m", ASK, Sky))[1] == counted


async def test_an_endless_answer_is_cut() -> None:
    endless = "y " * 100_000
    too_long = {"colour": "blue", "notes": [endless]}
    async with ScriptedModel([Truncated("once"), endless, too_long, too_long, ""]) as server, models(server) as client:
        assert (await client.write("m", ASK))[0] == "once\n[cut: the answer reached its limit]"
        text, _ = await client.write("m", ASK, max_output_tokens=50)
        with pytest.raises(AnswerInvalid, match="be brief"):
            await client.ask("m", ASK, Sky, max_output_tokens=50)
        with pytest.raises(AnswerInvalid, match="empty answer"):
            await client.write("m", ASK)
    assert text.endswith("\n[cut: the answer reached its limit]")
    assert len(text) < 50 * MOST_CHARS_PER_TOKEN + 50
    assert len(server.asked[3].text) < 10_000


async def test_a_limit_too_large_by_either_name_is_refused() -> None:
    """vLLM names both parameters in its message."""

    def small(asked: ModelRequest) -> Any:
        if asked.body.get("max_tokens") == 10:
            return "hello"
        return Fault(400, "'max_tokens' or 'max_completion_tokens' is too large: 9000. The context has 4096 tokens.")

    async with ScriptedModel(small) as server, models(server) as client:
        with pytest.raises(InvalidInput, match=r"HTTP 400: .* is too large: 9000"):
            await client.write("m", ASK, max_output_tokens=9_000)
        assert [sorted(set(asked.body) & LIMITS) for asked in server.asked] == [
            ["max_tokens"],
            ["max_completion_tokens"],
        ]
        assert (await client.write("m", ASK, max_output_tokens=10))[0] == "hello"


async def test_an_endpoints_dialect_is_learnt_in_one_question() -> None:
    def odd(asked: ModelRequest) -> Any:
        if asked.wants == "Sky":
            return Fault(400, "response_format: json_schema is not supported")
        if "max_tokens" in asked.body:
            return Fault(400, "max_tokens is not supported, use max_completion_tokens")
        return '```json\n{"colour": "blue"}\n```'

    async with ScriptedModel(odd) as server, models(server) as client:
        for _ in range(2):
            assert (await client.ask("m", ASK, Sky))[0].colour == "blue"
    assert [asked.wants for asked in server.asked] == ["Sky", "json_object", "json_object", "json_object"]
    assert "JSON schema" in server.asked[1].text


async def test_a_password_in_the_address_is_masked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with ScriptedModel(["hello", Fault(400, "you are me:pass4711")]) as server:
        url = server.url.replace("//", "//me:pass4711@")
        async with Models(Options(model="m", model_url=url), api_key=KEY, tries=1) as client:
            assert (await client.write("m", ASK))[0] == "hello"
            with pytest.raises(InvalidInput, match=r"you are me:\*\*\*"):
                await client.write("m", ASK)
    assert "HTTP Request: POST http://me:***@127.0.0.1" in caplog.text
    assert "pass4711" not in caplog.text


async def test_a_missing_key_or_endpoint_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with Models(Options(model="m")) as client:
        with pytest.raises(Unauthorised, match="set OPENAI_API_KEY"):
            await client.write("m", ASK)
    async with Models(Options(model="m", model_url="http://me:secret@127.0.0.1:9/v1"), tries=1) as client:
        with pytest.raises(ModelUnavailable, match=r"at http://127\.0\.0\.1:9/v1 did not .* the connection failed"):
            await client.write("m", ASK)


def test_models_are_named_by_option_or_environment() -> None:
    found = Models(Options.from_env({"TOOLROUTE_MODEL": "big", "TOOLROUTE_MODEL_ROUTE": "small"}))
    assert (found.route_model, found.plan_model) == ("small", "big")
    assert Models(Options(model_plan="big")).route_model == "big"
    with pytest.raises(InvalidConfig, match="TOOLROUTE_MODEL"):
        Models(Options())
    with pytest.raises(InvalidConfig, match="TOOLROUTE_MODEL_TIMEOUT='soon'"):
        Options.from_env({"TOOLROUTE_MODEL_TIMEOUT": "soon"})
    assert Options.from_env({"TOOLROUTE_MODEL_TIMEOUT": "5"}).model_timeout_s == 5


@pytest.mark.parametrize("fault", [Fault(401, f"bad key {KEY}"), Fault(500, KEY), Raw(KEY), CutOff()])
async def test_the_key_stands_in_no_error_repr_or_log(fault: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with ScriptedModel([fault]) as server, models(server) as client:
        with pytest.raises(ToolrouteError) as raised:
            await client.ask("m", ASK, Sky)
        shown = [repr(client), str(raised.value), repr(raised.value.__cause__), caplog.text, repr(server.asked)]
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert not [text for text in shown if KEY in text]


@pytest.mark.parametrize(
    "text",
    [
        '{"colour": "blue"}',
        '<think>Is it {"colour": "grey"}? No.</think>\n{"colour": "blue"}',
        'The sky is grey.</think>{"colour": "blue"}',
        'Here is the answer for {sky}:\n```json\n{"colour": "blue"}\n```\nIt has } in it.',
        '{"colour": "blue", "notes": ["</think> is a tag"]}',
    ],
)
async def test_an_answer_is_read_behind_thoughts_a_sentence_or_a_fence(text: str) -> None:
    with ScriptedModel(lambda _: text) as server:
        async with models(server) as client:
            sky, _ = await client.ask("m", ASK, Sky, repairs=0)
    assert sky.colour == "blue"


async def test_an_object_within_a_broken_answer_is_no_answer() -> None:
    with ScriptedModel(lambda _: '{"notes": [{"colour": "blue"}, "colour": "grey"') as server:
        async with models(server) as client:
            with pytest.raises(AnswerInvalid, match="Invalid JSON"):
                await client.ask("m", ASK, Sky, repairs=0)


async def test_an_answer_nested_too_deep_is_no_answer_and_half_a_sign_is_asked_all_the_same() -> None:
    async with ScriptedModel([Raw("[" * 200_000), "yes"]) as server, models(server) as client:
        with pytest.raises(ModelUnavailable, match="did not answer with a chat completion"):
            await client.write("m", ASK)
        assert (await client.write("m", [{"role": "user", "content": "send \ud83d"}]))[0] == "yes"
    assert server.asked[-1].text == "send \ufffd"


async def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "MOST_BYTES", 2**20)
    async with ScriptedModel([_said("x" * 2**21), "yes"]) as server, models(server) as client:
        with pytest.raises(ModelUnavailable, match="the answer is too long"):
            await client.write("m", ASK)
        assert (await client.write("m", ASK))[0] == "yes"
