"""The Router: it routes tasks to tools, in process, with a pipeline."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from orchestrator import telemetry
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.catalogue.export import ResolvedCall
from orchestrator.common.fields import named
from orchestrator.common.json_input import check_known
from orchestrator.common.tenant import LOCAL
from orchestrator.common.threads import Threads, now, waiting
from orchestrator.errors import (
    EmbedderUnavailable,
    StoreUnavailable,
    ToolrouteError,
    Unauthorised,
)
from orchestrator.index.always import DEFAULT_CAPABILITIES, Capability
from orchestrator.index.calibration import Calibration, Fit, shipped
from orchestrator.index.embed import (
    Embedder,
    OpenAIEmbedder,
    StaticEmbedder,
    Vectors,
    embedder_for,
    embedder_id,
    named_embedder,
    no_tool_of,
    unfamiliar_to,
    vectors_of,
)
from orchestrator.index.index import Index
from orchestrator.options import Options
from orchestrator.pipeline.conversation import earlier_texts
from orchestrator.pipeline.legs.semantic import why_failed
from orchestrator.pipeline.model_calls import RouteModel
from orchestrator.pipeline.pipeline import Clock, Pipeline
from orchestrator.pipeline.presets import preset
from orchestrator.pipeline.state import State, Task, at_once
from orchestrator.pipeline.understand import understand
from orchestrator.records.decision import Decision
from orchestrator.records.outcome import Near, Outcome, OutcomeSource, Use, uses_of
from orchestrator.records.request import Fusion, RouteHint, RouteRequest, Turn
from orchestrator.records.tool import Kind, Match, Tool
from orchestrator.runtime.experience_cache import ExperienceCache
from orchestrator.runtime.index_cache import IndexCache
from orchestrator.runtime.inputs import check_models, check_types, checked, fit_from, places_of, task_of
from orchestrator.runtime.needs import read_needs
from orchestrator.runtime.recording import masked, person, study, uses
from orchestrator.runtime.report import report
from orchestrator.store.sources import Source, Sources
from orchestrator.store.store import Store

logger = logging.getLogger(__package__)

_EMBEDDING_AT_A_TIME = 32
_IN_THREAD_FROM = 2_000
"""The number of tools from which stages run in a thread, so that other tasks of the event loop get their turn.

