"""Measures the gain from past tasks: `python -m benchmarks.learning --data ../shared [--write
docs/measured/learning.md]`.

Each development set is split into past and present. Past tasks are recorded in order, and after 20, 50, ... of them the
present is routed. It reports recall@5, hit@1, and the calibration error, pooled over all sets. Then the same with a
fifth of the outcomes wrong, and for tasks whose tools the past never used. Last, it measures the cost at 10,000 tasks.
"""

import argparse
import asyncio
import random
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.drawing import chart
from benchmarks.page import write
from orchestrator import (
    Catalogue,
    Embedder,
    Offer,
    Options,
    Outcome,
    Pipeline,
    Router,
    RouteRequest,
    Store,
    Use,
    preset,
)
from orchestrator.evaluate import metrics
from orchestrator.evaluate.runner import Query, read_set
from orchestrator.experience.memory import Experience
from orchestrator.index.embedders.by_name import embedder_for
from research.sources import SETS

STEPS = (0, 20, 50, 200, 500, 1_500)
PRESENT = 200
WRONG, UNUSED = 0.2, 0.3
REMEMBERED, PEOPLE, TOOLS, ADDED = 10_000, 20, 500, 65


@dataclass(frozen=True)
class Step:
    """The present tasks, routed after a number of past tasks: recalls, hits, and probabilities with their results."""

    recall: float
    hit: float
    claims: list[tuple[float, bool]] = field(repr=False)


async def routed(router: Router, present: list[Query]) -> Step:
    recalls, claims = [], []
    for query in present:
        decision = await router.route(RouteRequest(query=query.text, tenant="local"))
        keys = [match.tool.key for match in decision.matches]
        recalls.append(metrics.recall(keys, query.relevant, 5))
        claims.append((decision.confidence, bool(metrics.hit(keys, query.relevant))))
    return Step(float(np.mean(recalls)), float(np.mean([right for _, right in claims])), claims)


async def lived(
    router: Router, past: list[Query], present: list[Query], steps: tuple[int, ...]
) -> dict[int, Step]:
    """Return the results for the present tasks after each of these numbers of past tasks, as far as there are enough.

    Args:
        router: The Router.
        past: The past tasks.
        present: The present tasks.
        steps: The numbers of past tasks.
    """
    found, done = {}, 0
    for step in steps:
        for query in past[done:step]:
            await router.record(query.text, used=sorted(query.relevant))
        done = max(done, min(step, len(past)))
        if step <= len(past) or step == steps[-1]:
            found[step] = await routed(router, present)
    return found


def wronged(past: list[Query], tools: list[str], chance: random.Random) -> list[Query]:
    """A fifth of the tasks with any other tool in place of theirs."""
    picked = [chance.choice(tools) if chance.random() < WRONG else "" for _ in past]
    return [
        replace(query, relevant=frozenset([tool])) if tool else query
        for query, tool in zip(past, picked, strict=True)
    ]


