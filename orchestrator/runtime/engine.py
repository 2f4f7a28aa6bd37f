"""The engine of a Router: a tenant's index and past tasks, the State with which a pipeline begins, and the report at
its end.
"""

import logging
from collections.abc import Callable, Sequence, Set as AbstractSet
from copy import copy
from dataclasses import replace
from typing import Any

from orchestrator import telemetry
from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.calibration import Calibration
from orchestrator.index.embedders.embedding import contrast_of, no_tool_of, unfamiliar_to
from orchestrator.index.index import Index
from orchestrator.options import Options
from orchestrator.pipeline.conversation import earlier_texts
from orchestrator.pipeline.model_calls import RouteModel
from orchestrator.pipeline.pipeline import Clock
from orchestrator.pipeline.state import State, Task
from orchestrator.pipeline.understand import understand
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteRequest
from orchestrator.records.tool import Tool
from orchestrator.runtime.computing import Computing
from orchestrator.runtime.embedding import Embedding
from orchestrator.runtime.experience_cache import ExperienceCache
from orchestrator.runtime.index_cache import IndexCache
from orchestrator.runtime.inputs import check_models
from orchestrator.runtime.needs import read_needs
from orchestrator.runtime.recording import actor_name, masked
from orchestrator.runtime.unused_settings import ExpectedNames

logger = logging.getLogger(__package__)


class RouteModels:
    """The caller's language models, or those of the options.

    Attributes:
        of_route: Asks the models within a route.

    Raises:
        InvalidConfig: A stage of routing needs a model that the options do not name.
    """

    def __init__(self, make_models: Callable[[], Any] | None, options: Options) -> None:
        if make_models is None:
            check_models(options)
        self._make_models = make_models
        self._options = options
        self._models: Any = None
        self.of_route = RouteModel(self._open_models, options.route_timeout_s)

    async def aclose(self) -> None:
        """Close the models that the engine opened. The caller closes its own models."""
        if self._models is not None:
            await self._models.aclose()

    def _open_models(self) -> Any:
        if self._make_models is not None:
            return self._make_models()
        from orchestrator.llm.client import models_for

        self._models = self._models or models_for(self._options)
        return self._models


