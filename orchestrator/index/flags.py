"""Safety: texts of a tool that are meant for the model or for the ranking, and the tool without them.

A tool is flagged when a text of it acts on the model. An act has a form that a person can check: text that is hidden
or encoded, a name that only another server's tool has, data from elsewhere for a parameter or an address, or an order
that is not quoted. Texts that only mention such things (a quoted order, a private path, a password) are no act:
`mentions` names them, and they cost the tool nothing. `python -m research.flags` counts how many public tools each form
flags. The label `reviewed` = `yes`, which `toolroute tools accept` or the author of a file sets, vouches for a tool. A
server cannot set this label, because labels never come from its listing. A flag is a warning. Approval is the guard.
"""

import base64
import binascii
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from orchestrator.index.text import STOP_WORDS, spaced
from orchestrator.records.tool import Tool, altered

VOUCHED = "reviewed"
"""The label with the value `yes` that marks a tool as read by a person."""
QUARANTINED = "quarantined"
"""The label with the reason why a changed definition waits for acceptance (`index.changes`)."""
MAX_KEYWORDS = 40
LONG, REPEATED, RUNNING = 80, 0.2, 0.06
"""The number of words from which a text can be a list of keywords, the share of the most frequent word in such a text,
and the share of stop words below which a long text without sentences is such a list."""

SHORTEST_ENCODED = 24
"""Characters of a base64 or hex run that is decoded. Shorter runs are ids and hashes."""

_MARKS = "important|system|hidden"
_COMMENT = re.compile(r"<!--.*?(?:-->|$)", re.DOTALL)
_UNSEEN = frozenset(("Cf", "Co", "Cn"))
"""Unicode categories of invisible characters: format, private use, unassigned."""
_SEEN = "\t\n\r\u00ad\ufeff"
_NOT_ASCII = re.compile(r"[^\t\n\r -~]")
_TWO_SCRIPTS = re.compile(r"[A-Za-z][\u0370-\u03ff\u0400-\u04ff]+[A-Za-z]|(?<![^\W_])[\u0400-\u04ff][a-z]{2}")
_RUN = re.compile(rf"[A-Za-z0-9+/_-]{{{SHORTEST_ENCODED},}}={{0,2}}")
_BLOCK = re.compile(rf"(?is)<({_MARKS})>.*?(?:</\1>|$)|(?-i:<([A-Z][A-Z_-]{{3,30}})\b[^>\n]{{0,60}}>.*?</\2>)")
_TAG = re.compile(
    rf"(?i)</?(?:{_MARKS})>|<\|[a-z_]{{3,20}}\|>|\[/?(?:INST|SYSTEM)\]"
    r"|(?s:(?-i:<(?P<caps>[A-Z][A-Z_-]{3,30})\b[^>\n]{0,60}>)(?=[^<]*\w\s+\w[^<]*</(?P=caps)>))"
)
"""Tags of chat templates and prompts, and a tag in capitals around a text. No public tool has one."""
_GIVE = r"\b(?:read|send|open|fetch|cat|copy|pass(?:ed)?|upload|include|attach|append|prepend|repeat|reveal)\b"
_PRIVATE = (
    r"(?:~/\.\w[\w-]*(?![\w./-]*\.pub\b)|/(?:etc|proc)/\w|/home/\w+/\.|(?<![\w/])\.(?:env|ssh|aws)\b"
    r"|\bid_(?:rsa|ed25519)\b(?!\.pub)|\byour system prompt\b)"
)
_VALUES = (
    r"\b(?:api keys|private keys|passwords|credentials|conversation history"
    r"|(?:full|complete) (?:\w+ )?conversation)\b"
)
_GIVES, _READS, _SECRETS = re.compile(rf"(?i){_GIVE}"), re.compile(_PRIVATE), re.compile(rf"(?i){_VALUES}")
_READS_PRIVATE = re.compile(
    rf"(?i)(?<!is )(?<!are )(?<!be )(?<!not )(?<!n't )(?<!never ){_GIVE}[^.\n(]{{0,60}}{_PRIVATE}"
    rf"|{_PRIVATE}[^\n]{{0,60}}{_GIVE}"
)
_GIVES_SECRET = re.compile(rf"(?i){_GIVE}[^.\n]{{0,60}}{_VALUES}")
_TO_ADDRESS = re.compile(
    r"(?i)(?<!not )(?<!n't )(?<!never )\b(?:send|upload|include|append|forward|post|add|bcc)\b[^.\n]{0,80}?"
    r"(?:\bto\s*[`'\"]?https?://\S+|\b[\w.+-]+@[\w-]+\.\w[\w.]*)"
)
"""An order to send data to an address in the same text."""
_NAMED = re.compile(r"(?i)(?:\b(?:as|in|into|to|via) (?:the |its |an? )?|(?=[`'\"]))[`'\"]*([a-z_]\w{2,})")
_QUOTED = re.compile(r"[\"`“][^\"`“”\n]*+[\"`”]|(?<!\w)['‘][^'‘’\n]*+['’](?!\w)")
"""Quotations. A text only mentions the words in them. Possessive, because a long open quotation must not take long."""
_ORDERS = re.compile(
    r"(?i)\b(?:ignore|disregard|override) (?:all )?(?:the |your )?(?:previous|prior|system) (?:instructions?|prompts?)"
    r"|\b(?:do not|don'?t|never|without) (?:tell|mention|inform|notify|reveal)(?:ing)?(?: this| that)?"
    r"(?: \w+)?(?: to)? (?:the )?users?\b"
    rf"|\bbefore using this tool[^.\n]{{0,40}}{_GIVE}"
    r"|\b(?:repeat|reveal) the system prompt\b"
    r"|\bnever use other tools\b"
)
"""Orders that public attacks give. `docs/decisions/confidence.md` has the counts."""
_COMPOUND = re.compile(r"(?<![\w./-])[A-Za-z][a-zA-Z0-9]*(?:[_-][A-Za-z0-9]+|(?<=[a-z0-9])[A-Z][a-z]+)+(?![\w/-])")
_SHORTEST_NAME = 6


