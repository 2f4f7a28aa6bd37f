"""What each lever of routing is worth: it is taken out, the maps are fitted again without it, and recall is compared.

Every set is measured with maps fitted on the others, on the same queries. Levers that act on what is indexed are taken
out while the features are collected anew, the others in the features that were collected already.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.judging import BY_SCORE, WITHOUT_PREREQUISITES, WITHOUT_SERVERS, judge
from orchestrator.index import embed, keyword, text, variants
from orchestrator.index.calibration import Calibration
from orchestrator.index.embed import Embedder
from orchestrator.index.features import KEYWORD, SEMANTIC
from orchestrator.records.tool import Tool
from research.examples import Collected, Example, collect, collect_small

Kinds = Sequence[Sequence[Collected]]
"""Whole sets and small catalogues of them, each in the same order of the sets."""
Fit = Callable[[int, Kinds], Calibration]
"""Maps without the set at this place."""
Asked = Mapping[str, Sequence[dict[str, object]]]
"""By set the queries that are read."""
Recalls = list[tuple[float, float]]
"""At 5 and at 10, a set."""

WHOLE = "learnt"
"""The way of ranking that levers are taken out of: both legs always."""
WAYS = {
    "tools for each part of a task in turn": BY_SCORE,
    "the word of a server's best tool for its others": WITHOUT_SERVERS,
    "tools that give what others require": WITHOUT_PREREQUISITES,
    "the learnt merge: weighted in its place": "weighted",
    "the learnt merge: rrf in its place": "rrf",
    "the semantic leg": "keyword",
    "the keyword leg": "semantic",
    "the semantic leg where the gate opens (`auto`)": "auto",
}
"""Levers whose absence is another way of ranking with the same maps."""
FEATURES = {
    "the server as evidence": ("kw_server", "cos_server"),
    "words side by side": ("kw_pairs",),
    "what clauses find": ("kw_best_clause", "cos_best_clause", "cos_clause_rank"),
}


def unstemmed(word: str) -> str:
    return "" if word in text.STOP_WORDS else word


def one_text(tool: Tool) -> tuple[tuple[str, float], ...]:
    return ((text.card(tool), 1.0),)


INDEXED: dict[str, tuple[object, str, object]] = {
    "stemming": (text, "stem", unstemmed),
    "words that stand for one another": (variants, "_of", lambda table, word: ""),
    "weights of the fields": (keyword, "FIELD_WEIGHTS", dict.fromkeys(keyword.FIELD_WEIGHTS, 1.0)),
    "parameters' texts": (text, "parameter_text", lambda schema, depth=3: ""),
    "a vector for each part of a tool": (embed, "facets", one_text),
}
"""Levers of what is indexed: where each stands, and what takes its place."""


@contextmanager
def without(lever: str) -> Iterator[None]:
    """While it lasts, texts are read and indexed without the lever; the terms that words are remembered by, too."""
    stem = text.stem
    stem.cache_clear()
    with patch.object(*INDEXED[lever]), patch.dict("orchestrator.index.text._KNOWN", clear=True):
        yield
    stem.cache_clear()


def blanked(collected: Collected, features: Sequence[str]) -> Collected:
    """The same examples with these features saying nothing."""
    return replace(collected, examples=[_blank(example, features) for example in collected.examples])


def _blank(example: Example, features: Sequence[str]) -> Example:
    def kept(rows: np.ndarray, names: Sequence[str]) -> np.ndarray:
        return rows * [name not in features for name in names]

    absent = _blank(example.absent, features) if example.absent else None
    keyword, semantic = kept(example.keyword, KEYWORD), kept(example.semantic, SEMANTIC)
    return replace(example, keyword=keyword, semantic=semantic, absent=absent)


def recalls(kinds: Kinds, fit: Fit) -> dict[str, Recalls]:
    """By way of ranking the mean recall of each set, with maps fitted on the others."""
    found: dict[str, Recalls] = {}
    for place, own in enumerate(kinds[0]):
        maps = fit(place, kinds)
        rows = [judge(example, maps).recall for example in own.examples]
        for way in rows[0]:
            five, ten = np.mean([row[way] for row in rows], axis=0)
            found.setdefault(way, []).append((float(five), float(ten)))
    return found


def ablate(folders: Sequence[Path], asked: Asked, kinds: Kinds, fit: Fit, embedder: Embedder) -> dict[str, Recalls]:
    """Nothing, then each lever taken out. `kinds`: what was collected of the asked queries with every lever in."""
    whole = recalls(kinds, fit)
    found = {"nothing": whole[WHOLE]}
    for lever in INDEXED:
        with without(lever):
            sets = [collect(folder, embedder, asked[folder.name]) for folder in folders]
            small = [collect_small(folder, embedder) for folder in folders]
        found[lever] = recalls([sets, small], fit)[WHOLE]
    for lever, features in FEATURES.items():
        found[lever] = recalls([[blanked(one, features) for one in sets] for sets in kinds], fit)[WHOLE]
    return found | {lever: whole[way] for lever, way in WAYS.items()}


def ablation_table(found: Mapping[str, Recalls]) -> list[str]:
    """A lever a line: mean recall without it, what it is worth, and on how many sets recall at 10 falls without it."""
    whole = np.array(found["nothing"])
    lines = ["| taken out | recall@5 | recall@10 | worth at 5 | at 10 | pays on |", f"| --- |{' ---: |' * 5}"]
    for lever, rows in found.items():
        own = np.array(rows)
        five, ten = own.mean(axis=0)
        if lever == "nothing":
            lines.append(f"| **nothing** | {five:.3f} | {ten:.3f} | | | |")
            continue
        lost = whole - own
        pays = int((lost[:, 1] > 0).sum())
        worth = " | ".join(f"{value:+.3f}" for value in lost.mean(axis=0))
        lines.append(f"| {lever} | {five:.3f} | {ten:.3f} | {worth} | {pays} of {len(own)} |")
    return lines
