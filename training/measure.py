"""Recall@5 and @10 of the model on the development query sets: `python -m training.measure --data ../shared`."""

import argparse
from pathlib import Path

import numpy as np

from training import sources, views
from training.keyword import Bm25
from training.sources import Query, Tool
from training.static import StaticEmbedder

SETS = (
    "api_bank azure_mcp bfcl bfcl_multi_turn metatool restbench seal_tools toolalpaca toolbench_stable".split()
)  # the sets with tool-level labels
SERVER_WEIGHT = 0.6
Figures = dict[str, tuple[float, float]]  # way of ranking -> recall@5, recall@10


def scaled(scores: np.ndarray) -> np.ndarray:
    """Each query's scores [Q, N] brought to 0..1."""
    low, high = scores.min(1, keepdims=True), scores.max(1, keepdims=True)
    return (scores - low) / np.maximum(high - low, 1e-9)


def recall(scores: np.ndarray, gold: list[np.ndarray], cut: int) -> float:
    """The mean share of a query's tools among its best `cut`."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :cut]
    return float(np.mean([np.isin(wanted, row).mean() for wanted, row in zip(gold, best, strict=True)]))


def server_evidence(tools: list[Tool], queries: list[str]) -> np.ndarray:
    """[Q, N]: BM25 of each tool's server, a document of its tools' names and first sentences."""
    servers = sorted({tool.server for tool in tools})
    documents = [
        ". ".join(f"{views.name(t)} {views.first(t)}" for t in tools if t.server == server) for server in servers
    ]
    place = {server: number for number, server in enumerate(servers)}
    return Bm25(documents).scores(queries)[:, [place[tool.server] for tool in tools]]


def figures(model: StaticEmbedder, tools: list[Tool], queries: list[Query]) -> Figures:
    place = {tool.key: number for number, tool in enumerate(tools)}
    gold = [np.array([place[key] for key in query.relevant]) for query in queries]
    cards, texts = [views.card(tool) for tool in tools], [query.text for query in queries]
    static = scaled(model.embed(texts) @ model.embed(cards).T)
    keyword = scaled(Bm25(cards).scores(texts))
    ways = {"static": static, "keyword": keyword, "both": static + keyword}
    if len({tool.server for tool in tools}) > 1:
        evidence = SERVER_WEIGHT * scaled(server_evidence(tools, texts))
        ways["both + server"] = scaled(static + keyword) + evidence
    else:
        ways["both + server"] = ways["both"]
    return {way: (recall(scores, gold, 5), recall(scores, gold, 10)) for way, scores in ways.items()}


def table(model: StaticEmbedder, data: Path, sets: tuple[str, ...] = tuple(SETS)) -> dict[str, Figures]:
    return {
        name: figures(model, sources.tools(data / "bench" / name), sources.queries(data / "bench" / name))
        for name in sets
    }


def printed(results: dict[str, Figures]) -> str:
    ways = list(next(iter(results.values())))
    lines = [f"{'recall@5 / @10':18s}" + "".join(f"{way:>16s}" for way in ways)]
    for name, row in results.items():
        lines.append(f"{name:18s}" + "".join(f"{row[way][0]:9.3f} /{row[way][1]:5.3f}" for way in ways))
    means = {way: np.mean([row[way] for row in results.values()], axis=0) for way in ways}
    lines.append(f"{'mean':18s}" + "".join(f"{means[way][0]:9.3f} /{means[way][1]:5.3f}" for way in ways))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds bench/ and train/")
    parser.add_argument("--model", type=Path, default=Path("orchestrator/data/embedder"))
    arguments = parser.parse_args()
    print(printed(table(StaticEmbedder.load(arguments.model), arguments.data)))


if __name__ == "__main__":
    main()
