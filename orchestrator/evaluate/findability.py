"""Findability: which tools their own words do not bring, and which take each other's queries. Needs no labels."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import chain, combinations
from typing import Any

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import EmbedderUnavailable
from orchestrator.evaluate.runner import Query, Stages, answer_all, failures
from orchestrator.index.text import parameter_text, sentences, spaced, terms
from orchestrator.options import Options
from orchestrator.records.tool import Tool
from orchestrator.runtime.router import Router

MOST_TOOLS = 400
"""Tools whose queries are tried; of a larger catalogue as many are drawn, with SEED."""
SEED = 7
WITHIN = 10
"""A query brings a tool that is among its best ten, as `route` answers by default."""
MOST_QUERIES = 6
"""Of one tool."""
_RIVALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfound:
    """A tool that fewer than half of its own queries bring; `instead` are the tools that they put first."""

    tool: str
    queries: int
    brought: int
    instead: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Two tools of which one takes the other's queries, or each some: how many each loses to the other, of how many."""

    tools: tuple[str, str]
    lost: tuple[int, int]
    queries: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findability:
    """What the trials showed. `silent`: tools whose text gives no query at all; `seed` drew the tools, if not all."""

    tools: int
    tried: int
    queries: int
    first: float
    brought: float
    unfound: tuple[Unfound, ...] = ()
    collisions: tuple[Collision, ...] = ()
    silent: tuple[str, ...] = ()
    seed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the findings of `toolroute doctor --catalogue -o json`."""
        return asdict(self)


def made_queries(tool: Tool) -> list[str]:
    """Return what somebody may ask who does not know the tool's name; the same for the same definition.

    The first sentences of its description without the words of its name, then its keywords of several words; name and
    parameters where it says nothing else.
    """
    named = {*terms(tool.name), *terms(tool.server)}
    said = [
        " ".join(word for word in sentence.split() if named.isdisjoint(terms(word)))
        for sentence in sentences(tool.description)
    ]
    found = [text for text in dict.fromkeys([*said, *tool.keywords]) if len(set(terms(text))) > 1]
    rest = f"{spaced(tool.name)} {spaced(parameter_text(tool.input_schema, depth=1))}".strip()
    return found[:MOST_QUERIES] or ([rest] if terms(rest) else [])


async def examine(
    catalogue: Catalogue, options: Options, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> Findability:
    """Return which tools of a catalogue can't be found or collide; EmbedderUnavailable where meaning can't be searched.

    on_progress is called with how many queries are done, of how many.
    """
    drawn = len(catalogue) > MOST_TOOLS
    tools = random.Random(SEED).sample(catalogue.tools, MOST_TOOLS) if drawn else list(catalogue.tools)  # noqa: S311
    queries = [
        Query(id=f"{tool.key} {number}", text=text, relevant=frozenset([tool.key]))
        for tool in tools
        for number, text in enumerate(made_queries(tool))
    ]
    async with Router(catalogue, options=options) as router:
        answers = await answer_all(
            router, queries, stages=Stages.HYBRID, on_progress=lambda done: on_progress(done, len(queries))
        )
    for reason in failures(answers):
        raise EmbedderUnavailable(reason)
    ranked: dict[str, list[list[str]]] = {}
    for answer in answers:
        ranked.setdefault(min(answer.query.relevant), []).append(answer.ranked)
    firsts = {key: Counter(order[0] for order in own if order) for key, own in ranked.items()}
    brought = {key: sum(key in order for order in own) for key, own in ranked.items()}
    asked = max(len(queries), 1)
    return Findability(
        tools=len(catalogue),
        tried=len(tools),
        queries=len(queries),
        first=round(sum(own[key] for key, own in firsts.items()) / asked, 4),
        brought=round(sum(brought.values()) / asked, 4),
        unfound=tuple(
            Unfound(tool=key, queries=len(ranked[key]), brought=brought[key], instead=_rivals(key, firsts[key]))
            for key in sorted(ranked, key=lambda key: brought[key] / len(ranked[key]))
            if 2 * brought[key] < len(ranked[key])
        ),
        collisions=tuple(_collisions(firsts)),
        silent=tuple(tool.key for tool in tools if tool.key not in ranked),
        seed=SEED if drawn else None,
    )


def _rivals(key: str, firsts: Counter[str]) -> tuple[str, ...]:
    return tuple(rival for rival, _ in firsts.most_common() if rival != key)[:_RIVALS]


def _collisions(firsts: dict[str, Counter[str]]) -> list[Collision]:
    """Return the pairs where each loses a query to the other, or one half of its own; those that lose most first."""
    found: dict[Collision, float] = {}
    own = defaultdict(Counter[str], firsts)  # One that was not drawn may take queries, too.
    for one, other in combinations(sorted({*firsts, *chain.from_iterable(firsts.values())}), 2):
        lost, sizes = (own[one][other], own[other][one]), (own[one].total(), own[other].total())
        shares = [part / max(size, 1) for part, size in zip(lost, sizes, strict=True)]
        if all(lost) or max(shares) >= 0.5:
            found[Collision(tools=(one, other), lost=lost, queries=sizes)] = sum(shares)
    return sorted(found, key=found.__getitem__, reverse=True)
