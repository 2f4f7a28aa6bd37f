"""The reason in npm's log why an installation failed. npx prints nothing when a package's own script fails.

7 verbose argv "exec" "--yes" "--" "mcp-server-sqlite-npx"
1336 info run sqlite3@5.1.7 install node_modules/sqlite3 prebuild-install -r napi || node-gyp rebuild
1337 info run sqlite3@5.1.7 install { code: 1, signal: null }
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from orchestrator.common.regular import read_bytes

RUNNERS = frozenset({"npx", "npm"})
_MAX_BYTES = 16 * 2**20
_SCRIPT = re.compile(r"^\d+ info run (\S+ \w+) (?!\{)\S+ (.+)$", re.MULTILINE)
_FROM_GIT = re.compile(r"^\d+ silly fetch manifest \S+?@((?:git|bitbucket)\S+)$", re.MULTILINE)
_GIT_FAILED = " verbose exit 128"
_FAILED = re.compile(r"^\d+ info run (\S+ \w+) \{ code: (?!0\b)(\w+), signal", re.MULTILINE)


def failed_script(log: str) -> str:
    """Return the script of a package that failed, with its command, or "" if none failed."""
    failure = _FAILED.search(log)
    if failure is None:
        return ""
    script, code = failure.groups()
    command = dict(_SCRIPT.findall(log)).get(script, "")
    return f"the script of {script} failed ({command}; exit code {code})"


def unreached_repository(log: str) -> str:
    """Return the git repository that a package needs, if git failed, or ""."""
    needed = _FROM_GIT.search(log)
    has_failed = any(line.endswith(_GIT_FAILED) for line in log.splitlines())
    if needed is None or not has_failed:
        return ""
    return f"git could not fetch {needed[1]}, which the package needs"


def install_failure(cache: Path, args: Sequence[str], since: float) -> str:
    """Return why an installation by npx failed, with the name of its log, or "" if it has no log.

    Args:
        cache: The folder of npm's cache.
        args: The arguments of npx. Other processes write their logs into the same folder.
        since: The time at which npx was started.
    """
    package = next((arg for arg in args if not arg.startswith("-") and arg != "exec"), "")
    for path in sorted((cache / "_logs").glob("*-debug-0.log"), reverse=True):
        try:
            if path.stat().st_mtime < since:
                continue
            log = read_bytes(path, most_bytes=_MAX_BYTES).decode(errors="replace")
        except OSError:  # npm removes old logs.
            continue
        if json.dumps(package) in log:
            reason = failed_script(log) or unreached_repository(log)
            return f"{reason}; npm's log: {path}" if reason else f"npm's log: {path}"
    return ""
