"""Answers of language models: the request for a shape, the parts of a chat completion, and the JSON in a text.

<think>The user wants ...</think> Here it is: {"steps": []}   ->   {"steps": []}
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.errors import ModelRefused, ToolrouteError
from orchestrator.records.usage import Usage

Shape = TypeVar("Shape", bound=BaseModel)
Message = dict[str, str]

MOST_CHARS_PER_TOKEN = 20
"""Hardly any token is longer. A longer answer comes from an endpoint that ignores the limit."""
MOST_CHARS = 96_000
"""Longer answers are cut, because some endpoints ignore the limit and a workflow history must have room for them."""
_END_OF_THOUGHTS = re.compile("</think(?:ing)?>")
_BEGIN_OF_OBJECT = re.compile(r"\{\s*[\"}]")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One chat completion: its text, whether the text was cut, and its tokens."""

    text: str
    is_cut: bool
    usage: Usage


def schema_of(shape: type[BaseModel]) -> Any:
    from openai import pydantic_function_tool

    return pydantic_function_tool(shape)["function"]["parameters"]


def response_format(
    shape: type[BaseModel], messages: Sequence[Message], *, structured: bool
) -> dict[str, Any]:
    """Return the parameters of a chat completion that ask for a shape.

    Args:
        shape: The model of the answer.
        messages: The messages of the request.
        structured: Send the strict JSON schema of the shape. Otherwise, the schema is in a further system message, for
            endpoints without structured output.
    """
    schema = schema_of(shape)
    if structured:
        form = {"name": shape.__name__, "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    instruction = (
        f"Answer with one JSON object and nothing else. Its JSON schema: {json.dumps(schema)}"
    )
    return {
        "response_format": {"type": "json_object"},
        "messages": [{"role": "system", "content": instruction}, *messages],
    }


def answer_of(completion: Any, limit: int) -> Answer:
    """Return the content of a chat completion, which the client does not check. Raises TypeError if it is not text."""
    choice = completion.choices[0]
    usage = _usage_of(completion.usage)
    text = choice.message.content
    refusal = getattr(choice.message, "refusal", None)
    if not (isinstance(text, str | None) and isinstance(refusal, str | None)):
        raise TypeError("a message without text")
    if refusal:
        raise with_usage(ModelRefused(f"the model refused the question: {refusal[:300]}"), usage)
    if choice.finish_reason == "content_filter":
        raise with_usage(ModelRefused("the endpoint's content filter stopped the answer"), usage)
    text = text or ""
    max_chars = min(limit * MOST_CHARS_PER_TOKEN, MOST_CHARS)
    is_cut = choice.finish_reason == "length" or len(text) > max_chars
    return Answer(text=text[:max_chars], is_cut=is_cut, usage=usage)


def _usage_of(figures: Any) -> Usage:
    """Return the provider's usage figures as integers. Missing figures are 0."""
    if figures is None:
        return Usage()
    details = getattr(figures, "prompt_tokens_details", None)
    return Usage(
        input=max(0, int(figures.prompt_tokens or 0)),
        output=max(0, int(figures.completion_tokens or 0)),
        cached=max(0, int(getattr(details, "cached_tokens", None) or 0)),
    )


def read_answer(answer: Answer, shape: type[Shape]) -> tuple[Shape | None, list[str]]:
    """Return the parsed answer, or the problem with it."""
    if answer.is_cut:
        return None, ["the answer reached the limit of output tokens before its end: be brief"]
    try:
        return shape.model_validate_json(_json_in(answer.text)), []
    except ValidationError as error:
        return None, [_problem(details) for details in error.errors()[:5]]


def _problem(details: Any) -> str:
    """Return one problem of pydantic as `steps.0.tool: Field required`."""
    field = ".".join(map(str, details["loc"])) or "answer"
    return f"{field}: {details['msg']}"


def _json_in(text: str) -> str:
    """Return the JSON object in an answer: models set their thoughts, a sentence or a fence around it."""
    if not text.lstrip().startswith("{"):
        text = _END_OF_THOUGHTS.split(text)[-1]
    match = _BEGIN_OF_OBJECT.search(text)
    if match is None:
        return text
    start = match.start()
    try:
        _, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return text[start:]
    return text[start:end]


def repair_message(problems: Sequence[str]) -> Message:
    listed = "".join(f"\n- {problem}" for problem in problems)
    return {
        "role": "user",
        "content": f"That answer cannot be used:{listed}\nAnswer again, whole, with this mended.",
    }


def with_usage(error: ToolrouteError, usage: Usage) -> ToolrouteError:
    error.usage = usage
    return error
