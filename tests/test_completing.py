"""A model's completions: late arguments from results, and the answer, within their tokens."""

from typing import Any

import pytest

from orchestrator import CompleteRequest, Models, Options, Purpose, Usage
from orchestrator.errors import AnswerInvalid, ModelFailed
from orchestrator.llm.complete import PROMPT_TOKENS, complete
from orchestrator.testing import Billed, ScriptedModel
from tests.catalogues import tokens_of
from tests.decisions import ADD_NOTE

LONG = "".join(f"line {number}\n" for number in range(100_000)) + "the code is 4711"


def filling(**given: Any) -> CompleteRequest:
    settings: dict[str, Any] = {
        "purpose": Purpose.ARGUMENTS,
        "task": "note what it says",
        "tool": ADD_NOTE,
        "wanted": ("body",),
        "known": {"title": "A"},
        "results": (("s1 files:read_file", "the file says hello"),),
    }
    return CompleteRequest(**{**settings, **given})


async def completed(request: CompleteRequest, *replies: Any) -> tuple[Any, ScriptedModel]:
    async with ScriptedModel(replies) as server, Models(Options(model_url=server.url, model="m"), tries=1) as client:
        return await complete(client, request, kept), server


async def kept(tenant: str, whole: str) -> str:
    assert (tenant, whole) == ("org:1", "toolroute-result:s1")
    return LONG


async def test_late_arguments_come_from_results() -> None:
    filled = Billed({"arguments": '{"body": "hello", "title": "other"}', "why": "s1 says so"}, input=90, output=9)
    found, server = await completed(filling(), filled)
    assert (found.arguments, found.missing, found.why) == ({"body": "hello"}, (), "s1 says so")
    assert (found.usage, found.model) == (Usage(input=90, output=9), "m")
    assert "the file says hello" in server.asked[0].text
    assert '{"title":"A"}' in server.asked[0].text


@pytest.mark.parametrize("wrong", ['{"body": 3}', "{}", '{"body": "{{s1.result}}"}', "hello"])
async def test_wrong_arguments_are_mended_once(wrong: str) -> None:
    found, _ = await completed(filling(), {"arguments": wrong}, {"arguments": '{"body": "hello"}'})
    assert found.arguments == {"body": "hello"}
    with pytest.raises(AnswerInvalid):
        await completed(filling(), {"arguments": wrong}, {"arguments": wrong})


async def test_a_model_reads_a_cut_result_on() -> None:
    title = "s1 files:read_file"
    request = filling(tenant="org:1", whole={title: "toolroute-result:s1"}, results=((title, LONG[:9_000]),))
    unknown = {"read": "s9", "at": 0}
    rest = {"read": title, "at": len(LONG) - 100}
    found, server = await completed(request, unknown, rest, {"arguments": '{"body": "4711"}'})
    assert (found.arguments, found.missing) == ({"body": "4711"}, ())
    assert "only these results can be read further: s1 files:read_file" in server.asked[1].text
    assert ["the code is 4711" in asked.text for asked in server.asked] == [False, False, True]
    assert f"[from character {len(LONG) - 100:,} of {len(LONG):,}]" in server.asked[2].text


async def test_a_value_found_nowhere_is_missing() -> None:
    found, _ = await completed(filling(), {"arguments": "{}", "missing": ["body"], "why": "the file is empty"})
    assert (found.arguments, found.missing) == ({}, ("body",))


@pytest.mark.parametrize("max_tokens", [800, 8_000])
async def test_long_settled_arguments_keep_within_the_tokens(max_tokens: int) -> None:
    request = filling(
        known={"title": "long title " * 27_000},
        results=(("s1 files:read_file", "word " * 20_000),),
        max_tokens=max_tokens,
        answer_tokens=max_tokens // 4,
    )
    found, server = await completed(request, {"arguments": '{"body": "hello"}'})
    assert found.arguments == {"body": "hello"}
    sent = sum(tokens_of(message["content"]) for message in server.asked[0].body["messages"])
    assert sent <= max(PROMPT_TOKENS + 130, max_tokens - max_tokens // 4)
    assert "## Wanted parameters\n\nbody" in server.asked[0].text


async def test_a_question_without_room_for_an_answer_is_refused() -> None:
    with pytest.raises(
        ModelFailed, match=r"was not asked: the question needs .* tokens, but only 300 tokens of the budget are left"
    ):
        await completed(filling(max_tokens=100, answer_tokens=25))


async def test_an_answer_keeps_within_its_tokens() -> None:
    request = CompleteRequest(
        purpose=Purpose.ANSWER,
        task="what does it say?",
        results=(("s1 files:read_file", "word " * 20_000),),
        max_tokens=4_000,
        answer_tokens=1_000,
    )
    found, server = await completed(request, Billed("It says word.", input=2_500, output=5))
    assert (found.text, found.usage.total) == ("It says word.", 2_505)
    assert server.asked[0].body["max_tokens"] == 1_000
    assert len(server.asked[0].text) < 3_000 * 5
    assert "[cut: " in server.asked[0].text
