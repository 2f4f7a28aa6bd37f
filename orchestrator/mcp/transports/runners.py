"""Package runners (`npx`, `uvx`, ...) install a server before they start it, which takes as long as it takes."""

import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath

_ALWAYS = frozenset({"npx", "pnpx", "uvx", "bunx"})
_WITH_WORD = {
    "npm": {"exec", "x"},
    "pnpm": {"dlx"},
    "yarn": {"dlx"},
    "bun": {"x"},
    "uv": {"run"},  # `uv run` and `uv tool run`
    "pipx": {"run"},
    "docker": {"run"},
    "podman": {"run"},
}
_WRAPPERS = frozenset({"cmd", "c", "env"})
"""Windows starts `npx` by `cmd /c`. Its `/c` looks like a path."""

_IN_NPX = re.compile(r"/_npx/([0-9a-f]{16})(?=[/'\"\s]|$)")
_BROKEN = ("MODULE_NOT_FOUND", "ENOTEMPTY", "ECOMPROMISED", "ERR_INVALID_PACKAGE_CONFIG")
_LOCK_S = 30.0
"""Seconds after which a lock counts as abandoned. `npx` touches its lock every second."""


def runner_of(command: str, args: Sequence[str]) -> str:
    """Return the package runner that a command starts, "" where it starts none."""
    words = [command, *args]
    while words and _program(words[0]) in _WRAPPERS:
        words = words[1:]
    name = _program(words[0]) if words else ""
    return name if name in _ALWAYS or not _WITH_WORD.get(name, set()).isdisjoint(words[1:]) else ""


def _program(word: str) -> str:
    name = PureWindowsPath(word).name.lower()  # Takes both kinds of slashes.
    return name.removesuffix(".cmd").removesuffix(".exe")


def npm_cache(environ: Mapping[str, str]) -> Path:
    """Return the folder of npm's cache for a process with these variables."""
    stated = environ.get("npm_config_cache") or environ.get("NPM_CONFIG_CACHE")
    return Path(stated) if stated else Path(environ.get("HOME", Path.home()), ".npm")


def mend_cache(stderr: str, cache: Path) -> str:
    """Remove the folder of npx's cache that an interrupted install left half full. npx itself never mends it.

    A server writes its own standard error. So only the folder's name is taken from there, and never a path.

    Args:
        stderr: The standard error of npx.
        cache: The folder of npm's cache.

    Returns:
        The folder, or "" if there is nothing to mend.
    """
    match = _IN_NPX.search(stderr)
    if not match or not any(code in stderr for code in _BROKEN):
        return ""
    folder = cache / "_npx" / match[1]
    if folder.is_symlink() or not folder.is_dir():
        return ""
    lock = folder / "concurrency.lock"
    if lock.exists() and time.time() - lock.stat().st_mtime < _LOCK_S:
        return ""  # Another npx is installing there now.
    shutil.rmtree(folder, ignore_errors=True)
    return str(folder)
