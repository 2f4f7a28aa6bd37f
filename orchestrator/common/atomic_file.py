"""Replace a file safely: a reader finds the old content or the new, also after a loss of power.

    replace_file(path, text)                     # for a writer that knows the whole new content

    with lock_of(path):                          # for a writer that changes what is there
        replace_file(path, changed(path.read_text()))

The lock is advisory and lies beside the file, in `NAME.lock`, because the file itself is replaced.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from portalocker import Lock, LockException, LockFlags

from orchestrator.errors import InvalidConfig

LOCK_WAIT_S = 15.0
"""Seconds to wait for another writer. A lock is held for one small write, so a holder that takes longer hangs."""

__all__ = ["LOCK_WAIT_S", "LockException", "lock_of", "replace_file", "replace_settings"]


def replace_file(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Replace a file atomically, following a link to its target.

    The file keeps its permissions. Only the owner can read a new file or a `private` one. Missing folders are made.

    Args:
        path: The file.
        content: The new content. Half of a surrogate pair is written as JSON escapes it.
        private: Restrict reading to the owner.

    Raises:
        OSError: The file cannot be written. It is unchanged.
    """
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    keeps_mode = target.exists() and not private
    mode = target.stat().st_mode & 0o777 if keeps_mode else 0o600
    descriptor, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Write the folder's entries to the disk, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_settings(path: Path, text: str, *, private: bool = False) -> None:
    """Replace a file of the user's settings, as `replace_file` does.

    Args:
        path: The file.
        text: The new content.
        private: Restrict reading to the owner.

    Raises:
        InvalidConfig: The file cannot be written. It is unchanged.
    """
    try:
        replace_file(path, text, private=private)
    except OSError as error:
        raise InvalidConfig(f"{path}: cannot be written ({error.strerror})") from None


def lock_of(path: Path, timeout_s: float = LOCK_WAIT_S) -> "Lock[IO[bytes]]":
    """Return the lock of a file, as a context manager. It raises LockException after `timeout_s` seconds.

    It holds back other threads and other processes. The folder must exist.
    """
    flags = LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING
    return Lock(
        path.with_name(f"{path.name}.lock"),
        "ab",
        timeout=timeout_s,
        check_interval=0.05,
        flags=flags,
    )
