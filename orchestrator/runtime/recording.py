"""Recording: how routing evaluates a finished task, so that later tasks can be compared with it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.export import keys_by_name
from orchestrator.common.digests import digest
from orchestrator.common.redact import Secrets, typed_secrets, url_secrets
from orchestrator.errors import EmbedderUnavailable, UnknownTool
from orchestrator.index.index import Index
from orchestrator.options import model_key, store_key
from orchestrator.pipeline.pipeline import GATE, Pipeline
from orchestrator.pipeline.state import State
from orchestrator.records.outcome import Claim, Offer, Outcome, Use, uses_of

MOST_OFFERED = 10
"""The best tools that are stored with an Outcome, so that later routing can be compared with them."""
LOST = 0.0
"""The probability of a tool that routing did not find."""


def uses_with_hashes(index: Index, used: Sequence[Any]) -> tuple[Use, ...]:
    """Return the used tools, each with the hash of its definition.

    Raises:
        UnknownTool: A tool is not in the catalogue.
    """
    catalogue = index.catalogue
    uses = uses_of(used)
    is_known = catalogue.positions.__contains__
    keys = dict[str, str]()
    if not all(is_known(use.tool) for use in uses):
        keys = keys_by_name(catalogue.tools)
    hashed = list[Use]()
    for use in uses:
        key = keys.get(use.tool, use.tool)
        if not is_known(key):
            raise UnknownTool(
                f"unknown tool {key!r}: give the key (server:name) of a tool in the catalogue"
            )
        tool_hash = use.hash or catalogue[key].hash
        hashed.append(replace(use, tool=key, hash=tool_hash))
    return tuple(hashed)


def masked(text: str) -> str:
    """Return the text without the keys of the store and the model, passwords in addresses, and anything like a key."""
    secrets = [key for key in (store_key(), model_key()) if key]
    for word in text.split():
        if "://" in word:
            secrets += url_secrets(word)
    secrets += typed_secrets(text)
    return Secrets(secrets).redact(text)


def actor_name(actor: str) -> str:
    """Return the name under which the actor is stored. A name that looks like a key becomes a digest."""
    return actor if masked(actor) == actor else digest(actor, 12)


async def study(
    pipeline: Pipeline, state: State, outcome: Outcome
) -> tuple[Outcome, NDArray[np.float32]]:
    """Return the Outcome with routing's ranking for its task without Experience, and its claims with Experience.

    The second value is the task's vector, shape [dimension]. It is zero if the embedder knows no word of the task.

    Args:
        pipeline: The Router's pipeline.
        state: The state with which the pipeline begins.
        outcome: The finished task.

    Raises:
        EmbedderUnavailable: The embedder fails.
    """
    task = state.task
    # Votes of earlier tasks must not judge themselves.
    state = replace(state, task=replace(task, experience=None))
    gated = await pipeline.run(state, until=GATE)
    fusion = pipeline.names["fusion"][0]
    words = await pipeline.run(gated, start=fusion, until=fusion)
    alone = await pipeline.run(gated, start=pipeline.after(GATE), until=fusion)
    vectors = alone.vectors
    if vectors is None:
        vectors, reason = await task.embed(task.understood.texts[:1])
        if vectors is None:
            raise EmbedderUnavailable(f"the outcome was not recorded: {reason}")
    taught = replace(alone, task=task)
    for name in ("experience", "learnt"):
        if name in pipeline.stages:
            taught = await pipeline.run(taught, start=name, until=name)
    worked = {use.tool for use in outcome.worked}
    studied = replace(
        outcome,
        offered=_offered(alone, outcome),
        words=_claim(words, words.gate_confidence, worked),
        both=_claim(taught, taught.confidence, worked) if taught.semantic_ran else None,
    )
    return studied, vectors[0]


def _offered(state: State, outcome: Outcome) -> tuple[Offer, ...]:
    """Return the best tools by routing alone and the used tools, each with its probability."""
    catalogue = state.task.index.catalogue
    used = [
        catalogue.positions[use.tool] for use in outcome.used if use.tool in catalogue.positions
    ]
    best = state.order[:MOST_OFFERED]
    offered = list[Offer]()
    for position in dict.fromkeys([*used, *best]):
        tool = catalogue.tools[position]
        chance = state.scores.get(position, LOST)
        offered.append(Offer(tool=tool.key, hash=tool.hash, chance=chance))
    return tuple(offered)


def _claim(state: State, chance: float, worked: set[str]) -> Claim | None:
    if not state.scores:
        return None
    first = state.task.index.catalogue.tools[state.order[0]]
    return Claim(chance=chance, right=first.key in worked)
