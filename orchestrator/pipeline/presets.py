"""The presets: pipelines by name. `default` has the best measured results. The others implement published designs.

Each design orders the tools by its own lists. Each tool keeps its calibrated probability, so that the probability means
the same in every preset. Every design also applies the request's filters and context, named and excluded servers, and
the handling of flagged tools.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from orchestrator.common.fields import named
from orchestrator.errors import InvalidInput
from orchestrator.index.text import STOP_WORDS, spaced, split_words, terms
from orchestrator.pipeline.fusion import Merge, Scores, fuse, ranked_by, rrf
from orchestrator.pipeline.legs.always import always
from orchestrator.pipeline.legs.experience import calibrate, experience, learnt
from orchestrator.pipeline.legs.explicit import explicit
from orchestrator.pipeline.legs.filters import filters, filters_relaxed
from orchestrator.pipeline.legs.keyword import gate, keyword, never
from orchestrator.pipeline.legs.lists import by_entities, by_vectors, by_words
from orchestrator.pipeline.legs.semantic import semantic
from orchestrator.pipeline.pipeline import Pipeline
from orchestrator.pipeline.refiners.ordering import (
    append_flagged,
    cover_clauses,
    note_deprecated,
    spread_duplicates,
)
from orchestrator.pipeline.refiners.raising import floor_always, lift_named, related, together
from orchestrator.pipeline.refiners.second_stage import decide, read
from orchestrator.pipeline.selection.popularity import maintenance
from orchestrator.pipeline.state import State, best_first
from orchestrator.records.tool import Tool


@named
def preset(name: str) -> Pipeline:
    """Return the pipeline of a preset.

    Args:
        name: `default`, `coderag`, `fabric`, `koi`, `prismgate` or `toolpilot`.

    Raises:
        InvalidInput: No preset has this name.

    Examples:
        >>> from orchestrator import preset
        >>> preset("koi").name
        'koi'
    """
    if name not in PRESETS:
        raise InvalidInput(f"unknown pipeline {name!r}: give one of {', '.join(PRESETS)}")
    return PRESETS[name]


FIRST_WORDS = 20
"""fabric: the number of words of a description, without stop words, that are keywords."""


def keyword_set(tool: Tool) -> Sequence[Sequence[str]]:
    """Return the set of a tool's keywords: server, its parts, split name, and the description's first words."""
    words = [word for word in split_words(tool.description) if word not in STOP_WORDS]
    text = [tool.server, spaced(tool.server), spaced(tool.name), *words[:FIRST_WORDS]]
    return [list(dict.fromkeys(terms(" ".join(text))))]


def by_source(lists: Mapping[str, Scores]) -> Scores:
    """Return .6 times the greater plus .4 times the lesser confidence of a tool that both searches found, or
    its only one.

    The confidence of a search is its score as a share of its best score.
    """
    shares: dict[int, list[float]] = {}
    for scores in lists.values():
        best = max(scores.values(), default=0.0)
        for position, score in scores.items():
            shares.setdefault(position, []).append(score / best)
    # Of a single confidence the greater and the lesser are the same.
    return best_first(
        {position: 0.6 * max(of_tool) + 0.4 * min(of_tool) for position, of_tool in shares.items()}
    )


def weighted(**weights: float) -> Merge:
    """Return the weighted sum of the lists, each scaled to its own best."""

    def merge(lists: Mapping[str, Scores]) -> Scores:
        merged: dict[int, float] = {}
        for name, weight in weights.items():
            scores = lists.get(name, {})
            best = max(scores.values(), default=0.0) or 1.0
            for position, score in scores.items():
                share = weight * score / best
                merged[position] = merged.get(position, 0.0) + share
        return best_first(merged)

    return merge


SHARE = 0.6
"""koi: the maximum share of one server in the matches while tools of other servers wait."""


def diversify(state: State) -> State:
    """Move tools of a server that has reached its share behind other tools. Otherwise the order is unchanged."""
    tools = state.task.index.tools
    most = max(1, int(SHARE * state.task.request.limit))
    taken: Counter[str] = Counter()
    first: list[int] = []
    later: list[int] = []
    for position in state.order:
        server = tools[position].server
        taken[server] += 1
        if taken[server] <= most:
            first.append(position)
        else:
            later.append(position)
    return state.reordered((*first, *later))


GRAPH, RELEVANCE, GRAPH_POOL = 0.6, 0.4, 30
"""toolpilot: the published weights, and the number of candidates that are reordered."""


def graph_rerank(state: State) -> State:
    """Order the best candidates by .6 graph + .4 relevance, or by maintenance if both searches found nothing.

    Relevance is the probability as a share of the best. The graph's part is the mean of two shares. The first one is
    the weight of a tool's edges to other candidates, multiplied by the relevance of both. The second one is the
    relevance of the candidates of its server.
    """
    tools = state.task.index.tools
    if not any(state.lists.values()):
        return state.reordered(
            sorted(state.scores, key=lambda position: -maintenance(tools[position]))
        )
    pool = state.order[:GRAPH_POOL]
    relevance = _shares({position: state.scores[position] for position in pool})
    linked = _shares(_linked(state, relevance))
    by_server: dict[str, float] = {}
    for position in pool:
        server = tools[position].server
        by_server[server] = by_server.get(server, 0.0) + relevance[position]
    dense = _shares(by_server)
    worth = {}
    for position in pool:
        graph = (linked[position] + dense[tools[position].server]) / 2
        worth[position] = GRAPH * graph + RELEVANCE * relevance[position]
    return state.reordered(sorted(pool, key=lambda position: -worth[position]))


Key = TypeVar("Key", int, str)


def _shares(values: Mapping[Key, float]) -> dict[Key, float]:
    """Return each value as a share of the greatest."""
    greatest = max(values.values(), default=0.0) or 1.0
    return {key: value / greatest for key, value in values.items()}


def _linked(state: State, relevance: Mapping[int, float]) -> dict[int, float]:
    """Return the summed weight of each candidate's edges to the others, multiplied by the relevance of both."""
    index = state.task.index
    linked = dict.fromkeys(relevance, 0.0)
    for position in relevance:
        for edge in index.graph.edges(position):
            target = index.catalogue.positions[edge.to]
            if target in linked:
                strength = edge.weight * relevance[target] * relevance[position]
                linked[position] += strength
                linked[target] += strength
    return linked


