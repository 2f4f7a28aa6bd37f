"""The scripted model, and OpenAI's rules that the tests add to it: asked by the real openai client over HTTP."""

import json
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

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
    ToolCalls,
    Truncated,
)
from tests.scripted import asking

TOOL = {"name": "time__now", "description": "", "parameters": {"type": "object", "properties": {}}, "strict": False}
TIMES = ToolCalls([("time__now", {"zone": "UTC"}), ("time__now", {"zone": "CET"})])
CHAT_TOOL: Any = {"type": "function", "function": TOOL}
TASK: Any = {"model": "m", "messages": [{"role": "user", "content": "sky?"}]}


class Weather(BaseModel):
    sky: Literal["clear", "grey"]
    degrees: int


def ask(client: openai.OpenAI, **given: Any) -> Any:
    return client.chat.completions.create(**TASK, **given)


def zones(calls: Any) -> list[str]:
    return [json.loads(call.arguments)["zone"] for call in calls]


def test_a_reply_is_a_text_a_structure_or_tool_calls() -> None:
    clear = Weather(sky="clear", degrees=20)
    with (
        ScriptedModel(["grey", clear, {"sky": "clear", "degrees": 20}, TIMES]) as model,
        openai.OpenAI(base_url=model.url, api_key="k", max_retries=0) as client,
    ):
        assert ask(client).choices[0].message.content == "grey"
        for _ in range(2):
            parsed = client.chat.completions.parse(**TASK, response_format=Weather)
            assert parsed.choices[0].message.parsed == clear
        calls = ask(client, tools=[CHAT_TOOL]).choices[0].message.tool_calls
        assert zones(call.function for call in calls) == ["UTC", "CET"]
        assert model.left == 0


def _wrong(asked: ModelRequest) -> str:
    assert "rain" in asked.text
    return "grey"


def _asked_in_vain(then: Exception | None = None) -> None:
    with ScriptedModel(_wrong) as model, openai.OpenAI(base_url=model.url, api_key="k", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError, match="the script failed: AssertionError"):
            ask(client)
        if then:
            raise then


def test_an_error_of_a_script_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="rain"):
        _asked_in_vain()
    with pytest.raises(KeyError):  # the test's own error comes first
        _asked_in_vain(KeyError("x"))


def test_requests_are_recorded_and_usage_is_scripted_or_estimated(model: ScriptedModel) -> None:
    client = asking(model, Billed("a", input=100, output=7, cached=60), "yes")
    used = ask(client, tools=[CHAT_TOOL]).usage
    assert (used.prompt_tokens, used.completion_tokens, used.prompt_tokens_details.cached_tokens) == (100, 7, 60)
    assert ask(client).usage.prompt_tokens > 5
    first = model.asked[0]
    assert (first.kind, first.model, first.text, first.tools) == ("chat/completions", "m", "sky?", ["time__now"])
    assert first.headers["authorization"] == "Bearer k"
    assert "Bearer" not in repr(first)


@pytest.mark.parametrize(
    ("fault", "error", "named"),
    [
        (Fault(500), openai.InternalServerError, "scripted fault"),
        (Fault(400, "no such field"), openai.BadRequestError, "no such field"),
        (Fault(429, retry_after=7), openai.RateLimitError, "scripted"),
        (NO_CREDIT, openai.RateLimitError, "exceeded your current quota"),
        (CutOff(), openai.APIConnectionError, "Connection"),
        (Raw("<html>"), json.JSONDecodeError, "Expecting value"),
        (Slow(30), openai.APITimeoutError, "timed out"),
    ],
)
def test_each_fault_reaches_the_client_as_its_own_error(
    fault: Any, error: type[Exception], named: str, model: ScriptedModel
) -> None:
    client = asking(model, fault).with_options(timeout=0.5 if isinstance(fault, Slow) else 30)
    with pytest.raises(error, match=named) as raised:
        ask(client)
    if isinstance(raised.value, openai.RateLimitError):
        code, after = raised.value.code, raised.value.response.headers.get("retry-after")
        assert (code, after) == (("insufficient_quota", None) if fault is NO_CREDIT else (None, "7"))


def test_refused_cut_and_slow_answers_look_real(model: ScriptedModel) -> None:
    client = asking(model, Refusal("no"), Truncated('{"sky": "cl'), Slow(0.01, "late"), "one too few")
    refused = ask(client).choices[0].message
    assert (refused.refusal, refused.content) == ("no", None)
    assert ask(client).choices[0].finish_reason == "length"
    assert ask(client).choices[0].message.content == "late"
    ask(client)
    with pytest.raises(openai.BadRequestError, match="no reply left"):
        ask(client)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"tools": [{"type": "function", "function": {**TOOL, "name": "time:now"}}]}, "pattern"),
        ({"tools": [{"type": "function", "function": {**TOOL, "parameters": {"type": "string"}}}]}, "type 'object'"),
        ({"tools": [{"type": "function", "function": {**TOOL, "strict": True}}]}, "additionalProperties"),
        ({"tools": [CHAT_TOOL] * 2}, "unique"),
    ],
)
def test_the_tests_model_refuses_what_openai_refuses(given: dict[str, Any], named: str, model: ScriptedModel) -> None:
    with pytest.raises(openai.BadRequestError, match=named):
        ask(asking(model, "never said"), **given)
    assert model.left == 1


async def test_a_script_may_be_a_function_sync_or_async() -> None:
    async def slowly(asked: ModelRequest) -> str:
        return f"you said {asked.text}"

    for replies in (slowly, lambda asked: f"you said {asked.text}"):
        async with (
            ScriptedModel(replies, key="right") as model,
            openai.AsyncOpenAI(base_url=model.url, api_key="right", max_retries=0) as client,
        ):
            said = await client.chat.completions.create(**TASK)
            assert said.choices[0].message.content == "you said sky?"
            with pytest.raises(openai.AuthenticationError):
                await client.with_options(api_key="wrong").chat.completions.create(**TASK)


def test_embeddings_follow_their_own_script_and_then_are_good() -> None:
    with (
        ScriptedModel(embeddings=[Fault(500)]) as model,
        openai.OpenAI(base_url=model.url, api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(openai.InternalServerError):
            client.embeddings.create(model="e", input="mail")
        assert len(client.embeddings.create(model="e", input="mail").data[0].embedding) == 32
