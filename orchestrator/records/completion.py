"""The records of a language model's part: its requests, its choices and texts, and the tokens that it used."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orchestrator.records.tool import Tool
from orchestrator.records.usage import Usage

NO_MODEL = "none"
"""The name of the model in a record that was made without a model."""
FILLING_TOKENS = 8_000
"""The maximum tokens of one request to the model that fills a step's late arguments, with its answer."""
MOST_ASKED = 3
"""The maximum number of requests for a step's late arguments. A wrong answer and each further part of a long result
cost one.
"""


class Action(StrEnum):
    """How to deal with a task: `answer` it directly, call one `tool`, make a `plan`, or `none` of these.

    Examples:
        >>> from orchestrator import Action
        >>> Action("tool") is Action.TOOL
        True
    """

    ANSWER = "answer"
    TOOL = "tool"
    PLAN = "plan"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A language model's choice: answer directly, use one tool, or plan. It may use only the Decision's matches.

    Attributes:
        action: The way to deal with the task. It is `none` if the model failed.
        reasons: The model's reasons.
        confidence: The model's own confidence, 0 to 1.
        answer: The answer, for the action `answer`.
        tool: The key of the tool, for the action `tool`.
        arguments: The arguments of the tool, for the action `tool`.
        model: The name of the model. It is `none` if the model failed.
        usage: The tokens that the model used.
        warnings: Warnings, with the reason if the model failed.

    Examples:
        >>> from orchestrator import Action, Choice
        >>> Choice(action=Action.TOOL, tool="time:get_current_time", confidence=0.9).tool
        'time:get_current_time'
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
    """The purpose of a model call within a run: a tool's `arguments`, or the `answer`.

    Examples:
        >>> from orchestrator import Purpose
        >>> [purpose.value for purpose in Purpose]
        ['arguments', 'answer']
    """

    ARGUMENTS = "arguments"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRequest:
    """One model call within a run. The model writes a tool's arguments or the answer from earlier results.

    Attributes:
        purpose: `arguments` or `answer`.
        task: The text of the step, or of the run.
        results: The title and the text of each earlier result.
        tool: The tool that needs arguments.
        wanted: The names of the parameters to fill.
        known: The arguments that are already known.
        max_tokens: Tokens for the whole call, with `answer_tokens`.
        answer_tokens: Tokens for the model's answer.
        tenant: The tenant that owns the results.
        whole: The references of uncut results, by title. A model that fills arguments may read them further.

    Examples:
        >>> from orchestrator import CompleteRequest, Purpose
        >>> CompleteRequest(purpose=Purpose.ANSWER, task="What time is it?", results=(("s1", "08:00"),)).max_tokens
        8000
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
    """A language model's answer to a CompleteRequest.

    Attributes:
        text: The answer, for the purpose `answer`.
        arguments: The arguments, for the purpose `arguments`.
        missing: The names of parameters that the results do not give.
        why: The model's reason.
        model: The name of the model.
        usage: The tokens that the model used.

    Examples:
        >>> from orchestrator import Completion
        >>> Completion(text="It is 08:00.", model="gpt-5-mini").text
        'It is 08:00.'
    """

    text: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    why: str = ""
    model: str = NO_MODEL
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The late arguments of a step.

    Attributes:
        arguments: The arguments by name.
        tokens: The tokens that filling them used.
        reason: Why the step has no arguments. Empty if it has some.

    Examples:
        >>> from orchestrator import Filled
        >>> Filled(arguments={"issue_number": 42}, tokens=310).reason
        ''
    """

    arguments: dict[str, Any] = field(default_factory=dict)
    tokens: int = 0
    reason: str = ""
