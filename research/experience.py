"""Fits `orchestrator/data/experience.json`: `python -m research.experience --data ../shared [--write]`.

Each development set is split into a past, whose tasks are recorded with the tools that they need, and a present, routed
with what was learnt; the weights are fitted on the other sets. Printed: what recall@5, hit@1 and the calibration error
gain, by four ways of learning from the past.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.evaluate.metrics import calibration_error
from orchestrator.experience.lift import CONFIDENCE, FEATURES, LEAST, LiftMap, _of_best, features, lift
from orchestrator.experience.memory import Experience
from orchestrator.index.calibration import log_odds
from orchestrator.pipeline.running import Clock, run_legs
from orchestrator.records.outcome import Outcome, Recalled, Use
from orchestrator.records.request import RouteRequest
from orchestrator.runtime.recording import study
from orchestrator.runtime.router import Router
from research.sources import SETS, queries

PRESENT = 250
"""Queries that are routed with what was learnt, a set and scenario."""
RIDGE = 1e-3
UNUSED_COUNTS = 2.0
"""How much more a task counts whose tools the past never used: at 1 such tasks lost .001 of recall@5 in the mean and up
to .02 on one set, at 3 those that repeat gained .006 less."""
Rows = np.ndarray


@dataclass(frozen=True)
class Scenario:
    """How a set is split: tasks of the past, share of tools that it never uses, share of wrong Outcomes, skew."""

    past: int
    unused: float = 0.0
    wrong: float = 0.0
    skew: bool = False


SCENARIOS = (
    Scenario(20),
    Scenario(50),
    Scenario(200),
    Scenario(1500),
    Scenario(200, unused=0.3),
    Scenario(1500, unused=0.3),
    Scenario(200, wrong=0.2),
    Scenario(1500, wrong=0.2),
    Scenario(500, skew=True),
)


@dataclass(frozen=True)
class Tried:
    """A query as routing alone ranks it. `tools` are the vectors of the candidates."""

    outcome: Outcome
    vector: Rows
    chances: dict[str, float]
    confidence: float
    relevant: frozenset[str]


@dataclass(frozen=True)
class Case:
    """A query of the present: its candidates, best first, and what the past says of each."""

    keys: list[str]
    chances: Rows
    relevant: frozenset[str]
    confidence: float
    recalled: Recalled | None
    rows: Rows
    moved: Rows
    votes: Rows
    new: bool

    @property
    def odds(self) -> Rows:
        return np.asarray(log_odds(np.maximum(self.chances, LEAST)))

    @property
    def right(self) -> Rows:
        return np.array([key in self.relevant for key in self.keys])


async def collect(folder: Path) -> tuple[list[Tried], dict[str, Rows]]:
    """Every labelled query of a set as routing alone ranks it, and the tools' vectors."""
    catalogue, tried = Catalogue.read(folder), []
    async with Router(catalogue) as router:
        await router.route(RouteRequest(query="warm up", tenant="local", route_hint="semantic"))
        index = await router.index("local")
        for query in queries(folder):
            relevant = query.relevant & catalogue.positions.keys()
            if not relevant:
                continue
            task, found = await router.begin(RouteRequest(query=query.text, tenant="local"), Clock())
            found = await run_legs(router.pipeline.cheap, task, found, Clock())
            if not router.pipeline.gate(task, found):
                found = await run_legs(router.pipeline.dear, task, found, Clock())
            ranking = router.pipeline.fusion(task, found)
            used = tuple(Use(tool=key, hash=catalogue.tools[catalogue.positions[key]].hash) for key in relevant)
            outcome, vector = await study(router.pipeline, task, Outcome(id="", query=query.text, used=used))
            if vector is not None:
                chances = {catalogue.tools[place].key: ranking.scores[place] for place in ranking.order}
                tried.append(Tried(outcome, vector, chances, ranking.confidence, relevant))
        keys = [tool.key for tool in catalogue.tools]
        return tried, dict(zip(keys, index.vectors.vectors, strict=True))


