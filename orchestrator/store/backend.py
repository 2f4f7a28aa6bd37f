"""The port of the store's place: where the points of all tenants are. It is a folder or a Qdrant server."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from orchestrator.errors import InvalidConfig
from orchestrator.store.points import Points

TOOLS = "tools"
EXPERIENCE = "experience"
"""The parts of a tenant's data. In a folder, each part has its own file, lock and stamp."""
_SECRETS = (
    r"(://)[^/?#\s]*@",
    r"(://(?:\[\S*?\]|[^\s?@:/]*)(?::\d+)?(?:/[^\s?@]*)?)\?.*",
    r"(://).*@",
)
"""The user, the query and malformed remains of them in an address."""
_Result = TypeVar("_Result")


class Damaged(InvalidConfig):
    """Stored data differs from the written data. The message names the remedy."""


class Backend(ABC):
    """A place for points. Several threads and processes may use it."""

    remote: ClassVar[bool]
    """Whether the place is a server."""

    def __init__(self, location: str, timeout_s: float) -> None:
        """Create the access. The first use opens it.

        Args:
            location: A folder or an address.
            timeout_s: Seconds to wait for another writer, or for an answer.
        """
        self.location = location
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        """Return the location without credentials."""
        return without_credentials(self.location)

    @abstractmethod
    def reading(self, tenant: str, part: str = TOOLS) -> AbstractContextManager[Points]:
        """Open the tenant's points for reading. In a folder, all reads of the context see the same state."""

    @abstractmethod
    def writing(self, tenant: str, part: str = TOOLS) -> AbstractContextManager[Points]:
        """Open the tenant's points for reading and writing. In a folder, everything counts at the end of the context,
        or nothing. Do not nest these contexts.

        Raises:
            StoreBusy: Another writer holds the part for longer than the timeout.
        """

    def read(self, tenant: str, ask: Callable[[Points], _Result], part: str = TOOLS) -> _Result:
        """Return the result of `ask` over the tenant's points.

        Args:
            tenant: The tenant.
            ask: A function of the points. It must not keep them, because they are closed afterwards.
            part: The part of the store.
        """
        with self.reading(tenant, part) as points:
            return ask(points)

    def peek(self, name: str, points: Mapping[str, str], field: str) -> dict[str, Any]:
        """Return one field of one point of each tenant. If a point cannot be read, its value is the reason.

        Args:
            name: The name of the collection.
            points: The point's id, by tenant.
            field: The name of the field.
        """
        values: dict[str, Any] = {}
        for tenant, point in points.items():
            try:
                with self.reading(tenant) as opened:
                    records = opened.get(name, [point], payload=[field])
                if point in records:
                    values[tenant] = records[point].payload.get(field)
            except InvalidConfig as error:
                values[tenant] = str(error)
        return values

    @abstractmethod
    def drop(self, tenant: str, part: str) -> None:
        """Remove everything of the tenant in this part, damaged or not."""

    def set_aside(self, tenant: str, part: str) -> None:  # noqa: B027 (only files are set aside)
        """Move damaged data away, so that a writer can begin with an empty store. A server mends its own files."""

    def check_version(self) -> None:  # noqa: B027 (only a server has a version)
        """Raise InvalidConfig if the place is too old for several writers."""

    def check_writes(self, tenant: str) -> None:  # noqa: B027 (a folder names its failure when it is written)
        """Raise StoreUnavailable or Unauthorised if a server that can be read accepts no write of the tenant."""

    @property
    def exists(self) -> bool:
        """False if the place is certainly empty. Raises StoreUnavailable if that cannot be checked."""
        return True

    def stamp(self, tenant: str, part: str = TOOLS) -> str:
        """Return a text that differs after every write and is cheap to read. Empty: only a request shows a change."""
        return ""

    def folder(self, tenant: str) -> Path | None:
        """Return a folder for files about the tenant's tools, or None for a store without one."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Close the connections. A later use opens new ones."""


def without_credentials(text: str) -> str:
    """Return the text without the user, the password and the query of addresses, even of malformed ones."""
    for secret in 2 * _SECRETS:
        text = re.sub(secret, r"\1", text)
    return text
