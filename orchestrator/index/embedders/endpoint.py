"""The embedder that calls an endpoint with OpenAI's embeddings protocol."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from orchestrator.common.endpoints import (
    NO_KEY,
    OPENAI_URL,
    address,
    complaint,
    secrets_of,
    unanswered,
)
from orchestrator.common.lines import whole_pairs
from orchestrator.common.redact import LogFilter
from orchestrator.errors import EmbedderUnavailable, InvalidConfig, Unauthorised
from orchestrator.index.embedders.embedder import Vectors, checked, unit

_MAX_TEXTS = 512
_REMOTE_CHARS = 6_000
"""The maximum number of characters of one text for an endpoint. Its limit is 8,192 tokens, and a Chinese character may
be more than one token."""
_REQUEST_CHARS = 250_000
"""The maximum number of characters of all texts in one request. The endpoint's limit is 300,000 tokens."""


class _AnswerTooLong(EmbedderUnavailable):
    """The answer is larger than toolroute reads."""


class OpenAIEmbedder:
    """Any endpoint with OpenAI's embeddings protocol. The dimension comes from the first answer.

    Each request has one try, 2.5 s for a query and up to `timeout_s` for a batch of tools. Callers
    decide about retries. Of a batch whose answer is too large, each half is asked for.
    """

    remote = True

    def __init__(
        self, model: str, *, base_url: str = "", api_key: str | None = None, timeout_s: float = 20.0
    ) -> None:
        if not model:
            raise InvalidConfig(
                "embedder 'openai:' has no model: give one, such as openai:text-embedding-3-small"
            )
        self.id = f"openai-{model}"
        self.model = model
        self.dimension = 0
        self._base_url = base_url
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._client: Any = None
        self._most_texts = _MAX_TEXTS

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        # An empty text is refused.
        cut = [whole_pairs(text[:_REMOTE_CHARS]).strip() or "-" for text in texts]
        return unit(np.concatenate([self._embedded(batch) for batch in self._batches(cut)]))

    def close(self) -> None:
        """Close the client. A later call opens a new one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        """Yield texts in batches that fit one request even at one token per character."""
        batch: list[str] = []
        characters = 0
        for text in texts:
            characters += len(text)
            if batch and (len(batch) >= self._most_texts or characters > _REQUEST_CHARS):
                yield batch
                batch = []
                characters = len(text)
            batch.append(text)
        yield batch

    def _embedded(self, texts: Sequence[str]) -> Vectors:
        try:
            return self._request(texts)
        except _AnswerTooLong:
            if len(texts) == 1:
                raise
        half = len(texts) // 2
        self._most_texts = half
        return np.concatenate([self._embedded(texts[:half]), self._embedded(texts[half:])])

    def _request(self, texts: Sequence[str]) -> Vectors:
        import openai

        from orchestrator.common.bounded_http import AnswerTooLong

        client = self._opened()
        where = f"embedding model {self.model!r} at {address(str(client.base_url))}"
        timeout = min(self._timeout_s, 2 + len(texts) / 2)
        secrets = secrets_of(str(client.base_url), self._api_key)
        try:
            with LogFilter(secrets):
                answer = client.embeddings.create(
                    model=self.model, input=list(texts), timeout=timeout
                )
            in_order = sorted(answer.data, key=lambda item: item.index)
            vectors = np.array([item.embedding for item in in_order], np.float32)
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise Unauthorised(
                f"{where} refused the key (HTTP {error.status_code}): set OPENAI_API_KEY to a key that it accepts"
            ) from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error.__cause__, AnswerTooLong):
                raise _AnswerTooLong(f"{where} did not answer: {unanswered(error)}") from None
            status = getattr(error, "status_code", None)
            reason = f"HTTP {status}{complaint(error, secrets)}" if status else unanswered(error)
            raise EmbedderUnavailable(f"{where} did not answer: {reason}") from None
        vectors = checked(vectors, len(texts), f"embedding model {self.model!r}")
        if self.dimension and vectors.shape[1] != self.dimension:
            raise EmbedderUnavailable(
                f"embedding model {self.model!r} returned {vectors.shape[1]} dimensions, but {self.dimension} before: "
                "use an endpoint that always runs the same model"
            )
        self.dimension = int(vectors.shape[1])
        return vectors

    def _opened(self) -> Any:
        import openai

        from orchestrator.common.bounded_http import BoundedClient

        if self._client is None:
            web = BoundedClient(follow_redirects=True)
            client = openai.OpenAI(
                max_retries=0,
                base_url=self._base_url or None,
                api_key=self._api_key or "none",
                http_client=web,
            )
            if not self._api_key and str(client.base_url).startswith(OPENAI_URL):
                raise Unauthorised(NO_KEY)
            self._client = client
        return self._client
