"""The Router: it routes tasks to tools, in process, with a pipeline."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from orchestrator import telemetry
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.resolve import ResolvedCall
from orchestrator.common.fields import named
from orchestrator.common.tenant import LOCAL
from orchestrator.common.threads import now, waiting
from orchestrator.index.always import DEFAULT_CAPABILITIES, Capability
from orchestrator.index.calibration import Calibration, Fit, shipped
from orchestrator.index.embedders.embedder import Embedder
from orchestrator.options import Options
from orchestrator.pipeline.legs.semantic import why_failed
from orchestrator.pipeline.pipeline import Clock, Pipeline
from orchestrator.pipeline.presets import preset
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Near, Outcome, OutcomeSource, Use, uses_of
from orchestrator.records.request import Fusion, RouteHint, RouteRequest, Turn
from orchestrator.records.tool import Match, Tool
from orchestrator.runtime.embedding import Embedding
from orchestrator.runtime.engine import RouteEngine, RouteModels, report
from orchestrator.runtime.experience_cache import ExperienceCache
from orchestrator.runtime.index_cache import IndexCache
from orchestrator.runtime.inputs import (
    catalogue_with,
    check_parts,
    check_reader,
    fit_from,
    set_arguments,
    stores_to_read,
    task_of,
    validated_request,
)
from orchestrator.runtime.recording import actor_name, masked, study, uses_with_hashes
from orchestrator.runtime.unused_settings import require_effect
from orchestrator.runtime.with_catalogue import StoreWithCatalogue
from orchestrator.store.sources import Source, Sources
from orchestrator.store.store import Store

logger = logging.getLogger(__package__)

Vector = NDArray[np.float32]


class Router:
    """Routes tasks to tools, in process.

    Give it a catalogue, a store or both. All tenants share a catalogue. A store has each tenant's own tools. The Router
    opens everything on first use and closes it with its context, `async with` or `with`. One Router serves many calls
    of one event loop. `route_sync` and `record_sync` are for programs without an event loop.

    Args:
        catalogue: A Catalogue, a file, or a folder with a file. With a store, its tools are added to each tenant's.
        store: A folder, a URL or a Store. Default: the store of the options, but no store if there is a catalogue.
        stores: Several stores or Sources. New tools and Outcomes go to the first one, and the others are only read.
        embedder: Default: the embedder of the store or of the options.
        options: All other settings.
        capabilities: The always-available capabilities.
        calibration: A fit to your own queries, or its file (docs/how-to/calibration.md).
        pipeline: The name of a preset, or a Pipeline.
        servers: The names of the MCP servers that may give matches. Default: all.
        entries: The entries of a configuration (`McpConfig.entries`). Of the store's MCP tools, only those that these
            entries listed are seen. Default: each server as it was listed last.
        models: A function that returns the language models. The caller closes them. Default: the models of the options.

    Raises:
        InvalidInput: A setting has a wrong type or is unknown.
        InvalidConfig: The catalogue lacks a server of `servers`, or a setting cannot have an effect.

    Examples:
        >>> from orchestrator import Router
        >>> with Router("examples/tools.jsonl") as router:
        ...     router.route_sync("refund charge ch_3PqX").recommended
        ('stripe:refund_charge',)
    """

    @named
    def __init__(
        self,
        catalogue: Catalogue | str | Path | None = None,
        store: Store | str | Path | None = None,
        *,
        stores: Sequence[Source | Store | str | Path] = (),
        embedder: Embedder | None = None,
        options: Options | None = None,
        capabilities: Sequence[Capability] = DEFAULT_CAPABILITIES,
        calibration: Calibration | Fit | str | Path | None = None,
        pipeline: Pipeline | str = "",
        servers: Collection[str] | None = None,
        entries: Mapping[str, str] | None = None,
        models: Callable[[], Any] | None = None,
    ) -> None:
        arguments = set_arguments(
            catalogue=catalogue,
            store=store,
            stores=stores or None,
            embedder=embedder,
            calibration=calibration,
            pipeline=pipeline or None,
            models=models,
        )
        check_parts(stores, capabilities, embedder)
        options = options or Options()
        self.options = options
        self.pipeline = _pipeline(pipeline or options.pipeline)
        locations = stores_to_read(catalogue, store, stores, options)
        sources = [Source.of(location) for location in locations]
        if catalogue is not None and servers and not sources:
            catalogue = catalogue_with(servers, catalogue)
        require_effect(options, arguments, sources, self.pipeline, entries)
        check_reader(options)
        self._origin = ", ".join(source.shown for source in sources) or repr(catalogue)
        fit = fit_from(calibration or options.calibration)
        embedding = Embedding(embedder, _embedder_of(sources), options, fit)
        # It may refuse the options, so it comes before a store is opened that somebody would have to close.
        models_of_route = RouteModels(models, options)
        self._owned_stores: list[Store] = []
        self.stores = tuple(self._opened(source.store, embedding, entries) for source in sources)
        self.engine = RouteEngine(
            options,
            calibration if isinstance(calibration, Calibration) else fit.maps(shipped()),
            self._indexes(sources, catalogue, capabilities),
            ExperienceCache(self.store, options.cached_tenants, options.experience_days),
            embedding,
            models_of_route,
        )
        self._use_names(capabilities, servers, entries)

    def _use_names(
        self,
        capabilities: Sequence[Capability],
        servers: Collection[str] | None,
        entries: Mapping[str, str] | None,
    ) -> None:
        """Route only to these servers, and warn at the first route of names that the tenant's catalogue lacks."""
        if capabilities is not DEFAULT_CAPABILITIES:
            names = [capability.tool for capability in capabilities]
            self.engine.expected.expect("capabilities", names)
        if servers is None:
            return
        self.engine.servers = frozenset(servers)
        # An entry may not be listed yet.
        if entries is None:
            self.engine.expected.expect("servers", servers)

    def __repr__(self) -> str:
        return f"Router({self._origin}, pipeline={self.pipeline.name!r})"

    @property
    def store(self) -> Store | None:
        """The store for new tools and Outcomes: the first one, if there are several."""
        return self.stores[0] if self.stores else None

    @property
    def embedder(self) -> Embedder:
        """The embedder: the given one, the one of the given Store, or that of the options. It opens on first use."""
        return self.engine.embedding.embedder

    @named
    def restrict_to(self, entries: Mapping[str, str]) -> None:
        """From now on, route only to the MCP tools that these entries of a configuration listed."""
        self.engine.servers = frozenset(entries)
        if self.store is not None:
            self.store.see(entries)

    @named
    def with_catalogue(self, catalogue: Catalogue) -> "Router":
        """Return a Router for only this catalogue, with the same settings, embedder and past tasks.

        Close only the Router from which it was made.
        """
        router = object.__new__(type(self))
        vars(router).update(vars(self), engine=self.engine.with_catalogue(catalogue))
        return router

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Router cannot be pickled, because it has open stores and threads: make one in each process, from the "
            "same catalogue, store and Options"
        )

    def _opened(
        self, location: Store | str | Path, embedding: Embedding, entries: Mapping[str, str] | None
    ) -> Store:
        """Return a given Store, or open the location. Only the first one is restricted to the entries."""
        if isinstance(location, Store):
            return location
        store = Store(
            location,
            embedder=lambda: embedding.embedder,
            timeout_s=self.options.store_timeout_s,
            change_policy=self.options.changes,
            collections=self.options.collections,
            languages=self.options.languages == "auto",
            entries=None if self._owned_stores else entries,
        )
        self._owned_stores.append(store)
        return store

    def _indexes(
        self,
        sources: Sequence[Source],
        catalogue: Catalogue | str | Path | None,
        capabilities: Sequence[Capability],
    ) -> IndexCache:
        """Return the cache of the tenants' indexes, which are built from these sources and the catalogue."""
        tools = self._tools_of(sources, catalogue)
        return IndexCache(catalogue, tools, tuple(capabilities), self.options.cached_tenants)

    def _tools_of(
        self, sources: Sequence[Source], catalogue: Catalogue | str | Path | None
    ) -> Store | Sources | StoreWithCatalogue | None:
        """Return the object that reads the tools of these sources. One store needs no merging."""
        store: Store | Sources | None = self.store
        if len(sources) > 1 or any(source.tenant for source in sources):
            opened = [
                replace(source, store=store)
                for source, store in zip(sources, self.stores, strict=True)
            ]
            store = Sources(opened, self.options.store_timeout_s)
        if store is None or catalogue is None:
            return store
        return StoreWithCatalogue(store, catalogue, lambda: self.embedder)

    async def __aenter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        now(self.aclose())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Drop all indexes and close the store and the embedder. A Store or an embedder that was given stays open."""
        await self.engine.aclose()
        for store in self._owned_stores:
            await asyncio.to_thread(store.close)

    @named
    async def servers(self, tenant: str) -> AbstractSet[str]:
        """Return the servers of the tenant's current tools. The name "" is for tools without a server."""
        return await self.engine.servers_of(tenant)

    @named
    async def route(
        self,
        request: RouteRequest | str,
        *,
        tenant: str | None = None,
        limit: int | None = None,
        conversation: Sequence[Turn] = (),
        filters: Mapping[str, str] | None = None,
        route_hint: RouteHint | str | None = None,
        token_cap: int | None = None,
        fusion: Fusion | str | None = None,
        context: Mapping[str, str] | None = None,
    ) -> Decision:
        """Return the Decision for a task.

        Other tasks of the event loop continue meanwhile: one route computes at a time, and from 2,000 tools on in a
        thread of the Router. If the embedder fails, the keyword leg still answers, with a warning.

        Args:
            request: The task as a text, or a RouteRequest with its own settings.
            tenant: The tenant. Only its tools may match. Default: `local`.
            limit: The maximum number of matches, 1 to 50. Default: 10.
            conversation: Earlier turns, oldest first.
            filters: Conditions that every match must meet: `kind`, `server`, `name` or a label, each with its value.
            route_hint: The legs to run. Default: `auto`.
            token_cap: The maximum size of the matches' definitions, in tokens.
            fusion: How the scores of the legs are merged. Default: the pipeline's own way.
            context: Preferred labels, most important first. A label that would leave no tool is ignored.

        Raises:
            InvalidInput: The request has a wrong value.
            UnknownTenant: The tenant is malformed.
            StoreUnavailable: The tenant's catalogue cannot be read.
        """
        settings = {
            "tenant": tenant,
            "limit": limit,
            "filters": filters,
            "route_hint": route_hint,
            "token_cap": token_cap,
            "fusion": fusion,
            "context": context,
        }
        return await self._routed(validated_request(request, conversation, settings))

    route_sync = waiting(route)
    """`route` for programs without an event loop. The call waits for the Decision."""

    @named
    async def warm(self, *tenants: str) -> None:
        """Load the tools, the past tasks and the embedder, so that a tenant's first route is as fast as later ones.

        Returns when all tools of the tenants are embedded.

        Args:
            tenants: The tenants. Default: `local`.

        Raises:
            StoreUnavailable: A tenant's catalogue cannot be read.
        """
        for tenant in tenants or (LOCAL,):
            request = RouteRequest(query="warm up", tenant=tenant, route_hint=RouteHint.SEMANTIC)
            state = await self.engine.begin(validated_request(request, (), {}), Clock())
            problem = await self.engine.embedding.prepare(state.task.index)
            without_model = replace(state.task, model=None)  # A model costs tokens.
            state = await self.pipeline.run(replace(state, task=without_model))
            problem = problem or why_failed(state.warnings)
            if problem:
                logger.warning("the embedder could not be warmed up: %s", problem)

    async def _routed(self, request: RouteRequest) -> Decision:
        about = {"gen_ai.data_source.id": request.tenant, "gen_ai.retrieval.top_k": request.limit}
        with telemetry.span("retrieval", request.tenant, about) as attributes:
            async with self.engine.computing.turn_of(request.tenant or LOCAL, request.query):
                clock = Clock()
                state = await self.engine.begin(request, clock, None)
                return report(await self.pipeline.run(state, clock), attributes)

    @named
    async def record(
        self,
        decision: Decision | str,
        *,
        used: Sequence[str | Use | Tool | Match | ResolvedCall],
        ok: bool = True,
        actor: str = "",
        at: float | None = None,
        source: OutcomeSource = "api",
        name: str = "",
        tenant: str = "",
        chosen: bool = True,
    ) -> Outcome:
        """Remember the tools that a task used, so that later similar tasks find them. Return the Outcome.

        A task that is understood only with its conversation is not remembered.

        Args:
            decision: A Decision, or the text of the task.
            used: The tools, as keys, Tools, Matches, results of `Decision.resolve`, or Use records.
            ok: Whether the task succeeded.
            actor: The person who asked. A text that looks like a key is stored as a digest.
            at: The time, in seconds since 1970. Default: now.
            source: The part of the program that records.
            name: An id for this task. A task that is recorded again under its id counts once.
            tenant: The tenant of a task that is given as a text. Default: `local`.
            chosen: Whether a person or a model chose the tools, not routing alone.

        Raises:
            UnknownTool: The tenant has no such tool.
            EmbedderUnavailable: The task's text cannot be embedded.
            StoreUnavailable: The store cannot be written.
        """
        query, tenant = task_of(decision, tenant)
        outcome = Outcome(
            id=name or uuid4().hex,
            query=query,
            used=uses_of(used),
            ok=ok,
            actor=actor_name(actor),
            at=time.time() if at is None else at,
            source=source,
            chosen=chosen,
        )
        learns = self.engine.learns and not (isinstance(decision, Decision) and decision.leans)
        outcome, vector = await self._studied(outcome, tenant, learns)
        if vector is None:
            return outcome
        telemetry.learnt(outcome)
        logger.info(
            "outcome recorded for %s: %d tools used, ok: %s, source %s",
            tenant,
            len(outcome.used),
            ok,
            source,
        )
        if vector.any():
            text = masked(query) if self.options.experience == "texts" else ""
            await self.engine.experience.keep(tenant, replace(outcome, query=text), vector)
        return outcome

    record_sync = waiting(record)
    """`record` for programs without an event loop."""

    async def _studied(
        self, outcome: Outcome, tenant: str, learns: bool
    ) -> tuple[Outcome, Vector | None]:
        """Return the Outcome with its tools' definitions and its evaluation by routing, and its vector.

        The evaluation is not kept while the write waits. Otherwise each of many Outcomes would be compared
        with another past.
        """
        request = RouteRequest(query=outcome.query, tenant=tenant, actor=outcome.actor)
        state = await self.engine.begin(validated_request(request, (), {}), Clock())
        used = uses_with_hashes(state.task.index, outcome.used)
        outcome = replace(outcome, used=used)
        if not learns:
            return outcome, None
        # The tenant's claims correct the calibration, and are fitted to what is studied here.
        task = replace(state.task, calibration=self.engine.calibration)
        state = replace(state, task=task)
        return await study(self.pipeline, state, outcome)

    async def past_like(self, request: RouteRequest) -> tuple[Near, ...]:
        """Return the past tasks that count for this task, nearest first."""
        state = await self.engine.begin(request, Clock())
        task = state.task
        past = task.experience
        if not past:
            return ()
        vectors, _ = await task.embed(task.understood.texts[:1])
        if vectors is None:
            return ()
        recalled = past.recall(vectors[0], lambda *_: True, task.request.actor)
        return recalled.tasks if recalled else ()


def _pipeline(pipeline: Pipeline | str) -> Pipeline:
    return preset(pipeline) if isinstance(pipeline, str) else pipeline


def _embedder_of(sources: Sequence[Source]) -> Callable[[], Embedder] | None:
    """Return a function that returns the embedder of the first store, or None if the Router opens that store."""
    store = sources[0].store if sources else None
    return (lambda: store.embedder) if isinstance(store, Store) else None
