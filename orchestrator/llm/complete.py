"""One model call within a run: a step's arguments from earlier results, or the answer from all of them."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from pydantic import BaseModel, Field

from orchestrator.catalogue.resolve import check_arguments
from orchestrator.catalogue.tokens import compact
from orchestrator.errors import InvalidArguments, InvalidInput
from orchestrator.llm.answers import Message
from orchestrator.llm.client import Models, spent_before
from orchestrator.llm.context import build_context
from orchestrator.llm.plan import arguments_so_far
from orchestrator.llm.prompts import ANSWER, FILL
from orchestrator.records.completion import MOST_ASKED, CompleteRequest, Completion, Purpose
from orchestrator.records.tool import Tool
from orchestrator.records.usage import Usage

PROMPT_TOKENS = 400
"""The tokens for the instructions (at most 130) and the schema of the answer (120), without the context."""


class FilledShape(BaseModel):
    """A model's answer to FILL."""

    arguments: str = Field(default_factory=str)
    missing: list[str] = Field(default_factory=list)
    why: str = Field(default_factory=str)
    read: str = Field(default_factory=str)
    at: int = Field(default_factory=int)


Read = Callable[[str, str], Awaitable[str]]
"""Returns a tenant's whole result by its reference."""


async def complete(models: Models, request: CompleteRequest, read: Read) -> Completion:
    """Return the completion within the request's tokens. Arguments are checked against the schema and repaired once.

    A model that writes arguments may read further in a cut result, within the same tokens.

    Args:
        models: The models.
        request: The request.
        read: Reads a part of a cut result.
    """
    model = models.plan_model
    if request.purpose is Purpose.ANSWER:
        messages = _messages(ANSWER, request, (), {})
        limits = {"max_output_tokens": request.answer_tokens, "max_tokens": request.max_tokens}
        text, usage = await models.write(model, messages, **limits)
        return Completion(text=text, model=model, usage=usage)
    tool = request.tool
    if tool is None:
        raise InvalidInput("a CompleteRequest for arguments has no tool: give tool=")
    filled, usage = await _filled(models, request, tool, Usage())
    while filled.read and usage.total < (MOST_ASKED - 1) * request.max_tokens:
        request = await _read_on(request, filled, read)
        filled, usage = await _filled(models, request, tool, usage)
    return Completion(
        arguments=_values(request, tool, filled)[0],
        missing=tuple(name for name in request.wanted if name in filled.missing or filled.read),
        why=filled.why,
        model=model,
        usage=usage,
    )


async def _filled(
    models: Models, request: CompleteRequest, tool: Tool, used: Usage
) -> tuple[FilledShape, Usage]:
    """Return the model's answer with the total usage."""
    sections = {
        "Settled arguments": compact(request.known),
        "Wanted parameters": ", ".join(request.wanted),
    }
    with spent_before(used):
        filled, took = await models.ask(
            models.plan_model,
            _messages(FILL, request, (tool,), sections),
            FilledShape,
            max_output_tokens=request.answer_tokens,
            max_tokens=MOST_ASKED * request.max_tokens - used.total,
            check=lambda filled: _faults(request, tool, filled),
        )
    return filled, used + took


async def _read_on(request: CompleteRequest, filled: FilledShape, read: Read) -> CompleteRequest:
    """Return the request with the named result from that character on."""
    text = await read(request.tenant, request.whole[filled.read])
    part = f"[from character {filled.at:,} of {len(text):,}]\n{text[filled.at :]}"
    results = ((title, part if title == filled.read else text) for title, text in request.results)
    return replace(request, results=tuple(results))


def _values(
    request: CompleteRequest, tool: Tool, filled: FilledShape
) -> tuple[dict[str, object], list[str]]:
    """Return the wanted values that the model found, and their problems."""
    values, faults = arguments_so_far(tool, filled.arguments, filled.missing)
    return {name: value for name, value in values.items() if name in request.wanted}, faults


def _faults(request: CompleteRequest, tool: Tool, filled: FilledShape) -> list[str]:
    if filled.read:
        cut = ", ".join(request.whole) or "none"
        if filled.read in request.whole and filled.at >= 0:
            return []
        return [
            f"read {filled.read!r} at {filled.at}: only these results can be read further: {cut}"
        ]
    values, faults = _values(request, tool, filled)
    if faults:
        return faults
    answered = {*values, *filled.missing}
    silent = [name for name in request.wanted if name not in answered]
    if silent:
        return [f"{', '.join(silent)}: give a value, or name it in missing"]
    if not set(filled.missing).isdisjoint(request.wanted):
        return []
    try:
        check_arguments(tool, {**request.known, **values})
    except InvalidArguments as error:
        return [str(error)]
    return []


def _messages(
    prompt: str, request: CompleteRequest, tools: tuple[Tool, ...], sections: dict[str, str]
) -> list[Message]:
    context = build_context(
        request.task,
        tools,
        results=request.results,
        sections=sections,
        max_tokens=max(PROMPT_TOKENS, request.max_tokens - PROMPT_TOKENS),
        answer_tokens=request.answer_tokens,
    )
    return [{"role": "system", "content": prompt}, {"role": "user", "content": context.markdown}]
