"""An mcpServers file that is read again when it has changed."""

import logging
import stat
from pathlib import Path

from orchestrator.errors import InvalidConfig
from orchestrator.mcp.config.parse import McpConfig

logger = logging.getLogger(__name__)


class WatchedConfig:
    """An mcpServers file that is read again after each change. Raises InvalidConfig if it cannot be read first."""

    def __init__(self, path: Path, profile: str = "") -> None:
        """profile: Only its servers."""
        self._path = path
        self._profile = profile
        self._stamp = _stamp(path)
        self.config = _warned(McpConfig.read(path, profile))

    def changed(self) -> McpConfig | None:
        """Return the new configuration if the file changed. A file that cannot be read is logged once."""
        before = self._stamp
        self._stamp = _stamp(self._path)
        if self._stamp == before:
            return None
        # A person may be in the middle of writing the file.
        try:
            self.config = _warned(McpConfig.read(self._path, self._profile)).keeping(self.config)
        except InvalidConfig as error:
            logger.warning("%s; the previous configuration stays in use", error)
            return None
        return self.config


def _warned(config: McpConfig) -> McpConfig:
    """Return the configuration after a warning for each profile that names unknown servers."""
    for name, profile in config.profiles.items():
        if profile.lost:
            lost = ", ".join(map(repr, profile.lost))
            warning = "%s: profile %r: no server matches %s: correct the name, or add the server"
            logger.warning(warning, config.source, name, lost)
    return config


def _stamp(path: Path) -> tuple[int, ...]:
    """Return a value that differs after each change. It is empty for a pipe, which can be read only once."""
    try:
        status = path.stat()
    except OSError:
        return (0,)
    if not stat.S_ISREG(status.st_mode):
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino
