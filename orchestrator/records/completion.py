"""A language model's part: what it is asked, what it decided or wrote, and what that took."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orchestrator.records.tool import Tool
from orchestrator.records.usage import Usage

NO_MODEL = "none"
"""What stands as the model of whatever was made without one."""
FILLING_TOKENS = 8_000
"""Tokens at most of one question to the model that fills a step's late arguments, its answer included."""
MOST_ASKED = 3
"""Questions at most for a step's late arguments: an answer that does not fit is sent back, a long result read on."""


class Action(StrEnum):
    """The ways to deal with a task."""

    ANSWER = "answer"
    TOOL = "tool"
    PLAN = "plan"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The LLM route: answer directly, use one tool, or plan, among the Decision's matches alone.

    `answer` is there for `answer`, `tool` and `arguments` for `tool`. If the model failed, `action` and `model` are
    `none`, and `warnings` say why.
    """

    action: Action
    reasons: tuple[str, ...] = ()
    confidence: float = 0.0
    answer: str = ""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    model: str = NO_MODEL
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()


class Purpose(StrEnum):
    """The purposes of a completion."""

    ARGUMENTS = "arguments"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRequest:
    """One model call of a run: a tool's arguments out of earlier results, or the answer out of all.

    `task` is the step's, or the run's; `results` are titles and texts; `wanted` are the parameters to fill, `known`
    those that are settled. `max_tokens` is for everything, the `answer_tokens` included. `whole` has the references of
    the `tenant`'s uncut results by their titles: a model that fills arguments may read them on.
    """

    purpose: Purpose
    task: str
    results: tuple[tuple[str, str], ...] = ()
    tool: Tool | None = None
    wanted: tuple[str, ...] = ()
    known: dict[str, Any] = field(default_factory=dict)
    max_tokens: int = 8_000
    answer_tokens: int = 2_000
    tenant: str = ""
    whole: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The model's answer: `text`, or `arguments` and those `missing`, and the tokens that it took."""

    text: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    why: str = ""
    model: str = NO_MODEL
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A step's late arguments, or the `reason` why it has none; and the tokens that this took."""

    arguments: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0
    reason: str = ""
