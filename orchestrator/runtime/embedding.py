"""The embedder of a Router: it opens on first use, and gives vectors within a time limit or the reason for none."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from weakref import WeakKeyDictionary

import numpy as np

from orchestrator.common.threads import Threads
from orchestrator.errors import EmbedderUnavailable, StoreUnavailable, ToolrouteError, Unauthorised
from orchestrator.index.calibration import Fit, LanguageMaps
from orchestrator.index.embedders.by_name import embedder_for, embedder_id, named_embedder
from orchestrator.index.embedders.embedder import Embedder, Vectors
from orchestrator.index.embedders.embedding import vectors_of
from orchestrator.index.embedders.endpoint import OpenAIEmbedder
from orchestrator.index.embedders.language_encoder import LanguageEncoder, second_encoder
from orchestrator.index.embedders.static import StaticEmbedder
from orchestrator.index.index import Index
from orchestrator.index.semantic import SemanticIndex
from orchestrator.options import Options

_MAX_CONCURRENT = 32
"""Threads that wait for an endpoint. They need almost no processor time."""
_MAX_ENCODING_S = 10.0
"""Seconds in which a route waits for the tools' vectors in other languages: a few thousand tools on a free core."""
_ENCODING_BATCH = 128
"""Texts that are encoded at a time. A Router that closes waits for one batch."""
Embedded = tuple[Vectors | None, str]
"""The vectors of texts, or None and the reason."""


class _StoppableEncoder:
    """An encoder that reads many texts in batches, and stops between them when its Router closes."""

    remote = False

    def __init__(self, encoder: LanguageEncoder, closing: threading.Event) -> None:
        self.id = encoder.id
        self.dimension = encoder.dimension
        self._encoder = encoder
        self._closing = closing

    def embed(self, texts: Sequence[str]) -> Vectors:
        batches = [self._encoder.embed([])]
        for start in range(0, len(texts), _ENCODING_BATCH):
            if self._closing.is_set():
                raise EmbedderUnavailable("the Router was closed while its tools were encoded")
            batches.append(self._encoder.embed(texts[start : start + _ENCODING_BATCH]))
        return np.concatenate(batches)


class Embedding:
    """A Router's embedder: the given one, the one of a given Store, or that of the options.

    Args:
        embedder: The caller's embedder, or None.
        of_store: Returns the embedder of the caller's Store, or None. None: the caller gave no Store.
        options: Name the embedder otherwise. A named embedder is closed with the Router.
        fit: The calibration, which belongs to one embedder.

    Raises:
        InvalidConfig: The options name no known embedder, or the fit belongs to another one.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        of_store: Callable[[], Embedder | None] | None,
        options: Options,
        fit: Fit,
    ) -> None:
        self._embedder = embedder
        self._of_store = of_store
        self._options = options
        self._fit = fit
        self._is_owned = embedder is None and of_store is None
        self._threads = Threads(_MAX_CONCURRENT, "toolroute embedding")
        self._closing = threading.Event()
        self._encodings: WeakKeyDictionary[Index, Future[SemanticIndex]] = WeakKeyDictionary()
        """The running or finished encoding of each index's tools for other languages."""
        if embedder is not None:
            fit.check(embedder.id)
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
        """Close the embedder, unless it was given. An encoding in the background ends after its present batch."""
        self._closing.set()
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
        """Return the vectors of the encoder for other languages.

        Tools that take longer than a route should wait are encoded in the background, for later routes.

        Args:
            index: The index. The encoder reads its tools once.
            maps: The maps that were fitted for the encoder.
            texts: The texts to encode.

        Returns:
            One vector for each text, or None, and the reason. The reason is empty if there are vectors, if this
            embedder has no such encoder, and if the option `languages` is `off`.
        """
        encoder = second_encoder(self.embedder, maps)
        if encoder is None or self._options.languages == "off":
            return None, ""
        try:
            encoding = asyncio.wrap_future(self._encoding(index, encoder))
            encoding.add_done_callback(_retrieve_error)
            async with asyncio.timeout(_MAX_ENCODING_S):
                await asyncio.shield(encoding)
            return await self._threads.run(encoder.embed, texts), ""
        except TimeoutError:
            return None, (
                f"its encoder has not yet read all {len(index.tools)} tools; the next tasks have it, and "
                "`toolroute tools sync` or `tools import` with the extra installed stores what it read"
            )
        except (EmbedderUnavailable, StoreUnavailable) as error:
            return None, str(error)

    def _encoding(self, index: Index, encoder: LanguageEncoder) -> "Future[SemanticIndex]":
        """Return the encoding of an index's tools. It begins once, and again after a failure."""
        encoding = self._encodings.get(index)
        if encoding is None or (encoding.done() and encoding.exception() is not None):
            stoppable = _StoppableEncoder(encoder, self._closing)
            encoding = self._threads.begin(index.second, stoppable)
            self._encodings[index] = encoding
        return encoding

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


def _retrieve_error(future: "asyncio.Future[SemanticIndex]") -> None:
    """Read the error of a future for which nobody may wait any more. asyncio would print it."""
    if not future.cancelled():
        future.exception()
