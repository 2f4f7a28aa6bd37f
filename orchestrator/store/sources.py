"""Sources: several stores that are read as one catalogue, in parallel. A source that fails or is late does not affect
the
others.

The first source is the tenants' own. New tools and Outcomes are stored there. If several sources have a tool with the
same key, the first source's definition counts.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.common.tenant import SHARED, check_tenant, is_tenant
from orchestrator.errors import InvalidInput, StoreUnavailable, ToolrouteError
from orchestrator.store.backend import without_credentials
from orchestrator.store.points import Vectors
from orchestrator.store.store import Store
from orchestrator.store.stored_tools import Stored

_RENEWED_IN_S = 0.5
"""Seconds that a request waits for a source that has answered or failed before. A later answer counts when it comes."""
_AGAIN_S = 15.0
"""Seconds after which a source that failed is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One of several stores that a Router reads.

    Attributes:
        store: A folder, a URL or a Store.
        tenant: A tenant that shares its tools with everybody, for example `org:public`. Empty: each tenant sees its own
            tools.
        name: The name that matches show. Default: the place of the store.
        deadline_s: Seconds to wait for the first answer. Default: as long as for a single store.

    Raises:
        UnknownTenant: The tenant is malformed.
        InvalidInput: The deadline is negative.

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
        if self.tenant:
            check_tenant(self.tenant, shared=True)
        if not self.deadline_s >= 0:
            raise InvalidInput(f"deadline_s={self.deadline_s!r}: give seconds, 0 or more")

    @property
    def shown(self) -> str:
        place = without_credentials(str(self.store))
        return self.name or (f"{place}#{self.tenant}" if self.tenant else place)

    @classmethod
    def of(cls, given: "Source | Store | str | Path") -> "Source":
        """Return the source. A text has the form `PLACE` or `PLACE#TENANT`."""
        if isinstance(given, Source):
            return given
        place, mark, tenant = given.rpartition("#") if isinstance(given, str) else ("", "", "")
        mapped = bool(mark and place) and (is_tenant(tenant) or tenant == SHARED)
        return cls(store=place, tenant=tenant) if mapped else cls(store=given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged(Stored):
    """The tools of all sources together.

    Attributes:
        parts: The tools of each source. None: the source has not answered yet.
    """

    parts: tuple[Stored | None, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request to a source, in its own thread."""

    answer: "Future[Stored]"
    at: float

    @property
    def stands(self) -> bool:
        """True if a new request would not help: the request still runs, or it has just failed."""
        failed = self.answer.done() and self.answer.exception() is not None
        return not self.answer.done() or (failed and time.monotonic() < self.at + _AGAIN_S)


class Sources:
    """Several stores as one, for reading. All methods block. Every Store has the same embedder."""

    def __init__(self, sources: Sequence[Source], deadline_s: float) -> None:
        if sources[0].tenant:
            own = sources[0].tenant
            raise InvalidInput(
                f"the first source has tenant={own!r}, but new tools are stored in the first source: put it later in "
                "the list, or remove its tenant"
            )
        self._stores = [source.store for source in sources if isinstance(source.store, Store)]
        self._sources, self._deadline_s = tuple(sources), deadline_s
        self.names = tuple(source.shown for source in sources)
        if len(set(self.names)) < len(self.names):
            raise InvalidInput(f"two of the sources {', '.join(self.names)} have the same name: rename or remove one")
        self._asked: dict[tuple[int, str], _Asked] = {}

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
        return all(self._stands(place, tenant, own) for place, own in enumerate(versions))

    def _stands(self, place: int, tenant: str, version: str) -> bool:
        if (asked := self._asked.get((place, tenant))) is not None:
            return asked.stands
        return self._stores[place].is_current(self._sources[place].tenant or tenant, version)

    def _read(self, tenant: str, earlier: Merged | None) -> Merged:
        before = earlier.parts if earlier else (None,) * len(self._stores)
        asked = [self._ask(place, tenant, part) for place, part in enumerate(before)]
        parts, warnings, errors = list[Stored | None](), list[str](), list[ToolrouteError]()
        for place, (one, part) in enumerate(zip(asked, before, strict=True)):
            patience = _RENEWED_IN_S if earlier else self._sources[place].deadline_s or self._deadline_s
            try:
                parts.append(one.answer.result(max(0.0, one.at + patience - time.monotonic())))
                self._asked.pop((place, tenant), None)
            except Exception as error:  # A failure of one source does not affect the others.
                late = isinstance(error, TimeoutError) and not str(error)
                said = str(error) if isinstance(error, ToolrouteError | OSError) else type(error).__name__
                why = f"no answer within {patience:g} seconds" if late else said
                counts = "its earlier tools are used" if part else "its tools are missing"
                warnings.append(f"source {self.names[place]}: {counts}: {why}")
                errors.append(error if isinstance(error, ToolrouteError) else StoreUnavailable(warnings[-1]))
                parts.append(part)
        if not any(parts):
            raise errors[0]
        return self._merged(tuple(parts), warnings, earlier)

    def _ask(self, place: int, tenant: str, part: Stored | None) -> _Asked:
        key = place, tenant
        known = self._asked.get(key)
        if known is None or not (known.stands or known.answer.exception() is None):  # A late answer counts now.
            store, theirs = self._stores[place], self._sources[place].tenant or tenant

            def read() -> Stored:
                if place > 0 and not store.exists:  # The first write creates the first source's store.
                    raise StoreUnavailable("there is no store at this place")
                return store.renewed(theirs, part) if part else store.load(theirs)

            known = self._asked[key] = _Asked(_in_a_thread(read), time.monotonic())
        return known

    def _merged(self, parts: tuple[Stored | None, ...], warnings: Sequence[str], earlier: Merged | None) -> Merged:
        named = [(name, part) for name, part in zip(self.names, parts, strict=True) if part]
        damaged = "; ".join([*(f"source {name}: {part.damaged}" for name, part in named if part.damaged), *warnings])
        version = "|".join(part.version if part else "" for part in parts)
        if earlier and all(now is before for now, before in zip(parts, earlier.parts, strict=True)):
            same = (damaged, version) == (earlier.damaged, earlier.version)
            return earlier if same else replace(earlier, damaged=damaged, version=version)
        rows, origins = _rows(named)
        catalogue = Catalogue(named[place][1].tools[row] for place, row in rows.values())
        vectors, note = self._vectors(named, [rows[tool.key] for tool in catalogue])
        return Merged(
            catalogue=catalogue,
            vectors=vectors,
            version=version,
            note=note,
            damaged=damaged,
            unlisted=frozenset[str]().union(*(part.unlisted for _, part in named)),
            origins=origins,
            parts=parts,
        )

    def _vectors(
        self, named: Sequence[tuple[str, Stored]], rows: Sequence[tuple[int, int]]
    ) -> tuple[Vectors | None, str]:
        """Return the vectors of the tools at these rows. Otherwise return None and the reason why a source has no
        usable
        vectors.
        """
        filled = [(name, part) for name, part in named if len(part.catalogue)]
        others = len({store.embedder.id for store in self._stores}) > 1
        lacking = [
            f"source {name}: {part.note or 'its vectors are from another embedder'}"
            for name, part in filled
            if part.vectors is None
        ]
        if lacking or others or not filled:
            return None, "; ".join(lacking) or ("the stores of the sources use different embedders" if others else "")
        sizes = [len(part.catalogue) for _, part in named]
        starts = np.cumsum([0, *sizes])
        together = np.concatenate([part.vectors for _, part in filled if part.vectors is not None])
        return together[[starts[place] + row for place, row in rows]], ""


def _rows(named: Sequence[tuple[str, Stored]]) -> tuple[dict[str, tuple[int, int]], Mapping[str, tuple[str, ...]]]:
    """Return two mappings by key: the source and row of the definition that counts, and the names of the sources with
    other definitions.

    The second mapping begins with the source with the definition that counts.
    """
    rows, origins = dict[str, tuple[int, int]](), dict[str, tuple[str, ...]]()
    for place, (name, part) in enumerate(named):
        for row, tool in enumerate(part.tools):
            first, own = rows.setdefault(tool.key, (place, row))
            if first == place:
                origins[tool.key] = (name,)
            elif named[first][1].tools[own].hash != tool.hash:
                origins[tool.key] = (*origins[tool.key], name)
    return rows, origins


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
