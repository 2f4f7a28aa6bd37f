"""Token counts: an estimate that is never too low, and texts cut to a limit."""

import json

import pytest
from rs_bpe import openai

from orchestrator.catalogue.export import export
from orchestrator.catalogue.tokens import compact, count_tokens, cut
from tests.catalogues import sample
from tests.timing import seconds

ENCODING = openai.o200k_base()
SHAPES = ("openai", "openai-chat", "anthropic", "mcp")


def exact(text: str) -> int:
    return len(ENCODING.encode(text))


@pytest.mark.parametrize("provider", SHAPES)
def test_the_estimate_is_a_little_above_the_exact_count(provider: str) -> None:
    texts = [compact(shape) for shape in export(sample().tools, provider)]  # type: ignore[arg-type]
    assert [text for text in texts if count_tokens(text) < exact(text)] == []
    assert sum(map(count_tokens, texts)) / sum(map(exact, texts)) < 1.4


@pytest.mark.parametrize(
    "text",
    ["", "hello world", "x" * 400, "1" * 100, "北京的天气怎么样", "погода в городе", "الطقس في المدينة", "🚀🔥"],
)
def test_the_estimate_holds_in_any_script(text: str) -> None:
    assert count_tokens(text) >= exact(text) * (0.5 if len(set(text)) < 5 else 1)


def test_a_text_within_the_limit_is_not_cut() -> None:
    assert cut("hello world", 10) == ("hello world", False)
    assert cut("", 0) == ("", False)


@pytest.mark.parametrize("text", ["word " * 5_000, "x" * 30_000, "汉字" * 5_000, json.dumps(list(range(9_000)))])
@pytest.mark.parametrize("limit", [60, 500, 2_000])
def test_a_cut_text_stays_within_the_limit_and_says_what_was_left_out(text: str, limit: int) -> None:
    shorter, was_cut = cut(text, limit)
    kept, _, mark = shorter.partition("\n[cut: ")
    assert was_cut
    assert count_tokens(shorter) <= limit
    assert text.startswith(kept)
    assert mark.startswith(f"{len(text) - len(kept):,} of {len(text):,} characters left out")
    assert count_tokens(kept) > limit / 3 - 30


def test_a_long_text_is_read_only_as_far_as_it_may_be_kept() -> None:
    text = "lorem ipsum ä " * 500_000
    assert seconds(lambda: cut(text, 100)[1]) < 0.2
    kept, mark = (cut(text, 100)[0].partition("\n[cut")[part] for part in (0, 2))
    assert kept == cut(text[:10_000], 100)[0].partition("\n[cut")[0]
    assert f"of {len(text):,} characters" in mark
