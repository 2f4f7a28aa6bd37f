"""Tokenizers of the package `kitoken`, opened in any thread."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kitoken import Kitoken

_loading = threading.Lock()
"""Held while the library is loaded. Two threads that load it would both set and remove the variable below."""
_PURGE = "MIMALLOC_PURGE_DELAY"
"""The milliseconds after which freed memory is given back, if the library asks for memory then."""


def tokenizer_of(definition: bytes) -> "Kitoken":
    """Return the tokenizer that a `tokenizer.json` defines.

    Raises:
        ValueError: The definition is broken.
    """
    with _loading:
        _load_library()
    from kitoken import Kitoken

    return Kitoken.from_tokenizers(definition)


@cache
def _load_library() -> None:
    """Load the library in a thread that lives as long as the process.

    Its allocator belongs to the thread that loads it. If that thread ends, the next tokenizer of another thread crashes
    the process (kitoken 0.11.1).
    """
    if threading.current_thread() is threading.main_thread():
        _import_library()
        return
    loaded = threading.Event()
    threading.Thread(target=_stay, args=[loaded], name="toolroute tokenizers", daemon=True).start()
    loaded.wait()


def _stay(loaded: threading.Event) -> None:
    try:
        _import_library()
    finally:
        loaded.set()
    threading.Event().wait()


def _import_library() -> None:
    with _freed_at_once():
        import kitoken  # noqa: F401


@contextmanager
def _freed_at_once() -> Iterator[None]:
    """Let the library's allocator (mimalloc) give memory back when it is freed.

    The tokenizer of the shipped embedder then takes 11 MB instead of 28 MB, and a task the same time. The allocator
    reads this variable when it is loaded.
    """
    if _PURGE in os.environ:
        yield
        return
    os.environ[_PURGE] = "0"
    try:
        yield
    finally:
        os.environ.pop(_PURGE, None)
