"""Open a store in a folder or at a URL: who has its points, and what is said where it fails."""

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
from orchestrator.store.client import ServerPoints
from orchestrator.store.folder import Folder, Moved
from orchestrator.store.patience import Persistent
from orchestrator.store.points import Points
from orchestrator.store.rest import Rest

TOOLS, EXPERIENCE = "tools", "experience"
"""The parts of what is kept of a tenant. In a folder each has a lock and a stamp of its own."""
_OURS = {TOOLS: ("tool_capabilities__", "tool_catalogues", "tool_search__"), EXPERIENCE: ("tool_experience__",)}
"""What the collections on a server are called."""
_ATTEMPTS, _SAID = 5, 200
_NO_ANSWER = (AssertionError, LookupError, RecursionError, TypeError, ValueError)
"""What an answer raises that is none of a Qdrant server."""
_CONDITIONAL = (1, 16)
"""The first version of Qdrant that knows conditional updates. Earlier ones ignore the condition."""
_SECRETS = (r"(://)[^/?#\s]*@", r"(://(?:\[\S*?\]|[^\s?@:/]*)(?::\d+)?(?:/[^\s?@]*)?)\?.*", r"(://).*@")
_ADDRESS = "give the address of its REST interface without a further path, such as http://localhost:6333"
_T = TypeVar("_T")


class Qdrant:
    """A place for points: a folder, or the URL of a server. Safe to use from several threads.

    Without a location it is a temporary folder, until this is closed.
    In a folder, a writer holds the tenant's part until it is done; readers wait for nobody.
    """

    def __init__(self, location: str, timeout_s: float) -> None:
        self.location = location = at_home(location)
        self.remote = location.startswith(("http://", "https://"))
        if "://" in location and not self.remote:
            raise InvalidConfig(f"store {str(self)!r}: give a folder, or a Qdrant server's http:// or https:// address")
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
        """Give the tenant's points to read."""
        folder = self._folder
        with self._failures(), folder.reading(tenant, part) if folder else self.searching(tenant) as points:
            yield points

    @contextmanager
    def writing(self, tenant: str, part: str = TOOLS, *, mends: bool = False) -> Iterator[Points]:
        """Give the tenant's points to read and write. In a folder all that is written counts at the end, or nothing.

        Do not nest. mends: what is damaged there counts as empty, and is set aside. Raises StoreBusy when another
        writer keeps the tenant's part for longer than the timeout.
        """
        folder, wait_s = self._folder, self.timeout_s
        with (
            self._failures(),
            folder.writing(tenant, part, wait_s, mends=mends) if folder else self._writing(tenant, part) as points,
        ):
            yield points

    @contextmanager
    def searching(self, tenant: str, patience_s: float = 0.0) -> Iterator[ServerPoints]:
        """Give the tenant's points on a server, which can be searched, too.

        patience_s: How long each question may take, where that is less than the timeout.
        """
        with self._failures():
            yield ServerPoints(self._rest, tenant, patience_s)

    def _writing(self, tenant: str, part: str) -> AbstractContextManager[ServerPoints]:
        """Give the same to a writer. One of tools outlasts a minute without answers, where the server gave any yet."""
        if part != TOOLS or not self._rest.answered:
            return self.searching(tenant)
        return nullcontext(ServerPoints(Persistent(self._rest, str(self)), tenant))

    def read(self, tenant: str, ask: Callable[[Points], _T], part: str = TOOLS) -> _T:
        """Return what `ask` finds in the tenant's points; asked again where a writer came in between."""
        for _ in range(_ATTEMPTS - 1):
            try:
                with self.reading(tenant, part) as points:
                    return ask(points)
            except Moved:
                continue
        with self.reading(tenant, part) as points:
            return ask(points)

    def peek(self, name: str, points: Mapping[str, str], field: str) -> dict[str, Any]:
        """Return this field of one point of each of these tenants (tenant to id), in one request to a server.

        Where it cannot be read, why stands in its place.
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
        """Remove all that is kept of the tenant in these parts, damaged or not.

        but: a server's collection that stays.
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
        """Raise InvalidConfig where the server is too old for more than one writer at a time."""
        if not self.remote:
            return
        with self._failures():
            version = self._rest.version()
        found = re.match(r"(\d+)\.(\d+)", version)
        if found and (int(found[1]), int(found[2])) < _CONDITIONAL:
            needed = ".".join(map(str, _CONDITIONAL))
            raise InvalidConfig(
                f"the store {self} is Qdrant {version}, which lets one writer undo another's write: upgrade the server "
                f"to {needed} or later"
            )

    @property
    def exists(self) -> bool:
        """Tell whether it may hold anything. StoreUnavailable where one cannot look."""
        with self._failures():
            return self._folder is None or self._folder.path.exists()

    def stamp(self, tenant: str, part: str = TOOLS) -> str:
        """Return what is cheap to ask and differs after every write; "" where only asking can tell."""
        return "" if self._folder is None else self._folder.stamp(tenant, part)

    def place(self, tenant: str, part: str = TOOLS) -> Path | None:
        """Return the folder that is the tenant's alone; None for a store that lives elsewhere or not for long."""
        return self._folder.part(tenant, part) if self._folder and self.location else None

    def close(self) -> None:
        """Close the connections; a later use opens new ones (and a store without a location is then empty)."""
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
            return Unauthorised(f"the store {self} refuses the key: set QDRANT_API_KEY to one that may read and write")
        why = f"HTTP status {status}" if status else one_line(shown(str(error)), _SAID) or type(error).__name__
        if not self.remote:
            what, remedy = f"cannot be used: {why}", "mend it"
        elif isinstance(error, _NO_ANSWER) or status in (404, 405):  # Its text may hold what others keep there.
            what, remedy = "does not answer as a Qdrant server does", _ADDRESS
        else:
            what, remedy = f"does not answer: {why}", self._remedy(why, status)
        return StoreUnavailable(f"the store {self} {what}; {remedy}, or name another with --store or TOOLROUTE_STORE")

    def _remedy(self, why: str, status: int | None) -> str:
        """Return the remedy for a server that cannot be reached, by the client's words."""
        if "CERTIFICATE" in why:
            return "set SSL_CERT_FILE to the certificate of the authority that signed its own"
        if "SSL" in why:
            return "write http:// if it has no TLS"
        if status == 400 or "disconnected" in why or "reset by peer" in why or "illegal" in why:
            return "give the port of its REST interface, 6333 and not 6334, and write https:// if it has TLS"
        if "no answer within" in why or "timed out" in why:
            return "see whether it is overloaded, or whether a firewall drops what is sent to that address"
        return "start it"


def shown(text: str) -> str:
    """Return the text without the user, password and query of addresses, even of such as no client can read."""
    for secret in 2 * _SECRETS:
        text = re.sub(secret, r"\1", text)
    return text
