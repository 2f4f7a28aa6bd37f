"""Safety: texts of a tool that are meant for the model or for the ranking, and the tool without them.

A tool is flagged when a text of it acts on the model. A person can check the form of an act: text that is hidden or
encoded, data from elsewhere for a parameter or an address, or an order that is not quoted. The names of other
servers' tools are no evidence, because a stranger chooses them: a server with tools called `GitHub` and `head_branch`
would flag every tool that mentions these words. Texts that only mention such things (a quoted order, a private path, a
password) are no act: `mentions` names them, and they cost the tool nothing. `python -m research.flags` counts how many
public tools each form flags. The label `reviewed` = `yes`, which `toolroute tools accept` or the author of a file sets,
vouches for a tool. A server cannot set this label, because labels never come from its listing. A flag is a warning.
Approval is the guard.
"""

import base64
import binascii
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any
from urllib.parse import unquote

from orchestrator.index.text import STOP_WORDS, identifiers_spaced, spaced
from orchestrator.records.tool import Tool, altered, remember_suspicions

VOUCHED = "reviewed"
"""The label with the value `yes` that marks a tool as read by a person."""
QUARANTINED = "quarantined"
"""The label with the reason why a changed definition waits for acceptance (`trust.definition_changes`)."""
PINNED = "pinned"
"""The label with the accepted texts of a tool whose changed definition waits, as JSON."""
MAX_KEYWORDS = 40
"""Keywords count like the name. A tool with more of them would be found for almost anything."""
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
_TWO_SCRIPTS = re.compile(
    r"[A-Za-z][\u0370-\u03ff\u0400-\u04ff]+[A-Za-z]|(?<![^\W_])[\u0400-\u04ff][a-z]{2}"
)
_RUN = re.compile(rf"[A-Za-z0-9+/_-]{{{SHORTEST_ENCODED},}}={{0,2}}")
_BLOCK = re.compile(rf"(?is)<({_MARKS})>.*?(?:</\1>|$)")
_OPENING = re.compile(r"<([A-Z][A-Z_-]{3,30})\b[^>\n]{0,60}>")
_CLOSING = re.compile(r"</([A-Z][A-Z_-]{3,30})>")
_TAG = re.compile(rf"(?i)</?(?:{_MARKS})>|<\|[a-z_]{{3,20}}\|>|\[/?(?:INST|SYSTEM)\]")
"""Tags of chat templates and prompts."""
_TAGGED = re.compile(rf"{_OPENING.pattern}([^<]*+)</\1>")
"""A tag in capitals around a text. No public tool has one around several words."""
_GIVE_VERBS = (
    "read",
    "send",
    "open",
    "fetch",
    "cat",
    "copy",
    "pass",
    "upload",
    "include",
    "attach",
    "append",
    "prepend",
    "repeat",
    "reveal",
)
_GIVE = rf"\b(?:{'|'.join(_GIVE_VERBS)}|passed)\b"
_PRIVATE = (
    r"(?:~/\.\w[\w-]*(?![\w./-]*\.pub\b)|/(?:etc|proc)/\w|/home/\w+/\.|(?<![\w/])\.(?:env|ssh|aws)\b"
    r"|\bid_(?:rsa|ed25519)\b(?!\.pub)|\byour system prompt\b)"
)
_VALUES = (
    r"\b(?:api keys|private keys|passwords|credentials|conversation history"
    r"|(?:full|complete) (?:\w+ )?conversation)\b"
)
_GIVES = re.compile(rf"(?i)(?<!\bis )(?<!\bare )(?<!\bto ){_GIVE}")
"""An order to move data. "The path is read on the server: use `manifest` to pass the text" gives none."""
_READS = re.compile(_PRIVATE)
_SECRETS = re.compile(rf"(?i){_VALUES}")
_PRIVATE_PLACE = re.compile(rf"(?i){_PRIVATE}")
_GIVE_PLACE = re.compile(
    rf"(?i)(?<!is )(?<!are )(?<!be )(?<!not )(?<!n't )(?<!never ){_GIVE}[^.\n(]{{0,60}}\Z"
)
_THEN_GIVE = re.compile(rf"(?i)[^\n]{{0,60}}?{_GIVE}")
_GIVE_SECRET = re.compile(rf"(?i)(?<!not )(?<!n't )(?<!never ){_GIVE}[^.\n]{{0,60}}\Z")
_ADDRESS = re.compile(r"(?i)\bto\s*[`'\"]?https?://\S+|(?<![\w.+-])[\w.+-]+@[\w-]+\.\w[\w.]*")
_SEND = re.compile(
    r"(?i)(?<!not )(?<!n't )(?<!never )\b(?:send|upload|include|append|forward|post|add|bcc)\b[^.\n]{0,80}\Z"
)
_LONGEST_ORDER = 88
"""The characters before a place, a secret or an address in which an order about it begins. A pattern that looks for the
order first takes hours for a text that repeats the order's words."""
_NAMED = re.compile(
    r"(?i)(?:\b(?:as|in|into|to|via) (?:the |its |an? )?[`'\"]{0,3}|[`'\"])([a-z_]\w{2,})"
)
_QUOTED = re.compile(r"[\"`“][^\"`“”\n]*+[\"`”]|(?<!\w)['‘][^'‘’\n]*+['’](?!\w)")
"""Quotations. A text only mentions the words in them. Possessive, because a long open quotation must not take long."""
_ORDERS = re.compile(
    r"(?i)(?<!\bthat )(?<!\bwhich )\b(?:ignore|disregard|override) (?:all )?(?:the |your )?"
    r"(?:previous|prior|system) (?:instructions?|prompts?)"
    r"|\b(?:do not|don'?t|never|without) (?:tell|mention|inform|notify|reveal)(?:ing)?(?: this| that)?"
    r"(?: \w+)?(?: to)? (?:the )?users?\b"
    rf"|\bbefore using this tool[^.\n]{{0,40}}{_GIVE}"
    r"|\b(?:repeat|reveal) the system prompt\b"
    r"|\bnever use other tools\b"
)
"""Orders that public attacks give. `docs/decisions/confidence.md` has the counts."""
_ORDER_PARTS = (
    "ignore",
    "disregard",
    "override",
    "user",
    "usingthistool",
    "systemprompt",
    "othertools",
)
"""Every order has one of these parts, without the characters between its words. Few texts do, and looking for a part is
ten times as fast as for an order."""
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_ASCII_BETWEEN_WORDS = {code: None for code in range(128) if _BETWEEN_WORDS.match(chr(code))}
"""The same for a text in ASCII, where a table is ten times as fast as the pattern."""
_OTHER_JOINTS = re.compile(r"[^\w\s'’.,:;!?]+")
"""Signs that a text has in place of blanks, such as the stars of a word in bold."""


