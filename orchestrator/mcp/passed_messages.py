"""The changes of a message that toolroute passes on: its `_meta`, and the secrets in its texts.

    a client's request   {"progressToken": 3, "traceparent": "00-4bf9...", "com.example/user": "ada"}
    the server receives  {"traceparent": "00-4bf9...", "com.example/user": "ada"}

The keys of a session stay in it, because toolroute has one session with the client and another with the server. Keys
that begin with `toolroute/` are for toolroute itself. All other keys are passed on, without secrets.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.catalogue.tokens import compact
from orchestrator.common.redact import Secrets
from orchestrator.errors import InvalidArguments, ServerUnavailable

M = TypeVar("M", bound=BaseModel)

MOST_BYTES = 256 * 2**10
"""The maximum size of one `_meta` as JSON, in bytes. It is that of a tool's definition."""
_SESSION_KEYS = frozenset(
    {
        "progressToken",
        "progress_token",
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/logLevel",
        "io.modelcontextprotocol/serverInfo",
        "io.modelcontextprotocol/subscriptionId",
    }
)


def masked_model(model: M, secrets: Secrets) -> M:
    """Return a record of the protocol with these values masked in all its texts.

    Raises:
        ServerUnavailable: A secret is in a place where the protocol wants another type than a text.
    """
    plain = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    clear = secrets.redact_json(plain)
    if clear == plain:
        return model
    try:
        return type(model).model_validate(clear)
    except ValidationError:
        raise ServerUnavailable(
            f"a {type(model).__name__} of the server is left out: masking a secret in it makes it invalid"
        ) from None


def request_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the part of a client's `_meta` for the server. Raises InvalidArguments if it is too large."""
    passed = _passed(meta)
    if is_too_large(passed):
        raise InvalidArguments(
            f"_meta has more than {MOST_BYTES // 2**10} KiB: send less metadata with the request"
        )
    return passed


def answer_meta(
    meta: Any, secrets: Secrets | None = None, most_bytes: int = MOST_BYTES
) -> dict[str, Any]:
    """Return the part of a server's `_meta` for the client, without secrets. It is empty if it is too large.

    Args:
        meta: The server's `_meta`.
        secrets: The values to redact. None: it has none any more.
        most_bytes: The maximum size as JSON.
    """
    passed = _passed(meta)
    if is_too_large(passed, most_bytes):
        return {}
    redacted: dict[str, Any] = secrets.redact_json(passed) if secrets else passed
    return redacted


def is_too_large(meta: Any, most_bytes: int = MOST_BYTES) -> bool:
    return bool(meta) and len(compact(meta)) > most_bytes


def _passed(meta: Any) -> dict[str, Any]:
    if not isinstance(meta, Mapping):
        return {}
    return {
        key: value
        for key, value in meta.items()
        if key not in _SESSION_KEYS and not key.startswith("toolroute/")
    }
