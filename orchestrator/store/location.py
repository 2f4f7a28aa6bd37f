"""The location of a store: a folder, the address of a Qdrant server, or memory."""

from orchestrator.errors import InvalidConfig
from orchestrator.options import at_home
from orchestrator.store.backend import Backend, without_credentials
from orchestrator.store.qdrant.backend import QdrantBackend
from orchestrator.store.sqlite.backend import SqliteBackend


def open_backend(
    location: str, timeout_s: float, *, collections: str = "", repeat_reads: bool = False
) -> Backend:
    """Return the place at a location: a folder, or an address of a Qdrant server.

    Args:
        location: The location. Empty: a temporary folder.
        timeout_s: Seconds to wait for another writer, or for an answer.
        collections: The beginning of the names of the collections on a server.
        repeat_reads: Whether reads from a server are repeated.

    Raises:
        InvalidConfig: The location is neither a folder nor an address.
    """
    location = at_home(location)
    if location.startswith(("http://", "https://")):
        return QdrantBackend(location, timeout_s, prefix=collections, repeat_reads=repeat_reads)
    if "://" in location:
        raise InvalidConfig(
            f"store {without_credentials(location)!r}: give a folder, or the http(s):// address of a Qdrant server"
        )
    return SqliteBackend(location, timeout_s)
