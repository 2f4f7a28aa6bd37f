"""Answers that no client checks: of endpoints whose chat completions are odd, or keep to no limit."""

import json
from typing import Any

import pytest

from orchestrator.errors import AnswerInvalid, ModelUnavailable
from orchestrator.llm.replies import MOST_CHARS_PER_TOKEN
from orchestrator.records.completion import Usage
from orchestrator.testing import Raw, ScriptedModel
from tests.test_llm import ASK, GOOD, Sky, models


def said(message: Any, usage: Any = None) -> Raw:
    choice = {"index": 0, "finish_reason": "stop", **({} if message is None else {"message": message})}
    return Raw(json.dumps({"id": "x", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage}))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": [{"type": "text", "text": json.dumps(GOOD)}]},
        {"role": "assistant", "content": GOOD},
        {"role": "assistant", "content": "", "refusal": {"why": "x"}},
        None,
    ],
)
async def test_a_message_that_holds_no_text_counts_as_no_answer(message: Any) -> None:
    async with ScriptedModel([said(message)] * 2) as server, models(server) as client:
        with pytest.raises(ModelUnavailable, match="no chat completion"):
            await client.ask("m", ASK, Sky)
        with pytest.raises(ModelUnavailable, match="no chat completion"):
            await client.write("m", ASK)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": "100", "completion_tokens": "10"}, Usage(input=100, output=10)),
        ({"prompt_tokens": 100.5, "completion_tokens": 10.25}, Usage(input=100, output=10)),
        ({"prompt_tokens": -5, "completion_tokens": 3}, Usage(output=3)),
    ],
)
async def test_figures_of_any_form_are_whole_numbers_in_the_end(usage: dict[str, Any], counted: Usage) -> None:
    answer = said({"role": "assistant", "content": json.dumps(GOOD)}, usage)
    async with ScriptedModel([answer]) as server, models(server) as client:
        assert (await client.ask("m", ASK, Sky)).usage == counted


async def test_an_answer_beyond_any_limit_is_cut_as_if_the_endpoint_had_kept_to_one() -> None:
    endless = "y " * 1_500_000
    script = [endless, {"colour": "blue", "notes": [endless]}, {"colour": "blue", "notes": [endless]}]
    async with ScriptedModel(script) as server, models(server) as client:
        text, _ = await client.write("m", ASK, max_output_tokens=50)
        with pytest.raises(AnswerInvalid, match="be brief"):
            await client.ask("m", ASK, Sky, max_output_tokens=50)
    assert text.endswith("\n[cut: the answer reached its limit]")
    assert len(text) < 50 * MOST_CHARS_PER_TOKEN + 50
    assert len(server.asked[2].text) < 10_000
