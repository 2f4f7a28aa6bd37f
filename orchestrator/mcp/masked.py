"""Records of the protocol without secrets: one function masks all texts of one, whatever field they stand in."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.common.redact import Secrets
from orchestrator.errors import ServerUnavailable

M = TypeVar("M", bound=BaseModel)


def masked_model(model: M, secrets: Secrets) -> M:
    """Return a record with these values masked in all its texts.

    Raises:
        ServerUnavailable: A secret stands where the protocol wants another type than a text.
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
