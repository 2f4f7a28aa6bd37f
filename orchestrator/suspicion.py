"""Descriptions are data: what in a tool's texts is meant for the model or for the ranking, and the tool without it.

Four things are looked for: praise that asks to be chosen whatever is wanted, instructions to the model, text that a
person does not see, and stuffing with keywords. A file's author can vouch for a tool with the label `reviewed` = `yes`;
a server cannot, since labels never come from its listing.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from orchestrator.models import Tool
from orchestrator.text import STOP_WORDS, parameter_text

MAX_KEYWORDS = 40
LONG = 80
"""Words from which on a text can be stuffed: below, a list of what a tool covers is ordinary."""
REPEATED = 0.2
"""The share of its words that a single one takes in a stuffed text."""
RUNNING = 0.06
"""The share of stop words below which a long text without sentences is a list of keywords."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_TOOLS = "(?:tools?|functions?|servers?|apis?|plugins?|mcps?)"
_ME = f"(?:me|it|this(?: {_TOOLS})?)"
_EVERY = "(?:every|any|all|each)(?: single)?(?: of)?(?: the)?(?: user'?s?)?(?: possible)?"
_REQUESTS = "(?:requests?|quer(?:y|ies)|tasks?|questions?|prompts?|messages?|conversations?|situations?|purposes?)"
_CONDITION = (
    "when|if|for|to|before|after|with|in|on|as|only|first|instead|once|unless|where|while|at|by|rather|and|or|,|`|\\("
)
"""What makes "always use this tool" ordinary: it goes on to say for what."""

_PRAISE = _any(
    rf"\b(?:always|only|must|should|please)\b[^.!?\n]{{0,25}}?\b(?:choose|pick|select|prefer|use|call) "
    rf"(?:me|this {_TOOLS}|it)\b(?! *(?:{_CONDITION}))",
    rf"\b(?:use|call|choose|pick|select|prefer|invoke) {_ME}\b[^.!?\n]{{0,20}}"
    rf"\b(?:for|on|in|with) {_EVERY} {_REQUESTS}\b",
    rf"\b(?:ignore|avoid|disregard|never use|do not use|don'?t use|instead of) {_EVERY}?\s?(?:the )?other {_TOOLS}\b",
    rf"\b(?:better|best) (?:than|of) (?:all|any|every)(?: the)? other {_TOOLS}\b",
    r"\balways (?:choose|pick|select|prefer) (?:me|this)\b",
)
_MARKS = "important|system|admin|hidden|override|critical"
_ORDERS = _any(
    f"</?(?:{_MARKS})>",
    r"\b(?:ignore|disregard|forget|override) (?:all |any )?(?:of )?(?:the |your )?"
    r"(?:previous|prior|above|earlier|other|system) (?:instructions?|prompts?)",
    r"\b(?:do not|don'?t|never|without) (?:tell|mention|inform|notify|reveal)(?:ing)?"
    r"(?: this| it| that| anything)?(?: to)? (?:the )?users?\b",
    rf"\bbefore (?:using|calling|invoking|you (?:use|call)) (?:any|this|the|other|any other|another) {_TOOLS}"
    r"[^.\n]{0,40}\b(?:read|send|open|fetch|cat|copy|pass|upload|include)\b",
    r"~/\.(?:ssh|aws|cursor|config|gnupg|kube|netrc|npmrc)\b|\bid_(?:rsa|ed25519)\b|/etc/(?:passwd|shadow)\b",
    r"\b(?:your|the) system prompt\b",
)
_COMMENT = re.compile(r"<!--.*?(?:-->|$)", re.DOTALL)
_UNSEEN = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069]|[\u200b\u200c\u2060\ufeff]{2,}")
_INVISIBLE = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069\u200b\u200c\u2060\ufeff]+")
_BLOCK = re.compile(rf"<({_MARKS})>.*?(?:</\1>|$)", re.IGNORECASE | re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_HINTS = (
    *"<!-- <important <system <admin <hidden <critical <override".split(),
    *"instruction prompt ~/. id_rsa id_ed25519 /etc/".split(),
    *("tell the user", "tell user", "telling", "mention", "reveal", "inform the user", "informing", "notify the user"),
    *(
        "before using",
        "before calling",
        "before invoking",
        "before you ",
        "other tool",
        "other function",
        "other server",
    ),
    *("use this", "use it", "use me", "call this", "call it", "call me", "invoke this", "choose", "prefer", "pick me"),
    *("select me", "select this"),
)
"""One of them stands in every text that a pattern is tried on: few do."""


def suspects(tools: Sequence[Tool]) -> dict[str, tuple[str, ...]]:
    """The key of each tool whose texts are not taken at their word, and why, with the words in question."""
    texts = [f"{tool.description}\n{parameter_text(tool.input_schema)}" for tool in tools]
    hinted = _hinted(texts)
    found = {}
    for place, (tool, text) in enumerate(zip(tools, texts, strict=True)):
        said = _said(text) if place in hinted else ()
        if reasons := (*_hidden(text), *said, *_stuffed(tool)):
            found[tool.key] = reasons
    return {tool.key: found[tool.key] for tool in tools if tool.key in found and tool.labels.get("reviewed") != "yes"}


def _hinted(texts: Sequence[str]) -> set[int]:
    """Which texts hold a hint. All are searched at once: a pattern for each would take a second for 13,000 tools."""
    joined = "\0".join(texts).lower()
    ends = list(accumulate(len(text.lower()) + 1 for text in texts))
    found = set()
    for hint in _HINTS:
        place = joined.find(hint)
        while place >= 0:
            owner = bisect_right(ends, place)
            found.add(owner)
            place = joined.find(hint, ends[owner])
    return found


def _hidden(text: str) -> tuple[str, ...]:
    unseen = None if text.isascii() else _UNSEEN.search(text)
    return (f"hidden characters (U+{ord(unseen.group()[0]):04X})",) if unseen else ()


def _said(text: str) -> tuple[str, ...]:
    found = []
    if comment := _COMMENT.search(text):
        found.append(f"a hidden comment {_quoted(comment.group())}")
    if order := _ORDERS.search(text):
        found.append(f"instructions to the model {_quoted(order.group())}")
    if praise := _PRAISE.search(text):
        found.append(f"asks to be chosen {_quoted(praise.group())}")
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
    return replace(tool, description=description, keywords=keywords, input_schema=_in_texts(tool.input_schema, _clean))


def _clean(text: str) -> str:
    """The text without hidden characters, comments, marked blocks, and each sentence that holds an order or praise."""
    plain = _BLOCK.sub(" ", _COMMENT.sub(" ", _INVISIBLE.sub("", text)))
    kept = [part for part in _SENTENCE.split(plain) if not (_ORDERS.search(part) or _PRAISE.search(part))]
    return text if "\n".join(kept) == text else " ".join(" ".join(kept).split())


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The schema with a change made to each description in it."""
    if isinstance(value, list):
        return [_in_texts(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: change(item) if name == "description" and isinstance(item, str) else _in_texts(item, change)
        for name, item in value.items()
    }
