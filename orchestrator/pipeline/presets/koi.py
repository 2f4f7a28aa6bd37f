"""koi: words, vectors and the graph weighed .6, .2 and .2, .15 more for what the task names, no source over 60 %."""

from orchestrator.index.text import spaced, terms
from orchestrator.pipeline.legs.about import classify
from orchestrator.pipeline.legs.explicit import explicit
from orchestrator.pipeline.legs.keyword import keyword
from orchestrator.pipeline.legs.lists import by_graph, by_name, by_vectors, by_words, merged_by, weighted
from orchestrator.pipeline.legs.narrow import narrow
from orchestrator.pipeline.legs.semantic import semantic
from orchestrator.pipeline.pipeline import Pipeline, never
from orchestrator.pipeline.refiners.demote import append_flagged
from orchestrator.pipeline.refiners.diversify import diversify
from orchestrator.records.tool import Tool


def whole(tool: Tool) -> list[list[str]]:
    """Return the terms of server, name, former names and description as one field."""
    former = " ".join(spaced(relation.name) for relation in tool.relations if relation.replaces)
    return [terms(f"{spaced(tool.server)} {spaced(tool.name)} {former} {tool.description}")]


PIPELINE = Pipeline(
    name="koi",
    cheap=(explicit, narrow, classify, keyword, by_words(whole, k1=1.5, b=0.75)),
    gate=never,
    dear=(semantic, by_vectors(), by_graph, by_name),
    fusion=merged_by(weighted(bm25=0.6, vectors=0.2, graph=0.2, named=0.15)),
    refiners=(diversify, append_flagged),
)