def split(tried: list[Tried], how: Scenario, seed: int) -> tuple[list[Tried], list[Tried]]:
    """The past and the present. Of a scenario with unused tools the present needs these alone."""
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(tried)).tolist()
    if how.skew:
        tools = sorted({key for one in tried for key in one.relevant})
        rank = dict(zip(chance.permutation(tools).tolist(), range(1, len(tools) + 1), strict=True))
        order.sort(key=lambda n: chance.exponential() * min(rank[key] for key in tried[n].relevant))
    if how.unused:
        tools = sorted({key for one in tried for key in one.relevant})
        gone = set(chance.permutation(tools)[: int(how.unused * len(tools))].tolist())
        kept = [n for n in order if not tried[n].relevant & gone]
        present = [n for n in order if tried[n].relevant <= gone]
        return [tried[n] for n in kept[: how.past]], [tried[n] for n in present[:PRESENT]]
    most = min(how.past, int(0.7 * len(tried)))
    return [tried[n] for n in order[:most]], [
        tried[n] for n in sorted(order[most:])[:: 1 + (len(order) - most) // PRESENT]
    ]


def wronged(past: list[Tried], share: float, seed: int, hashes: dict[str, str]) -> Iterator[Outcome]:
    """The past's Outcomes, a share of them with another tool: half of these among the offered ones, half any."""
    chance = np.random.default_rng(seed)
    for one in past:
        if chance.random() >= share:
            yield one.outcome
            continue
        near = [offer.tool for offer in one.outcome.offered if offer.tool not in one.relevant]
        tool = str(chance.choice(near if near and chance.random() < 0.5 else sorted(hashes)))
        offered = tuple(offer for offer in one.outcome.offered if offer.tool != tool)
        known = next((offer for offer in one.outcome.offered if offer.tool == tool), None)
        own = known or type(one.outcome.offered[0])(tool=tool, hash=hashes[tool], chance=0.0)
        yield Outcome(
            id="", query=one.outcome.query, used=(Use(tool=tool, hash=hashes[tool]),), offered=(own, *offered)
        )


def cases(tried: list[Tried], vectors: dict[str, Rows], how: Scenario, seed: int) -> list[Case]:
    past, present = split(tried, how, seed)
    hashes = {use.tool: use.hash for one in tried for use in one.outcome.used}
    hashes |= {offer.tool: offer.hash for one in tried for offer in one.outcome.offered}
    outcomes = list(wronged(past, how.wrong, seed, hashes))
    experience = Experience.of(outcomes, np.array([one.vector for one in past]))
    users: dict[str, list[Rows]] = {}
    for outcome, one in zip(outcomes, past, strict=True):
        for use in outcome.used:
            users.setdefault(use.tool, []).append(one.vector)
    means = {key: unit(vectors[key] + np.mean(own, axis=0)) for key, own in users.items()}
    return [_case(one, experience, vectors, means, hashes, users) for one in present]


def _case(
    one: Tried,
    experience: Experience,
    vectors: dict[str, Rows],
    means: dict[str, Rows],
    hashes: dict[str, str],
    users: dict[str, list[Rows]],
) -> Case:
    known = [(key, hashes.get(key, "")) for key in one.chances]
    recalled = experience.recall(one.vector, known, lambda key, digest: True)
    brought = dict.fromkeys(key for task in recalled.tasks for key in task.used) if recalled else {}
    keys = [*one.chances, *(key for key in brought if key not in one.chances)]
    chances = np.array([one.chances.get(key, LEAST) for key in keys])
    odds = np.asarray(log_odds(np.maximum(chances, LEAST)))
    votes = dict.fromkeys(keys, 0.0)
    for task in recalled.tasks if recalled else ():
        for key in task.used:
            votes[key] += max(0.0, task.cosine - 0.3) ** 2
    return Case(
        keys=keys,
        chances=chances,
        relevant=one.relevant,
        confidence=one.confidence,
        recalled=recalled,
        rows=features(odds, keys, recalled) if recalled else np.zeros((len(keys), len(FEATURES))),
        moved=np.array([[one.vector @ (means.get(key, vectors[key]) - vectors[key])] for key in keys]),
        votes=np.array([*votes.values()]),
        new=not any(key in users for key in one.relevant),
    )


def unit(vector: Rows) -> Rows:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def fit(rows: Rows, offset: Rows, target: Rows, weight: Rows) -> Rows:
    """Weights of a logistic regression on top of given log-odds, without a bias; by damped Newton steps."""
    scale, weight = rows.std(axis=0) + 1e-9, weight / weight.sum()
    inputs, solution = rows / scale, np.zeros(rows.shape[1])

    def loss(values: Rows) -> float:
        odds = offset + inputs @ values
        return float((weight * (np.logaddexp(0, odds) - target * odds)).sum() + RIDGE / 2 * values @ values)

    for _ in range(100):
        chance = 1 / (1 + np.exp(-np.clip(offset + inputs @ solution, -30, 30)))
        slope = inputs.T @ (weight * (target - chance)) - RIDGE * solution
        curve = (inputs * (weight * chance * (1 - chance))[:, None]).T @ inputs + RIDGE * np.eye(len(solution))
        step, now, size = np.linalg.solve(curve, slope), loss(solution), 1.0
        while size > 1e-4 and loss(solution + size * step) > now:
            size /= 2
        solution = solution + size * step
        if now - loss(solution) < 1e-9:
            break
    return solution / scale


Gathered = dict[tuple[str, Scenario], list[Case]]


def fit_ranking(gathered: Gathered, sets: list[str], columns: Callable[[Case], Rows]) -> Rows:
    own = [
        (case, (UNUSED_COUNTS if how.unused else 1.0) / len(found))
        for (name, how), found in gathered.items()
        if name in sets
        for case in found
    ]
    return fit(
        np.vstack([columns(case) for case, _ in own]),
        np.concatenate([case.odds for case, _ in own]),
        np.concatenate([case.right for case, _ in own]).astype(float),
        np.concatenate([np.full(len(case.keys), share) for case, share in own]),
    )


def fit_confidence(gathered: Gathered, sets: list[str], weights: Rows) -> Rows:
    rows, offset, target, share = [], [], [], []
    for (name, _), found in gathered.items():
        for case in found if name in sets else ():
            if case.recalled is None or not case.keys or not 0 < case.confidence < 1:
                continue
            after = after_lift(case, LiftMap(weights=weights, confidence=np.zeros(len(CONFIDENCE))))
            rows.append(_of_best(case.odds, after, case.recalled))
            offset.append(float(log_odds(case.confidence)))
            target.append(float(case.right[np.argmax(after)]))
            share.append(1 / len(found))
    return fit(np.array(rows), np.array(offset), np.array(target), np.array(share))


def after_lift(case: Case, fitted: LiftMap) -> Rows:
    """The candidates' log-odds once the past was heard."""
    if case.recalled is None:
        return case.odds
    return np.asarray(log_odds(lift(case.chances, case.keys, case.recalled, fitted).chances, 1e-9))


def gains(found: list[Case], ranked: Callable[[Case], Rows]) -> tuple[float, float]:
    """What recall@5 and hit@1 gain by another ranking."""
    values = []
    for case in (case for case in found if case.keys):
        right = case.right
        before, after = (np.argsort(-odds, kind="stable") for odds in (case.odds, ranked(case)))
        recall = (right[after[:5]].sum() - right[before[:5]].sum()) / len(case.relevant)
        values.append((recall, float(right[after[0]]) - float(right[before[0]])))
    return tuple(np.mean(values, axis=0)) if values else (np.nan, np.nan)


def claimed(case: Case, fitted: LiftMap) -> tuple[float, bool]:
    if case.recalled is None or not 0 < case.confidence < 1:
        return case.confidence, bool(len(case.keys) and case.right[np.argmax(case.odds)])
    added = lift(case.chances, case.keys, case.recalled, fitted).confidence
    odds = float(log_odds(case.confidence)) + added
    return 1 / (1 + np.exp(-odds)), bool(case.right[np.argmax(after_lift(case, fitted))])


def report(gathered: Gathered) -> None:
    """Print each scenario's mean gains over the sets, with weights of the other sets."""
    ways: dict[str, Callable[[Case], Rows]] = {
        "map": lambda case: case.rows,
        "moved": lambda case: case.moved,
        "both": lambda case: np.hstack([case.rows, case.moved]),
    }
    weights = {
        (way, name): fit_ranking(gathered, [other for other in SETS if other != name], columns)
        for way, columns in ways.items()
        for name in SETS
    }
    maps = {}
    for name in SETS:
        own = weights["map", name]
        maps[name] = LiftMap(weights=own, confidence=fit_confidence(gathered, [o for o in SETS if o != name], own))
    for how in SCENARIOS:
        print(how)
        rows: dict[str, list[tuple[float, ...]]] = {}
        for name in SETS:
            found = gathered[name, how]
            rows.setdefault("votes", []).append(gains(found, lambda case: case.chances + 1.5 * case.votes))
            for way, columns in ways.items():
                own = weights[way, name]
                rows.setdefault(way, []).append(gains(found, lambda case: case.odds + columns(case) @ own))  # noqa: B023
            rows.setdefault("shipped", []).append(gains(found, lambda case: after_lift(case, maps[name])))  # noqa: B023
            new = [case for case in found if case.new]
            rows.setdefault("never used", []).append(gains(new, lambda case: after_lift(case, maps[name])))  # noqa: B023
            before = [(case.confidence, bool(len(case.keys) and case.right[np.argmax(case.odds)])) for case in found]
            after = [claimed(case, maps[name]) for case in found]
            rows.setdefault("ece", []).append(tuple(calibration_error(*zip(*x, strict=True)) for x in (before, after)))
        for way, values in rows.items():
            mean = np.nanmean(values, axis=0)
            each = " ".join(f"{one:+.3f}/{other:+.3f}" for one, other in values)
            print(f"  {way:10} {mean[0]:+.4f} {mean[1]:+.4f} | {each}")


def gather(data: Path, seeds: range) -> Gathered:
    gathered: Gathered = {}
    for name in SETS:
        tried, vectors = asyncio.run(collect(data / "bench" / name))
        for how in SCENARIOS:
            gathered[name, how] = [case for seed in seeds for case in cases(tried, vectors, how, seed)]
        print(name, len(tried), flush=True)
    return gathered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--write", type=Path, help="keep the map fitted on all sets in this file")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    gathered = gather(arguments.data, range(arguments.seeds))
    report(gathered)
    weights = fit_ranking(gathered, list(SETS), lambda case: case.rows)
    confidence = fit_confidence(gathered, list(SETS), weights)
    parts = {"weights": (FEATURES, weights), "confidence": (CONFIDENCE, confidence)}
    record = {
        part: dict(zip(names, np.round(values, 4).tolist(), strict=True)) for part, (names, values) in parts.items()
    }
    print(json.dumps(record, indent=1))
    if arguments.write:
        arguments.write.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
