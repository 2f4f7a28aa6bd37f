"""The peers that routing is compared with: rank-bm25, bm25s, FastMCP and Haystack, each as its authors show it."""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from orchestrator import Tool
from orchestrator.index.text import parameter_text

Ranker = Callable[[str], list[str]]
"""A query to the keys of the best ten tools, best first."""

TOP = 10
_WORD = re.compile(r"[^\W_]+")


def text_of(tool: Tool) -> str:
    """Return the text that the peers index: server, name, description and parameters."""
    return f"{tool.server} {tool.name} {tool.description} {parameter_text(tool.input_schema)}"


def rank_bm25(tools: Sequence[Tool]) -> Ranker:
    """BM25Okapi over lower-case words."""
    from rank_bm25 import BM25Okapi

    model = BM25Okapi([_words(text_of(tool)) for tool in tools])
    keys = [tool.key for tool in tools]

    def rank(query: str) -> list[str]:
        return [keys[i] for i in np.argsort(-model.get_scores(_words(query)), kind="stable")[:TOP]]

    return rank


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def bm25s(tools: Sequence[Tool]) -> tuple[Ranker, Callable[[str], object]]:
    """bm25s with English stop words: the whole, and its bare retrieval of a query that is cut into words already."""
    import bm25s as library

    keys = [tool.key for tool in tools]
    model = library.BM25()
    options: dict[str, Any] = {"show_progress": False, "stopwords": "en"}
    model.index(library.tokenize([text_of(tool) for tool in tools], **options), show_progress=False)
    top = min(TOP, len(keys))
    cut: dict[str, Any] = {}

    def rank(query: str) -> list[str]:
        words = library.tokenize([query], return_ids=False, **options)
        return [keys[i] for i in model.retrieve(words, k=top, show_progress=False).documents[0]]

    def bare(query: str) -> object:
        if query not in cut:
            cut[query] = library.tokenize([query], return_ids=False, **options)
        return model.retrieve(cut[query], k=top, show_progress=False)

    return rank, bare


def fastmcp(tools: Sequence[Tool]) -> Ranker:
    """FastMCP's BM25SearchTransform, asked as its own `search_tools` asks it."""
    from fastmcp.server.transforms.search import BM25SearchTransform
    from fastmcp.tools.base import Tool as FastTool

    # It tells of every name that a client may not like.
    logging.getLogger("mcp").setLevel(logging.ERROR)
    names = {f"{tool.server}__{tool.name}": tool.key for tool in tools}
    known = [
        FastTool(
            name=f"{tool.server}__{tool.name}",
            description=tool.description,
            parameters=tool.input_schema or {"type": "object", "properties": {}},
        )
        for tool in tools
    ]
    transform = BM25SearchTransform(max_results=TOP)

    def rank(query: str) -> list[str]:
        return [names[tool.name] for tool in _finished(transform._search(known, query))]  # noqa: SLF001

    return rank


def haystack(tools: Sequence[Tool]) -> Ranker:
    """Haystack's in-memory store, its BM25 with its own defaults."""
    from haystack import Document
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore()
    store.write_documents([Document(id=tool.key, content=text_of(tool)) for tool in tools])

    def rank(query: str) -> list[str]:
        return [document.id for document in store.bm25_retrieval(query, top_k=TOP)]

    return rank


def _finished(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the search waited for something")
