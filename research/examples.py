"""Collects the features of labelled queries, set by set, for fitting and judging the maps."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator import Calibration, Catalogue, Embedder
from orchestrator.common.keys import key_of, split_key
from orchestrator.index.calibration import CONFIDENCE, GATE, UNKNOWN_NO_TOOL_SIMILARITY, from_json
from orchestrator.index.embedders.embedding import contrast_of, no_tool_of, unfamiliar_to
from orchestrator.index.features import KEYWORD, QUERY, SEMANTIC, Positions, rows_of
from orchestrator.index.index import Index
from orchestrator.pipeline.scoring import ClauseScores, Search
from orchestrator.pipeline.sentences import ORDER
from orchestrator.pipeline.understand import Understood, understand
from research.sources import rows
from research.strays import stray
from research.tasks import abroad, tasks

WIDTH = 30
SMALL = 0.3
"""How much a set's small catalogues weigh against the set."""
TASKS, TASKS_CLAIMS = 0.3, 0.11
"""How much each file of tasks of our own weighs against a set, where the tools' chances are fitted, and where the gate
and the confidence are (docs/decisions/models.md)."""
VENDORS = 2.0
"""How much a set weighs that stands for several vendors' servers. Most other sets are pooled functions."""
NOTHING_CLAIMS = 0.3
"""How much the requests that no tool fits weigh against a set of the same number, for the gate and the confidence."""
ABROAD_CLAIMS = 0.11
"""How much each language weighs where the confidence is fitted; the tools' chances are not fitted to them."""
SMALL_CATALOGUES = 40
MOST_QUERIES = 310
"""Every nth query of a set is read, so that there are at most as many. The maps have 26 weights."""

Rows = NDArray[np.float64]


@dataclass(slots=True)
class Part:
    """One clause's candidates: features by map, and their places among the candidates of the query, or -1."""

    keyword: Rows
    semantic: Rows
    query: list[float]
    overlap: NDArray[np.bool_]
    places: NDArray[np.int64]


@dataclass(slots=True)
class Example:
    """One query's candidates: features by map, the relevant ones, and the number of relevant tools.

    Attributes:
        read: What `order_features` reads of each candidate.
        parts: Its clauses, if there are several.
        absent: The same query without its relevant tools in the catalogue, or None if it has none.
        no_tool_similarity: Its cosine with requests that need no tool.
        unfamiliar: The share of its tokens that the embedder hardly knows.
    """

    keyword: Rows
    semantic: Rows
    query: list[float]
    overlap: NDArray[np.bool_]
    read: Rows
    relevant: NDArray[np.bool_]
    gold: int
    parts: tuple[Part, ...] = ()
    absent: "Example | None" = None
    no_tool_similarity: float = UNKNOWN_NO_TOOL_SIMILARITY
    unfamiliar: float = 0.0

    def of_parts(self, chances: Sequence[Rows]) -> Rows:
        """Return the parts' values of their own candidates for the whole query's candidates [parts, candidates], 0 if
        missing.

        Args:
            chances: For each part, a value for each of its candidates.
        """
        found = np.zeros((len(chances), len(self.relevant)))
        for row, part, own in zip(found, self.parts, chances, strict=True):
            row[part.places[part.places >= 0]] = own[part.places >= 0]
        return found


@dataclass(slots=True)
class Collected:
    """All examples of one set, with its weight for the tools' maps, and its weight for the gate and the confidence."""

    name: str
    examples: list[Example] = field(default_factory=list)
    weight: float = 1.0
    claims: float = 1.0


def neutral() -> Calibration:
    """Maps that always return one half, for collecting features."""
    sizes = {
        "keyword": KEYWORD + QUERY,
        "semantic": SEMANTIC + QUERY,
        "merged": KEYWORD + SEMANTIC + QUERY,
    }
    names = {**sizes, "order": ORDER, "gate": GATE, "confidence": CONFIDENCE}
    return from_json(
        {
            name: {"weights": dict.fromkeys(columns, 0.0), "bias": 0.0}
            for name, columns in names.items()
        }
    )


def collect(
    folder: Path, embedder: Embedder, asked: Sequence[dict[str, Any]] | None = None
) -> Collected:
    """Return the features of a set's labelled queries.

    Args:
        folder: The set.
        embedder: The embedder.
        asked: The queries. Default: all queries of the set.
    """
    records = sampled(folder) if asked is None else asked
    return Collected(folder.name, _examples(Index(Catalogue.read(folder)), records, embedder))


def collect_further(folder: Path, embedder: Embedder, *, vendors: bool) -> Collected:
    """Return the features of a further set.

    Args:
        folder: The set.
        embedder: The embedder.
        vendors: The set stands for several vendors' servers.
    """
    weight = VENDORS if vendors else 1.0
    return replace(collect(folder, embedder), weight=weight, claims=weight)


def collect_korean(folder: Path, embedder: Embedder) -> Collected:
    """Return the features of a set in another language, to which the tools' chances are not fitted."""
    return replace(collect(folder, embedder), weight=0, claims=ABROAD_CLAIMS)


