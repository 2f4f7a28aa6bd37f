"""The embedder of a Router: it opens on first use, and gives vectors within a time limit or the reason for none."""

import asyncio
from collections.abc import Callable, Sequence

from orchestrator.common.threads import Threads
from orchestrator.errors import EmbedderUnavailable, StoreUnavailable, ToolrouteError, Unauthorised
from orchestrator.index.calibration import Fit, LanguageMaps
from orchestrator.index.embed import (
    Embedder,
    OpenAIEmbedder,
    StaticEmbedder,
    Vectors,
    embedder_for,
    embedder_id,
    named_embedder,
    vectors_of,
)
from orchestrator.index.encoder import second_encoder
from orchestrator.index.index import Index
from orchestrator.options import Options

_MAX_CONCURRENT = 32
Embedded = tuple[Vectors | None, str]
"""The vectors of texts, or None and the reason."""


class Embedding:
    """A Router's embedder: the given one, the one of a given Store, or that of the options.

    Args:
        given: The caller's embedder, or None.
        of_store: Returns the embedder of the caller's Store, or None. None: the caller gave no Store.
        options: Name the embedder otherwise. A named embedder is closed with the Router.
        fit: The calibration, which belongs to one embedder.

    Raises:
        InvalidConfig: The options name no known embedder, or the fit belongs to another one.
    """

    def __init__(
        self,
        given: Embedder | None,
        of_store: Callable[[], Embedder | None] | None,
        options: Options,
        fit: Fit,
    ) -> None:
        self._embedder = given
        self._of_store = of_store
        self._options = options
        self._fit = fit
        self._is_owned = given is None and of_store is None
        self._threads = Threads(_MAX_CONCURRENT, "toolroute embedding")
        if given is not None:
            fit.check(given.id)
        elif self._is_owned:
            named_embedder(options)
            if fit.embedder:
                fit.check(embedder_id(options))

    @property
    def embedder(self) -> Embedder:
        """The embedder. It opens on first use."""
        if self._embedder is None:
            of_store = self._of_store() if self._of_store is not None else None
            embedder = of_store or embedder_for(self._options)
            self._fit.check(embedder.id)
            self._embedder = embedder
        return self._embedder

    def close(self) -> None:
        """Close the embedder, unless it was given."""
        self._threads.close()
        if self._is_owned and isinstance(self._embedder, OpenAIEmbedder):
            self._embedder.close()

    async def vectors(self, index: Index, texts: Sequence[str]) -> Embedded:
        """Return one vector for each text, or None and the reason. The index then has its semantic part."""
        embedded = self.vectors_at_once(index, texts)
        if embedded is not None:
            return embedded
        try:
            vectors = await self._embed(index, list(texts))
            index.semantic(self.embedder).check(vectors)
        except Exception as error:
            return None, self._reason(error)
        return vectors, ""

    async def encode(
        self, index: Index, maps: LanguageMaps, texts: Sequence[str]
    ) -> tuple[Vectors | None, str]:
        """Return the vectors of the encoder for other languages, as `vectors` does. Without the extra, the reason is
        empty.
        """
        encoder = second_encoder(self.embedder, maps)
        if encoder is None or self._options.languages == "off":
            return None, ""
        try:
            await self._threads.run(index.second, encoder)
            return await self._threads.run(encoder.embed, texts), ""
        except (EmbedderUnavailable, StoreUnavailable) as error:
            return None, str(error)

    def vectors_at_once(self, index: Index, texts: Sequence[str]) -> Embedded | None:
        """Return the same in this thread, or None if it would wait for an endpoint or for the tools' vectors."""
        semantic = index.vectors
        if self.embedder.remote or semantic is None:
            return None
        try:
            vectors = vectors_of(self.embedder, list(texts))
            semantic.check(vectors)
        except Exception as error:
            return None, self._reason(error)
        return vectors, ""

    async def prepare(self, index: Index) -> str:
        """Embed the tools of an index, however long it takes. Return why it failed, or ""."""
        try:
            await self._threads.run(index.semantic, self.embedder)
        except Exception as error:
            return self._reason(error)
        return ""

    def _reason(self, error: Exception) -> str:
        """Return why the embedder failed. An error that is no failure of an embedder is raised again."""
        if isinstance(error, TimeoutError):
            seconds = f"{self._options.semantic_timeout_s:g} seconds (semantic_timeout_s)"
            return str(error) or f"the embedder did not answer within {seconds}"
        if isinstance(error, EmbedderUnavailable | StoreUnavailable | Unauthorised):
            return str(error)
        is_ours = isinstance(self.embedder, StaticEmbedder | OpenAIEmbedder)
        if is_ours or isinstance(error, ToolrouteError):
            raise error
        # A failure of a caller's own embedder affects only the semantic leg.
        return f"embedder {self.embedder.id!r} failed ({type(error).__name__}: {error})"

    async def _embed(self, index: Index, texts: list[str]) -> Vectors:
        """Return one vector for each text. The index then has its semantic part."""
        async with asyncio.timeout(
            self._options.semantic_timeout_s if self.embedder.remote else None
        ):
            await self._threads.run(index.semantic, self.embedder)
            return await self._threads.run(vectors_of, self.embedder, texts)