def suspects(tools: Iterable[Tool], among: Iterable[Tool] = ()) -> dict[str, tuple[str, ...]]:
    """Return the key of each tool that acts on the model or the ranking, with the reasons.

    Args:
        tools: The tools to examine.
        among: All tools of their catalogue. Without these, names of other servers' tools are not looked for.
    """
    servers = servers_by_name(among)
    found = ((tool.key, (*suspicions(tool), *named_elsewhere(tool, names_in(tool), servers))) for tool in tools)
    return {key: reasons for key, reasons in found if reasons}


def suspicions(tool: Tool) -> tuple[str, ...]:
    """Return the reasons why a tool is flagged. Empty for most tools, and for a reviewed tool."""
    if why := tool.labels.get(QUARANTINED):
        return (f"changed since it was accepted: {why}", *suspicions(without_label(tool, QUARANTINED)))
    if tool.labels.get(VOUCHED) == "yes":
        return ()
    text = "\n\n".join(_texts(tool))
    reasons = list(dict.fromkeys(_acts(text, _parameters(tool))))
    if len(tool.keywords) > MAX_KEYWORDS:
        reasons.append(f"too many keywords: {len(tool.keywords)}, limit {MAX_KEYWORDS}")
    elif _is_stuffed(tool.description):
        reasons.append("a description that consists of keywords")
    return tuple(reasons)


def without_label(tool: Tool, *names: str) -> Tool:
    """Return the tool without these labels."""
    return replace(tool, labels={name: value for name, value in tool.labels.items() if name not in names}, hash="")


def mentions(tool: Tool) -> tuple[str, ...]:
    """Return the phrases that a person should read in context. They have no effect on the tool."""
    if tool.labels.get(VOUCHED) == "yes":
        return ()
    plain = folded("\n".join(_texts(tool)))
    found = (form.search(plain) for form in (_ORDERS, _READS, _GIVES_SECRET))
    return tuple(dict.fromkeys(_quoted(match.group()) for match in found if match))


