"""Reading files at paths that people or programs name, where something other than a file may be."""

import errno
import os
import stat
from pathlib import Path
from typing import IO

MOST_BYTES = 256 * 2**20
"""The maximum size of a file, in bytes. The largest known catalogue, 100,000 tools, has 110 MiB."""


class Irregular(OSError):
    """The path is a pipe, a device or a folder."""


def regular(path: str, flags: int) -> int:
    """Open a regular file, as the `opener` of `open`. Only its user may read a new file.

    It never waits for a pipe. It raises Irregular for a pipe, a device or a folder.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise Irregular(errno.EINVAL, "not a regular file", path)


def read_text(path: str | Path, *, most_bytes: int = MOST_BYTES, pipes: bool = False) -> str:
    """Return the text of a file that a person names, without a byte order mark.

    A file in /proc is regular and may never end, so its end is limited, too.

    Args:
        path: The file.
        most_bytes: The maximum size.
        pipes: Read a pipe, too, such as `<(command)` of a shell, if a program has it open already.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
        UnicodeDecodeError: The text is not UTF-8.
    """
    return read_bytes(path, most_bytes=most_bytes, pipes=pipes).decode("utf-8-sig")


def read_bytes(path: str | Path, *, most_bytes: int = MOST_BYTES, pipes: bool = False) -> bytes:
    """Return the content of a file that a person names, as bytes.

    Args:
        path: The file.
        most_bytes: The maximum size.
        pipes: Read a pipe, too, if a program has it open already, as in `read_text`.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
    """
    is_pipe = pipes and _is_open_pipe(path)
    with open(path, "rb", opener=None if is_pipe else regular) as file:
        # A file that says its size is not read first: half a GB of memory would be used for nothing.
        size = os.fstat(file.fileno()).st_size
        if size <= most_bytes:
            content = _read(file, most_bytes)
            size = len(content)
    if size > most_bytes:
        raise OSError(errno.EFBIG, f"more than {most_bytes // 2**20} MiB", str(path))
    return content


def _is_open_pipe(path: str | Path) -> bool:
    """Return True for a pipe of this process, as a shell passes it. A named pipe in a folder may have no writer."""
    return str(path).startswith(("/dev/fd/", "/proc/self/fd/")) or str(path) == "/dev/stdin"


def _read(file: IO[bytes], most_bytes: int) -> bytes:
    content = bytearray()
    while len(content) <= most_bytes:
        chunk = file.read(2**20)
        if not chunk:  # None for a file without data at present, such as /proc/kmsg.
            break
        content += chunk
    return bytes(content)
