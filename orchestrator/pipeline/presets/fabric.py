"""fabric: what is always available, else the named server, else BM25 behind a gate, with vectors below it.

BM25 (k1 1.5, b .75) reads server, split name and the first 20 words; below the gate .6 and .4 weigh words and vectors.
"""

from orchestrator.index.text import spaced, terms
from orchestrator.pipeline.legs.always import always
from orchestrator.pipeline.legs.explicit import explicit
from orchestrator.pipeline.legs.keyword import gate, keyword
from orchestrator.pipeline.legs.lists import by_vectors, by_words, merged_by, weighted
from orchestrator.pipeline.legs.narrow import narrow
from orchestrator.pipeline.legs.semantic import semantic
from orchestrator.pipeline.pipeline import Pipeline
from orchestrator.pipeline.refiners.demote import append_flagged
from orchestrator.pipeline.refiners.floors import floor_always, lift_named
from orchestrator.records.tool import Tool

FIRST_WORDS = 20


def begun(tool: Tool) -> list[list[str]]:
    """Return the terms of server, name and the description's first words."""
    begins = " ".join(tool.description.split()[:FIRST_WORDS])
    return [terms(f"{spaced(tool.server)} {spaced(tool.name)} {begins}")]


PIPELINE = Pipeline(
    name="fabric",
    cheap=(always, explicit, narrow, keyword, by_words(begun, k1=1.5, b=0.75)),
    gate=gate,
    dear=(semantic, by_vectors()),
    fusion=merged_by(weighted(bm25=0.6, vectors=0.4)),
    refiners=(lift_named, floor_always, append_flagged),
)