def name_and_text(tool: Tool) -> Sequence[Sequence[str]]:
    """Return the terms of server and name, and those of description and keywords."""
    return [
        terms(f"{spaced(tool.server)} {spaced(tool.name)}"),
        terms(f"{tool.description} {' '.join(tool.keywords)}"),
    ]


def name_then_text(tool: Tool) -> Sequence[Sequence[str]]:
    """Return the terms of the name, and those of the description."""
    return [terms(spaced(tool.name)), terms(tool.description)]


def with_former_names(tool: Tool) -> Sequence[Sequence[str]]:
    """Return the terms of server, name, former names and description as one field."""
    former = " ".join(spaced(relation.name) for relation in tool.relations if relation.replaces)
    return [terms(f"{spaced(tool.server)} {spaced(tool.name)} {former} {tool.description}")]


def one_field(tool: Tool) -> Sequence[Sequence[str]]:
    """Return the terms of name, description and category as one field."""
    return [terms(f"{spaced(tool.name)} {tool.description} {tool.labels.get('category', '')}")]


_DEFAULT = Pipeline(
    name="default",
    first=(always, explicit, filters, keyword, experience),
    gate=gate,
    fallback=(semantic, experience),
    fusion=fuse,
    refiners=(
        read,
        learnt,
        calibrate,
        together,
        related,
        lift_named,
        floor_always,
        cover_clauses,
        spread_duplicates,
        decide(),
        append_flagged,
        note_deprecated,
    ),
)
_CODERAG = Pipeline(
    name="coderag",
    first=(
        explicit,
        filters,
        keyword,
        by_words(name_and_text, weights=(1.5, 2.0), k1=1.5, b=0.75, times=2),
    ),
    gate=never,
    fallback=(semantic, by_vectors(times=2)),
    fusion=ranked_by(rrf(k=60)),
    refiners=(decide(top=10, how="model"), append_flagged),
)
_FABRIC = Pipeline(
    name="fabric",
    first=(always, explicit, filters, keyword, by_words(keyword_set, k1=1.5, b=0.75, pool=10)),
    gate=gate,
    fallback=(semantic, by_vectors(pool=10)),
    fusion=ranked_by(by_source),
    refiners=(lift_named, floor_always, decide(), append_flagged),
)
_KOI = Pipeline(
    name="koi",
    first=(explicit, filters, keyword, by_words(with_former_names, k1=1.5, b=0.75)),
    gate=never,
    fallback=(semantic, by_vectors(), by_entities),
    fusion=ranked_by(weighted(vectors=0.6, graph=0.2, bm25=0.2, named=0.15)),
    refiners=(diversify, decide(), append_flagged),
)
_PRISMGATE = Pipeline(
    name="prismgate",
    first=(
        explicit,
        filters,
        keyword,
        by_words(name_then_text, weights=(2.0, 1.0), k1=1.2, b=0.75, pool=30),
    ),
    gate=never,
    fallback=(semantic, by_vectors(pool=30)),
    fusion=ranked_by(rrf(k=60)),
    refiners=(decide(), append_flagged),
)
_TOOLPILOT = Pipeline(
    name="toolpilot",
    first=(
        explicit,
        filters_relaxed("deployment", "licence", "license", "category"),
        keyword,
        by_words(one_field, k1=1.5, b=0.75),
    ),
    gate=never,
    fallback=(semantic, by_vectors()),
    fusion=ranked_by(rrf(k=60)),
    refiners=(graph_rerank, decide(), append_flagged),
)
PRESETS: Mapping[str, Pipeline] = {
    pipeline.name: pipeline
    for pipeline in (_DEFAULT, _CODERAG, _FABRIC, _KOI, _PRISMGATE, _TOOLPILOT)
}
"""Every preset by its name, `default` first."""
