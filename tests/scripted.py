"""The scripted model of a test, and real clients that ask it."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from orchestrator.testing import ScriptedModel
from tests.openai_api import OpenAIModel

CLIENTS: list[openai.OpenAI] = []
"""Of the running test, to be closed with its model."""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with OpenAIModel() as found:
        yield found
        while CLIENTS:
            CLIENTS.pop().close()


@pytest.fixture
def default_model(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    """The model, which clients of OpenAI's library ask if they name no other one."""
    from agents import set_tracing_disabled  # It takes a second, so other tests do not import it.

    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    set_tracing_disabled(True)
    return model


def asking(model: ScriptedModel, *replies: Any) -> openai.OpenAI:
    """A client of the model, which gives these replies."""
    model.replies = list(replies)
    CLIENTS.append(openai.OpenAI(base_url=model.url, api_key="k", max_retries=0, timeout=30))
    return CLIENTS[-1]