def collect_nothing(folder: Path, embedder: Embedder) -> Collected:
    """Return the features of a set's requests that no tool fits. The tools that would fit are left out."""
    records = list(rows(folder / "none.jsonl"))
    fitting = {key_of(*split_key(key)) for record in records for key in record.get("without", ())}
    catalogue = Catalogue(
        [tool for tool in Catalogue.read(folder).tools if tool.key not in fitting]
    )
    asked = [{"query": record["query"], "relevant": []} for record in records]
    return Collected(
        f"{folder.name} (nothing fits)",
        _examples(Index(catalogue), asked, embedder),
        0,
        NOTHING_CLAIMS,
    )


def sampled(folder: Path) -> list[dict[str, Any]]:
    """The labelled queries that are read of a set, evenly spaced."""
    records = _records(folder)
    return records[:: -(-len(records) // MOST_QUERIES)]


def collect_small(folder: Path, embedder: Embedder) -> Collected:
    """Return features in small catalogues of two to forty tools, drawn at random around a few queries, as many users
    have.

    Each catalogue also gets two queries that no tool answers.
    """
    draw = random.Random(folder.name)
    records, tools = _records(folder), Catalogue.read(folder)
    collected = Collected(f"{folder.name} (small)", weight=SMALL, claims=SMALL)
    for _ in range(SMALL_CATALOGUES):
        asked = draw.sample(records, 4)
        wanted = {key for record in asked for key in record["relevant"] if key in tools.positions}
        others = draw.sample(tools.tools, min(draw.randint(1, 40), len(tools)))
        index = Index(Catalogue([*(tools[key] for key in sorted(wanted)), *others]))
        unanswerable = [{"query": stray(draw), "relevant": []} for _ in range(2)]
        collected.examples += _examples(index, [*asked, *unanswerable], embedder)
    return collected


def collect_tasks(data: Path, embedder: Embedder) -> list[Collected]:
    """The same of the tasks of our own, file by file."""
    return [
        Collected(
            one.name, _examples(Index(one.catalogue), one.records, embedder), TASKS, TASKS_CLAIMS
        )
        for one in tasks(data)
    ]


def collect_abroad(data: Path, embedder: Embedder) -> list[Collected]:
    """The same of tasks of our own in other languages, language by language."""
    found: dict[str, Collected] = {}
    for one in tasks(data):
        index = Index(one.catalogue)
        for language, records in abroad(one).items():
            collected = found.setdefault(
                language, Collected(f"tasks in {language}", weight=0, claims=ABROAD_CLAIMS)
            )
            collected.examples += _examples(index, records, embedder)
    return list(found.values())


def _records(folder: Path) -> list[dict[str, Any]]:
    """The labelled queries of a set. `:name` is a tool without a server, as in `toolroute eval`."""
    records = [
        json.loads(line)
        for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return [
        {**record, "relevant": [key_of(*split_key(key)) for key in record["relevant"]]}
        for record in records
    ]


def _examples(index: Index, records: Sequence[dict[str, Any]], embedder: Embedder) -> list[Example]:
    examples: list[Example] = []
    for record in records:
        understood = understand(
            record["query"], stems=index.keyword.terms, actions=index.keyword.actions
        )
        vectors = embedder.embed(understood.texts)
        right = [
            index.catalogue.positions[key]
            for key in record["relevant"]
            if key in index.catalogue.positions
        ]
        others = np.ones(len(index.catalogue), np.bool_)
        others[right] = False
        search = partial(_example, index, embedder, understood, vectors, set(record["relevant"]))
        examples.append(replace(search(), absent=search(allowed=others) if right else None))
    return examples


def _example(
    index: Index,
    embedder: Embedder,
    understood: Understood,
    vectors: NDArray[np.float32],
    wanted: set[str],
    *,
    allowed: NDArray[np.bool_] | None = None,
) -> Example:
    """Return the candidates of one search, among all tools or among those allowed."""
    search = Search(
        index=index, understood=understood, calibration=neutral(), width=WIDTH, allowed=allowed
    )
    found = search.by_meaning(
        index.semantic(embedder), vectors, no_tool_of(embedder), contrast_of(embedder)
    )
    whole = found.of_task
    keys = [index.catalogue.tools[position].key for position in whole.positions.tolist()]
    return Example(
        keyword=whole.rows[:, : len(KEYWORD)],
        semantic=whole.rows[:, len(KEYWORD) :],
        query=whole.query,
        overlap=whole.overlap,
        read=search.read(whole.positions),
        relevant=np.isin(keys, list(wanted)),
        gold=len(wanted),
        parts=tuple(
            _part(clause, whole.positions) for clause in found.clauses if len(clause.positions)
        ),
        no_tool_similarity=found.no_tool_similarity,
        unfamiliar=unfamiliar_to(embedder, understood.asked) or 0.0,
    )


def _part(clause: ClauseScores, chosen: Positions) -> Part:
    places, known = rows_of(clause.positions, chosen)
    return Part(
        keyword=clause.rows[:, : len(KEYWORD)],
        semantic=clause.rows[:, len(KEYWORD) :],
        query=clause.query,
        overlap=clause.overlap,
        places=np.where(known, places, -1),
    )
