"""Lift: how far the past tasks that are like a new one move the log-odds of its candidates.

A near task speaks only of what routing got wrong there: a tool that it used counts by the chance that routing did not
give it, one that it passed over by the chance that routing did give it. Where routing was right already nothing moves.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.calibration import log_odds
from orchestrator.records.outcome import Recalled

FEATURES = ("used", "passed", "passed_unproven", "found_low")
"""Of each candidate. `used` and `passed`: what routing missed there, by those tasks where it was about as sure of the
tool as it is now; `passed_unproven`: the second again for a tool that no task ever used; `found_low`: what it missed
in any of them, the more the lower the tool stands now."""
CONFIDENCE = ("lift", "lead", "changed", "known")
"""How far the best tool was moved, and its lead; whether another one is best now; and how much near tasks weigh."""
LEAST = 0.002
"""The chance of a tool that routing did not find, and the least of any."""
MOST = 1 - 1e-4
"""The greatest chance whose log-odds are told apart."""
SPARSE = 0.02
"""The weight of near tasks at which they count half."""
ALIKE_USED, ALIKE_PASSED = 4.0, 2.0
"""How far a tool's log-odds may differ from those of a near task until it says a third of it here."""
LOW = -1.0
"""The log-odds below which a tool stands low."""
CLAIMED, SAME = 0.2, 0.98
"""The chance from which the best tool by routing is a claim, and the cosine from which a near task overrules it though
no task ever used that tool. Of tasks for such tools the first one was else lost in 1 to 10 of 100."""
OVERRULING, AS_SURE = 3, 1.0
"""The near tasks, of two people at least, that overrule a tool which no task ever used: routing's log-odds of it were
there within AS_SURE of what they are now, and all used something else."""
SHOWN = 5
"""The first places, where tools that no task ever used do not fall for having been passed over, and stay as far as
others make room. Kept at all costs, all other tasks would gain an eighth less; not kept, theirs lose .02 recall@5."""
FIRST = 3
"""The first places, into which no single person's tasks bring a tool."""

BEHIND = 1e-6
"""How far log-odds of a tool are lowered behind another's: less may be lost where they become a chance."""

Values = NDArray[np.float64]
"""Shape [candidates]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftMap:
    """The fitted weights of FEATURES and of CONFIDENCE."""

    weights: Values
    confidence: Values


@cache
def shipped() -> LiftMap:
    """Return the map that comes with the package, fitted by `python -m research.experience`."""
    record = json.loads((files("orchestrator") / "data" / "experience.json").read_bytes())
    weights = [np.array([record[part][name] for name in names]) for part, names in _PARTS.items()]
    return LiftMap(weights=weights[0], confidence=weights[1])


_PARTS = {"weights": FEATURES, "confidence": CONFIDENCE}


@dataclass(frozen=True, slots=True)
class Lifted:
    """Candidates after the near tasks were heard: their chances, how far their log-odds moved, and the confidence's."""

    chances: Values
    shifts: Values
    confidence: float


def lift(chances: Values, keys: Sequence[str], recalled: Recalled, fitted: LiftMap) -> Lifted:
    """Return what becomes of the candidates with these chances by routing alone, best first, and keys.

    Where no task ever used the best of them, only a task that is nearly the same, or several people who all passed it
    over, set another before it. Where several people's tasks count, what one of them alone says brings no tool into the
    first three, nor takes any away.
    """
    before = np.asarray(log_odds(np.maximum(chances, LEAST)))
    after = before + features(before, keys, recalled) @ fitted.weights
    spared = _spared(before, keys, recalled)
    _keep(after, before, keys, recalled, spared)
    _hold(after, before, keys, recalled, spared)
    now = np.where(after != before, 1 / (1 + np.exp(-after)), chances)
    return Lifted(now, after - before, float(_of_best(before, after, recalled) @ fitted.confidence))


