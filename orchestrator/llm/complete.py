"""One model call within a run: a step's arguments from earlier results, or the answer from all of them."""

from pydantic import BaseModel, Field

from orchestrator.catalogue.export import check_arguments
from orchestrator.catalogue.tokens import compact
from orchestrator.errors import InvalidArguments, InvalidInput
from orchestrator.llm.client import Message, Models
from orchestrator.llm.context import build
from orchestrator.llm.plan import arguments_so_far
from orchestrator.llm.prompts import ANSWER, FILL
from orchestrator.records.completion import CompleteRequest, Completion, Purpose
from orchestrator.records.tool import Tool

MOST_ASKED = 2
"""Times: an answer that does not fit is sent back once, and its tokens are granted again."""
PROMPT_TOKENS = 400
"""For the instructions (130 at most) and the answer's shape (120), apart from the context."""


class FilledShape(BaseModel):
    """A model's answer to FILL."""

    arguments: str = Field(default_factory=str)
    missing: list[str] = Field(default_factory=list)
    why: str = Field(default_factory=str)


async def complete(models: Models, request: CompleteRequest) -> Completion:
    """Return the completion, within the request's tokens; arguments are checked against the schema, mended once."""
    model = models.plan_model
    if request.purpose is Purpose.ANSWER:
        messages = _messages(ANSWER, request, (), {})
        limits = {"max_output_tokens": request.answer_tokens, "max_tokens": request.max_tokens}
        text, usage = await models.write(model, messages, **limits)
        return Completion(text=text, model=model, usage=usage)
    tool = request.tool
    if tool is None:
        raise InvalidInput("a completion of arguments needs the tool that they are for")
    sections = {"Settled arguments": compact(request.known), "Wanted parameters": ", ".join(request.wanted)}
    messages = _messages(FILL, request, (tool,), sections)
    filled, usage = await models.ask(
        model,
        messages,
        FilledShape,
        max_output_tokens=request.answer_tokens,
        max_tokens=MOST_ASKED * request.max_tokens,
        check=lambda filled: _faults(request, tool, filled),
    )
    return Completion(
        arguments=_values(request, tool, filled)[0],
        missing=tuple(name for name in request.wanted if name in filled.missing),
        why=filled.why,
        model=model,
        usage=usage,
    )


def _values(request: CompleteRequest, tool: Tool, filled: FilledShape) -> tuple[dict[str, object], list[str]]:
    """Return the wanted values that the model found, and what is wrong with them."""
    values, faults = arguments_so_far(tool, filled.arguments, filled.missing)
    return {name: value for name, value in values.items() if name in request.wanted}, faults


def _faults(request: CompleteRequest, tool: Tool, filled: FilledShape) -> list[str]:
    values, faults = _values(request, tool, filled)
    if faults:
        return faults
    if silent := [name for name in request.wanted if name not in values and name not in filled.missing]:
        return [f"{', '.join(silent)}: give a value, or name it in missing"]
    if set(filled.missing) & set(request.wanted):
        return []
    try:
        check_arguments(tool, {**request.known, **values})
    except InvalidArguments as error:
        return [str(error)]
    return []


def _messages(
    prompt: str, request: CompleteRequest, tools: tuple[Tool, ...], sections: dict[str, str]
) -> list[Message]:
    context = build(
        request.task,
        tools,
        results=request.results,
        sections=sections,
        max_tokens=max(PROMPT_TOKENS, request.max_tokens - PROMPT_TOKENS),
        answer_tokens=request.answer_tokens,
    )
    return [{"role": "system", "content": prompt}, {"role": "user", "content": context.markdown}]
