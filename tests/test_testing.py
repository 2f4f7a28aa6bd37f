"""The scripted model as users have it: asked by the real openai client over HTTP."""

import json
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from orchestrator.testing import (
    NO_CREDIT,
    CutOff,
    Fault,
    ModelRequest,
    Raw,
    Refusal,
    ScriptedModel,
    Slow,
    ToolCalls,
    Truncated,
    Usage,
    Vectors,
)
from tests.scripted import asking

TOOL = {"name": "time__now", "description": "", "parameters": {"type": "object", "properties": {}}, "strict": False}
STATED = {
    "name": "a",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"b": {"type": "string", "default": ""}},
        "required": ["b"],
        "additionalProperties": False,
    },
}


class Weather(BaseModel):
    sky: Literal["clear", "grey"]
    degrees: int


def ask(client: openai.OpenAI, **given: Any) -> Any:
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "sky?"}], **given)


def test_both_apis_give_texts_structures_and_tool_calls(model: ScriptedModel) -> None:
    clear = Weather(sky="clear", degrees=20)
    calls = ToolCalls([("time__now", {"zone": "UTC"}), ("time__now", {"zone": "CET"})])
    client = asking(model, "grey", "grey", clear, {"sky": "clear", "degrees": 20}, calls, calls)
    assert ask(client).choices[0].message.content == "grey"
    assert client.responses.create(model="m", input="sky?").output_text == "grey"
    chat = client.chat.completions.parse(
        model="m", messages=[{"role": "user", "content": "sky?"}], response_format=Weather
    )
    assert chat.choices[0].message.parsed == clear
    assert client.responses.parse(model="m", input="sky?", text_format=Weather).output_parsed == clear
    message = ask(client, tools=[{"type": "function", "function": TOOL}]).choices[0].message
    assert [json.loads(call.function.arguments)["zone"] for call in message.tool_calls] == ["UTC", "CET"]
    output = client.responses.create(model="m", input="time?", tools=[{"type": "function", **TOOL}]).output
    assert [(item.name, item.call_id) for item in output] == [("time__now", "call_0"), ("time__now", "call_1")]
    assert model.left == 0


def test_both_apis_stream_what_they_also_give_whole(model: ScriptedModel) -> None:
    calls = ToolCalls([("time__now", {"zone": "UTC"}), ("time__now", {"zone": "CET"})])
    client = asking(model, "It is noon in Tokyo.", calls, "It is noon in Tokyo.", calls, Refusal("no"), Truncated("cl"))
    given: Any = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
    tool: Any = {"type": "function", "function": TOOL}
    with client.chat.completions.stream(**given, stream_options={"include_usage": True}) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        whole = stream.get_final_completion()
    assert len(pieces) > 2
    assert "".join(pieces) == whole.choices[0].message.content == "It is noon in Tokyo."
    assert whole.usage is not None
    with client.chat.completions.stream(**given, tools=[tool]) as stream:
        found = stream.get_final_completion().choices[0].message.tool_calls or []
    assert [json.loads(call.function.arguments)["zone"] for call in found] == ["UTC", "CET"]
    with client.responses.stream(model="m", input="?") as events:
        texts = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert "".join(texts) == events.get_final_response().output_text == "It is noon in Tokyo."
    with client.responses.stream(model="m", input="?", tools=[{"type": "function", **TOOL}]) as events:
        output: list[Any] = list(events.get_final_response().output)
    assert [(item.name, json.loads(item.arguments)["zone"]) for item in output] == [
        ("time__now", "UTC"),
        ("time__now", "CET"),
    ]
    with client.responses.stream(model="m", input="?") as events:
        assert [event.delta for event in events if event.type == "response.refusal.delta"] == ["no"]
    assert list(client.responses.create(model="m", input="?", stream=True))[-1].type == "response.incomplete"
    assert model.left == 0


def _wrong(asked: ModelRequest) -> str:
    assert "rain" in asked.text
    return "grey"


def _asked_in_vain(then: Exception | None = None) -> None:
    with ScriptedModel(_wrong) as model:
        client = openai.OpenAI(base_url=model.url, api_key="k", max_retries=0)
        with pytest.raises(openai.BadRequestError, match="the script failed: AssertionError"):
            ask(client)
        if then:
            raise then


def test_what_a_script_itself_raises_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="rain"):
        _asked_in_vain()
    with pytest.raises(KeyError):  # the test's own error comes first
        _asked_in_vain(KeyError("x"))