def names_in(tool: Tool) -> frozenset[str]:
    """Return the names of several parts in a tool's texts that could be those of other tools."""
    if tool.labels.get(VOUCHED) == "yes":
        return frozenset()
    own = {*_parameters(tool), tool.name, *(relation.to.partition(":")[2] for relation in tool.relations)}
    found = {name for text in _texts(tool) if not text.isalpha() for name in _COMPOUND.findall(text)}
    return frozenset(name for name in found - own if len(name) >= _SHORTEST_NAME)


def servers_by_name(tools: Iterable[Tool]) -> dict[str, set[str]]:
    """Return the servers that have a tool of each name."""
    servers = defaultdict[str, set[str]](set)
    for tool in tools:
        servers[tool.name].add(tool.server)
    return servers


def foreign_names(tool: Tool, names: Iterable[str], servers: Mapping[str, Collection[str]]) -> list[str]:
    """Return the `names_in` a tool that only other servers have (see `servers_by_name`).

    Args:
        tool: The tool.
        names: The names in its texts.
        servers: The servers by tool name.
    """
    return sorted(name for name in names if name in servers and tool.server not in servers[name])


def named_elsewhere(tool: Tool, names: Iterable[str], servers: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return the reasons to flag a tool whose texts name tools that only other servers have.

    Args:
        tool: The tool.
        names: The names in its texts.
        servers: The servers by tool name.
    """
    found = foreign_names(tool, names, servers)
    return tuple(f"names {name!r}, a tool of {' and '.join(sorted(servers[name])[:3])}" for name in found)


def without(tool: Tool, names: Iterable[str]) -> Tool:
    """Return the tool without the sentences that hold one of these names."""
    held = tuple(names)
    return _rewritten(tool, lambda sentence: any(name in sentence for name in held))


def _texts(tool: Tool) -> Iterator[str]:
    """Yield all texts of a tool, the names of its parameters as words."""
    yield from (tool.description, spaced(tool.name), tool.title, " ".join(tool.keywords))
    left: list[Any] = [tool.input_schema]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            left += value.values()
            yield from (name.replace("_", " ") for name in value)


def _parameters(tool: Tool) -> frozenset[str]:
    own = tool.input_schema.get("properties") if isinstance(tool.input_schema, dict) else None
    return frozenset(own) if isinstance(own, dict) else frozenset()


def _acts(text: str, parameters: frozenset[str]) -> Iterator[str]:
    """Yield the reasons why a text acts on its reader. A text that only mentions such acts yields nothing."""
    yield from _hidden(text)
    if encoded := next((said for run in _RUN.findall(text) if (said := _decoded(run))), ""):
        yield f"encoded text: {_quoted(encoded)}"
    plain = folded(text)
    if ("<" in plain or "[" in plain) and (tag := _TAG.search(plain)):
        yield f"instructions to the model: {_quoted(tag.group())}"
    if order := _ORDERS.search(_QUOTED.sub(_without_words, plain)):
        yield f"instructions to the model: {_quoted(order.group())}"
    for sentence in _sentences(plain):
        if address := _TO_ADDRESS.search(sentence):
            yield f"sends data to an address: {_quoted(address.group())}"
            return
        gives = {verb.lower() for verb in _GIVES.findall(sentence)}
        if gives and _collects(sentence, len(gives), parameters):
            yield f"asks for private data: {_quoted(sentence)}"
            return


def _without_words(quotation: re.Match[str]) -> str:
    """Return a blank for a quotation of several words, and a single quoted word unchanged."""
    return " " if any(map(str.isspace, quotation.group())) else quotation.group()


def _collects(sentence: str, gives: int, parameters: frozenset[str]) -> bool:
    """Return True if a sentence asks for outside data: into a parameter, or to be read and passed on.

    `gives` is the number of different verbs: "read the first or read the last lines" is one act. Examples of private
    paths for a path parameter do not count.
    """
    given = {name for name in _NAMED.findall(sentence) if name in parameters}
    private = _READS_PRIVATE.search(sentence)
    if given and (_READS.search(sentence) or gives > 1):
        return bool(private) or "file" in sentence
    if given and (secret := _SECRETS.search(sentence)):
        return not any(secret.group().lower().startswith(name.lower().replace("_", " ")[:5]) for name in given)
    takes_path = any("path" in name.lower() or "file" in name.lower() for name in parameters)
    return bool(private) and (gives > 1 or not takes_path)


def _hidden(text: str) -> Iterator[str]:
    """Yield the parts of a text that a person cannot see or distinguish."""
    if "<!--" in text and (comment := _COMMENT.search(text)):
        yield f"hidden text: {_quoted(comment.group())}"
    if (place := next(_unseen(text), None)) is not None:
        yield f"hidden character: {text[place]!a}"
    if not text.isascii() and (mixed := _TWO_SCRIPTS.search(text)):
        yield f"letters of two scripts in one word: {mixed.group()!a}"


def _unseen(text: str) -> Iterator[int]:
    """Yield invisible characters beside ASCII text."""
    for match in _NOT_ASCII.finditer(text):
        place, char = match.start(), match.group()
        if char not in _SEEN and unicodedata.category(char) in _UNSEEN:
            beside = text[place - 1 : place] + text[place + 1 : place + 2]
            if any("!" <= other <= "~" or unicodedata.category(other) in _UNSEEN for other in beside):
                yield place


def _decoded(run: str) -> str:
    """Return the sentence that a run of base64 or hex holds, "" for an id, a hash or a picture."""
    decoders: tuple[Callable[[str], bytes], ...] = (bytes.fromhex, _from_base64)
    for decode in decoders:
        try:
            text = decode(run).decode()
        except (ValueError, binascii.Error):
            continue
        if text.isprintable() and " " in text.strip():
            return text
    return ""


def _from_base64(run: str) -> bytes:
    run = run.rstrip("=").translate({ord("-"): "+", ord("_"): "/"})
    return base64.b64decode(run + "=" * (-len(run) % 4), validate=True)


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text, each on one line."""
    return [" ".join(part.split()) for part in _SENTENCE.split(text)]


_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n\s*\n|\n(?=\s*[-*•<\d])")


def folded(text: str) -> str:
    """Return the text without accents and invisible characters, in plain compatibility forms."""
    if text.isascii():
        return text
    return "".join(
        char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) not in ("Mn", "Cf")
    )


