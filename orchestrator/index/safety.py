"""Safety: texts of a tool that are meant for the model or for the ranking, and the tool without them.

Known forms of instructions to the model, praise that asks to be chosen, text that a person does not see, and stuffing
with keywords. An imperative alone is no such form: of 32,460 public tools and those of 21 well-known servers, one is
flagged ("Always use this tool before ..." and "Do not include API keys" were 12 more, all honest). The label `reviewed`
= `yes`, which `toolroute tools accept` or the author of a file sets, vouches for a tool; a server cannot set it, since
labels never come from its listing. A flag is a warning; approval is the guard.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from orchestrator.catalogue.tokens import compact
from orchestrator.index.text import SENTENCE_END, STOP_WORDS, spaced
from orchestrator.records.tool import Tool, altered

VOUCHED = "reviewed"
"""The label that says, with `yes`, that a person has read the tool."""
QUARANTINED = "quarantined"
"""The label that says why a definition, which differs from the one that was accepted, waits (`index.changes`)."""
MAX_KEYWORDS = 40
LONG, REPEATED, RUNNING = 80, 0.2, 0.06
"""Words from which on a text can be stuffed; the share that one word takes in such a text; the share of stop words
below which a long text without sentences is a list of keywords."""

_TOOLS = "(?:tools?|functions?|servers?|apis?|plugins?)"
_MARKS = "important|system|admin|hidden|override|critical"
_HIDDEN = re.compile(
    r"<!--.*?(?:-->|$)|[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069]|[\u200b\u200c\u2060\ufeff]{2,}", re.DOTALL
)
_INVISIBLE = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069\u200b\u200c\u2060\ufeff]+")
_BLOCK = re.compile(rf"(?is)<({_MARKS})>.*?(?:</\1>|$)")
_GIVE = r"\b(?:read|send|open|fetch|cat|copy|pass(?:ed)?|upload|include|attach|append|repeat|reveal)\b"
_PRIVATE = (
    r"(?:~/\.(?:ssh|aws|cursor|config|gnupg|kube|netrc|npmrc)\b(?![\w./-]*\.pub\b)|/etc/(?:passwd|shadow)\b"
    r"|\byour system prompt\b)"
)
_HINTS = tuple(
    "instruction|prompt|tell|mention|reveal|inform|~/.|/etc/|<|[inst|[system|[admin|other tool|other function|"
    "other server|other api|other plugin|always|must|only use|instead of|before |password|credential|private key|"
    "api key|conversation|regardless|no matter|for every|for any|for all|for each|over ".split("|")
)
"""Without one of these, in lower case, none of the forms below can match."""
_ORDERS = re.compile(
    rf"(?i)</?(?:{_MARKS})>|<\|[a-z_]{{3,20}}\|>|\[/?(?:INST|SYSTEM|ADMIN)\]"
    r"|\b(?:ignore|disregard|forget|override) (?:all |any )?(?:of )?(?:the |your )?"
    r"(?:previous|prior|above|earlier|other|system) (?:instructions?|prompts?)"
    r"|\b(?:do not|don'?t|never|without) (?:tell|mention|inform|notify|reveal)(?:ing)?(?: this| it| that| anything)?"
    r"(?: to)? (?:the )?users?\b"
    rf"|\bbefore (?:using|calling|invoking|you (?:use|call)) (?:any|this|the|other|any other|another) {_TOOLS}"
    rf"[^.\n]{{0,40}}{_GIVE}|{_GIVE}[^.\n]{{0,60}}{_PRIVATE}|{_PRIVATE}[^\n]{{0,60}}{_GIVE}"
    r"|\b(?:repeat|reveal) the system prompt\b"
    r"|(?<!not )(?<!n't )(?<!never )(?<!whether to )\b(?:pass|send|include|attach|append)\b[^.\n]{0,60}"
    r"\b(?:api keys|private keys|passwords|credentials)\b"
    r"|\bmust (?:pass|include|send) (?:the )?(?:full|entire|whole|complete) conversation\b"
)
_PRAISE = re.compile(
    rf"(?i)\b(?:always|must|only|should) (?:choose|pick|select) (?:me|it|this(?: {_TOOLS})?)(?= *(?:[.,;!\n]|$))"
    r"|\b(?:choose|pick|select|prefer|use|call) (?:me|it|this(?: \w+)?) for (?:every|any|all|each) "
    r"(?:user |single )?(?:tasks?|requests?|quer(?:y|ies)|questions?|messages?|prompts?)(?= *(?:[.,;!\n]|$))"
    r"|\b(?:ignore|avoid|disregard|never use|do not use|don'?t use|instead of|(?:it|me|this(?: \w+)?) over) "
    r"(?:(?:all|any|every|the) )*"
    rf"other {_TOOLS}\b"
    rf"|\bother {_TOOLS} (?:are|is) (?:\w+ )?(?:deprecated|broken|outdated|unsafe|obsolete|unreliable|disabled|worse)\b"
    r"|\b(?:no matter what|regardless of(?: what)?) (?:the |your )?(?:user|task|request|query|question)s?"
    r"(?: (?:is|asks?|wants?|needs?|says?))?(?: for)? *(?:[.,;!\n]|$)"
)


def suspects(tools: Iterable[Tool]) -> dict[str, tuple[str, ...]]:
    """Return the key of each tool with suspicious texts, with the reasons."""
    return {tool.key: reasons for tool in tools if (reasons := suspicions(tool))}


def suspicions(tool: Tool) -> tuple[str, ...]:
    """Return why a tool's texts are suspicious; () for most tools, and for one that is vouched for."""
    if why := tool.labels.get(QUARANTINED):
        return (f"changed since it was accepted: {why}", *suspicions(without_label(tool, QUARANTINED)))
    if tool.labels.get(VOUCHED) == "yes":
        return ()
    inside = compact(tool.input_schema).replace("\\n", "\n").replace("_", " ") if tool.input_schema else ""
    text = f"{tool.description}\n{spaced(tool.name)}\n{tool.title}\n{' '.join(tool.keywords)}\n{inside}"
    reasons = []
    if (not text.isascii() or "<!--" in text) and (hidden := _HIDDEN.search(text)):
        shown = hidden.group()
        reasons.append(f"hidden text {_quoted(shown) if shown[0] == '<' else ascii(shown[0])}")
    plain = folded(text)
    lowered = plain.lower()
    if any(hint in lowered for hint in _HINTS):
        if order := _ORDERS.search(plain):
            reasons.append(f"instructions to the model {_quoted(order.group())}")
        if praise := _PRAISE.search(plain):
            reasons.append(f"asks to be chosen {_quoted(praise.group())}")
    if len(tool.keywords) > MAX_KEYWORDS:
        reasons.append(f"stuffed with {len(tool.keywords)} keywords")
    elif _is_stuffed(tool.description):
        reasons.append("stuffed with keywords")
    return tuple(reasons)


