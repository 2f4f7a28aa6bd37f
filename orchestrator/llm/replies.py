"""What a chat completion holds. Checked here, since the client checks nothing, and held to what was asked for."""

from typing import Any

from orchestrator.errors import ModelFailed, ModelRefused
from orchestrator.records.completion import Usage

MOST_CHARS_PER_TOKEN, MOST_CHARS = 20, 96_000
"""More than a token of an answer has, and the most that an answer may have: so that one of an endpoint that keeps to
no limit fits a workflow history. What is beyond is cut, as if the endpoint had done so."""


def well_formed(choice: Any) -> Any:
    """The choice. Raises TypeError or AttributeError where it holds no message, or its texts are none."""
    for text in (choice.message.content, getattr(choice.message, "refusal", None)):
        if not isinstance(text, str | None):
            raise TypeError(f"a text is {type(text).__name__}")
    return choice


def text_of(answer: Any, usage: Usage, max_output_tokens: int) -> tuple[str, bool]:
    """The answer, and whether it was cut: there, or here where the endpoint kept to no limit."""
    message = answer.message
    if refusal := getattr(message, "refusal", None):
        raise with_usage(ModelRefused(f"the model declined: {refusal[:300]}"), usage)
    if answer.finish_reason == "content_filter":
        raise with_usage(ModelRefused("the endpoint's content filter stopped the answer"), usage)
    text = message.content or ""
    most = min(max_output_tokens * MOST_CHARS_PER_TOKEN, MOST_CHARS)
    return text[:most], answer.finish_reason == "length" or len(text) > most


def usage_of(given: Any) -> Usage:
    """Provider's own figures, whole numbers whatever their form; an endpoint that gives none counts nothing."""
    if given is None:
        return Usage()
    details = getattr(given, "prompt_tokens_details", None)
    return Usage(
        input=max(0, int(given.prompt_tokens or 0)),
        output=max(0, int(given.completion_tokens or 0)),
        cached=max(0, int(getattr(details, "cached_tokens", None) or 0)),
    )


def with_usage(error: ModelFailed, usage: Usage) -> ModelFailed:
    error.usage = usage
    return error
