"""Planning: a task cut into steps, each bound to a tool of the Decision."""

from dataclasses import dataclass, field
from typing import Any

from orchestrator.common.fields import Probability, check, settings
from orchestrator.records.completion import NO_MODEL, Choice
from orchestrator.records.decision import Decision
from orchestrator.records.request import Turn
from orchestrator.records.usage import Usage

MIN_CONFIDENCE = 0.3
"""The least with which a tool is planned; from `Options.floor` on it is suggested."""
MAX_STEPS = 20
"""Of a plan; the rest of a longer task is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of a task, bound to one tool of the Decision by its key.

    `tool` is empty when no match fits: such a step asks for the run's one extra route. `missing` names required
    arguments that nobody gave, and optional ones without which the call would do something else than the task says:
    the step ends `needs_input`; `late` names those that a model fills from what the steps before it said.
    `argument_tokens` are what its arguments take of the budget; `why` tells how the tool and the arguments were found.
    """

    id: str
    task: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    argument_tokens: int = 0
    why: str = ""
    late: tuple[str, ...] = ()


@settings
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The input of a plan: the Decision, and arguments that the user gave by `name` or `step.name`.

    `salt` keeps the ids of equal plans of different workflows apart. With `first`, the Decision is a further one,
    for that plan's steps without a tool. A model reads the `conversation` before the task, and without one nothing
    is taken away that the task does not speak of; it gets `max_tokens` for all questions and answers;
    `without_model` says why none is asked, where that is so. Under `min_confidence` nothing is planned, and under two
    thirds of it a part stays without a tool: calling asks for more than suggesting.
    """

    decision: Decision
    arguments: dict[str, Any] = field(default_factory=dict)
    salt: str = ""
    first: "Plan | None" = None
    min_confidence: Probability = MIN_CONFIDENCE
    conversation: tuple[Turn, ...] = ()
    without_model: str = ""
    max_tokens: int | None = None

    def validate(self) -> None:
        """Raise InvalidInput for settings out of range."""
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The task cut into steps. `model` names the model that made it, `none` for the deterministic planner.

    `choice` is the model's own, and holds the answer where no tool is needed; `usage` is what both took; `warnings` say
    why a model that was named had no part in it, which given arguments no step takes, and what of the task is left out.
    `needs_input` says what a person has to make clear before there are any steps.
    """

    id: str
    task: str
    steps: tuple[Step, ...]
    model: str = NO_MODEL
    reasons: tuple[str, ...] = ()
    choice: Choice | None = None
    usage: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()
    needs_input: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Plan({self.task[:60]!r}, {[step.tool for step in self.steps]})"

    @property
    def unbound(self) -> tuple[Step, ...]:
        """Return the steps that no match of the Decision fits."""
        return tuple(step for step in self.steps if not step.tool)
