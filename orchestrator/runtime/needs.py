"""Needs: a language model describes the tools that a task needs. Each description is searched like a clause."""

from collections.abc import Container, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from orchestrator.catalogue.tokens import cut
from orchestrator.common.lines import one_line
from orchestrator.index.intent import action_stems
from orchestrator.index.servers import ServerIndex
from orchestrator.index.text import split_words, terms
from orchestrator.pipeline.clauses import unmarked
from orchestrator.pipeline.model_calls import RouteModel
from orchestrator.pipeline.state import Task
from orchestrator.pipeline.understand import Understood
from orchestrator.records.usage import Usage

MOST, MOST_CHARS = 6, 200
"""The maximum number of needs, and the maximum length of one in characters."""
TOKENS, ANSWER_TOKENS, TASK_TOKENS = 3_000, 400, 1_500
PROMPT = f"""You say which tools a task takes, so that they can be found by their descriptions. For each kind of tool, \
in the order of use, write one line of 3 to 12 words as the description of such a tool begins: what it does, and with \
what ("Convert an address to coordinates"). Name lookups that must come first, too. Name no product, server, person, \
place or value. Leave out whatever the task leaves out. At most {MOST}; none where no tool is needed."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The needs of a task.

    Attributes:
        texts: The descriptions of tools, by a language model.
        usage: The tokens that the model used.
        warnings: The reason for having no needs, if the model failed.
    """

    texts: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()


async def read_needs(task: Task, model: RouteModel) -> Needs:
    """Return a task's needs. If the model gives none in time, return none, with a warning."""
    from orchestrator.pipeline.model_shapes import NeedsShape

    understood = task.understood
    if understood.asks_nothing or not task.index.tools:
        return Needs()
    reply = await model.fill(
        PROMPT,
        _data(understood),
        NeedsShape,
        max_tokens=TOKENS,
        answer=ANSWER_TOKENS,
        tenant=task.request.tenant or "",
    )
    if reply.answer is None:
        warning = f"the language model did not read the task, so the task was searched as written: {reply.reason}"
        return Needs(usage=reply.usage, warnings=(warning,))
    texts = [one_line(need, MOST_CHARS) for need in reply.answer.needs[:MOST]]
    return Needs(texts=_searchable(texts, understood, task.index.servers), usage=reply.usage)


def _data(understood: Understood) -> dict[str, Any]:
    """Return the data for the model: the task, its exclusions, and the turns before it."""
    text, _ = cut(understood.asked, TASK_TOKENS)
    data = {"task": text, "left_out": understood.left_out}
    if understood.earlier:
        data["turns_before"] = [cut(turn, TASK_TOKENS // 5)[0] for turn, _ in understood.earlier]
    return data


def _searchable(
    needs: Sequence[str], understood: Understood, servers: ServerIndex
) -> tuple[str, ...]:
    """Return the needs without server names that the task does not use, and without things that the task excludes."""
    task_words = {*understood.asked.lower().split(), *split_words(understood.asked)}
    task_terms = understood.terms.keys()
    excluded = [set(terms(unmarked(text))) for text in understood.left_out]
    searchable = dict[str, None]()  # In order, each once.
    for need in needs:
        words = [word for word in need.split() if not _names_server(word, servers, task_words)]
        plain = " ".join(words)
        plain_terms = terms(plain)
        is_excluded = any(_brings_back(plain_terms, thing, task_terms) for thing in excluded)
        if plain_terms and not is_excluded:
            searchable[plain] = None
    return tuple(searchable)


def _brings_back(
    need: Sequence[str], excluded: AbstractSet[str], task_terms: AbstractSet[str]
) -> bool:
    """Return True if a need contains an excluded thing, or the excluded action with one of its things."""
    things = excluded - action_stems()
    if not (things - task_terms).isdisjoint(need):
        return True
    acts = not (excluded - things - task_terms).isdisjoint(need)
    return acts and (not things or not things.isdisjoint(need))


def _names_server(word: str, servers: ServerIndex, task_words: Container[str]) -> bool:
    """Return True if a word, or a part of it, names a server that the task does not use, and is no ordinary word."""
    parts = (word.lower().strip(".,;:!?()\"'`"), *split_words(word))
    return any(
        part in servers.named and part not in servers.ordinary and part not in task_words
        for part in parts
    )