def suspects(tools: Iterable[Tool]) -> dict[str, tuple[str, ...]]:
    """Return the key of each tool that acts on the model or the ranking, with the reasons."""
    reasons_by_key = {tool.key: suspicions(tool) for tool in tools}
    return {key: reasons for key, reasons in reasons_by_key.items() if reasons}


def suspicions(tool: Tool) -> tuple[str, ...]:
    """Return the reasons why a tool is flagged. Empty for most tools, and for a reviewed tool."""
    reasons = tool.suspicions
    if reasons is None:
        reasons = _suspicions(tool)
        remember_suspicions(tool, reasons)
    return reasons


def _suspicions(tool: Tool) -> tuple[str, ...]:
    if QUARANTINED in tool.labels:
        change = f"changed since it was accepted: {tool.labels[QUARANTINED]}"
        return change, *suspicions(without_label(tool, QUARANTINED, PINNED))
    if tool.labels.get(VOUCHED) == "yes":
        return ()
    text = "\n\n".join(texts_of(tool))
    reasons = list(dict.fromkeys(_acts(text, _parameters(tool))))
    if len(tool.keywords) > MAX_KEYWORDS:
        reasons.append(f"too many keywords: {len(tool.keywords)}, limit {MAX_KEYWORDS}")
    elif _is_stuffed(tool.description):
        reasons.append("a description that consists of keywords")
    return tuple(reasons)


