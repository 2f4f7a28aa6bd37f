"""The vectors of texts and tools, by any embedder, and further facts that only a static embedder knows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import InvalidConfig
from orchestrator.index.embedders.embedder import Embedder, Vectors, checked, unit
from orchestrator.index.embedders.endpoint import OpenAIEmbedder
from orchestrator.index.embedders.static import StaticEmbedder
from orchestrator.index.text import FACET_WEIGHTS, card, facets
from orchestrator.records.tool import Tool


def vectors_of(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return one unit row per text. Raises EmbedderUnavailable if the caller's own embedder returns anything else."""
    vectors = embedder.embed(texts)
    if isinstance(embedder, StaticEmbedder | OpenAIEmbedder):
        return vectors
    vectors = checked(np.asarray(vectors, np.float32), len(texts), f"embedder {embedder.id!r}")
    if vectors.shape[1] != embedder.dimension:
        raise InvalidConfig(
            f"embedder {embedder.id!r} returned vectors of length {vectors.shape[1]}, but its dimension is "
            f"{embedder.dimension}: make the two equal"
        )
    return unit(vectors)


def embed_tools(embedder: Embedder, tools: Sequence[Tool]) -> Vectors:
    """Return a row a tool.

    A static model takes its facets one by one, so that a long description does not drown the name.
    """
    if not isinstance(embedder, StaticEmbedder):
        return vectors_of(embedder, [card(tool) for tool in tools])
    facets_of_tools = [facets(tool) for tool in tools]
    texts_by_facet = zip(*facets_of_tools, strict=True)
    total = np.zeros((len(tools), embedder.dimension), np.float32)
    for weight, texts in zip(FACET_WEIGHTS, texts_by_facet, strict=False):
        vectors = embedder.embed(texts)
        total += np.float32(weight) * vectors
    return unit(total)


def no_tool_of(embedder: Embedder) -> NDArray[np.float32] | None:
    """Return the embedding of requests that need no tool [dimension], or None if the embedder has none."""
    return embedder.no_tool if isinstance(embedder, StaticEmbedder) else None


def contrast_of(embedder: Embedder) -> NDArray[np.float32] | None:
    """Return the embedder's contrast matrix [dimension, dimension], or None if it has none."""
    return embedder.contrast if isinstance(embedder, StaticEmbedder) else None


def unfamiliar_to(embedder: Embedder, text: str) -> float | None:
    """Return the share of a text's tokens that the embedder does not know well, 0 to 1. None: it shows no tokens."""
    return embedder.unfamiliar(text) if isinstance(embedder, StaticEmbedder) else None