def features(odds: Values, keys: Sequence[str], recalled: Recalled) -> NDArray[np.float64]:
    """Return FEATURES [candidates, features] of the candidates with these log-odds by routing alone.

    A tool that routing had not found for a task that used it counts from the second such task on: most wrong Outcomes
    name such a tool.
    """
    place, stood = {key: number for number, key in enumerate(keys)}, odds.tolist()
    missed, alike, against = [0.0] * len(keys), [0.0] * len(keys), dict[str, list[float]]()
    times = Counter([key for task in recalled.tasks for key in task.used])
    for task in recalled.tasks:
        said = against.setdefault(task.actor if recalled.shared else "", [0.0] * len(keys))
        for key, chance in task.used.items():
            if (at := place.get(key)) is not None and (chance or times[key] > 1):
                own = task.weight * (1 - chance)
                missed[at] += own
                alike[at] += own * exp(-abs(stood[at] - _odds(chance)) / ALIKE_USED)
        for key, chance in task.passed.items():
            if (at := place.get(key)) is not None:
                said[at] += task.weight * chance * exp(-abs(stood[at] - _odds(chance)) / ALIKE_PASSED)
    weight = sum(task.weight for task in recalled.tasks) + SPARSE
    passed = -_agreed(np.array([*against.values()]), shared=recalled.shared)
    unproven = np.array([key not in recalled.proven for key in keys])
    low = np.sqrt(np.array(missed) * weight) * np.maximum(0.0, LOW - odds)
    return np.stack([np.array(alike), passed, passed * unproven, low], axis=1) / weight


def _odds(chance: float) -> float:
    """Return the log-odds of one chance, as `log_odds` does of many in 20 times the time."""
    held = min(max(chance, LEAST), MOST)
    return log(held / (1 - held))


def _agreed(said: Values, *, shared: bool) -> Values:
    """Return what people say against each candidate, of each no more than another says too; [people, candidates]."""
    if not shared:
        return np.asarray(said[0])
    return np.asarray(np.minimum(said, np.sort(said, axis=0)[-2] if len(said) > 1 else 0.0).sum(axis=0))


def _alone(recalled: Recalled) -> set[str]:
    """Return the tools that one person's tasks alone used."""
    actors = dict[str, set[str]]()
    for task in recalled.tasks:
        for key in task.used:
            actors.setdefault(key, set()).add(task.actor)
    return {key for key, own in actors.items() if len(own) == 1}


def _spared(before: Values, keys: Sequence[str], recalled: Recalled) -> list[int]:
    """Return the rows of the first SHOWN that no task ever used, and that near tasks do not overrule."""
    if recalled.tasks[0].cosine >= SAME:
        return []
    first = np.argsort(-before, kind="stable")[:SHOWN].tolist()
    return [n for n in first if keys[n] not in recalled.proven and not _is_overruled(keys[n], before[n], recalled)]


def _is_overruled(key: str, stood: float, recalled: Recalled) -> bool:
    """Return whether routing was as sure of a tool for OVERRULING near tasks of several people, who all used others."""
    passed = [
        task.actor
        for task in recalled.tasks
        if task.used and key in task.passed and abs(stood - _odds(task.passed[key])) < AS_SURE
    ]
    return len(passed) >= OVERRULING and len(set(passed)) > 1


def _hold(after: Values, before: Values, keys: Sequence[str], recalled: Recalled, spared: Collection[int]) -> None:
    """Lower in place what may not come first."""
    best, raised = int(np.argmax(before)), after > before
    if before[best] >= _odds(CLAIMED) and best in spared:
        after[raised] = np.minimum(after[raised], after[best] - BEHIND)
    if recalled.shared:
        ranks = np.argsort(np.argsort(-before, kind="stable"), kind="stable")
        theirs = _alone(recalled)
        alone = (ranks >= FIRST) & [key in theirs for key in keys]
        if alone.any() and (~alone).any():
            others = np.sort(after[~alone])[::-1]
            after[alone] = np.minimum(after[alone], others[min(FIRST, len(others)) - 1] - BEHIND)


def _keep(after: Values, before: Values, keys: Sequence[str], recalled: Recalled, spared: Sequence[int]) -> None:
    """Let what rises take, in place, the place of a tool that past tasks know, not of one that is spared."""
    after[[*spared]] = np.maximum(after[[*spared]], before[[*spared]])
    first = np.argsort(-after, kind="stable")[:SHOWN].tolist()
    for tool in spared:
        others = [other for other in first if keys[other] in recalled.proven and after[other] <= before[other]]
        if tool not in first and others:
            after[tool] = after[others[-1]] + BEHIND
            first[first.index(others[-1])] = tool


def _of_best(before: Values, after: Values, recalled: Recalled) -> Values:
    first, now = int(np.argmax(before)), int(np.argmax(after))
    weight = sum(task.weight for task in recalled.tasks)
    return np.array(
        [after[now] - before[now], _lead(after) - _lead(before), float(first != now), weight / (weight + SPARSE)]
    )


def _lead(odds: Values) -> float:
    best, second = np.sort(np.append(odds, _odds(LEAST)))[:-3:-1]
    return float(best - second)
