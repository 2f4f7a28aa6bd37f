"""Measures the model's recall@5 and @10 on the development sets: `python -m research.measure --data ../shared`.

The rankings are BM25 (keyword), the model over whole cards (static), the sum of both scaled within the query, the model
over fields and clauses (fine), and the last with the evidence of the tool's server.
"""

import argparse
import re
from pathlib import Path

import numpy as np

from research import sources, views
from research.keyword import Bm25
from research.losses import unit
from research.sources import SETS, Query, Tool
from research.static import StaticEmbedder

SERVER_WEIGHT = 0.6
# of the static leg in the sum when it reads fields and clauses; 0.5 to 2 were tried
STATIC_WEIGHT = 1.5
CLAUSE_WEIGHT = 0.6  # of a task's best clause, added to the whole task
FIELD_WEIGHTS = ((views.name, 1.0), (views.first, 1.0), (views.rest, 0.5), (views.parameters, 0.5))
_CLAUSE_END = re.compile(r"(?<=[.!?;])\s+|,\s+|\s+(?:and|then|also)\s+")
Figures = dict[str, tuple[float, float]]  # way of ranking -> recall@5, recall@10


def scaled(scores: np.ndarray) -> np.ndarray:
    """Each query's scores [Q, N] brought to 0..1."""
    low, high = scores.min(1, keepdims=True), scores.max(1, keepdims=True)
    return (scores - low) / np.maximum(high - low, 1e-9)


def recall(scores: np.ndarray, gold: list[np.ndarray], cut: int) -> float:
    """Return the mean share of a query's tools among its best tools.

    Args:
        scores: The scores, shape [queries, tools].
        gold: The numbers of each query's tools.
        cut: The number of best tools.
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :cut]
    return float(
        np.mean([np.isin(wanted, row).mean() for wanted, row in zip(gold, best, strict=True)])
    )


def server_evidence(tools: list[Tool], queries: list[str]) -> np.ndarray:
    """[Q, N]: BM25 of each tool's server, a document of its tools' names and first sentences."""
    servers = sorted({tool.server for tool in tools})
    documents = [
        ". ".join(f"{views.name(t)} {views.first(t)}" for t in tools if t.server == server)
        for server in servers
    ]
    place = {server: number for number, server in enumerate(servers)}
    return Bm25(documents).scores(queries)[:, [place[tool.server] for tool in tools]]


def by_field(model: StaticEmbedder, tools: list[Tool]) -> np.ndarray:
    """[N, 256]: the weighted sum of each field's unit vector, so that a long description doesn't drown the name."""
    return unit(
        sum(weight * model.embed([view(tool) for tool in tools]) for view, weight in FIELD_WEIGHTS)
    )[0]


def clauses(text: str) -> list[str]:
    """Return the text's clauses of three words or more, or the text itself."""
    return [part for part in _CLAUSE_END.split(text) if part and len(part.split()) >= 3] or [text]


def by_clause(model: StaticEmbedder, texts: list[str], documents: np.ndarray) -> np.ndarray:
    """Return the cosine of the whole task plus that of its best clause, shape [queries, tools].

    Args:
        model: The embedder.
        texts: The tasks.
        documents: The unit vectors of the tools, shape [tools, dimension].
    """
    parts = [clauses(text) for text in texts]
    starts = np.cumsum([0, *map(len, parts[:-1])])
    each = model.embed([part for text in parts for part in text]) @ documents.T
    return model.embed(texts) @ documents.T + CLAUSE_WEIGHT * np.maximum.reduceat(
        each, starts, axis=0
    )


def figures(model: StaticEmbedder, tools: list[Tool], queries: list[Query]) -> Figures:
    place = {tool.key: number for number, tool in enumerate(tools)}
    gold = [np.array([place[key] for key in query.relevant]) for query in queries]
    cards, texts = [views.card(tool) for tool in tools], [query.text for query in queries]
    keyword = scaled(Bm25(cards).scores(texts))
    card = scaled(model.embed(texts) @ model.embed(cards).T)
    fine = scaled(by_clause(model, texts, by_field(model, tools)))
    sum_of_both = STATIC_WEIGHT * fine + keyword
    ways = {
        "keyword": keyword,
        "static": card,
        "both": card + keyword,
        "static, fine": fine,
        "both, fine": sum_of_both,
    }
    evidence = (
        server_evidence(tools, texts)
        if len({tool.server for tool in tools}) > 1
        else np.zeros_like(card)
    )
    ways["fine + server"] = scaled(sum_of_both) + SERVER_WEIGHT / 2 * scaled(evidence)
    return {
        way: (recall(scores, gold, 5), recall(scores, gold, 10)) for way, scores in ways.items()
    }


def table(model: StaticEmbedder, data: Path) -> dict[str, Figures]:
    return {
        name: figures(
            model, sources.tools(data / "bench" / name), sources.queries(data / "bench" / name)
        )
        for name in SETS
    }


def printed(results: dict[str, Figures]) -> str:
    ways = list(next(iter(results.values())))
    lines = [f"{'recall@5 / @10':18s}" + "".join(f"{way:>16s}" for way in ways)]
    for name, row in results.items():
        lines.append(
            f"{name:18s}" + "".join(f"{row[way][0]:9.3f} /{row[way][1]:5.3f}" for way in ways)
        )
    means = {way: np.mean([row[way] for row in results.values()], axis=0) for way in ways}
    lines.append(
        f"{'mean':18s}" + "".join(f"{means[way][0]:9.3f} /{means[way][1]:5.3f}" for way in ways)
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="the folder that holds bench/ and train/"
    )
    parser.add_argument("--model", type=Path, default=Path("orchestrator/data/embedder"))
    arguments = parser.parse_args()
    print(printed(table(StaticEmbedder.load(arguments.model), arguments.data)))


if __name__ == "__main__":
    main()