def test_it_records_what_it_was_asked_and_bills_as_scripted_or_by_an_estimate(model: ScriptedModel) -> None:
    client = asking(model, Usage("a", input=100, output=7, cached=60), {"sky": "clear", "degrees": 1}, "yes")
    used = ask(client, tools=[{"type": "function", "function": TOOL}]).usage
    assert (used.prompt_tokens, used.completion_tokens, used.prompt_tokens_details.cached_tokens) == (100, 7, 60)
    client.responses.parse(model="n", instructions="Be brief.", input="sky?", text_format=Weather)
    assert ask(client).usage.prompt_tokens > 5
    first, second, _ = model.asked
    assert (first.kind, first.model, first.text, first.tools) == ("chat/completions", "m", "sky?", ["time__now"])
    assert first.headers["authorization"] == "Bearer k"
    assert "Bearer" not in repr(first)
    assert (second.kind, second.text, second.wants) == ("responses", "Be brief.\n\nsky?", "Weather")


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
def test_faults_are_what_the_real_client_makes_of_the_real_thing(
    fault: Any, error: type[Exception], named: str, model: ScriptedModel
) -> None:
    client = asking(model, fault).with_options(timeout=0.5)
    with pytest.raises(error, match=named) as raised:
        ask(client)
    if isinstance(raised.value, openai.RateLimitError):
        code, after = raised.value.code, raised.value.response.headers.get("retry-after")
        assert (code, after) == (("insufficient_quota", None) if fault is NO_CREDIT else (None, "7"))


def test_refusals_and_truncated_answers_look_as_they_do_for_real(model: ScriptedModel) -> None:
    client = asking(model, Refusal("no"), Truncated('{"sky": "cl'), Refusal("no"), Truncated("cl"), Slow(0.01, "late"))
    refused = ask(client).choices[0].message
    assert (refused.refusal, refused.content) == ("no", None)
    assert ask(client).choices[0].finish_reason == "length"
    assert client.responses.create(model="m", input="?").output[0].content[0].type == "refusal"
    cut = client.responses.create(model="m", input="?")
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert ask(client).choices[0].message.content == "late"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"tools": [{"type": "function", "function": {**TOOL, "name": "time:now"}}]}, "pattern"),
        ({"tools": [{"type": "function", "function": {**TOOL, "parameters": {"type": "string"}}}]}, "type 'object'"),
        ({"tools": [{"type": "function", "function": {**TOOL, "strict": True}}]}, "additionalProperties"),
        ({"tools": [{"type": "function", **TOOL}]}, "other API"),
        ({"tools": [{"type": "function", "function": TOOL}] * 2}, "unique"),
        ({"response_format": {"type": "json_schema", "json_schema": STATED}}, "'default' is not permitted"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}}, "a b"),
    ],
)
def test_it_refuses_what_openai_refuses(given: dict[str, Any], named: str, model: ScriptedModel) -> None:
    with pytest.raises(openai.BadRequestError, match=named):
        ask(asking(model, "never said"), **given)
    assert model.left == 1
    with pytest.raises(openai.BadRequestError, match="no reply left"):
        ask(asking(model))


async def test_a_script_may_be_a_function_of_what_was_asked_sync_or_async() -> None:
    async def slowly(asked: ModelRequest) -> str:
        return f"you said {asked.text}"

    for replies in (slowly, lambda asked: f"you said {asked.text}"):
        async with (
            ScriptedModel(replies, key="right") as model,
            openai.AsyncOpenAI(base_url=model.url, api_key="right", max_retries=0) as client,
        ):
            said = await client.responses.create(model="m", input="hello")
            assert said.output_text == "you said hello"
            with pytest.raises(openai.AuthenticationError):
                await client.with_options(api_key="wrong").responses.create(model="m", input="hello")


def test_embeddings_follow_their_own_script_and_then_are_good() -> None:
    with ScriptedModel(embeddings=[Fault(500), Vectors(8), None]) as model:
        client = openai.OpenAI(base_url=model.url, api_key="k", max_retries=0)
        with pytest.raises(openai.InternalServerError):
            client.embeddings.create(model="e", input="mail")
        sizes = [len(client.embeddings.create(model="e", input="mail").data[0].embedding) for _ in range(3)]
    assert sizes == [8, 32, 32]