class RouteEngine:
    """The parts that all routes of a Router share.

    Attributes:
        options: The Router's settings.
        calibration: The maps from features to probabilities.
        indexes: The tenants' indexes.
        experience: The tenants' past tasks.
        embedding: The embedder.
        models: The language model.
        computing: Runs the stages.
        servers: The MCP servers that may give matches. None: all.
        expected: The names in settings that a tenant's tools should have.
    """

    def __init__(
        self,
        options: Options,
        calibration: Calibration,
        indexes: IndexCache,
        experience: ExperienceCache,
        embedding: Embedding,
        models: RouteModels,
    ) -> None:
        self.options = options
        self.calibration = calibration
        self.indexes = indexes
        self.experience = experience
        self.embedding = embedding
        self.models = models
        self.computing = Computing()
        self.servers: frozenset[str] | None = None
        self.expected = ExpectedNames()

    @property
    def learns(self) -> bool:
        """True if past tasks are stored and used."""
        return self.options.experience != "off"

    def with_catalogue(self, catalogue: Catalogue) -> "RouteEngine":
        """Return an engine for only this catalogue, with the same settings, embedder and past tasks."""
        engine = copy(self)
        engine.indexes = self.indexes.over(catalogue)
        engine.servers = None
        engine.expected = ExpectedNames()
        return engine

    async def aclose(self) -> None:
        self.indexes.clear()
        self.experience.clear()
        self.embedding.close()
        self.computing.close()
        await self.models.aclose()

    # --- what a tenant has

    async def index(self, tenant: str) -> Index:
        """Return the tenant's current Index. Concurrent callers share one load."""
        index, _ = await self.indexes.get(tenant)
        return index

    async def catalogue(self, tenant: str) -> Catalogue:
        """Return the tenant's current catalogue."""
        return (await self.index(tenant)).catalogue

    def loaded_catalogue(self, tenant: str) -> Catalogue | None:
        """Return the catalogue of the tenant's last route. None: nothing was routed yet. It loads nothing."""
        index = self.indexes.at_hand(tenant)
        return None if index is None else index.catalogue

    async def servers_of(self, tenant: str) -> AbstractSet[str]:
        """Return the servers of the tenant's current tools. The name "" is for tools without a server."""
        return (await self.catalogue(tenant)).places.keys()

    def serves(self, tool: Tool) -> bool:
        """Return True if tools of the tool's server may match."""
        return not tool.kind.is_served or self.servers is None or tool.server in self.servers

    # --- how a task is read

    async def begin(
        self, request: RouteRequest, clock: Clock, needs: Sequence[str] | None = ()
    ) -> State:
        """Return the State with which a pipeline begins, for a valid request.

        Args:
            request: A request with a tenant.
            clock: Measures the time for loading and for the analysis of the task.
            needs: What the task needs, if known. None: ask a language model, if the options say so.
        """
        if request.actor:
            request = replace(request, actor=actor_name(request.actor))
        index, index_warning = await self.indexes.get(request.tenant)
        self.expected.check(request.tenant, index.catalogue)
        experience_warning = await self.experience.get(request.tenant) if self.learns else ""
        clock.book("load")
        task = await self._task(request, index, needs or ())
        warnings = filter(None, (index_warning, experience_warning))
        state = State(task=task, warnings=tuple(warnings))
        clock.book("understand")
        if needs is None and self.options.understand == "model":
            state = await self._with_needs(state)
            clock.book("needs")
        return state

    async def _with_needs(self, state: State) -> State:
        """Return the state with the needs that a language model reads in the task."""
        task = state.task
        needs = await read_needs(task, self.models.of_route)
        if needs.texts:
            task = await self._task(task.request, task.index, needs.texts)
        return replace(
            state, task=task, usage=needs.usage, warnings=(*state.warnings, *needs.warnings)
        )

    async def _task(self, request: RouteRequest, index: Index, needs: Sequence[str]) -> Task:
        past = self.experience.at_hand(request.tenant)
        earlier = earlier_texts(request.query, request.conversation)
        compute = self.computing.compute(request.query, len(index.tools))
        words = index.keyword
        understood = await compute(
            lambda: understand(
                request.query, earlier, stems=words.terms, actions=words.actions, needs=needs
            )
        )
        embedding = self.embedding
        return Task(
            request=request,
            understood=understood,
            index=index,
            options=self.options,
            calibration=self.calibration if past is None else past.claims.on(self.calibration),
            embed=lambda texts: embedding.vectors(index, texts),
            encode=lambda texts: embedding.encode(index, self.calibration.languages, texts),
            embed_at_once=lambda texts: embedding.vectors_at_once(index, texts),
            no_tool=lambda: no_tool_of(embedding.embedder),
            contrast=lambda: contrast_of(embedding.embedder),
            unfamiliar_to=lambda text: unfamiliar_to(embedding.embedder, text),
            leans=bool(earlier),
            remote=past is not None and embedding.embedder.remote,
            experience=past,
            servers=self.servers,
            model=self.models.of_route,
            compute=compute,
        )


def report(state: State, attributes: dict[str, Any]) -> Decision:
    """Report a state's Decision to the log, the metrics and the route's span, and return it.

    Args:
        state: The state at the end of a pipeline.
        attributes: The attributes of the span.
    """
    decision = state.decision
    if decision is None:
        raise ValueError("the pipeline ended before its selection")
    telemetry.routed(attributes, decision, masked, gate_open=state.gate_open)
    logger.info(
        "routed for %s: stage %s, confidence %.0f%%, %d tools, %s tokens saved, %.1f ms",
        decision.tenant,
        decision.stage,
        decision.confidence * 100,
        len(decision.matches),
        f"{decision.tokens.before - decision.tokens.after:,}",
        decision.timings_ms["total"],
    )
    if logger.isEnabledFor(logging.DEBUG):
        keys = ", ".join(match.tool.key for match in decision.matches)
        logger.debug("task %r: %s", masked(decision.query), keys)
    return decision
