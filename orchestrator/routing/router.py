"""The Router: the order of the stages, written once."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import EmbedderUnavailable, InvalidInput, StoreUnavailable, ToolrouteError, Unauthorised
from orchestrator.index.always import DEFAULT_CAPABILITIES, Capability
from orchestrator.index.cache import Indexes
from orchestrator.index.calibration import Calibration, shipped
from orchestrator.index.coverage import shipped as shipped_coverage
from orchestrator.index.embed import (
    Embedder,
    OpenAIEmbedder,
    StaticEmbedder,
    embedder_for,
    embedder_id,
    named_embedder,
    no_tool_of,
    vectors_of,
)
from orchestrator.index.features import Positions
from orchestrator.index.fit import Fit
from orchestrator.index.index import Index
from orchestrator.index.threads import Threads
from orchestrator.index.vectors import leaning
from orchestrator.language.corrections import corrected
from orchestrator.options import Options
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteHint, RouteRequest, Turn, turns_of
from orchestrator.routing.conclusion import conclude
from orchestrator.routing.conversation import Meant, meant
from orchestrator.routing.found import Candidates
from orchestrator.routing.outcome import Outcome
from orchestrator.routing.search import Search
from orchestrator.routing.understand import Understood, understand
from orchestrator.store.store import Store

KEYWORD_ALONE = "keyword leg alone: "
"""How a warning begins that says why the semantic leg did not run; the reason follows."""
NO_KNOWN_WORD = "the embedder knows no word of the query"
"""The one reason that is no failure."""
MOST_SHOWN = 120
"""Characters that a warning shows of a task that corrects itself."""
_EMBEDDING_AT_A_TIME = 32


class Router:
    """Routes tasks to tools, in process.

    Give it a catalogue (a Catalogue, a file or a folder), which every tenant then shares, or a store (a folder, a URL
    or a Store; by default that of the options), which knows each tenant's own. `calibration` is a fit, or a file of one
    (docs/calibration.md). Everything opens on first use and closes with the context. One Router serves many concurrent
    calls of one event loop.
    """

    def __init__(
        self,
        catalogue: Catalogue | str | Path | None = None,
        store: Store | str | Path | None = None,
        *,
        embedder: Embedder | None = None,
        options: Options | None = None,
        capabilities: Sequence[Capability] = DEFAULT_CAPABILITIES,
        calibration: Calibration | Fit | str | Path | None = None,
    ) -> None:
        _check_types(catalogue, store, embedder, options, calibration)
        options = options or Options()
        if catalogue is None and store is None:
            store = options.store or None
        if (catalogue is None) == (store is None):
            raise InvalidInput("a Router takes either a catalogue or a store: give one of the two")
        self._owns_embedder = embedder is None and not isinstance(store, Store)
        self._given_embedder = embedder
        self._fit = _fit_from(calibration or options.calibration)
        if embedder is not None:
            self._fit.check(embedder.id)
        elif self._owns_embedder:
            _check_named(options, self._fit)
        self.options = self._fit.options(options)
        self._calibration = calibration if isinstance(calibration, Calibration) else self._fit.maps(shipped())
        self._owns_store = isinstance(store, str | Path)
        if isinstance(store, str | Path):
            store = Store(store, embedder=lambda: self.embedder, timeout_s=self.options.store_timeout_s)
        self.store = store
        self._threads = Threads(_EMBEDDING_AT_A_TIME, "toolroute embedding")
        self._indexes = Indexes(catalogue, store, tuple(capabilities), self.options.cached_tenants)

    @property
    def embedder(self) -> Embedder:
        """The embedder given, else that of the Store given, else the options'; opened on first use."""
        if self._given_embedder is None:
            given = None if self._owns_store or self.store is None else self.store.embedder
            found = given or embedder_for(self.options)
            self._fit.check(found.id)
            self._given_embedder = found
        return self._given_embedder

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Forgets all indexes and closes the store and the embedder, unless they were given: then they are their
        owner's."""
        self._indexes.clear()
        self._threads.close()
        if self._owns_embedder and isinstance(self._given_embedder, OpenAIEmbedder):
            self._given_embedder.close()
        if self.store is not None and self._owns_store:
            await asyncio.to_thread(self.store.close)

    async def index(self, tenant: str) -> Index:
        """The tenant's current Index; loads it once, however many ask."""
        return (await self._indexes.get(tenant))[0]

    def catalogue_at_hand(self, tenant: str) -> Catalogue | None:
        """The tenant's whole catalogue as it was last routed by; None where it was not, since nothing is loaded."""
        index = self._indexes.at_hand(tenant)
        return None if index is None else index.whole

    async def route(self, request: RouteRequest | str, *, conversation: Sequence[Turn] = ()) -> Decision:
        """The Decision for a task, within a conversation if one is given.

        A bare text is routed for the tenant `local`; a RouteRequest has the other settings (limit, filters, ...).

        Raises InvalidInput for what cannot be routed and StoreUnavailable when the tenant's catalogue cannot be read at
        all. A failing embedder never empties the answer: the keyword leg's stands, with a warning.
        """
        request = _checked(request, conversation)
        clock = _Clock()
        index, stale = await self._indexes.get(request.tenant)
        warnings = [stale] if stale else []
        clock.book("load")

        said = meant(request.query, request.conversation, index.keyword.terms)
        understood = _understood(said, index, warnings)
        clock.book("understand")
        outcome = Outcome(
            index,
            request,
            understood,
            self.options,
            asks=said.asks,
            leans=bool(said.earlier) or said.text != request.query,
            coverage=self._fit.coverage or shipped_coverage(),
            warnings=warnings,
            timings_ms=clock.timings_ms,
        )
        outcome.find_always()
        clock.book("always")
        outcome.find_explicit()
        clock.book("explicit")
        if outcome.settled and request.coverage is None:
            return clock.stopped(conclude(outcome, None, None))

        width, allowed, named = max(30, 3 * outcome.limit), outcome.allowed, outcome.named()
        understood = outcome.understood  # Without what the query leaves out.
        before = outcome.before()
        search = Search(index, understood, self._calibration, width=width, allowed=allowed, named=named, before=before)
        found = search.by_keyword()
        outcome.gate_confidence = found.opening.chance
        clock.book("keyword")
        if len(index.catalogue) and self._wants_meaning(outcome, found, named):
            vectors = await self._vectors(index, understood, warnings)
            if vectors is not None:
                found = search.by_both(index.semantic(self.embedder), vectors, no_tool_of(self.embedder))
                outcome.semantic_ran, outcome.vector = True, vectors[0]
                warnings += [index.note] if index.note else []
            clock.book("semantic")
        return clock.stopped(conclude(outcome, search, found))

    def _wants_meaning(self, outcome: Outcome, found: Candidates, named: Positions | None) -> bool:
        request = outcome.request
        if request.route_hint is not RouteHint.AUTO:
            return request.route_hint is RouteHint.SEMANTIC
        # What the gate is sure of is the best tool alone; a set of all needed ones wants both legs' order.
        if request.coverage is not None or outcome.gate_confidence < self.options.gate:
            return True
        # Sure of another server's tool, it has not seen what the named one has that says it in other words.
        return named is not None and len(found.keyword) > 0 and found.chosen[np.argmax(found.keyword)] not in named

    async def _vectors(self, index: Index, understood: Understood, warnings: list[str]) -> NDArray[np.float32] | None:
        """Vectors of the query, its parts and what is told, [1 + parts + told, dimension]; None, with a warning."""
        try:
            vectors = await self._embed(index, understood.texts)
            index.semantic(self.embedder).check(vectors)
        except (EmbedderUnavailable, StoreUnavailable, Unauthorised, TimeoutError) as error:
            reason = str(error) or f"no answer within {self.options.semantic_timeout_s:g} s"
        except Exception as error:
            # Whatever a caller's own embedder raises, or answers in place of vectors, is that leg's failure alone.
            if isinstance(error, ToolrouteError) or isinstance(self.embedder, StaticEmbedder | OpenAIEmbedder):
                raise
            reason = f"embedder {self.embedder.id!r} failed ({type(error).__name__}: {error})"
        else:
            vectors = leaning(vectors, [weight for _, weight in understood.earlier])
            if vectors[0].any():
                return vectors
            reason = NO_KNOWN_WORD
        warnings.append(f"{KEYWORD_ALONE}{reason}")
        return None

    async def _embed(self, index: Index, texts: list[str]) -> NDArray[np.float32]:
        if not self.embedder.remote and index.has_vectors:
            return vectors_of(self.embedder, texts)
        async with asyncio.timeout(self.options.semantic_timeout_s if self.embedder.remote else None):
            await self._threads.run(index.semantic, self.embedder)
            return await self._threads.run(vectors_of, self.embedder, texts)


