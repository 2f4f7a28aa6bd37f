"""Structured answers: how a shape is asked for over OpenAI's protocol, and how the answer is read."""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Shape = TypeVar("Shape", bound=BaseModel)
Message = dict[str, str]


def asked_as_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """The parameters that ask for the shape by its JSON schema."""
    form = {"name": shape.__name__, "strict": True, "schema": strict_schema(shape)}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def asked_in_words(shape: type[BaseModel], messages: Sequence[Message]) -> dict[str, Any]:
    """For endpoints that only promise some JSON: the schema as one more instruction."""
    told = f"Answer with one JSON object and nothing else. Its JSON schema: {json.dumps(strict_schema(shape))}"
    return {
        "response_format": {"type": "json_object"},
        "messages": [{"role": "system", "content": told}, *messages],
    }


def strict_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """The shape's JSON schema as strict mode wants it: closed, everything required, no defaults."""
    closed: dict[str, Any] = _closed(shape.model_json_schema(mode="serialization"))
    return closed


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _closed(value) for key, value in node.items() if key not in ("default", "title")}
    if "properties" in kept:
        kept |= {"additionalProperties": False, "required": list(kept["properties"])}
    return kept


def read(text: str, shape: type[Shape], *, cut: bool) -> tuple[Shape | None, list[str]]:
    """The answer in its shape, or what is wrong with it."""
    if cut:
        return None, ["the answer reached the limit of output tokens before its end: be brief"]
    plain = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        return shape.model_validate_json(plain), []
    except ValidationError as error:
        return None, [f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in error.errors()[:5]]


def repair(problems: Sequence[str]) -> Message:
    """What an answer that cannot be used is sent back with."""
    told = "".join(f"\n- {problem}" for problem in problems)
    return {"role": "user", "content": f"That answer cannot be used:{told}\nAnswer again, whole, with this mended."}
