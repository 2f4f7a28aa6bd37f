"""Sources: several stores that are read as one catalogue, in parallel. A source that fails or is late does not affect
the others.

The first source is the tenants' own. New tools and Outcomes are stored there. If several sources have a tool with the
same key, the first source's definition counts.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.tenant import SHARED, check_tenant, is_tenant
from orchestrator.errors import InvalidInput, StoreUnavailable, ToolrouteError
from orchestrator.store.backend import without_credentials
from orchestrator.store.points import Vectors
from orchestrator.store.store import Store
from orchestrator.store.tools.stored_tools import Stored

_RENEWED_IN_S = 0.5
"""Seconds that a request waits for a source that has answered or failed before. A later answer counts when it comes."""
_AGAIN_S = 15.0
"""Seconds after which a source that failed is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One of several stores that a Router reads.

    Attributes:
        store: A folder, a URL or a Store.
        tenant: A tenant that shares its tools with everybody, for example `org:public`. Empty: each tenant
            sees its own tools.
        name: The name that matches show. Default: the place of the store.
        deadline_s: Seconds to wait for the first answer. Default: as long as for a single store.

    Raises:
        UnknownTenant: The tenant is malformed.
        InvalidInput: The store has a wrong type, or the deadline is negative.

    Examples:
        >>> from orchestrator import Source
        >>> Source(store="https://registry:6333", tenant="org:public", name="registry", deadline_s=2).shown
        'registry'
    """

    store: Store | str | Path = field(repr=False)
    tenant: str = ""
    name: str = ""
    deadline_s: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.store, Store | str | Path):
            raise InvalidInput(f"store={self.store!r:.80}: give a folder, a URL or a Store")
        if self.tenant:
            check_tenant(self.tenant, shared=True)
        if not isinstance(self.deadline_s, int | float) or not self.deadline_s >= 0:
            raise InvalidInput(f"deadline_s={self.deadline_s!r}: give seconds, 0 or more")

    @property
    def shown(self) -> str:
        location = without_credentials(str(self.store))
        return self.name or (f"{location}#{self.tenant}" if self.tenant else location)

    @classmethod
    def of(cls, store: "Source | Store | str | Path") -> "Source":
        """Return the source. A text has the form `PLACE` or `PLACE#TENANT`."""
        if isinstance(store, Source):
            return store
        if isinstance(store, str):
            location, _, tenant = store.rpartition("#")
            if location and (is_tenant(tenant) or tenant == SHARED):
                return cls(store=location, tenant=tenant)
        return cls(store=store)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged(Stored):
    """The tools of all sources together.

    Attributes:
        parts: The tools of each source. None: the source has not answered yet.
    """

    parts: tuple[Stored | None, ...]


_NamedPart = tuple[str, Stored]
"""The name of a source, and its tools."""
_Place = tuple[int, int]
"""The number of a source among those that answered, and the row of a tool."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to a source, in its own thread."""

    answer: "Future[Stored]"
    at: float

    @property
    def stands(self) -> bool:
        """True if a new request would not help: the request still runs, or it has just failed."""
        if not self.answer.done():
            return True
        return self.answer.exception() is not None and time.monotonic() < self.at + _AGAIN_S


