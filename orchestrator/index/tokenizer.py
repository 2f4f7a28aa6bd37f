"""Tokenizers of the package `kitoken`, opened in any thread."""

import threading
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kitoken import Kitoken


def tokenizer_of(definition: bytes) -> "Kitoken":
    """Return the tokenizer that a `tokenizer.json` defines.

    Raises:
        ValueError: The definition is broken.
    """
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
        import kitoken  # noqa: F401

        return
    loaded = threading.Event()
    threading.Thread(target=_stay, args=[loaded], name="toolroute tokenizers", daemon=True).start()
    loaded.wait()


def _stay(loaded: threading.Event) -> None:
    try:
        import kitoken  # noqa: F401
    finally:
        loaded.set()
    threading.Event().wait()
