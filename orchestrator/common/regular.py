"""Reading files at paths that people or programs name, where something other than a file may be."""

import errno
import os
import stat
from pathlib import Path
from typing import IO

MOST_BYTES = 256 * 2**20
"""The maximum size of a file, in bytes. The largest known catalogue, 100,000 tools, has 110 MiB."""
MOST_SETTINGS_BYTES = 4 * 2**20
"""The maximum size of a file of settings, in bytes. A configuration with 5,000 servers has 1.5 MiB."""


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


def read_bytes(path: str | Path, *, most_bytes: int = MOST_BYTES, pipes: bool = False) -> bytearray:
    """Return the content of a text file that a person names, as bytes.

    Args:
        path: The file.
        most_bytes: The maximum size.
        pipes: Read a pipe, too, if a program has it open already, as in `read_text`.

    Raises:
        OSError: The file cannot be read, is not a regular file, is too large, or is no text.
    """
    with open(path, "rb", opener=regular_or_pipe if pipes else regular) as file:
        # A file that says its size is not read first: half a GB of memory would be used for nothing.
        is_too_large = os.fstat(file.fileno()).st_size > most_bytes
        content = bytearray() if is_too_large else _read(file, most_bytes)
    if is_too_large or len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"more than {most_bytes // 2**20} MiB", str(path))
    return content


def regular_or_pipe(path: str, flags: int) -> int:
    """Open a regular file or a pipe of this process, such as `<(command)` of a shell, as the `opener` of `open`.

    A named pipe in a folder may have no writer, so it is refused.
    """
    is_pipe = path.startswith(("/dev/fd/", "/proc/self/fd/")) or path == "/dev/stdin"
    return os.open(path, flags) if is_pipe else regular(path, flags)


def _read(file: IO[bytes], most_bytes: int) -> bytearray:
    """Return the bytes up to the end of the file, or one more than the maximum."""
    content = bytearray()
    while len(content) <= most_bytes:
        chunk = file.read(2**20)
        if not chunk:  # None for a file without data at present, such as /proc/kmsg.
            break
        if (
            b"\0" in chunk
        ):  # As a file that is one large hole. It would be read to its end for nothing.
            raise OSError(errno.EINVAL, "not UTF-8: it has a zero byte", str(file.name))
        content += chunk
    return content
