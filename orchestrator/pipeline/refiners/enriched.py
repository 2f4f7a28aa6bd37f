"""Enriched: texts that the user's model wrote about tools are searched as a field of their own."""

import math
from dataclasses import replace

import numpy as np

from orchestrator.index.bm25 import Corpus, Counts, Postings
from orchestrator.index.index import Index
from orchestrator.index.text import terms
from orchestrator.pipeline.legs.keyword import searched
from orchestrator.pipeline.state import State

WEIGHT = 1.0
"""The addition to the log-odds of the tool whose search texts match best. Other tools get a share of it. With 2, two of
six development sets lost recall (`python -m research.enriched`)."""
LEAST = 0.001
"""The probability of a tool that no leg has found, before its search texts count."""
MOST, _MOST_WORDS = 50, 6


def enriched(state: State) -> State:
    """Raise the tools whose written texts share words with the task. Without such texts nothing changes."""
    index, asked = state.task.index, state.task.understood
    if not index.written or state.settled or state.candidates is None:
        return state
    documents, postings = index.derived("enriched", lambda: _documents(index))
    columns = postings.columns(asked.terms)
    scores, open_to = columns.scores(columns.asked([asked.terms]))[0], searched(state)
    scores = scores if open_to is None else np.where(open_to, scores, 0)
    order = np.argsort(-scores, kind="stable")[:MOST].tolist()
    shares = {place: float(scores[place] / scores[order[0]]) for place in order if scores[place] > 0}
    held = {place: [term for term in asked.terms if term in documents[place]] for place in shares}
    words = {place: ", ".join(asked.words.get(term, term) for term in own[:_MOST_WORDS]) for place, own in held.items()}
    first = next(iter(state.scores), None)
    state = state.rescored({place: _raised(state.scores.get(place, LEAST), share) for place, share in shares.items()})
    state = state.with_evidence("enriched", {place: round(share, 4) for place, share in shares.items()})
    state = state.noted({place: f"search text: {own}" for place, own in words.items()})
    now = next(iter(state.scores), None)
    return state if now in (first, None) else replace(state, confidence=min(state.confidence, state.scores[now or 0]))


def _documents(index: Index) -> tuple[list[frozenset[str]], Postings]:
    """Return the terms of each tool's written texts, and these as a field to search."""
    notes = [index.written.get(tool.key, {}) for tool in index.catalogue.tools]
    texts = [" ".join([note.get("does", ""), note.get("when", ""), *note.get("requests", ())]) for note in notes]
    own = [terms(text) for text in texts]
    return [frozenset(one) for one in own], Postings(Counts.of(Corpus.of([[one] for one in own], (1.0,))))


def _raised(chance: float, share: float) -> float:
    chance = max(chance, LEAST)
    return 1 / (1 + (1 - chance) / chance * math.exp(-WEIGHT * share))
