"""One model call within a run: a step's arguments out of earlier results, or the answer out of all."""

from pydantic import BaseModel

from orchestrator.catalogue.export import check_arguments
from orchestrator.catalogue.tokens import compact
from orchestrator.errors import InvalidArguments, InvalidInput
from orchestrator.llm import context
from orchestrator.llm.client import Models
from orchestrator.llm.prompts import ANSWER, FILL
from orchestrator.llm.structured import Message
from orchestrator.planning.drafts import arguments_so_far
from orchestrator.records.completion import CompleteRequest, Completion, Purpose
from orchestrator.records.tool import Tool

PROMPT_TOKENS = 400
"""What the instructions (130 at most) and the answer's shape (120) take, beside the context."""


class FilledShape(BaseModel):
    """What the model answers when it is asked for arguments."""

    arguments: str = "{}"
    missing: list[str] = []
    why: str = ""


async def complete(models: Models, request: CompleteRequest) -> Completion:
    """The completion, within the request's tokens; arguments are checked against the schema and repaired once."""
    if request.purpose is Purpose.ANSWER:
        messages = _messages(ANSWER, request, (), {})
        text, usage = await models.write(models.plan_model, messages, max_output_tokens=request.answer_tokens)
        return Completion(text=text, model=models.plan_model, usage=usage)
    if request.tool is None:
        raise InvalidInput("a completion of arguments needs the tool that they are for")
    return await _fill(models, request, request.tool)


async def _fill(models: Models, request: CompleteRequest, tool: Tool) -> Completion:
    sections = {"Settled arguments": compact(request.known), "Wanted parameters": ", ".join(request.wanted)}
    messages = _messages(FILL, request, (tool,), sections)
    reply = await models.ask(
        models.plan_model,
        messages,
        FilledShape,
        max_output_tokens=request.answer_tokens,
        check=lambda filled: _faults(request, tool, filled),
    )
    filled = reply.value
    return Completion(
        arguments=_values(request, tool, filled)[0],
        missing=tuple(name for name in request.wanted if name in filled.missing),
        why=filled.why,
        model=reply.model,
        usage=reply.usage,
    )


def _values(request: CompleteRequest, tool: Tool, filled: FilledShape) -> tuple[dict[str, object], list[str]]:
    """The wanted values that the model found, and what is wrong with them."""
    values, faults = arguments_so_far(tool, filled.arguments, filled.missing)
    return {name: value for name, value in values.items() if name in request.wanted}, faults


def _faults(request: CompleteRequest, tool: Tool, filled: FilledShape) -> list[str]:
    values, faults = _values(request, tool, filled)
    if faults:
        return faults
    silent = [name for name in request.wanted if name not in values and name not in filled.missing]
    if silent:
        return [f"{', '.join(silent)}: give a value, or name it in missing"]
    if set(filled.missing) & set(request.wanted):
        return []
    try:
        check_arguments(tool, {**request.known, **values})
    except InvalidArguments as error:
        return [str(error)]
    return []


def _messages(told: str, request: CompleteRequest, tools: tuple[Tool, ...], sections: dict[str, str]) -> list[Message]:
    content = context.written(
        request.task,
        tools,
        sections,
        results=request.results,
        max_tokens=max(PROMPT_TOKENS, request.max_tokens - PROMPT_TOKENS),
        answer_tokens=request.answer_tokens,
    )
    return [{"role": "system", "content": told}, {"role": "user", "content": content}]