def _understood(said: Meant, index: Index, warnings: list[str]) -> Understood:
    """What is meant, with corrections carried out and slips mended, as the warnings tell."""
    task = corrected(said.text)
    if task != said.text:
        warnings.append(f'it corrects itself: read as "{shorten(task, MOST_SHOWN)}"')
    understood = understand(task, said.earlier, index.keyword.terms, index.keyword.terms_of_names)
    warnings += [f'no tool says "{slip}": read as "{word}"' for slip, word in understood.slips.items()]
    return understood


def _checked(request: RouteRequest | str, conversation: Sequence[Turn]) -> RouteRequest:
    """The request, of the tenant `local` where only a text is given; InvalidInput for what cannot be routed."""
    if isinstance(request, str):
        request = RouteRequest(query=request, tenant="local")
    elif not isinstance(request, RouteRequest):
        raise InvalidInput(f"{request!r:.80} cannot be routed: give the task as a text, or a RouteRequest")
    if conversation:
        request = replace(request, conversation=turns_of(conversation))
    request.validate()
    return request


def _check_types(catalogue: object, store: object, embedder: object, options: object, calibration: object) -> None:
    """Raises InvalidInput for the first that is none of what a Router takes, with what would do."""
    wanted: tuple[tuple[str, object, Any, str], ...] = (
        ("catalogue", catalogue, Catalogue | str | Path | None, "Catalogue(tools), a file or a folder"),
        ("store", store, Store | str | Path | None, "a folder, a URL or a Store"),
        ("options", options, Options | None, "Options(...)"),
        ("calibration", calibration, Calibration | Fit | str | Path | None, "a Fit, or the file of one"),
    )
    for name, value, kinds, remedy in wanted:
        if not isinstance(value, kinds):
            raise InvalidInput(f"{name} is a {type(value).__name__}: give {remedy}")
    if embedder is not None and not hasattr(embedder, "embed"):
        kind = type(embedder).__name__
        raise InvalidInput(f"embedder is a {kind}: give an Embedder, or name one with Options(embedder=...)")


def _check_named(options: Options, fit: Fit) -> None:
    """Raises InvalidConfig where the options name no embedder, or another one than that of the fit; loads no model."""
    named_embedder(options)
    if fit.embedder:
        fit.check(embedder_id(options))


def _fit_from(given: Calibration | Fit | str | Path) -> Fit:
    """The fit given, or in the file named; the empty one, which changes nothing, where there is none."""
    if isinstance(given, Fit):
        return given
    return Fit() if isinstance(given, Calibration) or not str(given) else Fit.read(given)


class _Clock:
    """One request's times; its Decision holds this very mapping, so the last ones count too."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self.timings_ms: dict[str, float] = {}

    def book(self, stage: str) -> None:
        """Books the time since the last call to this stage, in milliseconds."""
        now = time.perf_counter()
        self.timings_ms[stage] = (now - self._last) * 1000
        self._last = now

    def stopped(self, decision: Decision) -> Decision:
        """The Decision with the time of its selection and of all."""
        self.book("select")
        self.timings_ms["total"] = (time.perf_counter() - self._started) * 1000
        return decision
