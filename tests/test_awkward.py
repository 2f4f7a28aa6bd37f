"""Awkward requests and catalogues: an answer that claims no more than it knows, or an error with the remedy."""

import time
from itertools import product
from typing import Any

import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import InvalidInput
from orchestrator.records.request import RouteHint, RouteRequest
from orchestrator.records.tool import Stage
from orchestrator.routing.router import Router
from tests.catalogues import sample, tool


def request(query: str, hint: RouteHint) -> RouteRequest:
    return RouteRequest(query=query, tenant="local", route_hint=hint)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"query": ""}, "query is empty"),
        ({"query": " \n\t "}, "query is empty"),
        ({"query": "x" * 100_001}, "100,001 characters: at most 100,000"),
        ({"limit": 0}, "limit=0: give 1 to 50"),
        ({"limit": 51}, "limit=51"),
        ({"token_cap": 0}, "token_cap=0"),
    ],
)
async def test_a_request_that_cannot_be_routed_is_refused_with_the_remedy(
    router: Router, wrong: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidInput, match=error):
        await router.route(RouteRequest(**{"query": "q", "tenant": "local", **wrong}))


async def test_a_request_without_a_tenant_is_local_in_process(router: Router) -> None:
    assert (await router.route(RouteRequest(query="refund the charge"))).tenant == "local"


async def test_a_query_of_100_000_characters_is_answered_in_time(router: Router) -> None:
    text = "refund the charge of the customer. " + "The report says that all is well in the garden. " * 2_080
    for query in (text[:100_000], "x" * 100_000, "ab, " * 25_000, "汉" * 100_000, "use " * 25_000, "," * 100_000):
        started = time.perf_counter()
        decision = await router.route(query)
        assert time.perf_counter() - started < 5
        assert len(decision.matches) <= 10


@pytest.mark.parametrize("query", ["\x00\x01\x02", "?!...", "\ud800\udfff", "🚀🔥", "the and of", "\u200b\u202e", "0"])
async def test_a_query_without_a_word_is_answered_and_claims_nothing(router: Router, query: str) -> None:
    decision = await router.route(query)
    assert decision.gate_confidence < 0.7
    assert decision.stage in (Stage.NONE, Stage.SEMANTIC)


async def test_control_characters_hide_no_word(router: Router) -> None:
    decision = await router.route("refund\x00 charge\x1b of the\ud800 customer\x07")
    assert decision.matches[0].tool.key == "stripe:refund_charge"


async def test_an_empty_catalogue_says_how_to_fill_it() -> None:
    async with Router(Catalogue()) as router:
        for query, hint in product(("send a letter", "send a letter and book a desk for Monday"), RouteHint):
            decision = await router.route(request(query, hint))
            assert (decision.stage, decision.matches, decision.confidence) == (Stage.NONE, (), 0.0)
            assert "the catalogue of local is empty: add tools" in decision.warnings[-1]


@pytest.mark.parametrize("others", [0, 1])
async def test_in_a_catalogue_of_one_or_two_tools_the_fitting_one_wins(others: int) -> None:
    tools = [tool("mail:send_letter", "Send a letter"), tool("files:read", "Read a file")]
    async with Router(Catalogue(tools[: others + 1])) as router:
        decision = await router.route("send a letter to Ana")
        assert decision.matches[0].tool.key == "mail:send_letter"
        assert decision.stage is not Stage.NONE
        assert (await router.route(request("qwertzuiop", RouteHint.KEYWORD))).stage is Stage.NONE


LANGUAGES = {
    "Chinese": ("帮我查询明天北京的天气", "查询天气预报", "发送电子邮件", "翻译文本"),
    "Cyrillic": ("прогноз погоды на завтра", "показать прогнозы погоды", "отправить письмо", "перевести текст"),
    "Arabic": ("ما هي توقعات الطقس غدا", "عرض توقعات الطقس", "إرسال رسالة بريد", "ترجمة النص"),
    "Greek": ("πρόγνωση του καιρού για αύριο", "πρόγνωση καιρού", "αποστολή μηνύματος", "μετάφραση κειμένου"),
    "Japanese": ("東京の天気予報を教えて", "天気予報を調べる", "メールを送信する", "文章を翻訳する"),
    "Korean": ("내일 날씨 예보 알려줘", "날씨 예보 조회", "이메일 보내기", "텍스트 번역"),
}
"""A query, the description of the tool that it means, and those of others."""


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_query_in_any_script_finds_the_tool_in_that_script(language: str) -> None:
    query, *descriptions = LANGUAGES[language]
    tools = [tool(f"s{number}:t{number}", text) for number, text in enumerate(descriptions)]
    async with Router(Catalogue([*tools, *sample()])) as router:
        for hint in RouteHint:
            decision = await router.route(request(query, hint))
            assert decision.matches[0].tool.key == "s0:t0", hint
            assert decision.stage in (Stage.KEYWORD, Stage.SEMANTIC)
