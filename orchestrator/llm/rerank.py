"""A reranker: any endpoint that takes a query with texts at `/rerank`, as Cohere, Jina, vLLM and TEI serve it."""

import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from orchestrator.common.endpoints import OPENAI_URL, address, complaint, secrets_of, unanswered
from orchestrator.common.redact import LogFilter
from orchestrator.errors import InvalidConfig, ModelUnavailable, ToolrouteError, Unauthorised
from orchestrator.options import Options, model_key, rerank_key


class Reranker:
    """Ask the reranker of the options. It opens on first use, for one event loop.

    The key is TOOLROUTE_RERANK_KEY. OPENAI_API_KEY is sent only to the host that also serves the language model.

    Args:
        options: `rerank_url` is the address in front of `/rerank`. `rerank_model` may name the model.

    Raises:
        InvalidConfig: `rerank_url` is empty.
    """

    def __init__(self, options: Options) -> None:
        if not options.rerank_url:
            raise InvalidConfig("no reranker is named: set TOOLROUTE_RERANK_URL, or give Options(rerank_url=...)")
        self._url, self._model, self._timeout_s = options.rerank_url, options.rerank_model, options.route_timeout_s
        shared = _host(self._url) == _host(options.model_url or OPENAI_URL)
        self._key = rerank_key() or (model_key() if shared else None)
        self._texts = "documents"
        self._client: Any = None

    def __repr__(self) -> str:
        return f"Reranker({address(self._url)!r})"

    async def aclose(self) -> None:
        """Close the client; a later question opens another."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def rank(self, query: str, texts: Sequence[str]) -> tuple[int, ...]:
        """Return the places of the texts that the reranker scored, most relevant first.

        Raises:
            Unauthorised: The endpoint refused the key.
            ModelUnavailable: The endpoint did not answer, or not with scores.
        """
        import openai

        try:
            with LogFilter(secrets_of(self._url, self._key)):
                return _order(await self._request(query, texts), len(texts))
        except openai.OpenAIError as error:
            raise self._error(error) from None
        except (ArithmeticError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
            raise ModelUnavailable(f"the reranker at {address(self._url)} did not answer with scores") from None

    async def _request(self, query: str, texts: Sequence[str]) -> Any:
        """Ask in Cohere's form; ask again in TEI's form, which says `texts`, if the endpoint refuses `documents`."""
        import openai

        body = {"query": query, self._texts: list(texts), **({"model": self._model} if self._model else {})}
        try:
            return await self._opened().post("/rerank", cast_to=object, body=body)
        except (openai.BadRequestError, openai.UnprocessableEntityError):
            if self._texts == "texts":
                raise
            found = await self._opened().post("/rerank", cast_to=object, body={"query": query, "texts": list(texts)})
            self._texts = "texts"
            return found

    def _opened(self) -> Any:
        if self._client is None:
            from openai import AsyncOpenAI

            from orchestrator.common.bounded_http import AsyncBoundedClient

            web = AsyncBoundedClient(timeout=self._timeout_s, follow_redirects=True)
            self._client = AsyncOpenAI(
                api_key=self._key or "none",
                base_url=self._url,
                max_retries=0,
                timeout=self._timeout_s,
                http_client=web,
            )
        return self._client

    def _error(self, error: Exception) -> ToolrouteError:
        status, where = getattr(error, "status_code", None), f"the reranker at {address(self._url)}"
        detail = complaint(error, secrets_of(self._url, self._key))
        if status in (401, 403):
            return Unauthorised(f"{where} refused the key (HTTP {status}): set TOOLROUTE_RERANK_KEY")
        if status == 404:
            return InvalidConfig(f"{where} has no /rerank (HTTP 404{detail}): check TOOLROUTE_RERANK_URL")
        return ModelUnavailable(f"{where} did not answer: {f'HTTP {status}{detail}' if status else unanswered(error)}")


def _order(answer: Any, count: int) -> tuple[int, ...]:
    results = answer["results"] if isinstance(answer, dict) else answer
    scores: dict[int, float] = {}
    for own in results:
        place, score = own["index"], float(own.get("relevance_score", own.get("score")))
        if not (isinstance(place, int) and 0 <= place < count and math.isfinite(score)):
            raise ValueError(f"a score of text {place!r} of {count}")
        scores[place] = score
    if not scores:
        raise ValueError("no scores")
    return tuple(sorted(scores, key=lambda place: -scores[place]))


def _host(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]