def without_label(tool: Tool, *names: str) -> Tool:
    """Return the tool without these labels."""
    return replace(
        tool,
        labels={name: value for name, value in tool.labels.items() if name not in names},
        hash="",
    )


def mentions(tool: Tool) -> tuple[str, ...]:
    """Return the phrases that a person should read in context. They have no effect on the tool."""
    if tool.labels.get(VOUCHED) == "yes":
        return ()
    plain = folded("\n".join(texts_of(tool)))
    phrases = [
        _first(_ORDERS, plain),
        _first(_READS, plain),
        _order_about(_SECRETS, _GIVE_SECRET, plain),
    ]
    return tuple(dict.fromkeys(_quoted(phrase) for phrase in phrases if phrase))


def _first(form: re.Pattern[str], text: str) -> str:
    """Return the first match of a form in a text, or ""."""
    match = form.search(text)
    return match.group() if match else ""


def text_suspicions(text: str) -> tuple[str, ...]:
    """Return the reasons why a text of a server acts on the model that reads it, such as the server's instructions."""
    return tuple(dict.fromkeys(_acts(text, frozenset())))


def without_acts(value: Any, parameters: frozenset[str] = frozenset()) -> Any:
    """Return JSON of a server without the sentences, items and names that act on the model, and without hidden text.

    Args:
        value: A text, or JSON such as a schema.
        parameters: The parameters of the tool that it belongs to.
    """

    def acts(text: str) -> bool:
        return next(_acts(text, parameters), None) is not None

    if isinstance(value, str):
        return _without_sentences(value, acts)
    if isinstance(value, list):
        return [
            without_acts(item, parameters)
            for item in value
            if not (isinstance(item, str) and acts(item))
        ]
    if isinstance(value, dict):
        return {
            name: without_acts(item, parameters)
            for name, item in value.items()
            if not acts(spaced(name))
        }
    return value


def texts_of(tool: Tool, *, names: bool = True) -> Iterator[str]:
    """Yield all texts of a tool, and its names, keywords and parameters as words unless `names` is false."""
    named = (spaced(tool.name), " ".join(tool.keywords)) if names else ()
    yield from (tool.description, tool.title, *named)
    remaining: list[Any] = [tool.input_schema]
    while remaining:
        value = remaining.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            remaining += value
        elif isinstance(value, dict):
            remaining += value.values()
            if names:
                yield from map(spaced, value)


def _parameters(tool: Tool) -> frozenset[str]:
    schema = tool.input_schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return frozenset(properties) if isinstance(properties, dict) else frozenset()


def _acts(text: str, parameters: frozenset[str]) -> Iterator[str]:
    """Yield the reasons why a text acts on its reader. A text that only mentions such acts yields nothing."""
    yield from _hidden(text)
    encoded = next(filter(None, map(_decoded, _RUN.findall(text))), "")
    if encoded:
        yield f"encoded text: {_quoted(encoded)}"
    plain = folded(text)
    for order in (_tag(plain), _order(plain)):
        if order:
            yield f"instructions to the model: {_quoted(order)}"
    lowered = plain.lower()
    if not any(part in lowered for part in (*_GIVE_VERBS, "@", "://")):
        return
    for sentence in _sentences(plain):
        has_address = "@" in sentence or "://" in sentence
        sending = _order_about(_ADDRESS, _SEND, sentence) if has_address else ""
        if sending:
            yield f"sends data to an address: {_quoted(sending)}"
            return
        gives = {verb.lower() for verb in _GIVES.findall(sentence)}
        if gives and _collects(sentence, len(gives), parameters):
            yield f"asks for private data: {_quoted(sentence)}"
            return


