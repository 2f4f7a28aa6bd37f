"""Opening a store in a folder or at a URL, and the messages for its failures."""

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidConfig, StoreUnavailable, Unauthorised
from orchestrator.options import at_home
from orchestrator.store.folder_backend import Folder, Moved
from orchestrator.store.points import Points
from orchestrator.store.qdrant.client import ServerPoints
from orchestrator.store.qdrant.patience import Persistent
from orchestrator.store.qdrant.rest import Rest

TOOLS, EXPERIENCE = "tools", "experience"
"""The parts of a tenant's data. In a folder each part has its own lock and its own stamp."""
_OURS = {TOOLS: ("tool_capabilities__", "tool_catalogues", "tool_search__"), EXPERIENCE: ("tool_experience__",)}
"""The prefixes of the collections on a server, by part."""
_ATTEMPTS, _SAID = 5, 200
_NO_ANSWER = (AssertionError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions for an answer that does not come from a Qdrant server."""
_CONDITIONAL = (1, 16)
"""The first version of Qdrant with conditional updates. Earlier versions ignore the condition."""
_SECRETS = (r"(://)[^/?#\s]*@", r"(://(?:\[\S*?\]|[^\s?@:/]*)(?::\d+)?(?:/[^\s?@]*)?)\?.*", r"(://).*@")
_ADDRESS = "give the address of its REST interface without a further path, such as http://localhost:6333"
_T = TypeVar("_T")


class Qdrant:
    """A place for points: a folder, or the URL of a server. Several threads may use it.

    Without a location it is a temporary folder, until `close`. In a folder, a writer locks the tenant's part, and
    readers never wait.
    """

    def __init__(self, location: str, timeout_s: float) -> None:
        self.location = location = at_home(location)
        self.remote = location.startswith(("http://", "https://"))
        if "://" in location and not self.remote:
            raise InvalidConfig(f"store {str(self)!r}: give a folder, or the http(s):// address of a Qdrant server")
        self.timeout_s = timeout_s
        self._rest = Rest(location, str(self), timeout_s)
        self._folder = None if self.remote else Folder(Path(location) if location else self._temporary())

    def _temporary(self) -> Path:
        place = Path(tempfile.mkdtemp(prefix="toolroute-"))
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        return place

    def __str__(self) -> str:
        """Return the location without credentials."""
        return shown(self.location) or "(a temporary folder)"

    @contextmanager
    def reading(self, tenant: str, part: str = TOOLS) -> Iterator[Points]:
        """Open the tenant's points for reading."""
        folder = self._folder
        with self._failures(), folder.reading(tenant, part) if folder else self.searching(tenant) as points:
            yield points

    @contextmanager
    def writing(self, tenant: str, part: str = TOOLS, *, mends: bool = False) -> Iterator[Points]:
        """Open the tenant's points for reading and writing. In a folder, everything counts at the end of the context,
        or
        nothing.

        Do not nest these contexts.

        Args:
            tenant: The tenant.
            part: The part.
            mends: Treat damaged files as empty. They are set aside.

        Raises:
            StoreBusy: Another writer keeps the part locked for longer than the timeout.
        """
        folder, wait_s = self._folder, self.timeout_s
        with (
            self._failures(),
            folder.writing(tenant, part, wait_s, mends=mends) if folder else self._writing(tenant, part) as points,
        ):
            yield points

    @contextmanager
    def searching(self, tenant: str, patience_s: float = 0.0) -> Iterator[ServerPoints]:
        """Open the tenant's points on a server, which can also be searched.

        Args:
            tenant: The tenant.
            patience_s: Seconds for each request, if less than the timeout.
        """
        with self._failures():
            yield ServerPoints(self._rest, tenant, patience_s)

    def _writing(self, tenant: str, part: str) -> AbstractContextManager[ServerPoints]:
        """Open the points on a server for writing. A writer of tools repeats requests for a minute, if the server has
        ever
        answered.
        """
        if part != TOOLS or not self._rest.answered:
            return self.searching(tenant)
        return nullcontext(ServerPoints(Persistent(self._rest, str(self)), tenant))

    def read(self, tenant: str, ask: Callable[[Points], _T], part: str = TOOLS) -> _T:
        """Call `ask` with the tenant's points and return its result. It is called again if a writer came in between.

        Args:
            tenant: The tenant.
            ask: Reads the points.
            part: The part.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                with self.reading(tenant, part) as points:
                    return ask(points)
            except Moved:
                continue
        with self.reading(tenant, part) as points:
            return ask(points)

    def peek(self, name: str, points: Mapping[str, str], field: str) -> dict[str, Any]:
        """Return one field of one point of each tenant. A server gets one request.

        If a point cannot be read, its value is the reason.

        Args:
            name: The name of the collection.
            points: The point's id, by tenant.
            field: The name of the field.
        """
        found: dict[str, Any] = {}
        for tenants in [list(points)] if self.remote else [[tenant] for tenant in points]:
            try:
                with self.reading(tenants[0]) as opened:
                    records = opened.get(name, [points[tenant] for tenant in tenants], payload=[field])
                found |= {t: records[points[t]].payload.get(field) for t in tenants if points[t] in records}
            except InvalidConfig as error:
                found[tenants[0]] = str(error)
        return found

    def drop(self, tenant: str, parts: Sequence[str] = (TOOLS, EXPERIENCE), but: str = "") -> None:
        """Remove everything of the tenant in these parts, damaged or not.

        Args:
            tenant: The tenant.
            parts: The parts.
            but: A collection on a server that stays.
        """
        if self._folder is not None:
            with self._failures():
                self._folder.drop(tenant, parts, self.timeout_s)
            return
        with self.searching(tenant) as points:
            for name in points.names():
                if name.startswith(tuple(own for part in parts for own in _OURS[part])) and name != but:
                    points.drop(name)

    def check_version(self) -> None:
        """Raise InvalidConfig if the server is too old for several writers."""
        if not self.remote:
            return
        with self._failures():
            version = self._rest.version()
        found = re.match(r"(\d+)\.(\d+)", version)
        if found and (int(found[1]), int(found[2])) < _CONDITIONAL:
            needed = ".".join(map(str, _CONDITIONAL))
            raise InvalidConfig(
                f"the store {self} runs Qdrant {version}, in which one writer can undo another's write: upgrade the "
                f"server to {needed} or later"
            )

    @property
    def exists(self) -> bool:
        """False if the store is certainly empty. Raises StoreUnavailable if that cannot be checked."""
        with self._failures():
            return self._folder is None or self._folder.path.exists()

    def stamp(self, tenant: str, part: str = TOOLS) -> str:
        """Return a text that differs after every write and is cheap to read. Empty: only a request shows a change."""
        return "" if self._folder is None else self._folder.stamp(tenant, part)

    def place(self, tenant: str) -> Path | None:
        """Return the folder of the tenant's tools. None for a server or a temporary store."""
        return self._folder.part(tenant, TOOLS) if self._folder and self.location else None

    def close(self) -> None:
        """Close the connections. A later use opens new ones. A store without a location is then empty."""
        self._rest.close()
        if self._folder and not self.location:
            shutil.rmtree(self._folder.path / "tenants", ignore_errors=True)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        outages: tuple[type[Exception], ...] = (OSError, *(_NO_ANSWER if self.remote else ()))
        try:
            yield
        except outages as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StoreUnavailable | Unauthorised:
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return Unauthorised(
                f"the store {self} refused the key: set QDRANT_API_KEY to a key for reading and writing"
            )
        why = f"HTTP status {status}" if status else one_line(shown(str(error)), _SAID) or type(error).__name__
        if not self.remote:
            what, remedy = f"cannot be used: {why}", "repair it"
        elif isinstance(error, _NO_ANSWER) or status in (404, 405):  # The text may have data of other programs.
            what, remedy = "does not answer like a Qdrant server", _ADDRESS
        else:
            what, remedy = f"does not answer: {why}", self._remedy(why, status)
        return StoreUnavailable(f"the store {self} {what}; {remedy}, or give another with --store or TOOLROUTE_STORE")

    def _remedy(self, why: str, status: int | None) -> str:
        """Return the remedy for a server that cannot be reached, by the error's text."""
        if "CERTIFICATE" in why:
            return "set SSL_CERT_FILE to the certificate of the authority that signed the server's certificate"
        if "SSL" in why:
            return "write http:// if the server has no TLS"
        if status == 400 or "disconnected" in why or "reset by peer" in why or "illegal" in why:
            return "give the port of its REST interface (6333, not 6334), and write https:// if the server has TLS"
        if "no answer within" in why or "timed out" in why:
            return "check whether the server is overloaded or a firewall blocks the address"
        return "start the server"


def shown(text: str) -> str:
    """Return the text without the user, the password and the query of addresses, even of malformed ones."""
    for secret in 2 * _SECRETS:
        text = re.sub(secret, r"\1", text)
    return text