async def measured(folder: Path, pipeline: Pipeline) -> dict[str, dict[int, Step]]:
    """Return the figures of one set by scenario. The present tasks of `unused` need tools that its past never used."""
    catalogue, chance = Catalogue.read(folder), random.Random(7)
    known = catalogue.positions.keys()
    queries = [
        query for query in read_set(folder).queries if query.relevant and query.relevant <= known
    ]
    chance.shuffle(queries)
    cut = max(len(queries) * 3 // 10, len(queries) - STEPS[-1])
    present, past = queries[:cut][:PRESENT], queries[cut:]
    used = sorted({key for query in queries for key in query.relevant})
    gone = frozenset(chance.sample(used, int(UNUSED * len(used))))
    splits = {
        "clean": (past, present, STEPS),
        "wrong": (wronged(past, sorted(known), chance), present, (0, 200, 1_500)),
        "unused": (
            [query for query in queries if not query.relevant & gone],
            [query for query in queries if query.relevant <= gone][:PRESENT],
            (0, 200, 1_500),
        ),
    }
    embedder, found = embedder_for(Options()), {}
    for name, (before, now, steps) in splits.items():
        async with Router(catalogue, embedder=embedder, pipeline=pipeline) as router:
            await router.route(RouteRequest(query="warm up", tenant="local", route_hint="semantic"))  # type: ignore[arg-type]
            found[name] = await lived(router, before, now, steps)
    return found


def tables(figures: dict[str, dict[str, dict[int, Step]]]) -> str:
    lines = [
        "| recall@5 after | "
        + " | ".join(f"{step:,}" for step in STEPS)
        + " | a fifth wrong, at the end |"
    ]
    lines.append("| --- |" + " --- |" * (len(STEPS) + 1))
    for name, own in figures.items():
        row = [f"{own['clean'][step].recall:.3f}" if step in own["clean"] else "" for step in STEPS]
        lines.append(
            f"| {name} | " + " | ".join(row) + f" | {own['wrong'][STEPS[-1]].recall:.3f} |"
        )
    lines += [
        "",
        "| for tools never used before | hit@1 | after 200 | at the end | recall@5 | after 200 | at the end |",
    ]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for name, own in figures.items():
        steps = [own["unused"].get(step) for step in (0, 200, STEPS[-1])]
        shown = [
            f"{getattr(step, part):.3f}" if step else ""
            for part in ("hit", "recall")
            for step in steps
        ]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    lines += [
        "",
        "| pooled over the sets, after | calibration error | right of those at .7 or more | share of these |",
    ]
    lines.append("| --- | --- | --- | --- |")
    for step in STEPS:
        claims = [
            claim
            for own in figures.values()
            if step in own["clean"]
            for claim in own["clean"][step].claims
        ]
        if not claims:  # No set is as large.
            continue
        sure = metrics.confidence(*zip(*claims, strict=True), gate=0.7)
        lines.append(
            f"| {step:,} | {sure['ece']:.3f} | {sure['precision']:.3f} | {sure['resolved']:.2f} |"
        )
    return "\n".join(lines)


def remembered(
    catalogue: Catalogue, embedder: Embedder, texts: list[str]
) -> tuple[list[Outcome], np.ndarray]:
    """Make a number of tasks from these texts in turn, each with ten tools and one of PEOPLE, and their vectors.

    Between a sixth and a half of them are similar to another one, as in real use. Random vectors would hardly be
    similar.

    Args:
        catalogue: The catalogue.
        embedder: The embedder.
        texts: The texts.
    """
    chance = np.random.default_rng(7)
    vectors = embedder.embed(texts)[np.arange(REMEMBERED) % len(texts)]
    tools, outcomes = catalogue.tools, []
    for number in range(REMEMBERED):
        own = [tools[place] for place in chance.choice(len(tools), 10, replace=False)]
        offered = tuple(Offer(tool=tool.key, hash=tool.hash, chance=0.1) for tool in own)
        about = {
            "query": texts[number % len(texts)],
            "actor": f"person {number % PEOPLE}",
            "at": time.time(),
        }
        outcomes.append(
            Outcome(id=str(number), used=(Use(tool=own[0].key),), offered=offered, **about)
        )
    return outcomes, vectors


def adding(outcomes: list[Outcome], vectors: np.ndarray, embedder: Embedder) -> float:
    """Return the CPU milliseconds for adding one outcome to a folder, as the mean over one packing.

    Args:
        outcomes: The outcomes.
        vectors: Their vectors.
        embedder: The embedder.
    """
    with TemporaryDirectory() as folder:
        store = Store(folder, embedder=embedder)
        store.outcomes.add("org:a", outcomes, vectors, 365)
        began = time.process_time()
        for number in range(ADDED):
            store.outcomes.add(
                "org:a", [replace(outcomes[0], id=f"new {number}")], vectors[:1], 365
            )
        return (time.process_time() - began) / ADDED * 1000


async def cost(data: Path) -> str:
    """Return the time of a route with and without 10,000 remembered tasks, and their memory."""
    catalogue = Catalogue(Catalogue.read(data / "bench" / "bfcl").tools[:TOOLS])
    queries = read_set(data / "bench" / "bfcl").queries[:300]
    async with Router(catalogue) as router:
        await router.route(RouteRequest(query="warm up", tenant="local", route_hint="semantic"))  # type: ignore[arg-type]
        texts = [query.text for name in SETS for query in read_set(data / "bench" / name).queries]
        outcomes, vectors = remembered(catalogue, router.embedder, texts)
        experience, added = (
            Experience.of(outcomes, vectors),
            adding(outcomes, vectors, router.embedder),
        )
        router.engine.experience.give("org:a", experience)
        times: dict[str, list[float]] = {"org:a": [], "org:b": []}
        for number, query in enumerate([*queries[:20], *queries]):
            # In turn: who comes second finds what the first has read in the processor's cache.
            for tenant in sorted(times, reverse=number % 2 == 1):
                began = time.process_time()
                await router.route(RouteRequest(query=query.text, tenant=tenant))
                times[tenant].append((time.process_time() - began) * 1000)
    size = experience.vectors.nbytes + sum(
        sys.getsizeof(task)
        + sys.getsizeof(task.query)
        + sys.getsizeof(task.tools)
        + sys.getsizeof(task.chances)
        for task in experience.tasks
    )
    with_it, without = (float(np.median(times[tenant][20:])) for tenant in ("org:a", "org:b"))
    share = with_it / without - 1
    with_tasks = f"{with_it:.2f} ms of CPU with {REMEMBERED:,} remembered tasks"
    times_shown = f"{with_tasks} and {without:.2f} ms without: {share:+.0%}"
    return (
        f"At {TOOLS} tools a route takes {times_shown}. They take {size / 1e6:.0f} MB. One more of them takes a folder "
        f"{added:.0f} ms of computing, in the mean of {ADDED}."
    )


def draw(figures: dict[str, dict[str, dict[int, Step]]], file: Path) -> None:
    with chart(file, xlabel="past tasks", ylabel="recall@5 gained", xscale="symlog") as axes:
        for name, own in figures.items():
            steps = sorted(own["clean"])
            start = own["clean"][0].recall
            axes.plot(
                steps, [own["clean"][step].recall - start for step in steps], marker="o", label=name
            )
        axes.set_xticks(STEPS, [f"{step:,}" for step in STEPS])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument(
        "--without", default="", metavar="REFINER", help="leave a refiner of the pipeline out"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    pipeline, figures = preset("default"), {}
    kept = tuple(
        refine
        for refine in pipeline.refiners
        if getattr(refine, "__name__", "") != arguments.without
    )
    pipeline = replace(pipeline, refiners=kept)
    for name in arguments.sets:
        figures[name] = asyncio.run(measured(arguments.data / "bench" / name, pipeline))
        clean = figures[name]["clean"]
        print(
            name,
            {step: (round(one.recall, 3), round(one.hit, 3)) for step, one in clean.items()},
            flush=True,
        )
    found = f"{tables(figures)}\n\n{asyncio.run(cost(arguments.data))}"
    print(found)
    if arguments.write:
        write(arguments.write, found)
        draw(figures, arguments.write.with_name("learning.svg"))


if __name__ == "__main__":
    main()
