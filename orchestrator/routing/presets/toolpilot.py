"""toolpilot: what the context leaves, BM25 and vectors by reciprocal ranks (k 60), reordered by the graph."""

from orchestrator.index.text import spaced, terms
from orchestrator.records.tool import Tool
from orchestrator.routing.lists import by_vectors, by_words, merged_by, rrf
from orchestrator.routing.narrow import narrow
from orchestrator.routing.pipeline import Pipeline, never
from orchestrator.routing.refiners.graph_rerank import graph_rerank
from orchestrator.routing.refiners.standing import append_flagged
from orchestrator.routing.stages.explicit import explicit
from orchestrator.routing.stages.keyword import keyword
from orchestrator.routing.stages.semantic import semantic


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
