"""Approvals that last: the tools that a tenant's user has allowed, in a file among the user's settings."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from pydantic import TypeAdapter

from orchestrator.common.atomic_file import LOCK_WAIT_S, LockException, lock_of, replace_settings
from orchestrator.common.digests import COMPARED_DIGITS, OF_SERVER, digest
from orchestrator.common.json_input import read_json, reading
from orchestrator.common.lines import as_json
from orchestrator.common.regular import MOST_SETTINGS_BYTES, read_text
from orchestrator.errors import InvalidConfig
from orchestrator.records.tool import Tool, definition_digest

_KEPT = TypeAdapter(dict[str, str])


def mark(tool: Tool, entry: str) -> str:
    """Return the value that an approval is bound to: the tool's definition, and the server of its entry."""
    return digest(f"{entry[:OF_SERVER]} {definition_digest(tool)}", COMPARED_DIGITS)


class Approvals:
    """A tenant's lasting approvals, each with a tool's key and mark.

    If the definition or the server changes, the tool needs approval again. The approvals are in a file that only the
    user can read, separate from the store, because a server's listing changes the store.
    """

    def __init__(self, tenant: str) -> None:
        from platformdirs import user_config_path

        self.path = user_config_path("toolroute") / "approvals" / f"{digest(tenant, 16)}.json"

    def read(self) -> dict[str, str]:
        """Return the marks by key. Raises InvalidConfig if the file cannot be read."""
        if not self.path.exists():
            return {}
        with reading(self.path, "remove the file and approve the tools again", InvalidConfig):
            text = read_text(self.path, most_bytes=MOST_SETTINGS_BYTES)
            return _KEPT.validate_python(read_json(text))

    def allow(self, tools: Iterable[Tool], entry: str) -> None:
        """Allow these tools of a server with their present definitions, until the approval is withdrawn."""
        with self._locked():
            # Read under the lock: what another process has just allowed stays.
            self._write(self.read() | {tool.key: mark(tool, entry) for tool in tools})

    def withdraw(self, names: Collection[str]) -> list[str]:
        """Withdraw the approvals of these tools or servers, and return their keys."""
        with self._locked():
            approvals = self.read()
            withdrawn = [key for key in approvals if key in names or key.partition(":")[0] in names]
            self._write({key: value for key, value in approvals.items() if key not in withdrawn})
        return withdrawn

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold back other writers, so that none undoes the change of another."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidConfig(f"{self.path}: cannot be written ({error.strerror})") from None
        try:
            with lock_of(self.path):
                yield
        except LockException:
            why = f"another process has been changing it for {LOCK_WAIT_S:g} s"
            raise InvalidConfig(f"{self.path}: not changed: {why}; try again") from None

    def _write(self, approvals: dict[str, str]) -> None:
        replace_settings(self.path, as_json(approvals, indent=1) + "\n", private=True)