def _tag(text: str) -> str:
    """Return the first tag of a prompt in a text, or ""."""
    tag = _first(_TAG, text)
    if tag:
        return tag
    for match in _TAGGED.finditer(text):
        if len(match[2].split()) > 1:
            return text[match.start() : match.start(2)]
    return ""


def _order(text: str) -> str:
    """Return the first order of a text that is not quoted, or ""."""
    plain = unquote(text) if "%" in text else text
    unquoted = _QUOTED.sub(_without_words, plain)
    letters = _letters(unquoted.lower())
    if not any(part in letters for part in _ORDER_PARTS):
        return ""
    orders = (_first(_ORDERS, _as_words(sentence)) for sentence in _sentences(unquoted))
    return next(filter(None, orders), "")


def _letters(text: str) -> str:
    """Return a text without the characters between its words."""
    return text.translate(_ASCII_BETWEEN_WORDS) if text.isascii() else _BETWEEN_WORDS.sub("", text)


def _as_words(sentence: str) -> str:
    """Return a sentence with a blank between its words: names, URIs and choices give an order without blanks."""
    return identifiers_spaced(_OTHER_JOINTS.sub(" ", sentence))


def _order_about(objects: re.Pattern[str], order: re.Pattern[str], text: str) -> str:
    """Return the text of the first order that ends with one of these objects, or ""."""
    for about in objects.finditer(text):
        begin = max(0, about.start() - _LONGEST_ORDER)
        match = order.search(text, begin, about.start())
        if match:
            return text[match.start() : about.end()]
    return ""


def _reads_private(sentence: str) -> bool:
    """Return True if a sentence orders to read or pass on a private place, which comes before or after the verb."""
    if _order_about(_PRIVATE_PLACE, _GIVE_PLACE, sentence):
        return True
    places = _PRIVATE_PLACE.finditer(sentence)
    return any(_THEN_GIVE.match(sentence, place.end()) for place in places)


def _without_words(quotation: re.Match[str]) -> str:
    """Return a blank for a quotation of several words, and a single quoted word unchanged."""
    return " " if any(map(str.isspace, quotation.group())) else quotation.group()


def _is_named_by(secret: str, parameters: Collection[str]) -> bool:
    """Return True if a parameter is for such a secret: `api_key` for "API key"."""
    beginnings = [name.lower().replace("_", " ")[:5] for name in parameters]
    return secret.lower().startswith(tuple(beginnings))


def _collects(sentence: str, gives: int, parameters: frozenset[str]) -> bool:
    """Return True if a sentence asks for outside data: into a parameter, or to be read and passed on.

    `gives` is the number of different verbs: "read the first or read the last lines" is one act. Examples of private
    paths for a path parameter do not count.
    """
    named_parameters = parameters.intersection(_NAMED.findall(sentence))
    private = _reads_private(sentence)
    if named_parameters and (gives > 1 or _READS.search(sentence)):
        return private or "file" in sentence
    secret = _first(_SECRETS, sentence)
    if named_parameters and secret:
        return not _is_named_by(secret, named_parameters)
    names = " ".join(parameters).lower()
    takes_path = "path" in names or "file" in names
    return private and (gives > 1 or not takes_path)


def _hidden(text: str) -> Iterator[str]:
    """Yield the parts of a text that a person cannot see or distinguish."""
    comment = _first(_COMMENT, text)
    if comment:
        yield f"hidden text: {_quoted(comment)}"
    for place in islice(_unseen(text), 1):
        yield f"hidden character: {text[place]!a}"
    mixed = "" if text.isascii() else _first(_TWO_SCRIPTS, text)
    if mixed:
        yield f"letters of two scripts in one word: {mixed!a}"


def _unseen(text: str) -> Iterator[int]:
    """Yield the positions of invisible characters next to ASCII text."""
    for match in _NOT_ASCII.finditer(text):
        position, char = match.start(), match.group()
        if char not in _SEEN and unicodedata.category(char) in _UNSEEN:
            beside = text[position - 1 : position] + text[position + 1 : position + 2]
            if any(_is_ascii_or_unseen(neighbour) for neighbour in beside):
                yield position


