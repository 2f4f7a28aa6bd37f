"""prismgate: BM25 (k1 1.2, b .75, the name twice) and static vectors, 30 of each, merged by reciprocal ranks (k 60)."""

from orchestrator.index.text import spaced, terms
from orchestrator.records.tool import Tool
from orchestrator.routing.lists import by_vectors, by_words, merged_by, rrf
from orchestrator.routing.narrow import narrow
from orchestrator.routing.pipeline import Pipeline, never
from orchestrator.routing.refiners.standing import append_flagged
from orchestrator.routing.stages.explicit import explicit
from orchestrator.routing.stages.keyword import keyword
from orchestrator.routing.stages.semantic import semantic

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
