"""Package runners (`npx`, `uvx`, ...) install a server before they start it, which takes as long as it takes."""

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

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

_LEAST_CPU, _LEAST_BYTES = 0.02, 4096
"""Share of CPU time, and bytes read or written. Below both a process counts as waiting."""
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

_IN_NPX = re.compile(r"/_npx/([0-9a-f]{16})(?=[/'\"\s]|$)")
_BROKEN = re.compile(r"MODULE_NOT_FOUND|ENOTEMPTY|ECOMPROMISED|ERR_INVALID_PACKAGE_CONFIG")
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


class Work(NamedTuple):
    """The processes of a session and the work that they have done."""

    processes: int
    cpu_s: float
    moved: int
    at: float

    def since(self, before: "Work | None") -> bool:
        """Return True if the processes have done more than wait since the earlier measurement."""
        if before is None or self.processes != before.processes:
            return True
        share = abs(self.cpu_s - before.cpu_s) / max(self.at - before.at, 1e-3)
        return share >= _LEAST_CPU or abs(self.moved - before.moved) >= _LEAST_BYTES


def work_of(session: int) -> Work | None:
    """Measure the work of a session's processes. Returns None if there are none, or no /proc."""
    processes = ticks = moved = 0
    if not session or not Path("/proc/self/stat").exists():
        return None
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):  # It has ended meanwhile, or is another user's.
                fields = (place / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    processes, ticks = processes + 1, ticks + sum(map(int, fields[11:15]))
                    counted = (place / "io").read_text().split()
                    moved += int(counted[1]) + int(counted[3])
    return Work(processes, ticks / _TICKS, moved, time.monotonic())


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
    found = _IN_NPX.search(stderr)
    if not found or not _BROKEN.search(stderr):
        return ""
    folder = cache / "_npx" / found[1]
    if folder.is_symlink() or not folder.is_dir():
        return ""
    lock = folder / "concurrency.lock"
    if lock.exists() and time.time() - lock.stat().st_mtime < _LOCK_S:
        return ""  # Another npx is installing there now.
    shutil.rmtree(folder, ignore_errors=True)
    return str(folder)
