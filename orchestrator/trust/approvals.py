"""Approvals that last: the tools that a tenant's user has allowed, in a file among the user's settings."""

from collections.abc import Collection, Iterable

from pydantic import TypeAdapter

from orchestrator.client_setup.products import write
from orchestrator.common.digests import OF_SERVER, digest
from orchestrator.common.json_input import read_json, reading
from orchestrator.common.lines import as_json
from orchestrator.errors import InvalidConfig
from orchestrator.records.tool import Tool

_KEPT = TypeAdapter(dict[str, str])


def mark(tool: Tool, entry: str) -> str:
    """Return the value that an approval is bound to: the tool's definition, and the server of its entry."""
    return digest(f"{entry[:OF_SERVER]} {tool.hash}", 32)


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
            return _KEPT.validate_python(read_json(self.path.read_text(encoding="utf-8")))

    def allow(self, tools: Iterable[Tool], entry: str) -> None:
        """Allow these tools of a server with their present definitions, until the approval is withdrawn."""
        self._write({**self.read(), **{tool.key: mark(tool, entry) for tool in tools}})

    def withdraw(self, names: Collection[str]) -> list[str]:
        """Withdraw the approvals of these tools or servers, and return their keys."""
        kept = self.read()
        gone = [key for key in kept if key in names or key.partition(":")[0] in names]
        self._write({key: own for key, own in kept.items() if key not in gone})
        return gone

    def _write(self, kept: dict[str, str]) -> None:
        write(self.path, as_json(kept, indent=1) + "\n", private=True)
