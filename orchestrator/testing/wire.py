"""A scripted reply as OpenAI's HTTP response: chat completions, responses, embeddings, errors."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from orchestrator.catalogue.tokens import compact, count_tokens
from orchestrator.testing.replies import (
    Asked,
    CutOff,
    Fault,
    Raw,
    Refusal,
    Reply,
    Slow,
    ToolCalls,
    Truncated,
    Usage,
    Vectors,
)
from orchestrator.testing.vectors import embedding

if TYPE_CHECKING:
    from starlette.responses import Response


async def respond(asked: Asked, reply: Reply | None, dimension: int, floats: bool) -> "Response":
    """The HTTP response; None is a good answer of the embedding model, `floats` all that this one can send."""
    from starlette.responses import JSONResponse, Response, StreamingResponse

    if isinstance(reply, Slow):
        await asyncio.sleep(reply.seconds)
        reply = reply.reply
        reply = None if asked.kind == "embeddings" and isinstance(reply, str) else reply
    if isinstance(reply, Fault):
        return _error(reply)
    if isinstance(reply, Raw):
        return Response(reply.body, media_type=reply.content_type)
    halved = isinstance(reply, CutOff)
    if asked.kind == "embeddings":
        body = _embeddings(asked, reply.dimension if isinstance(reply, Vectors) else dimension, floats)
    else:
        body = _completion(asked, "cut off" if halved else reply)
    if not halved:
        return JSONResponse(body)
    whole = json.dumps(body).encode()
    headers = {"content-length": str(len(whole))}
    return StreamingResponse(_first_half(whole), headers=headers, media_type="application/json")


async def _first_half(body: bytes) -> AsyncIterator[bytes]:
    yield body[: len(body) // 2]


def _error(fault: Fault) -> "Response":
    from starlette.responses import JSONResponse

    told = {"message": fault.message, "type": fault.kind, "param": None, "code": fault.code}
    headers = {} if fault.retry_after is None else {"retry-after": f"{fault.retry_after:g}"}
    return JSONResponse({"error": told}, status_code=fault.status, headers=headers)


def _embeddings(asked: Asked, dimension: int, floats: bool) -> dict[str, Any]:
    given = asked.body["input"]
    texts = given if isinstance(given, list) else [given]
    vectors = [embedding(text, asked.body.get("dimensions") or dimension) for text in texts]
    packed = asked.body.get("encoding_format") == "base64" and not floats
    data = [
        {
            "object": "embedding",
            "index": place,
            "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode() if packed else vector.tolist(),
        }
        for place, vector in enumerate(vectors)
    ]
    used = sum(map(count_tokens, texts))
    usage = {"prompt_tokens": used, "total_tokens": used}
    # Out of order: the index is what counts.
    return {"object": "list", "data": data[::-1], "model": asked.model, "usage": usage}


def _completion(asked: Asked, reply: Any) -> dict[str, Any]:
    billed = reply if isinstance(reply, Usage) else None
    said = reply.reply if isinstance(reply, Usage) else reply
    if isinstance(said, BaseModel):
        said = said.model_dump_json()
    elif isinstance(said, Mapping):
        said = compact(said)
    output = count_tokens(str(getattr(said, "text", said)))
    usage = billed or Usage(reply="", input=count_tokens(compact(asked.body)), output=output)
    return _chat(asked, said, usage) if asked.kind == "chat/completions" else _responses(asked, said, usage)


def _chat(asked: Asked, said: Any, usage: Usage) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    finish = "stop"
    if isinstance(said, ToolCalls):
        finish = "tool_calls"
        message["tool_calls"] = [
            {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": _arguments(given)}}
            for place, (name, given) in enumerate(said.calls)
        ]
    elif isinstance(said, Refusal):
        message["refusal"] = said.text
    elif isinstance(said, Truncated):
        finish, message["content"] = "length", said.text
    else:
        message["content"] = said
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        },
    }


def _responses(asked: Asked, said: Any, usage: Usage) -> dict[str, Any]:
    output: list[dict[str, Any]]
    if isinstance(said, ToolCalls):
        output = [
            {
                "type": "function_call",
                "id": f"fc_{place}",
                "call_id": f"call_{place}",
                "name": name,
                "arguments": _arguments(given),
                "status": "completed",
            }
            for place, (name, given) in enumerate(said.calls)
        ]
    elif isinstance(said, Refusal):
        output = [_message({"type": "refusal", "refusal": said.text})]
    else:
        text = said.text if isinstance(said, Truncated) else said
        output = [_message({"type": "output_text", "text": text, "annotations": []})]
    cut = isinstance(said, Truncated)
    return {
        "id": "resp_scripted",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "model": asked.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": asked.body.get("tools") or [],
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input + usage.output,
        },
    }


def _message(content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "id": "msg_0", "status": "completed", "role": "assistant", "content": [content]}


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else compact(given)
