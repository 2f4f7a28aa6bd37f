"""Entities: the tools, servers, identifiers, paths and addresses that a task names, by form and by the catalogue."""

import re

from orchestrator.index.index import Index
from orchestrator.pipeline.clauses import MAX_CUT
from orchestrator.records.about import About, Entity

MOST = 20
_TOKEN = re.compile(r"[^\s\"'’`,;()\[\]{}<>?!]+")
_IDENTIFIER = re.compile(r"[^\W_]+(?:[_.-]+[^\W_]+)+|[^\W_]+_|[a-z]+[A-Z]\w*")
_PATH = re.compile(r"(?:[~.]{0,2}/|[A-Za-z]:\\)\S+")
_ADDRESS = re.compile(r"[a-zA-Z][\w+.-]*://\S+")


def entities(text: str, index: Index) -> About:
    """Return the tools and servers that a text names, each once.

    A tool is named by its key, or by a name with the form of an identifier or alone in quotation marks. A server is
    named by any name that is not an ordinary word, or with "server" or "mcp" after it.
    """
    found: dict[Entity, None] = {}
    past = 0
    tokens = [(token.start(), token.group().rstrip(".:")) for token in _TOKEN.finditer(text[:MAX_CUT])]
    for place, (start, word) in enumerate(tokens):
        if start < past or not word:
            continue
        entity, end = _server_at(tokens, place, index) or (None, 0)
        if (named := _named(word, text[start - 1 : start], index)) or entity is None:
            entity, end = named, start + len(word)
        if entity is not None:
            found[entity] = None
            past = end
    return About(entities=tuple(found)[:MOST])


def _named(word: str, before: str, index: Index) -> Entity | None:
    """Return the tools and servers that a single word names."""
    if _ADDRESS.fullmatch(word):
        return Entity(text=word, kind="url")
    if word in index.catalogue.positions:
        return Entity(text=word, kind="tool", means=(word,))
    is_built = bool(_IDENTIFIER.fullmatch(word))
    if (is_built or before in ("`", '"')) and (places := index.labelled.get(("name", word))) is not None:
        return Entity(text=word, kind="tool", means=tuple(index.catalogue.tools[p].key for p in places[:MOST].tolist()))
    if _PATH.fullmatch(word):
        return Entity(text=word, kind="path")
    return Entity(text=word, kind="identifier") if is_built and word.lower() not in index.servers.named else None


def _server_at(tokens: list[tuple[int, str]], place: int, index: Index) -> tuple[Entity, int] | None:
    """Return the server whose name begins here, and the end of the name."""
    servers, words = index.servers, [word.lower() for _, word in tokens]
    end = servers.end_of_name(words, place)
    name = servers.alias(words, place, end)
    behind = words[end] if end < len(words) else ""
    known = [server for server in servers.named.get(name, ()) if server in servers.present]
    if known and (name not in servers.ordinary or behind in ("server", "mcp")):
        last, said = tokens[end - 1]
        return Entity(text=name, kind="server", means=tuple(known)), last + len(said)
    return None
