"""An `mcpServers` file that is read again whenever it has changed."""

import logging
import stat
from pathlib import Path

from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config import McpConfig

logger = logging.getLogger(__name__)


class Followed:
    """A file. `config` is what it held when it could last be read; InvalidConfig where it cannot be to begin with."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)
        self.config = McpConfig.read(path)

    def changed(self) -> McpConfig | None:
        """The configuration anew where the file is another than it was. One that cannot be read is told, once, and
        changes nothing."""
        before, self._stamp = self._stamp, _stamp(self._path)
        if self._stamp == before:
            return None
        try:
            self.config = McpConfig.read(self._path)
        except InvalidConfig as error:
            logger.warning("%s; what it named before stays in use", error)
            return None
        return self.config


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Another one after each change; None for what is no file, such as a pipe, which can be read once alone."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None