With 13,000 tools, 50 concurrent routes blocked the event loop for 4,290 ms, and for 384 ms with threads (measured once,
on a busy machine). The number 2,000 is an estimate.
"""
_SHORT = 1_000
"""The number of characters up to which a task is analysed without a thread. The analysis takes .3 ms, and a thread .1
ms
more.
"""


class Router:
    """Routes tasks to tools, in process.

    Give it a catalogue or a store. All tenants share a catalogue. A store has each tenant's own tools. The Router opens
    everything on first use and closes it with its context, `async with` or `with`. One Router serves many calls of one
    event loop. `route_sync` and `record_sync` are for programs without an event loop.

    Args:
        catalogue: A Catalogue, a file, or a folder with a file.
        store: A folder, a URL or a Store. Default: the store of the options.
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
        InvalidConfig: The catalogue lacks a server of `servers`.

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
        check_types(catalogue, store, stores, embedder, options, calibration, pipeline)
        options = options or Options()
        sources = [*map(Source.of, places_of(catalogue, store, stores, options))]
        given = sources[0].store if sources else None
        self.pipeline = preset(pipeline or options.pipeline) if isinstance(pipeline, str) else pipeline
        self._owns_embedder = embedder is None and not isinstance(given, Store)
        self._given_embedder = embedder
        self._servers = None if servers is None else frozenset(servers)
        if catalogue is not None and servers:
            catalogue = catalogue if isinstance(catalogue, Catalogue) else Catalogue.read(catalogue)
            check_known("servers", servers, catalogue.places)
        self._shown = ", ".join(source.shown for source in sources) or repr(catalogue)
        self._entries = entries
        self._fit = fit_from(calibration or options.calibration)
        if embedder is not None:
            self._fit.check(embedder.id)
        elif self._owns_embedder:
            named_embedder(options)
            if self._fit.embedder:
                self._fit.check(embedder_id(options))
        self.options = options
        if models is None:
            check_models(options)
        self._given_models = models
        self._own_models: Any = None
        self._own_reranker: Any = None
        self._model = RouteModel(self._models, self._reranker, options.route_timeout_s)
        self._calibration = calibration if isinstance(calibration, Calibration) else self._fit.maps(shipped())
        self._owns_store = isinstance(given, str | Path)
        self._opened: list[Store] = []
        sources = [replace(source, store=self._open(source.store)) for source in sources]
        self.stores = tuple(source.store for source in sources if isinstance(source.store, Store))
        one = len(sources) <= 1 and not any(source.tenant for source in sources)
        read = self.store if one else Sources(sources, options.store_timeout_s)
        self._threads = Threads(_EMBEDDING_AT_A_TIME, "toolroute embedding")
        self._computing = Threads(1, "toolroute routing")  # More threads would slow down the event loop.
        self._indexes = IndexCache(catalogue, read, tuple(capabilities), self.options.cached_tenants)
        self._memories = ExperienceCache(self.store, self.options.cached_tenants, self.options.experience_days)

    def __repr__(self) -> str:
        return f"Router({self._shown}, pipeline={self.pipeline.name!r})"

    @property
    def store(self) -> Store | None:
        """The store for new tools and Outcomes: the first one, if there are several."""
        return self.stores[0] if self.stores else None

    def see(self, entries: Mapping[str, str]) -> None:
        """From now on, route only to the MCP tools that these entries of a configuration listed."""
        self._servers = frozenset(entries)
        if self.store is not None:
            self.store.see(entries)

    def _open(self, place: Store | str | Path) -> Store:
        if isinstance(place, Store):
            return place
        limits: dict[str, Any] = {"timeout_s": self.options.store_timeout_s}
        limits["change_policy"] = self.options.changes
        # Only the first store is restricted. All tools of the others count.
        limits["entries"] = None if self._opened else self._entries
        store = Store(place, embedder=lambda: self.embedder, **limits)
        self._opened.append(store)
        return store

    @property
    def embedder(self) -> Embedder:
        """The embedder: the given one, the one of the given Store, or that of the options. It opens on first use."""
        if self._given_embedder is None:
            given = None if self._owns_store or self.store is None else self.store.embedder
            found = given or embedder_for(self.options)
            self._fit.check(found.id)
            self._given_embedder = found
        return self._given_embedder

    async def __aenter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now(self.aclose())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Drop all indexes and close the store and the embedder. A Store or an embedder that was given stays open."""
        self._indexes.clear()
        self._memories.clear()
        self._threads.close()
        self._computing.close()
        for opened in filter(None, (self._own_models, self._own_reranker)):
            await opened.aclose()
        if self._owns_embedder and isinstance(self._given_embedder, OpenAIEmbedder):
            self._given_embedder.close()
        for store in self._opened:
            await asyncio.to_thread(store.close)

    def _over(self, catalogue: Catalogue) -> "Router":
        """Return a Router for only this catalogue, with the same settings, embedder and Experience."""
        other = copy(self)
        owned = {"_given_embedder": self.embedder, "_owns_embedder": False, "_opened": list[Store]()}
        vars(other).update(owned, _indexes=self._indexes.over(catalogue), _servers=None)
        return other

    async def _index(self, tenant: str) -> Index:
        """Return the tenant's current Index. Concurrent callers share one load."""
        index, _ = await self._indexes.get(tenant)
        return index

    async def servers(self, tenant: str) -> AbstractSet[str]:
        """Return the servers of the tenant's current tools. The name "" is for tools without a server."""
        index, _ = await self._indexes.get(tenant)
        return index.catalogue.places.keys()

    def _offers(self, tool: Tool) -> bool:
        """Return True if tools of the tool's server may match."""
        return tool.kind is not Kind.MCP or self._servers is None or tool.server in self._servers

    def _catalogue_at_hand(self, tenant: str) -> Catalogue | None:
        """Return the catalogue of the tenant's last route. None: nothing was routed yet. It loads nothing."""
        index = self._indexes.at_hand(tenant)
        return None if index is None else index.catalogue

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

        From 2,000 tools on, the stages run in a thread of the Router, so that other tasks of the event loop continue.
        If the embedder fails, the keyword leg still answers, with a warning.

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
        given = {
            "tenant": tenant,
            "limit": limit,
            "filters": filters,
            "route_hint": route_hint,
            "token_cap": token_cap,
            "fusion": fusion,
            "context": context,
        }
        settings = {name: value for name, value in given.items() if value is not None}
        return await self._routed(checked(request, conversation, settings))

    route_sync = waiting(route)
    """`route` for programs without an event loop. The call waits for the Decision."""

    @named
    async def warm(self, *tenants: str) -> None:
        """Load the tools, the past tasks and the embedder in advance, so that a tenant's first route is as fast as
        later
        ones.

        Args:
            tenants: The tenants. Default: `local`.

        Raises:
            StoreUnavailable: A tenant's catalogue cannot be read.
        """
        for tenant in tenants or (LOCAL,):
            asked = RouteRequest(query="warm up", tenant=tenant, route_hint=RouteHint.SEMANTIC)
            state = await self._begin(checked(asked, (), {}), Clock())
            state = await self.pipeline.run(replace(state, task=replace(state.task, model=None)))  # It costs no tokens.
            if why := why_failed(state.warnings):
                logger.warning("the embedder could not be warmed up: %s", why)

    async def _routed(self, request: RouteRequest) -> Decision:
        about = {"gen_ai.data_source.id": request.tenant, "gen_ai.retrieval.top_k": request.limit}
        with telemetry.span("retrieval", request.tenant, about) as seen:
            clock = Clock()
            state = await self.pipeline.run(await self._begin(request, clock, None), clock)
            return report(state, seen)

    async def _begin(self, request: RouteRequest, clock: Clock, needs: Sequence[str] | None = ()) -> State:
        """Return the State with which a pipeline begins, for a valid request.

        Args:
            request: A request with a tenant.
            clock: Measures the time for loading and for the analysis of the task.
            needs: What the task needs, if known. None: ask a language model, if the options say so.
        """
        index, stale = await self._indexes.get(request.tenant)
        unread = await self._memories.get(request.tenant) if self._learns else ""
        clock.book("load")
        task = await self._task(request, index, needs or ())
        state = State(task=task, warnings=(*filter(None, (stale, unread)),))
        clock.book("understand")
        if needs is None and self.options.understand == "model":
            got = await read_needs(state.task, self._model)
            clock.book("needs")
            task = await self._task(request, index, got.texts) if got.texts else state.task
            state = replace(state, task=task, usage=got.usage, warnings=(*state.warnings, *got.warnings))
        return state

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
            actor=person(actor),
            at=time.time() if at is None else at,
            source=source,
            chosen=chosen,
        )
        learns = self._learns and not (isinstance(decision, Decision) and decision.leans)
        outcome, vector = await self._studied(outcome, tenant, learns)
        if vector is None:
            return outcome
        telemetry.learnt(outcome)
        logger.info("outcome recorded for %s: %d tools used, ok: %s, source %s", tenant, len(outcome.used), ok, source)
        if vector.any():
            text = masked(query) if self.options.experience == "texts" else ""
            await self._memories.keep(tenant, replace(outcome, query=text), vector)
        return outcome

    record_sync = waiting(record)
    """`record` for programs without an event loop."""

    async def _studied(self, outcome: Outcome, tenant: str, learns: bool) -> tuple[Outcome, NDArray[np.float32] | None]:
        """Return the Outcome with its tools' definitions and its evaluation by routing, and its vector.

        The evaluation is not kept while the write waits. Otherwise each of many Outcomes would be compared with another
        past.
        """
        request = checked(RouteRequest(query=outcome.query, tenant=tenant), (), {})
        state = await self._begin(request, Clock())
        outcome = replace(outcome, used=uses(state.task.index, outcome.used))
        if not learns:
            return outcome, None
        task = replace(state.task, calibration=self._calibration)
        return await study(self.pipeline, replace(state, task=task), outcome)

    async def past_like(self, request: RouteRequest) -> tuple[Near, ...]:
        """Return the past tasks that count for this task, nearest first."""
        task = (await self._begin(request, Clock())).task
        past = task.experience
        vectors = (await task.embed(task.understood.texts[:1]))[0] if past else None
        recalled = past.recall(vectors[0], lambda *_: True) if past and vectors is not None else None
        return recalled.tasks if recalled else ()

    @property
    def _learns(self) -> bool:
        """True if past tasks are stored and used."""
        return self.options.experience != "off"

    def _models(self) -> Any:
        """Return the caller's language models, or those of the options, opened once. Otherwise None."""
        if self._given_models is not None:
            return self._given_models()
        from orchestrator.llm.client import models_for

        self._own_models = self._own_models or models_for(self.options)
        return self._own_models

    def _reranker(self) -> Any:
        """Return the reranker of the options. It is opened once."""
        from orchestrator.llm.rerank import Reranker

        self._own_reranker = self._own_reranker or Reranker(self.options)
        return self._own_reranker

    async def _task(self, request: RouteRequest, index: Index, needs: Sequence[str]) -> Task:
        past = self._memories.at_hand(request.tenant)
        earlier = earlier_texts(request.query, request.conversation)
        large = len(index.catalogue) >= _IN_THREAD_FROM
        compute = self._computing.run if large else at_once
        short = len(request.query) <= _SHORT
        understood = await (at_once if short else compute)(
            lambda: understand(request.query, earlier, known=index.terms, actions=index.actions, needs=needs)
        )
        return Task(
            request=request,
            understood=understood,
            index=index,
            options=self.options,
            calibration=self._calibration if past is None else past.claims.on(self._calibration),
            embed=lambda texts: self._vectors(index, texts),
            no_tool=lambda: no_tool_of(self.embedder),
            unfamiliar_to=lambda text: unfamiliar_to(self.embedder, text),
            leans=bool(earlier),
            remote=past is not None and self.embedder.remote,
            experience=past,
            servers=self._servers,
            model=self._model,
            compute=compute,
        )

    async def _vectors(self, index: Index, texts: Sequence[str]) -> tuple[Vectors | None, str]:
        """Return one vector for each text, or None and the reason. The index then has its semantic part."""
        try:
            vectors = await self._embed(index, list(texts))
            index.semantic(self.embedder).check(vectors)
        except (EmbedderUnavailable, StoreUnavailable, Unauthorised, TimeoutError) as error:
            return None, str(
                error
            ) or f"the embedder did not answer within {self.options.semantic_timeout_s:g} seconds (semantic_timeout_s)"
        except Exception as error:
            # A failure of a caller's own embedder affects only the semantic leg.
            if isinstance(error, ToolrouteError) or isinstance(self.embedder, StaticEmbedder | OpenAIEmbedder):
                raise
            return None, f"embedder {self.embedder.id!r} failed ({type(error).__name__}: {error})"
        return vectors, ""

    async def _embed(self, index: Index, texts: list[str]) -> Vectors:
        """Return one vector for each text. The index then has its semantic part."""
        if not self.embedder.remote and index.vectors is not None:
            return vectors_of(self.embedder, texts)
        async with asyncio.timeout(self.options.semantic_timeout_s if self.embedder.remote else None):
            await self._threads.run(index.semantic, self.embedder)
            return await self._threads.run(vectors_of, self.embedder, texts)