class Sources:
    """Several stores as one, for reading. All methods block. Every Store has the same embedder."""

    def __init__(self, sources: Sequence[Source], deadline_s: float) -> None:
        if sources[0].tenant:
            tenant = sources[0].tenant
            raise InvalidInput(
                f"the first source has tenant={tenant!r}, but new tools are stored in the first source: put it later "
                "in the list, or remove its tenant"
            )
        self._stores = [source.store for source in sources if isinstance(source.store, Store)]
        self._sources = tuple(sources)
        self._deadline_s = deadline_s
        self.names = tuple(source.shown for source in sources)
        if len(set(self.names)) < len(self.names):
            raise InvalidInput(
                f"two of the sources {', '.join(self.names)} have the same name: rename or remove one"
            )
        self._requests: dict[tuple[int, str], _Request] = {}

    def load(self, tenant: str) -> Merged:
        """Return the tools of all sources that answer in time. If none does, raise the error of the first source."""
        check_tenant(tenant, shared=True)
        return self._read(tenant, None)

    def renewed(self, tenant: str, earlier: Stored) -> Stored:
        """Return the current tools. If no tool has changed, `earlier` or its catalogue is used again."""
        return self._read(tenant, earlier if isinstance(earlier, Merged) else None)

    def is_current(self, tenant: str, version: str) -> bool:
        """Return True if a new request would certainly give the same tools. It never waits."""
        versions = version.split("|")
        return all(self._is_current(number, tenant, part) for number, part in enumerate(versions))

    def second_vectors(self, tenant: str) -> dict[str, Vectors]:
        """Return the vectors of all sources, as `Store.second_vectors` does. A source that fails has none."""
        vectors: dict[str, Vectors] = {}
        for source, store in zip(self._sources, self._stores, strict=True):
            with suppress(StoreUnavailable):
                vectors |= store.second_vectors(source.tenant or tenant)
        return vectors

    def _is_current(self, number: int, tenant: str, version: str) -> bool:
        request = self._requests.get((number, tenant))
        if request is not None:
            return request.stands
        return self._stores[number].is_current(self._sources[number].tenant or tenant, version)

    def _read(self, tenant: str, earlier: Merged | None) -> Merged:
        earlier_parts = earlier.parts if earlier else (None,) * len(self._stores)
        requests = [self._ask(number, tenant, part) for number, part in enumerate(earlier_parts)]
        parts: list[Stored | None] = []
        warnings: list[str] = []
        errors: list[ToolrouteError] = []
        for number, request in enumerate(requests):
            patience_s = self._sources[number].deadline_s or self._deadline_s
            if earlier:
                patience_s = _RENEWED_IN_S
            part = earlier_parts[number]
            try:
                part = request.answer.result(max(0.0, request.at + patience_s - time.monotonic()))
                self._requests.pop((number, tenant), None)
            except Exception as error:  # A failure of one source does not affect the others.
                counts = "its earlier tools are used" if part else "its tools are missing"
                reason = _reason(error, patience_s)
                warnings.append(f"source {self.names[number]}: {counts}: {reason}")
                errors.append(
                    error if isinstance(error, ToolrouteError) else StoreUnavailable(warnings[-1])
                )
            parts.append(part)
        if not any(parts):
            raise errors[0]
        return self._merged(tuple(parts), warnings, earlier)

    def _ask(self, number: int, tenant: str, part: Stored | None) -> _Request:
        request = self._requests.get((number, tenant))
        # A late answer counts now.
        if request is None or not (request.stands or request.answer.exception() is None):
            request = _Request(
                _in_a_thread(partial(self._read_source, number, tenant, part)), time.monotonic()
            )
            self._requests[number, tenant] = request
        return request

    def _read_source(self, number: int, tenant: str, part: Stored | None) -> Stored:
        store = self._stores[number]
        tenant = self._sources[number].tenant or tenant
        if number > 0 and not store.exists:  # The first write creates the first source's store.
            raise StoreUnavailable("there is no store at this place")
        return store.renewed(tenant, part) if part else store.load(tenant)

    def _merged(
        self, parts: tuple[Stored | None, ...], warnings: Sequence[str], earlier: Merged | None
    ) -> Merged:
        named_parts = [(name, part) for name, part in zip(self.names, parts, strict=True) if part]
        problems = [f"source {name}: {part.damaged}" for name, part in named_parts if part.damaged]
        damaged = "; ".join([*problems, *warnings])
        version = "|".join(part.version if part else "" for part in parts)
        if earlier and all(
            part is before for part, before in zip(parts, earlier.parts, strict=True)
        ):
            same = (damaged, version) == (earlier.damaged, earlier.version)
            return earlier if same else replace(earlier, damaged=damaged, version=version)
        places = _places(named_parts)
        catalogue = Catalogue(named_parts[number][1].tools[row] for number, row in places.values())
        vectors, note = self._vectors(named_parts, [places[tool.key] for tool in catalogue])
        return Merged(
            catalogue=catalogue,
            vectors=vectors,
            version=version,
            note=note,
            damaged=damaged,
            unlisted=frozenset[str]().union(*(part.unlisted for _, part in named_parts)),
            origins=_origins(named_parts),
            parts=parts,
        )

    def _vectors(
        self, named_parts: Sequence[_NamedPart], places: Sequence[_Place]
    ) -> tuple[Vectors | None, str]:
        """Return the vectors of the tools at these places. Otherwise return None and the reason why a source has no
        usable vectors.
        """
        filled = [(name, part) for name, part in named_parts if len(part.catalogue)]
        lacking = [
            f"source {name}: {part.note or 'its vectors are from another embedder'}"
            for name, part in filled
            if part.vectors is None
        ]
        if lacking or not filled:
            return None, "; ".join(lacking)
        if len({store.embedder.id for store in self._stores}) > 1:
            return None, "the stores of the sources use different embedders"
        sizes = [len(part.catalogue) for _, part in named_parts]
        starts = np.cumsum([0, *sizes])
        together = np.concatenate([part.vectors for _, part in filled if part.vectors is not None])
        return together[[starts[number] + row for number, row in places]], ""


def _reason(error: Exception, patience_s: float) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"no answer within {patience_s:g} seconds"
    return str(error) if isinstance(error, ToolrouteError | OSError) else type(error).__name__


def _places(named_parts: Sequence[_NamedPart]) -> dict[str, _Place]:
    """Return the source and the row of the definition that counts, by key. The first source's definition counts."""
    places: dict[str, _Place] = {}
    for number, (_, part) in enumerate(named_parts):
        for row, tool in enumerate(part.tools):
            places.setdefault(tool.key, (number, row))
    return places


def _origins(named_parts: Sequence[_NamedPart]) -> dict[str, tuple[str, ...]]:
    """Return the names of the sources with different definitions, by key. The one that counts is the first."""
    origins: dict[str, tuple[str, ...]] = {}
    hashes: dict[str, str] = {}
    for name, part in named_parts:
        for tool in part.tools:
            first_hash = hashes.setdefault(tool.key, tool.hash)
            if tool.key not in origins:
                origins[tool.key] = (name,)
            elif tool.hash != first_hash:
                origins[tool.key] = (*origins[tool.key], name)
    return origins


def _in_a_thread(work: Callable[[], Stored]) -> "Future[Stored]":
    """Return the work's answer to come. No exit waits for the thread, as a source may hang."""
    answer = Future[Stored]()

    def do() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=do, name="toolroute source", daemon=True).start()
    return answer
