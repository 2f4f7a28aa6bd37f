"""The pictures of docs/quality.md, each drawn beside the page and named in it with what it shows."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

import numpy as np

from benchmarks import routing
from benchmarks.claims import Numbers, precision_at_coverage
from benchmarks.coverage import Figures, Sets, covering, fixed, left_out, mean, measure
from benchmarks.drawing import GREY, chart
from benchmarks.judging import Judged
from benchmarks.targets import MANY
from orchestrator.evaluate.metrics import BINS
from orchestrator.evaluate.runner import read_queries
from orchestrator.index.calibration import Calibration
from orchestrator.index.coverage import LEVELS, Coverage
from orchestrator.index.embed import Embedder
from orchestrator.records.request import MAX_LIMIT, RouteHint
from research.coverage import route_set, thresholds

POINTS = 200
"""Of a curve that has one for each query."""
ROUTED = 150
"""Queries of a set that are routed to 50 tools for their tokens."""
SIZES, TIMED = (100, 1_000, 5_000, 13_000), 30
"""Catalogues that routing is timed on, and with how many queries."""
LABELLED = (1, 3, 5, 10, 20, 50)

ALTERNATIVES = {
    "reliability": "Share right against confidence",
    "risk": "Share wrong against share answered",
    "tokens": "Queries with all needed tools against tokens",
    "latency": "Milliseconds a query against number of tools",
}
CAPTIONS = {
    "reliability": "How often the first match was right at each confidence; on the diagonal a claim is worth what it "
    f"says. Larger points stand for more queries; grey is each set of {MANY} or more.",
    "risk": "How many answers are wrong if only the most confident share of the queries is answered, beside the order "
    "that would put every wrong answer last, and none.",
    "tokens": "How many queries get all their tools for how many tokens of definitions, mean of the sets: by the best "
    "1 to 50 tools (the numbers at the points), and by [coverage sets](coverage.md).",
    "latency": "What a query takes on larger and larger catalogues, each contender in the same process; more is in "
    "[speed.md](speed.md).",
}

Judgements = Mapping[str, Sequence[Judged]]
"""By set."""


def draw_all(page: Path, data: Path, judged: Judgements, maps: Mapping[str, Calibration], embedder: Embedder) -> str:
    """Draws every picture beside the page. Gives the Markdown that shows them."""

    def beside(name: str) -> Path:
        return page.with_name(f"{page.stem}-{name}.svg")

    reliability(judged, beside("reliability"))
    risk(judged, beside("risk"))
    tokens(route_to_tokens(data, maps, embedder), beside("tokens"))
    latency(data, beside("latency"))
    shown = {name: f"![{ALTERNATIVES[name]}]({beside(name).name})" for name in CAPTIONS}
    return "\n\n".join(f"{fill(caption, 118)}\n\n{shown[name]}" for name, caption in CAPTIONS.items())


def claimed_and_right(rows: Sequence[Judged]) -> tuple[Numbers, Numbers]:
    return np.array([row.confidence for row in rows]), np.array([float(row.right) for row in rows])


def reliability_points(claimed: Numbers, right: Numbers) -> Numbers:
    """For each tenth of confidences that has any: their mean, the share that was right, the share of all; [3, bins]."""
    number = np.minimum((claimed * BINS).astype(np.int64), BINS - 1)
    counts, stated, true = (np.bincount(number, weights, BINS) for weights in (None, claimed, right))
    full = counts > 0
    return np.array([stated[full] / counts[full], true[full] / counts[full], counts[full] / len(claimed)])


def reliability(judged: Judgements, file: Path) -> None:
    with chart(file, xlabel="confidence", ylabel="share right", xlim=(0, 1), ylim=(0, 1.02)) as axes:
        axes.plot([0, 1], [0, 1], "--", color=GREY, label="perfectly calibrated")
        many = [rows for rows in judged.values() if len(rows) >= MANY]
        for rows in many:
            stated, true, _ = reliability_points(*claimed_and_right(rows))
            label = "each set" if rows is many[0] else None
            axes.plot(stated, true, color=GREY, alpha=0.5, linewidth=0.8, label=label)
        stated, true, share = reliability_points(*claimed_and_right(_pooled(judged)))
        (line,) = axes.plot(stated, true, label="all sets together")
        axes.scatter(stated, true, s=600 * share, color=line.get_color(), zorder=3)


def risk(judged: Judgements, file: Path) -> None:
    claimed, right = claimed_and_right(_pooled(judged))
    with chart(file, xlabel="share of the queries answered", ylabel="share wrong of these", ylim=(0, None)) as axes:
        for label, order, style in (("toolroute", claimed, "-"), ("perfect order", right, "--")):
            wrong = 1 - precision_at_coverage(order, right)
            places = np.unique(np.linspace(0, len(wrong) - 1, POINTS).astype(np.int64))
            axes.plot((places + 1) / len(wrong), wrong[places], style, label=label)
        axes.axhline(1 - right.mean(), color=GREY, linestyle=":", label="no order")


def _pooled(judged: Judgements) -> list[Judged]:
    return [row for rows in judged.values() for row in rows]


def route_to_tokens(data: Path, maps: Mapping[str, Calibration], embedder: Embedder) -> Sets:
    """Some queries of each set, routed by both legs to 50 tools with maps that have not seen the set."""
    hint = RouteHint.SEMANTIC
    return {
        name: asyncio.run(route_set(data / "bench" / name, own, embedder, hint, most=ROUTED))
        for name, own in maps.items()
    }


def token_curves(sets: Sets) -> dict[str, list[Figures]]:
    """Held, tools and tokens, mean of the sets: of the best 1 to 50 tools, and of coverage sets at each level."""
    known = {name: Coverage(thresholds={"both": thresholds(left_out(sets, name))}) for name in sets}

    def covered(wanted: float) -> list[Figures]:
        return [measure(own, covering(known[name], wanted, "both")) for name, own in sets.items()]

    ranks = range(1, MAX_LIMIT + 1)
    return {
        "the best k tools": [mean([measure(own, fixed(k)) for own in sets.values()]) for k in ranks],
        "coverage sets": [mean(covered(wanted)) for wanted in LEVELS if wanted <= most_covered(sets)],
    }


def most_covered(sets: Sets) -> float:
    """The highest coverage that 50 tools reach."""
    return max((level for level, least in zip(LEVELS, thresholds(sets), strict=True) if least), default=0.0)


def tokens(sets: Sets, file: Path) -> None:
    curves = token_curves(sets)
    axis = "mean tokens of the definitions given"
    with chart(file, xlabel=axis, ylabel="queries with all needed tools", xscale="log") as axes:
        for label, figures in curves.items():
            held, _, spent = np.array(figures).T
            axes.plot(spent, held, label=label)
        best = curves["the best k tools"]
        for k in LABELLED:
            held, _, spent = best[k - 1]
            axes.annotate(str(k), (spent, held), xytext=(3, -10), textcoords="offset points", fontsize=8)
            axes.plot([spent], [held], "o", color=axes.lines[0].get_color())


def latency(data: Path, file: Path) -> None:
    queries = read_queries(data / "bench" / "toolalpaca" / "queries.jsonl")
    asked = random.Random(1).sample(queries, min(TIMED, len(queries)))
    found = [one for size in SIZES for one in routing.measure(routing.catalogue_of(data, size), asked, rounds=3)]
    routing.picture(found, file)
