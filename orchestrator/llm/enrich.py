"""Enrichment: the user's model describes a tool, its use and example requests. The texts are searched."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from orchestrator.catalogue.export import parameters
from orchestrator.catalogue.tokens import compact, count_tokens, cut
from orchestrator.common.lines import as_json, one_line
from orchestrator.errors import AnswerInvalid
from orchestrator.llm.client import Models
from orchestrator.pipeline.model_calls import DATA
from orchestrator.records.tool import Tool

TOOL_TOKENS, LANGUAGE_TOKENS = 800, 200
"""The maximum number of tokens of a tool's definition, and of the answer for each language. The two sentences about the
tool take as much as one language."""
REQUESTS = 3
"""The number of example requests in each language."""
_MOST_OF_A_TEXT = 300
PROMPT = """You write search texts for a tool, so that a request for it finds it. Write to does what the tool does and \
to when when to use it, in one sentence each. Write to requests, for each language listed, {count} short requests as \
different users would word them in that language, without the tool's own name. Claim nothing that the definition does \
not say."""


class EnrichedShape(BaseModel):
    """A model's answer to PROMPT."""

    does: str
    when: str
    requests: list[str]


def most_tokens(tool: Tool, languages: Sequence[str]) -> tuple[int, int]:
    """Return the estimated tokens of the question about a tool, and the most that the answer may take."""
    schema = compact(EnrichedShape.model_json_schema())
    asked = count_tokens(compact(_messages(tool, languages)) + schema)
    return asked, LANGUAGE_TOKENS * (1 + len(languages))


async def enrich(models: Models, tool: Tool, languages: Sequence[str]) -> dict[str, Any]:
    """Return the search texts of a tool as a note: `does`, `when`, `requests`, `languages` and `model`.

    Args:
        models: The user's models. The route model is asked, once.
        tool: The tool. Its definition is quoted as data, bounded.
        languages: The languages of the example requests.

    Raises:
        ToolrouteError: The model gave no answer of this form.
    """
    asked, answer = most_tokens(tool, languages)
    limits: dict[str, Any] = {"max_output_tokens": answer, "max_tokens": 2 * asked + answer, "repairs": 0}
    found, _ = await models.ask(models.route_model, _messages(tool, languages), EnrichedShape, **limits)
    lines = dict.fromkeys(one_line(text, _MOST_OF_A_TEXT) for text in found.requests)
    requests = [text for text in lines if text][: REQUESTS * len(languages)]
    if not requests:
        raise AnswerInvalid("the model wrote no request")
    texts = {"does": one_line(found.does, _MOST_OF_A_TEXT), "when": one_line(found.when, _MOST_OF_A_TEXT)}
    return {**texts, "requests": requests, "languages": [*languages], "model": models.route_model}


def _messages(tool: Tool, languages: Sequence[str]) -> list[dict[str, str]]:
    definition = {"tool": tool.key, "title": tool.title, "description": tool.description, "takes": parameters(tool)}
    data = {"languages": [*languages], "definition": cut(as_json(definition), TOOL_TOKENS)[0]}
    prompt = f"{PROMPT.format(count=REQUESTS)}\n\n{DATA}"
    return [{"role": "system", "content": prompt}, {"role": "user", "content": compact(data)}]
