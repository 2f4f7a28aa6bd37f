"""Requests in languages that neither the static embedder nor the tools know: a warning, and little confidence."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from orchestrator import Catalogue, Options, RouteHint, Router, RouteRequest
from tests.catalogues import sample, tool
from tests.stores import shipped

REFUNDS = {
    "ar": "أعد المال إلى العميل الذي دفع مرتين",
    "hi": "जिस ग्राहक ने दो बार भुगतान किया उसे पैसे लौटाओ",
    "kk": "Екі рет төлеген клиентке ақшасын қайтарыңыз",
    "lt": "grąžinkite pinigus klientui, kuris sumokėjo du kartus",
    "tr": "iki kez ödeme yapan müşteriye parasını geri verin",
    "zh": "把钱退给付了两次的客户",
}
ENGLISH = "give the customer who paid twice her money back"


def foreign(warnings: tuple[str, ...]) -> list[str]:
    return [warning for warning in warnings if "TOOLROUTE_EMBEDDER=openai:MODEL" in warning]


WITHOUT_EXTRA = Options(languages="off")


@pytest.mark.parametrize("language", REFUNDS)
async def test_an_unknown_language_is_named_with_the_remedy(language: str) -> None:
    async with Router(sample(), options=WITHOUT_EXTRA) as router:
        decision = await router.route(REFUNDS[language])
    assert len(foreign(decision.warnings)) == 1
    assert "TOOLROUTE_UNDERSTAND=model" in foreign(decision.warnings)[0]


async def test_the_tools_own_language_is_not_named(router: Router) -> None:
    for query in (
        ENGLISH,
        "refund charge ch_3MmlLrLkdIwHu7ix0uMz4Jb1",
        "restart the web server on srv-12",
        "git diff HEAD~3",
    ):
        assert foreign((await router.route(query)).warnings) == []
    tools = [tool("bank:refund", "把钱退给客户"), tool("mail:send", "给客户发送邮件"), tool("log:read", "读取日志")]
    async with Router(Catalogue(tools)) as chinese:
        decision = await chinese.route(RouteRequest(query=REFUNDS["zh"], route_hint=RouteHint.SEMANTIC))
    assert decision.matches[0].tool.key == "bank:refund"
    assert foreign(decision.warnings) == []


async def test_rare_names_in_english_are_no_other_language() -> None:
    tools = [tool("maps:directions", "Get the way between two points"), tool("mail:send_mail", "Send a mail")]
    async with Router(Catalogue(tools)) as router:
        for query in (
            "plan a bike route from Alexanderplatz to Wannsee",
            "What is the fastest route from Itaewon Station to Dongdaemun Station?",
            "give me some movies that Christopher Nolan is known for",
        ):
            assert foreign((await router.route(query)).warnings) == []


async def test_another_embedder_may_know_the_language() -> None:
    class Other:
        id, dimension, remote = "other", 4, False

        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.full((len(texts), 4), 0.5, np.float32)

    async with Router(sample(), embedder=Other()) as router:
        assert foreign((await router.route(REFUNDS["ar"])).warnings) == []


async def test_a_language_in_pieces_lowers_the_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same request and the same tools, with and without a look at the tokens."""
    sure = []
    for share in (None, 0.0):
        if share is not None:
            monkeypatch.setattr(type(shipped()), "unfamiliar", lambda self, text: 0.0)
        async with Router(sample(), options=WITHOUT_EXTRA) as router:
            sure.append((await router.route(REFUNDS["lt"])).confidence)
    assert sure[0] < 0.7 * sure[1]


def test_pieces_and_unknown_tokens_are_counted_among_words() -> None:
    embedder = shipped()
    assert embedder.unfamiliar(ENGLISH) == 0
    assert embedder.unfamiliar("") == embedder.unfamiliar("0x02f8 !! 77") == 0
    assert embedder.unfamiliar(REFUNDS["ar"]) > 0.6
    assert embedder.unfamiliar(REFUNDS["lt"]) > 0.3
