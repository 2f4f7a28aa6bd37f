"""Descriptions are data: what in a tool's texts is meant for the model or for the ranking, and the tool without it.

Four things are looked for: praise that asks to be chosen whatever is wanted, instructions to the model, text that a
person does not see, and stuffing with keywords. A file's author can vouch for a tool with the label `reviewed` = `yes`;
a server cannot, since labels never come from its listing.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from orchestrator.catalogue.tokens import compact
from orchestrator.index.phrases import BLOCK, HINTS, ORDERS, PRAISE, first_of, folded, unfolded
from orchestrator.index.text import SENTENCE_END, STOP_WORDS, spaced
from orchestrator.records.tool import Tool

VOUCHED = "reviewed"
"""The label that says, with `yes`, that somebody has read the tool."""
MAX_KEYWORDS = 40
LONG = 80
"""Words from which on a text can be stuffed: below, a list of what a tool covers is ordinary."""
REPEATED = 0.2
"""The share of its words that a single one takes in a stuffed text."""
RUNNING = 0.06
"""The share of stop words below which a long text without sentences is a list of keywords."""


_COMMENT = re.compile(r"<!--.*?(?:-->|$)", re.DOTALL)
_UNSEEN = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069]|[\u200b\u200c\u2060\ufeff]{2,}")
_INVISIBLE = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069\u200b\u200c\u2060\ufeff]+")
_VALUES = ("default", "const")


def suspects(tools: Sequence[Tool]) -> dict[str, tuple[str, ...]]:
    """The key of each tool whose texts are not taken at their word, and why, with the words in question."""
    texts = [_text_of(tool) for tool in tools]
    hinted = _hinted(texts)
    found = {}
    for place, (tool, text) in enumerate(zip(tools, texts, strict=True)):
        said = _said(text, hinted.get(place, ()))
        if reasons := (*_hidden(text), *said, *_stuffed(tool)):
            found[tool.key] = reasons
    return {tool.key: found[tool.key] for tool in tools if tool.key in found and tool.labels.get(VOUCHED) != "yes"}


def _text_of(tool: Tool) -> str:
    """All that the tool says, its names as words."""
    inside = compact(tool.input_schema).replace("\\n", "\n").replace("_", " ") if tool.input_schema else ""
    return f"{tool.description}\n{spaced(tool.name)}\n{' '.join(tool.keywords)}\n{inside}"


def _hinted(texts: Sequence[str]) -> dict[int, set[str]]:
    """The texts that hold hints, and which. All are searched at once: patterns would take seconds for 13,000 tools."""
    wide = [place for place, text in enumerate(texts) if not text.isascii()]
    plain = [place for place, text in enumerate(texts) if text.isascii()]  # A byte a letter: three times as fast.
    return _holding(texts, plain, [hint for hint in HINTS if hint.isascii()]) | _holding(texts, wide, HINTS)


def _holding(texts: Sequence[str], places: Sequence[int], hints: Sequence[str]) -> dict[int, set[str]]:
    lowered = [folded(texts[place]).lower() for place in places]
    joined = "\0".join(lowered)
    ends = list(accumulate(len(text) + 1 for text in lowered))
    found: dict[int, set[str]] = {}
    for hint in hints:
        start = joined.find(hint)
        while start >= 0:
            owner = bisect_right(ends, start)
            found.setdefault(places[owner], set()).add(hint)
            start = joined.find(hint, ends[owner])
    return found


def _hidden(text: str) -> tuple[str, ...]:
    unseen = None if text.isascii() else _UNSEEN.search(text)
    return (f"hidden characters (U+{ord(unseen.group()[0]):04X})",) if unseen else ()


def _said(text: str, hints: Collection[str]) -> tuple[str, ...]:
    found = []
    if "<!--" in text and (comment := _COMMENT.search(text)):
        found.append(f"a hidden comment {_quoted(comment.group())}")
    if not hints:
        return tuple(found)
    plain = folded(text)
    if order := first_of(ORDERS, plain, hints):
        found.append(f"instructions to the model {_quoted(unfolded(text, order.span()))}")
    if praise := first_of(PRAISE, plain, hints):
        found.append(f"asks to be chosen {_quoted(unfolded(text, praise.span()))}")
    return tuple(found)


def _stuffed(tool: Tool) -> list[str]:
    if len(tool.keywords) > MAX_KEYWORDS:
        return [f"stuffed with {len(tool.keywords)} keywords"]
    return ["stuffed with keywords"] if _is_stuffed(tool.description) else []


def _is_stuffed(text: str) -> bool:
    """A long text that is hardly more than one word over and over, or a list of words without sentences."""
    if len(text) < 4 * LONG:
        return False
    words = text.lower().replace(",", " ").split()
    if len(words) < LONG:
        return False
    counts = Counter(word for word in words if word not in STOP_WORDS and not word.isdigit() and len(word) > 2)
    (_, most), *_ = counts.most_common(1) or [("", 0)]
    if most > REPEATED * len(words):
        return True
    running = sum(word in STOP_WORDS for word in words) / len(words)
    return text.isascii() and running < RUNNING and text.count(". ") + text.count("\n") < len(words) / 40


def _quoted(text: str) -> str:
    line = " ".join(_INVISIBLE.sub("", text).split())
    return repr(line if len(line) <= 60 else line[:59] + "…")


def cleaned(tool: Tool) -> Tool:
    """The tool without what is suspicious in it: for searching, and for a model to read. The hash stays."""
    keywords = tool.keywords if len(tool.keywords) <= MAX_KEYWORDS else ()
    description = "" if _is_stuffed(tool.description) else _clean(tool.description)
    return replace(tool, description=description, keywords=keywords, input_schema=_in_schema(tool.input_schema))


def _clean(text: str) -> str:
    """The text without hidden characters, comments, marked blocks, and each sentence that holds an order or praise."""
    plain = BLOCK.sub(" ", _COMMENT.sub(" ", _INVISIBLE.sub("", text)))
    kept = [part for part in SENTENCE_END.split(plain) if not _spoken(part)]
    return text if "\n".join(kept) == text else " ".join(" ".join(kept).split())


def _spoken(text: str) -> bool:
    """Whether a text speaks to the model or the ranking."""
    plain = folded(text)
    return first_of((*ORDERS, *PRAISE), plain) is not None


def _in_schema(value: Any) -> Any:
    """The schema without what is suspicious in its descriptions, titles, defaults and listed values."""
    if isinstance(value, list):
        return [_in_schema(item) for item in value if not (isinstance(item, str) and _spoken(item))]
    if not isinstance(value, dict):
        return value
    kept = {
        name: item for name, item in value.items() if not (name in _VALUES and isinstance(item, str) and _spoken(item))
    }
    return {
        name: _clean(item) if name in ("description", "title") and isinstance(item, str) else _in_schema(item)
        for name, item in kept.items()
    }