def without_label(tool: Tool, *names: str) -> Tool:
    """Return the tool without these labels."""
    return replace(tool, labels={name: value for name, value in tool.labels.items() if name not in names}, hash="")


def folded(text: str) -> str:
    """Return the text without accents and invisible characters, in plain compatibility forms."""
    if text.isascii():
        return text
    return "".join(
        char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) not in ("Mn", "Cf")
    )


def _is_stuffed(text: str) -> bool:
    """Return whether a long text is hardly more than one word over and over, or a list of words without sentences."""
    words = text.lower().replace(",", " ").split() if len(text) >= 4 * LONG else []
    if len(words) < LONG:
        return False
    counts = Counter(word for word in words if word not in STOP_WORDS and not word.isdigit() and len(word) > 2)
    if max(counts.values(), default=0) > REPEATED * len(words):
        return True
    running = sum(word in STOP_WORDS for word in words) / len(words)
    return text.isascii() and running < RUNNING and text.count(". ") + text.count("\n") < len(words) / 40


def _quoted(text: str) -> str:
    line = " ".join(_INVISIBLE.sub("", text).split())
    return repr(line if len(line) <= 60 else line[:59] + "…")


def cleaned(tool: Tool) -> Tool:
    """Return the tool without what is suspicious in it, for searching and for a model to read. The hash stays."""
    keywords = tool.keywords if len(tool.keywords) <= MAX_KEYWORDS else ()
    description = "" if _is_stuffed(tool.description) else _clean(tool.description)
    texts = {"title": _clean(tool.title), "description": description, "keywords": keywords}
    return altered(tool, **texts, input_schema=_in_schema(tool.input_schema))


def _clean(text: str) -> str:
    plain = _BLOCK.sub(" ", _INVISIBLE.sub("", _HIDDEN.sub(" ", text)))
    kept = [part for part in SENTENCE_END.split(plain) if not _speaks(part)]
    return text if "\n".join(kept) == text else " ".join(" ".join(kept).split())


def _speaks(text: str) -> bool:
    """Return whether a text speaks to the model or to the ranking."""
    plain = folded(text)
    return bool(_ORDERS.search(plain) or _PRAISE.search(plain))


def _in_schema(value: Any) -> Any:
    """Return a schema without what is suspicious in its descriptions, titles, defaults and listed values."""
    if isinstance(value, list):
        return [_in_schema(item) for item in value if not (isinstance(item, str) and _speaks(item))]
    if not isinstance(value, dict):
        return value
    return {
        name: _clean(item) if name in ("description", "title") and isinstance(item, str) else _in_schema(item)
        for name, item in value.items()
        if not (name in ("default", "const") and isinstance(item, str) and _speaks(item))
    }
