"""Opening files at paths where something other than a file may be."""

import errno
import os
import stat


class Irregular(OSError):
    """The path is a pipe, a device or a folder."""


def regular(path: str, flags: int) -> int:
    """Open a regular file, as the `opener` of `open`. Only its user may read a new file.

    It never waits for a pipe. It raises Irregular for a pipe, a device or a folder.
    """
    found = os.open(path, flags | os.O_NONBLOCK, 0o600)
    if stat.S_ISREG(os.fstat(found).st_mode):
        return found
    os.close(found)
    raise Irregular(errno.EINVAL, "not a regular file", path)
