"""toolpilot: what the context leaves, BM25 and vectors by reciprocal ranks (k 60), reordered by the graph."""

from orchestrator.index.text import spaced, terms
from orchestrator.pipeline.legs.explicit import explicit
from orchestrator.pipeline.legs.keyword import keyword
from orchestrator.pipeline.legs.lists import by_vectors, by_words, merged_by, rrf
from orchestrator.pipeline.legs.narrow import narrow
from orchestrator.pipeline.legs.semantic import semantic
from orchestrator.pipeline.pipeline import Pipeline, never
from orchestrator.pipeline.refiners.demote import append_flagged
from orchestrator.pipeline.refiners.graph_rerank import graph_rerank
from orchestrator.records.tool import Tool


def described(tool: Tool) -> list[list[str]]:
    """Return the terms of name, description and keywords as one field."""
    return [terms(f"{spaced(tool.name)} {tool.description} {' '.join(tool.keywords)}")]


PIPELINE = Pipeline(
    name="toolpilot",
    cheap=(explicit, narrow, keyword, by_words(described, k1=1.5, b=0.75)),
    gate=never,
    dear=(semantic, by_vectors()),
    fusion=merged_by(rrf(k=60)),
    refiners=(graph_rerank, append_flagged),
)