def _is_stuffed(text: str) -> bool:
    """Return True if a long text mostly repeats one word, or is a list of words without sentences."""
    words = text.lower().replace(",", " ").split() if len(text) >= 4 * LONG else []
    if len(words) < LONG:
        return False
    counts = Counter(word for word in words if word not in STOP_WORDS and not word.isdigit() and len(word) > 2)
    if max(counts.values(), default=0) > REPEATED * len(words):
        return True
    running = sum(word in STOP_WORDS for word in words) / len(words)
    return text.isascii() and running < RUNNING and text.count(". ") + text.count("\n") < len(words) / 40


def _quoted(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return repr(line if len(line) <= 60 else line[:59] + "…")


def cleaned(tool: Tool) -> Tool:
    """Return the tool without suspicious texts, for searching and for a model to read. The hash is unchanged."""
    parameters = _parameters(tool)
    left = _rewritten(tool, lambda sentence: next(_acts(sentence, parameters), None) is not None)
    keywords = tool.keywords if len(tool.keywords) <= MAX_KEYWORDS else ()
    return altered(left, keywords=keywords, description="" if _is_stuffed(tool.description) else left.description)


def _rewritten(tool: Tool, drops: Callable[[str], bool]) -> Tool:
    """Return the tool with the sentences left out that `drops` names, and without hidden text."""

    def clean(text: str) -> str:
        plain = _BLOCK.sub(" ", _COMMENT.sub(" ", text))
        unseen = set(_unseen(plain))
        plain = "".join(char for place, char in enumerate(plain) if place not in unseen) if unseen else plain
        parts = _SENTENCE.split(plain)
        kept = [part for part in parts if not drops(" ".join(part.split()))]
        return text if plain == text and kept == parts else " ".join(" ".join(kept).split())

    def in_schema(value: Any) -> Any:
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, list):
            return [in_schema(item) for item in value if not (isinstance(item, str) and drops(item))]
        return {name: in_schema(item) for name, item in value.items()} if isinstance(value, dict) else value

    return altered(
        tool, title=clean(tool.title), description=clean(tool.description), input_schema=in_schema(tool.input_schema)
    )
