"""Parts: a task of several parts gets tools for each of them, and not ten for the one that says most."""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import shorten

import numpy as np

from orchestrator.index.calibration import supported
from orchestrator.pipeline.fusion import PART
from orchestrator.pipeline.legs.always import always_for
from orchestrator.pipeline.scoring import Chances
from orchestrator.pipeline.select import kept_of
from orchestrator.pipeline.state import Found, Ranking, Task

SURE_OF_PART = 0.5
"""A part of the task recommends a tool of its own when that tool is more likely right than not."""
WORTH_NOTING = 0.1
"""The least chance for a part with which a tool that moved up for it gets a note."""


def cover_clauses(task: Task, found: Found, ranking: Ranking) -> Ranking:
    """Order the tools so that each part has its own among the first; note which moved up, and what each part finds.

    The best tool of each named server and what is settled, else the best of all, stays ahead. A coverage set keeps its
    order, as does one by reciprocal ranks.
    """
    if found.candidates is None or not found.candidates.clauses or not ranking.order:
        return ranking
    ranking = replace(
        ranking,
        parts=tuple(part.text for part in task.understood.said),
        for_parts=_for_parts(task, found, ranking),
        best_of_parts=(*ranking.best_of_parts, *_sure_of(task, found)),
    )
    if ranking.by_rank or len(found.candidates.clauses) < 2:
        return ranking
    rivals = {**ranking.scores, **{position: ranking.own[position] for position in ranking.lifted}}
    ahead = [p for p in ranking.order if p in ranking.leading or rivals[p] == 1.0] or list(ranking.order[:1])
    others = sorted((p for p in ranking.order if p not in ahead), key=lambda p: -rivals[p])
    by_score = [*ahead, *others]
    chances = found.candidates.of_parts(np.array(by_score))
    places = in_turn([rivals[p] for p in by_score], chances, ahead=len(ahead), most=task.most)
    order = tuple(by_score[place] for place in places)
    return replace(ranking, order=order, notes=ranking.noted(_moved(task, ranking, by_score, order, chances)))


def in_turn(scores: Sequence[float], chances: Chances, *, ahead: int, most: int) -> list[int]:
    """Return the places of `scores`, which are best first, in their new order.

    The first `ahead` stay; then up to `most` in turn the tool with the most score and the most for what no tool ahead
    serves; the others follow as they were. chances: [parts, places].
    """
    left = np.array(scores)
    left[:ahead] = -np.inf
    order, unserved = list(range(ahead)), np.prod(1 - chances[:, :ahead], axis=1)
    for _ in range(min(most, len(scores)) - ahead):
        place = int(np.argmax(left + PART * (unserved @ chances)))
        order.append(place)
        unserved *= 1 - chances[:, place]
        left[place] = -np.inf
    return [*order, *np.flatnonzero(np.isfinite(left)).tolist()]


def _moved(
    task: Task, ranking: Ranking, by_score: Sequence[int], order: Sequence[int], chances: Chances
) -> dict[int, str]:
    """Return a note for each tool that stands higher than the whole task would set it."""
    by_whole = sorted(by_score, key=lambda p: -ranking.whole.get(p, ranking.scores[p]))
    before, now = ({p: place for place, p in enumerate(some)} for some in (by_whole, order))
    best, surest = chances.argmax(axis=0).tolist(), chances.max(axis=0).tolist()
    said = [shorten(part.text, 60, placeholder="…") for part in task.understood.parts]
    return {
        position: f'moved up for "{said[best[place]]}"'
        for place, position in enumerate(by_score)
        if now[position] < before[position] and surest[place] >= WORTH_NOTING
    }


def _sure_of(task: Task, found: Found) -> list[str]:
    """Return the best tools of the parts that are surer of theirs than not, the surest first."""
    sure: dict[int, float] = {}
    for part in found.candidates.clauses if found.candidates else ():
        if len(part.chosen):
            best = int(np.argmax(part.chances))
            tool, own = int(part.chosen[best]), float(supported(np.array(part.sure), part.support[best]))
            sure[tool] = max(own, sure.get(tool, 0.0))
    best_first = sorted((p for p in sure if sure[p] >= SURE_OF_PART), key=lambda p: -sure[p])
    return [task.index.catalogue.tools[position].key for position in best_first]


def _for_parts(task: Task, found: Found, ranking: Ranking) -> dict[int, tuple[float, ...]]:
    """Return each tool's chance to be right for each part alone, at least that of a capability the part asks for."""
    if found.candidates is None:
        return {}
    positions, said = list(ranking.order), task.understood.said
    kept = kept_of(task.index.catalogue.tools, positions)
    chances = (found.candidates.of_parts(np.array(positions), with_server_prior=not ranking.by_rank) * kept).round(4)[
        : len(said)
    ]
    for own, part in zip(chances, said, strict=True):
        for position, least in always_for(task, found, part.text).items():
            own[positions.index(position)] = max(least, own[positions.index(position)])
    return dict(zip(positions, map(tuple, chances.T.tolist()), strict=True))
