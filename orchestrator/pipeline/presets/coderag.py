"""coderag: a question about tools is answered by tools; else names 1.5, summaries 2 and vectors by reciprocal ranks.

Twice as many candidates as are wanted; synonyms; what the best need; reranked by a language model where one is named.
"""

from orchestrator.index.text import spaced, terms
from orchestrator.pipeline.legs.about import about, answered
from orchestrator.pipeline.legs.explicit import explicit
from orchestrator.pipeline.legs.keyword import keyword
from orchestrator.pipeline.legs.lists import by_vectors, by_words, merged_by, rrf
from orchestrator.pipeline.legs.narrow import narrow
from orchestrator.pipeline.legs.semantic import semantic
from orchestrator.pipeline.pipeline import Pipeline, never
from orchestrator.pipeline.refiners.demote import append_flagged
from orchestrator.pipeline.refiners.llm_rerank import llm_rerank
from orchestrator.pipeline.refiners.related import related
from orchestrator.records.tool import Tool


def name(tool: Tool) -> list[list[str]]:
    """Return the terms of server and name."""
    return [terms(f"{spaced(tool.server)} {spaced(tool.name)}")]


def summary(tool: Tool) -> list[list[str]]:
    """Return the terms of the description and the keywords."""
    return [terms(f"{tool.description} {' '.join(tool.keywords)}")]


PIPELINE = Pipeline(
    name="coderag",
    cheap=(
        explicit,
        narrow,
        about,
        keyword,
        by_words(name, called="name", k1=1.5, b=0.75, times=2),
        by_words(summary, called="summary", k1=1.5, b=0.75, times=2),
    ),
    gate=never,
    dear=(semantic, by_vectors(times=2)),
    fusion=answered(merged_by(rrf(k=60, name=1.5, summary=2.0))),
    refiners=(related, llm_rerank(), append_flagged),
)
