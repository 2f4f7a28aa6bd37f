"""The presets: pipelines by name. `default` has the best measured results. The others implement published designs.

Each design orders the tools by its own lists. Each tool keeps its calibrated probability, so that the probability means
the same in every preset. Every design also applies the request's filters and context, named and excluded servers, and
the handling of flagged tools.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

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
from orchestrator.pipeline.refiners.decide import decide
from orchestrator.pipeline.refiners.ordering import append_flagged, cover_clauses, note_deprecated, spread_duplicates
from orchestrator.pipeline.refiners.raising import floor_always, lift_named, related, together
from orchestrator.pipeline.select import maintenance
from orchestrator.pipeline.state import State, best_first
from orchestrator.records.tool import Tool


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
    begins = [word for word in split_words(tool.description) if word not in STOP_WORDS][:FIRST_WORDS]
    return [list(dict.fromkeys(terms(f"{tool.server} {spaced(tool.server)} {spaced(tool.name)} {' '.join(begins)}")))]


def by_source(lists: Mapping[str, Scores]) -> Scores:
    """Return .6 times the greater plus .4 times the lesser confidence of a tool that both searches found, or its only
    one.

    The confidence of a search is its score as a share of its best score.
    """
    shares = [{place: own / max(found.values()) for place, own in found.items()} for found in lists.values() if found]
    both = {place: [own[place] for own in shares if place in own] for found in shares for place in found}
    return best_first(
        {place: 0.6 * max(own) + 0.4 * min(own) if len(own) > 1 else own[0] for place, own in both.items()}
    )


def weighted(**weights: float) -> Merge:
    """Return the weighted sum of the lists, each scaled to its own best."""

    def merge(lists: Mapping[str, Scores]) -> Scores:
        merged: dict[int, float] = {}
        for name, weight in weights.items():
            own = lists.get(name, {})
            best = max(own.values(), default=0.0) or 1.0
            for place, score in own.items():
                merged[place] = merged.get(place, 0.0) + weight * score / best
        return best_first(merged)

    return merge


SHARE = 0.6
"""koi: the maximum share of one server in the matches while tools of other servers wait."""


def diversify(state: State) -> State:
    """Move tools of a server that has reached its share behind other tools. Otherwise the order is unchanged."""
    tools, most = state.task.index.catalogue.tools, max(1, int(SHARE * state.task.most))
    taken = Counter[str]()
    first, later = list[int](), list[int]()
    for position in state.order:
        server = tools[position].server
        taken[server] += 1
        (first if taken[server] <= most else later).append(position)
    return state.reordered((*first, *later))


GRAPH, RELEVANCE, GRAPH_POOL = 0.6, 0.4, 30
"""toolpilot: the published weights, and the number of candidates that are reordered."""


def graph_rerank(state: State) -> State:
    """Order the best candidates by .6 graph + .4 relevance, or by maintenance if both searches found nothing.

    Relevance is the probability as a share of the best. The graph's part is the mean of two shares: the weight of a
    tool's edges to other candidates, multiplied by the relevance of both, and the relevance of the candidates of its
    server.
    """
    index = state.task.index
    if not any(state.lists.values()):
        return state.reordered(sorted(state.scores, key=lambda place: -maintenance(index.catalogue.tools[place])))
    pool = state.order[:GRAPH_POOL]
    best = max((state.scores[place] for place in pool), default=0.0) or 1.0
    relevance = {place: state.scores[place] / best for place in pool}
    linked = dict.fromkeys(pool, 0.0)
    for place in pool:
        for edge in index.graph.edges(place):
            other = index.catalogue.positions[edge.to]
            if other in linked:
                strength = edge.weight * relevance[other] * relevance[place]
                linked[place] += strength
                linked[other] += strength
    dense: dict[str, float] = {}
    for place in pool:
        server = index.catalogue.tools[place].server
        dense[server] = dense.get(server, 0.0) + relevance[place]
    most, densest = max(linked.values(), default=0.0) or 1.0, max(dense.values(), default=0.0) or 1.0
    worth = {
        place: GRAPH * (linked[place] / most + dense[index.catalogue.tools[place].server] / densest) / 2
        + RELEVANCE * relevance[place]
        for place in pool
    }
    return state.reordered(sorted(pool, key=lambda place: -worth[place]))


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


PRESETS: Mapping[str, Pipeline] = {
    own.name: own
    for own in (
        Pipeline(
            name="default",
            first=(always, explicit, filters, keyword, experience),
            gate=gate,
            fallback=(semantic, experience),
            fusion=fuse,
            refiners=(
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
        ),
        Pipeline(
            name="coderag",
            first=(explicit, filters, keyword, by_words(name_and_text, weights=(1.5, 2.0), k1=1.5, b=0.75, times=2)),
            gate=never,
            fallback=(semantic, by_vectors(times=2)),
            fusion=ranked_by(rrf(k=60)),
            refiners=(decide(top=10, how="model"), append_flagged),
        ),
        Pipeline(
            name="fabric",
            first=(always, explicit, filters, keyword, by_words(keyword_set, k1=1.5, b=0.75, pool=10)),
            gate=gate,
            fallback=(semantic, by_vectors(pool=10)),
            fusion=ranked_by(by_source),
            refiners=(lift_named, floor_always, decide(), append_flagged),
        ),
        Pipeline(
            name="koi",
            first=(explicit, filters, keyword, by_words(with_former_names, k1=1.5, b=0.75)),
            gate=never,
            fallback=(semantic, by_vectors(), by_entities),
            fusion=ranked_by(weighted(vectors=0.6, graph=0.2, bm25=0.2, named=0.15)),
            refiners=(diversify, decide(), append_flagged),
        ),
        Pipeline(
            name="prismgate",
            first=(explicit, filters, keyword, by_words(name_then_text, weights=(2.0, 1.0), k1=1.2, b=0.75, pool=30)),
            gate=never,
            fallback=(semantic, by_vectors(pool=30)),
            fusion=ranked_by(rrf(k=60)),
            refiners=(decide(), append_flagged),
        ),
        Pipeline(
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
        ),
    )
}
"""Every preset by its name, `default` first."""
