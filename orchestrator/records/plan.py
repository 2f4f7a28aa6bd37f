"""The records of planning: a task cut into steps, each bound to a tool of the Decision."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from orchestrator.common.fields import Give, Probability, check, settings
from orchestrator.records.completion import NO_MODEL, Choice
from orchestrator.records.decision import MIN_CONFIDENCE, Decision
from orchestrator.records.request import Turn
from orchestrator.records.usage import Usage

MAX_STEPS = 20
"""The maximum number of steps of a plan. A longer task needs a second plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of a task, bound to one tool of the Decision.

    Attributes:
        id: The id of the step, such as `s1`.
        task: The text of this part.
        tool: The key of the tool. Empty if no match fits. The run then routes this part once more.
        arguments: The arguments by name.
        missing: Required arguments that nobody gave, and optional arguments without which the call would differ from
            the task. Such a step ends with the status `needs_input`.
        depends_on: The ids of the steps that must finish first.
        argument_tokens: The size of the arguments, in tokens. The budget reserves them.
        why: How the tool and the arguments were found.
        late: Arguments that a model fills from the results of earlier steps.

    Examples:
        >>> from orchestrator import Step
        >>> Step(id="s1", task="get the time", tool="time:get_current_time", arguments={"timezone": "UTC"}).missing
        ()
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
    """The input of a plan.

    Attributes:
        decision: The Decision. The plan may use only its matches.
        arguments: Arguments of the user, by `name` or `step.name`.
        salt: A text that makes the ids of equal plans of different workflows differ.
        first: An earlier plan. The Decision is then a further one, for the steps of that plan without a tool.
        min_confidence: The minimum confidence, 0 to 1. Below it nothing is planned. A part stays without a tool if its
            probability is below two thirds of it.
        conversation: Earlier turns, oldest first. A model reads them before the task.
        without_model: The reason why no model is asked. Empty if one may be asked.
        max_tokens: Tokens for all requests to the model, with its answers. Default: no limit.

    Examples:
        >>> from orchestrator import PlanRequest, Router
        >>> with Router("examples/tools.jsonl") as router:
        ...     decision = router.route_sync("refund charge ch_3PqX")
        >>> PlanRequest(decision=decision, arguments={"charge": "ch_3PqX"}).min_confidence
        0.3
    """

    decision: Decision
    arguments: dict[str, Any] = field(default_factory=dict)
    salt: str = ""
    first: "Plan | None" = None
    min_confidence: Probability = MIN_CONFIDENCE
    conversation: tuple[Turn, ...] = ()
    without_model: str = ""
    max_tokens: Annotated[int | None, Give("a number of tokens, 0 or more, or none", ge=0)] = None

    def validate(self) -> None:
        """Check the settings.

        Raises:
            InvalidInput: A value is out of range.
        """
        check(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A task cut into steps.

    Attributes:
        id: The id of the plan.
        task: The text of the task.
        steps: The steps, in order.
        model: The name of the model that made the plan. `none`: the deterministic planner.
        reasons: The reasons of the model.
        choice: The model's choice. It has the answer if no tool is needed.
        usage: The tokens that the choice and the plan used.
        warnings: Warnings: why a model had no part, which arguments no step takes, and which part of the task is left
            out.
        needs_input: Questions that a person has to answer before there are any steps.

    Examples:
        >>> from orchestrator import Plan, Step
        >>> plan = Plan(id="p1", task="get the time", steps=(Step(id="s1", task="get the time", tool=""),))
        >>> [step.id for step in plan.unbound]
        ['s1']
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
        """The steps without a tool."""
        return tuple(step for step in self.steps if not step.tool)
