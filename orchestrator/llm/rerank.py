"""A reranker: any endpoint that takes a query with texts at `/rerank`, as Cohere, Jina, vLLM and TEI serve it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from orchestrator.common.endpoints import OPENAI_URL, complaint, unanswered
from orchestrator.common.redact import LogFilter
from orchestrator.errors import InvalidConfig, ModelUnavailable, ToolrouteError, Unauthorised
from orchestrator.llm.endpoint import UNREADABLE, Endpoint
from orchestrator.options import Options, model_key, rerank_key

_FORMS: Mapping[int, tuple[str, Mapping[str, Any]]] = {
    400: ("documents", {"truncate_prompt_tokens": -1}),
    422: ("texts", {"truncate": True}),
}
"""The form to try after an HTTP status. vLLM answers 400 for a text beyond the model's context, often 512 tokens. TEI
answers 422 for `documents`. Both cut texts only if the request says so. Cohere and Jina do it by themselves."""


class Reranker:
    """Ask the reranker of the options. It opens on first use, in each event loop anew.

    The key is TOOLROUTE_RERANK_KEY. OPENAI_API_KEY is sent only to the host that also serves the language model.

    Args:
        options: `rerank_url` is the address in front of `/rerank`. `rerank_model` may name the model.

    Raises:
        InvalidConfig: `rerank_url` is empty.
    """

    def __init__(self, options: Options) -> None:
        if not options.rerank_url:
            raise InvalidConfig(
                "no reranker is configured: set TOOLROUTE_RERANK_URL, or give Options(rerank_url=...)"
            )
        self._endpoint = Endpoint(options.rerank_url, options.route_timeout_s)
        self._model = options.rerank_model
        shared = _host(options.rerank_url) == _host(options.model_url or OPENAI_URL)
        self._key = rerank_key() or (model_key() if shared else None)
        self._form: tuple[str, Mapping[str, Any]] = ("documents", {})

    def __repr__(self) -> str:
        return f"Reranker({self._endpoint.where!r})"

    async def aclose(self) -> None:
        """Close the client. A later question opens a new one."""
        await self._endpoint.aclose()

    async def rank(self, query: str, texts: Sequence[str]) -> tuple[int, ...]:
        """Return the positions of the texts that the reranker scored, most relevant first.

        Raises:
            Unauthorised: The endpoint refused the key.
            ModelUnavailable: The endpoint did not answer, or not with scores.
        """
        import openai

        try:
            with LogFilter(self._endpoint.secrets(self._key)):
                return _order(await self._request(query, texts), len(texts))
        except openai.OpenAIError as error:
            raise self._error(error) from None
        except UNREADABLE:
            raise ModelUnavailable(
                f"the reranker at {self._endpoint.where} did not answer with scores"
            ) from None

    async def _request(self, query: str, texts: Sequence[str]) -> Any:
        """Ask in Cohere's form. If the endpoint refuses that, ask once more in the form that may help.

        The first complaint is reported if the endpoint refuses both forms: the second form is a guess.
        """
        import openai

        try:
            return await self._post(query, texts, self._form)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            form = _FORMS[error.status_code]
            first_complaint = error
            if form == self._form:
                raise
        try:
            answer = await self._post(query, texts, form)
        except (openai.BadRequestError, openai.UnprocessableEntityError):
            raise first_complaint from None
        self._form = form
        return answer

    async def _post(
        self, query: str, texts: Sequence[str], form: tuple[str, Mapping[str, Any]]
    ) -> Any:
        field, truncation = form
        model = {"model": self._model} if self._model else {}
        body = {"query": query, field: list(texts), **truncation, **model}
        return await self._endpoint.client(self._key).post("/rerank", cast_to=object, body=body)

    def _error(self, error: Exception) -> ToolrouteError:
        status = getattr(error, "status_code", None)
        where = f"the reranker at {self._endpoint.where}"
        detail = complaint(error, self._endpoint.secrets(self._key))
        if status in (401, 403):
            return Unauthorised(
                f"{where} refused the key (HTTP {status}): set TOOLROUTE_RERANK_KEY to a key that it accepts"
            )
        if status == 404:
            remedy = "check TOOLROUTE_RERANK_URL and TOOLROUTE_RERANK_MODEL"
            return InvalidConfig(
                f"{where} has no /rerank or no such model (HTTP 404{detail}): {remedy}"
            )
        reason = f"HTTP {status}{detail}" if status else unanswered(error)
        return ModelUnavailable(f"{where} did not answer: {reason}")


def _order(answer: Any, count: int) -> tuple[int, ...]:
    """Return the positions of the texts by descending score.

    Cohere, Jina and vLLM answer `{"results": [{"index": 0, "relevance_score": .9}]}`. TEI answers
    `[{"index": 0, "score": .9}]`.
    """
    results = answer["results"] if isinstance(answer, dict) else answer
    scores: dict[int, float] = {}
    for result in results:
        position = result["index"]
        score = float(result.get("relevance_score", result.get("score")))
        is_position = isinstance(position, int) and 0 <= position < count
        if not is_position or not math.isfinite(score):
            raise ValueError(f"a score for text {position!r}, but there are {count} texts")
        scores[position] = score
    if not scores:
        raise ValueError("no scores")
    return tuple(sorted(scores, key=scores.__getitem__, reverse=True))


def _host(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]
