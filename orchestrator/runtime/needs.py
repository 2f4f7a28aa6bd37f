"""Needs: a language model describes the tools that a task needs. Each description is searched like a clause."""

from collections.abc import Container, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from pydantic import BaseModel

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


class NeedsShape(BaseModel):
    """A model's answer to PROMPT."""

    needs: list[str]


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
    said = task.understood
    if said.asks_nothing or not len(task.index.catalogue):
        return Needs()
    data = {"task": cut(said.asked, TASK_TOKENS)[0], "left_out": said.left_out}
    data |= {"turns_before": [cut(text, TASK_TOKENS // 5)[0] for text, _ in said.earlier]} if said.earlier else {}
    tenant = task.request.tenant or ""
    got = await model.fill(PROMPT, data, NeedsShape, max_tokens=TOKENS, answer=ANSWER_TOKENS, tenant=tenant)
    if got.answer is None:
        return Needs(
            usage=got.usage,
            warnings=(f"the language model did not read the task, so the task was searched as written: {got.reason}",),
        )
    texts = tuple(one_line(need, MOST_CHARS) for need in got.answer.needs[:MOST])
    return Needs(texts=_fitting(texts, said, task.index.servers), usage=got.usage)


def _fitting(needs: tuple[str, ...], said: Understood, servers: ServerIndex) -> tuple[str, ...]:
    """Return the needs without server names that the task does not use, and without things that the task excludes."""
    words = {*said.asked.lower().split(), *split_words(said.asked)}
    left_out = [set(terms(unmarked(own))) for own in said.left_out]
    plain = (" ".join(word for word in need.split() if not _names(word, servers, words)) for need in needs)
    kept = (need for need in plain if terms(need))
    asked = said.terms.keys()
    return tuple(
        dict.fromkeys(need for need in kept if not any(_brings_back(terms(need), own, asked) for own in left_out))
    )


def _brings_back(need: Sequence[str], left_out: AbstractSet[str], asked: AbstractSet[str]) -> bool:
    """Return True if a need contains an excluded thing, or the excluded action with one of its things."""
    things = left_out - action_stems()
    if not (things - asked).isdisjoint(need):
        return True
    acts = not (left_out - things - asked).isdisjoint(need)
    return acts and (not things or not things.isdisjoint(need))


def _names(word: str, servers: ServerIndex, said: Container[str]) -> bool:
    """Return True if a word, or a part of it, is the name of a server that the task does not use, and not an ordinary
    word.
    """
    parts = (word.lower().strip(".,;:!?()\"'`"), *split_words(word))
    return any(name in servers.named and name not in servers.ordinary and name not in said for name in parts)
