"""prismgate: BM25 (k1 1.2, b .75, the name twice) and static vectors, 30 of each, merged by reciprocal ranks (k 60)."""

from orchestrator.index.text import spaced, terms
from orchestrator.pipeline.legs.explicit import explicit
from orchestrator.pipeline.legs.keyword import keyword
from orchestrator.pipeline.legs.lists import by_vectors, by_words, merged_by, rrf
from orchestrator.pipeline.legs.narrow import narrow
from orchestrator.pipeline.legs.semantic import semantic
from orchestrator.pipeline.pipeline import Pipeline, never
from orchestrator.pipeline.refiners.demote import append_flagged
from orchestrator.records.tool import Tool

POOL = 30


def named_twice(tool: Tool) -> list[list[str]]:
    """Return the terms of the name and of the description."""
    return [terms(spaced(tool.name)), terms(tool.description)]


PIPELINE = Pipeline(
    name="prismgate",
    cheap=(explicit, narrow, keyword, by_words(named_twice, weights=(2.0, 1.0), k1=1.2, b=0.75, pool=POOL)),
    gate=never,
    dear=(semantic, by_vectors(pool=POOL)),
    fusion=merged_by(rrf(k=60)),
    refiners=(append_flagged,),
)