def _is_ascii_or_unseen(char: str) -> bool:
    return "!" <= char <= "~" or unicodedata.category(char) in _UNSEEN


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
    return [_single_spaced(part) for part in _SENTENCE.split(text)]


_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n\s*\n|\n(?=\s*[-*•<\d])")


def folded(text: str) -> str:
    """Return the text without accents and invisible characters, in plain compatibility forms."""
    if text.isascii():
        return text
    # A pattern that ignores case takes the i without a dot for an i, and `lower` does not.
    return "".join(
        char
        for char in unicodedata.normalize("NFKD", text).replace("ı", "i")
        if unicodedata.category(char) not in ("Mn", "Cf")
    )


def _is_stuffed(text: str) -> bool:
    """Return True if a long text mostly repeats one word, or is a list of words without sentences."""
    # Keywords have three letters and more. So many words in fewer characters are figures and words such as "a".
    if len(text) < 4 * LONG:
        return False
    words = text.lower().replace(",", " ").split()
    if len(words) < LONG:
        return False
    content = [word for word in words if word not in STOP_WORDS]
    keywords = [word for word in content if len(word) > 2 and not word.isdigit()]
    most_frequent = max(Counter(keywords).values(), default=0)
    if most_frequent > REPEATED * len(words):
        return True
    is_running_text = 1 - len(content) / len(words) >= RUNNING
    sentences = text.count(". ") + text.count("\n")
    return text.isascii() and not is_running_text and sentences < len(words) / 40


def _quoted(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return repr(line if len(line) <= 60 else line[:59] + "…")


def cleaned(tool: Tool) -> Tool:
    """Return the tool without suspicious texts, for searching and for a model to read. The hash is unchanged.

    A tool whose changed definition waits has its accepted texts.
    """
    if PINNED in tool.labels:
        tool = _with_accepted_texts(tool)
    parameters = _parameters(tool)
    return altered(
        tool,
        title=without_acts(tool.title, parameters),
        keywords=tool.keywords if len(tool.keywords) <= MAX_KEYWORDS else (),
        description=""
        if _is_stuffed(tool.description)
        else without_acts(tool.description, parameters),
        input_schema=without_acts(tool.input_schema, parameters),
    )


def _with_accepted_texts(tool: Tool) -> Tool:
    texts = json.loads(tool.labels[PINNED])
    labels = {name: value for name, value in tool.labels.items() if name != PINNED}
    return altered(tool, **{**texts, "keywords": tuple(texts["keywords"])}, labels=labels)


def _without_tagged(text: str) -> str:
    """Return the text without its tags in capitals and their content, in one pass."""
    last_closing = {match[1]: match.start() for match in _CLOSING.finditer(text)}
    remaining: list[str] = []
    end = 0
    for opening in _OPENING.finditer(text):
        name = opening[1]
        if opening.start() < end or last_closing.get(name, 0) < opening.end():
            continue
        remaining.append(text[end : opening.start()])
        closing = f"</{name}>"
        end = text.index(closing, opening.end()) + len(closing)
    return " ".join((*remaining, text[end:]))


def _without_sentences(text: str, drops: Callable[[str], bool]) -> str:
    """Return the text without the sentences that `drops` names, and without hidden text."""
    visible = _COMMENT.sub(" ", text)
    visible = _without_tagged(_BLOCK.sub(" ", visible))
    visible = _without_unseen(visible)
    sentences = _SENTENCE.split(visible)
    remaining = [sentence for sentence in sentences if not drops(_single_spaced(sentence))]
    if visible == text and remaining == sentences:
        return text
    return _single_spaced(" ".join(remaining))


def _without_unseen(text: str) -> str:
    unseen = set(_unseen(text))
    if not unseen:
        return text
    return "".join(char for position, char in enumerate(text) if position not in unseen)


def _single_spaced(text: str) -> str:
    return " ".join(text.split())
