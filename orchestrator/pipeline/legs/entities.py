"""Entities: the tools, servers, identifiers, paths and addresses that a task names, by form and by the catalogue."""

import re
from typing import NamedTuple

from orchestrator.index.index import Index
from orchestrator.pipeline.clauses import MAX_CUT
from orchestrator.records.decision import About, Entity

MOST = 20
_TOKEN = re.compile(r"[^\s\"'’`,;()\[\]{}<>?!]+")
_IDENTIFIER = re.compile(r"[^\W_]+(?:[_.-]+[^\W_]+)+|[^\W_]+_|[a-z]+[A-Z]\w*")
_PATH = re.compile(r"(?:[~.]{0,2}/|[A-Za-z]:\\)\S+")
_ADDRESS = re.compile(r"[a-zA-Z][\w+.-]*://\S+")
_QUOTES = ("`", '"')


class _Token(NamedTuple):
    """A word with its place in the text."""

    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def entities(text: str, index: Index) -> About:
    """Return the tools and servers that a text names, each once.

    A tool is named by its key, or by a name with the form of an identifier or alone in quotation marks. A server is
    named by any name that is not an ordinary word, or with "server" or "mcp" after it.
    """
    found_entities: dict[Entity, None] = {}
    end = 0
    tokens = [
        _Token(token.start(), token.group().rstrip(".:"))
        for token in _TOKEN.finditer(text[:MAX_CUT])
    ]
    for number, token in enumerate(tokens):
        if token.start < end or not token.text:
            continue
        entity = _named_by_word(token.text, text[token.start - 1 : token.start], index)
        next_end = token.end
        if entity is None:
            server = _server_at(tokens, number, index)
            if server is not None:
                entity, next_end = server
        if entity is not None:
            found_entities[entity] = None
            end = next_end
    return About(entities=tuple(found_entities)[:MOST])


def _named_by_word(word: str, before: str, index: Index) -> Entity | None:
    """Return the tools and servers that a single word names."""
    if _ADDRESS.fullmatch(word):
        return Entity(text=word, kind="url")
    if word in index.catalogue.positions:
        return Entity(text=word, kind="tool", means=(word,))
    is_identifier = _IDENTIFIER.fullmatch(word) is not None
    if is_identifier or before in _QUOTES:
        positions = index.labelled.get(("name", word))
        if positions is not None:
            keys = [index.keys[position] for position in positions[:MOST].tolist()]
            return Entity(text=word, kind="tool", means=tuple(keys))
    if _PATH.fullmatch(word):
        return Entity(text=word, kind="path")
    if is_identifier and word.lower() not in index.servers.named:
        return Entity(text=word, kind="identifier")
    return None


def _server_at(tokens: list[_Token], start: int, index: Index) -> tuple[Entity, int] | None:
    """Return the server whose name begins here, and the end of the name."""
    servers = index.servers
    words = [token.text.lower() for token in tokens]
    end = servers.end_of_name(words, start)
    if not end:
        return None
    name = servers.alias(words, start, end)
    means = tuple(server for server in servers.named[name] if server in servers.present)
    next_word = words[end] if end < len(words) else ""
    is_ordinary = name in servers.ordinary and next_word not in ("server", "mcp")
    if not means or is_ordinary:
        return None
    return Entity(text=name, kind="server", means=means), tokens[end - 1].end
