"""A catalogue with a store: all tenants see the catalogue's tools, such as Python functions, and each its own tools."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.errors import EmbedderUnavailable
from orchestrator.index.embedders.embedder import Embedder, Vectors
from orchestrator.index.embedders.embedding import embed_tools
from orchestrator.store.sources import Sources
from orchestrator.store.store import Store, Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class _Together(Stored):
    """The tools of the catalogue and of the store.

    Attributes:
        of_store: The tools of the store alone.
    """

    of_store: Stored


class StoreWithCatalogue:
    """Reads a store and a catalogue as one. Of two tools with the same key, the store's counts. All methods block.

    Args:
        store: The tenants' own tools.
        catalogue: The tools that all tenants have, or their file.
        embedder: Returns the embedder, for the catalogue's tools.
    """

    def __init__(
        self,
        store: Store | Sources,
        catalogue: Catalogue | str | Path,
        embedder: Callable[[], Embedder],
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._embedder = embedder
        self._vectors: Vectors | None = None
        self._lock = threading.Lock()

    def load(self, tenant: str) -> Stored:
        """Return the tenant's tools together with the catalogue's."""
        return self._together(self._store.load(tenant))

    def renewed(self, tenant: str, earlier: Stored) -> Stored:
        """Return the current tools. If none has changed, `earlier` is returned."""
        if not isinstance(earlier, _Together):
            return self.load(tenant)
        of_store = self._store.renewed(tenant, earlier.of_store)
        return earlier if of_store is earlier.of_store else self._together(of_store)

    def is_current(self, tenant: str, version: str) -> bool:
        """Return True if the store certainly has this version. It never waits."""
        return self._store.is_current(tenant, version)

    def second_vectors(self, tenant: str) -> dict[str, Vectors]:
        """Return the stored vectors, as `Store.second_vectors` does. The catalogue's tools have none."""
        return self._store.second_vectors(tenant)

    def _together(self, of_store: Stored) -> _Together:
        shared = self._read_catalogue()
        added = [tool for tool in shared if tool.key not in of_store.catalogue.positions]
        catalogue = Catalogue([*of_store.catalogue, *added])
        return _Together(
            catalogue=catalogue,
            vectors=self._vectors_of(catalogue, of_store, shared),
            version=of_store.version,
            note=of_store.note,
            damaged=of_store.damaged,
            unlisted=of_store.unlisted,
            origins=of_store.origins,
            of_store=of_store,
        )

    def _read_catalogue(self) -> Catalogue:
        with self._lock:
            if not isinstance(self._catalogue, Catalogue):
                self._catalogue = Catalogue.read(self._catalogue)
            return self._catalogue

    def _vectors_of(
        self, catalogue: Catalogue, of_store: Stored, shared: Catalogue
    ) -> Vectors | None:
        """Return the vectors of the catalogue's tools, in its order. None: they are embedded later."""
        if len(of_store.catalogue) and of_store.vectors is None:
            return None
        try:
            vectors = self._embedded(shared)
        except EmbedderUnavailable:
            return None
        by_key = dict(zip(shared.positions, vectors, strict=True))
        if of_store.vectors is not None:
            by_key |= dict(zip(of_store.catalogue.positions, of_store.vectors, strict=True))
        rows = [by_key[tool.key] for tool in catalogue]
        return np.array(rows, np.float32)

    def _embedded(self, shared: Catalogue) -> Vectors:
        with self._lock:
            if self._vectors is None:
                self._vectors = embed_tools(self._embedder(), shared.tools)
            return self._vectors
