"""A store on a Qdrant server, and the messages for its failures."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from orchestrator.common.lines import one_line
from orchestrator.errors import InvalidConfig, StoreUnavailable, Unauthorised
from orchestrator.records.durable_names import COLLECTION
from orchestrator.store.backend import EXPERIENCE, TOOLS, Backend, without_credentials
from orchestrator.store.points import Points
from orchestrator.store.qdrant.points import QdrantPoints
from orchestrator.store.qdrant.rest import Connections, Rest
from orchestrator.store.qdrant.retries import AnswerTooLarge, Refused

_CATALOGUES = "tool_catalogues"
_COLLECTIONS = {TOOLS: (f"{COLLECTION}__", _CATALOGUES), EXPERIENCE: ("tool_experience__",)}
"""The beginnings of the names of a part's collections."""
_MOST_TEXT = 200
"""The characters of a server's own sentence in a message."""
_NO_ANSWER = (AssertionError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions for an answer that does not come from a Qdrant server."""
_CONDITIONAL = (1, 16)
"""The first version of Qdrant with conditional updates. Earlier versions ignore the condition."""
_PREFIX = re.compile(r"[A-Za-z0-9_-]{0,60}")
"""Characters that a collection's name may have. With 60, the longest name stays below Qdrant's limit of 255."""


class QdrantBackend(Backend):
    """A Qdrant server. Writers repeat their requests while it does not answer, and readers of a route do not."""

    remote = True

    def __init__(
        self, location: str, timeout_s: float, *, prefix: str = "", repeat_reads: bool = False
    ) -> None:
        """Create the access.

        Args:
            location: The address.
            timeout_s: Seconds to wait for an answer.
            prefix: The beginning of the names of the collections.
            repeat_reads: Whether reads are repeated, too, as for a command.
        """
        super().__init__(location, timeout_s)
        if not _PREFIX.fullmatch(prefix):
            raise InvalidConfig(
                f"collections={prefix!r}: give up to 60 letters, digits, `_` and `-` (TOOLROUTE_COLLECTIONS)"
            )
        self.prefix = prefix
        self._connections = Connections(location, str(self), timeout_s)
        self._rest = Rest(self._connections)
        self._repeat_reads = repeat_reads
        self._version = ""

    @contextmanager
    def reading(self, tenant: str, part: str = TOOLS) -> Iterator[Points]:
        rest = self._rest.repeating() if self._repeat_reads else self._rest
        with self._named_failures():
            yield QdrantPoints(rest, tenant, self.prefix)

    @contextmanager
    def writing(self, tenant: str, part: str = TOOLS) -> Iterator[QdrantPoints]:
        # A write of experience waits for nothing, because a route's caller may wait for it.
        rest = self._rest.repeating() if part == TOOLS or self._repeat_reads else self._rest
        with self._named_failures():
            yield QdrantPoints(rest, tenant, self.prefix)

    def create_collections(self, sizes: Mapping[str, int], replicas: int) -> list[str]:
        """Create collections on this number of nodes, unless they exist. Return the names of the new ones.

        Args:
            sizes: The length of the vectors by collection, 0 for none.
            replicas: The number of nodes that hold each point.
        """
        points = QdrantPoints(self._rest, "", self.prefix, replicas)
        with self._named_failures():
            new = [name for name in sizes if points.size(name) is None]
            for name in new:
                points.create(name, sizes[name])
        return [self.prefix + name for name in new]

    def peek(self, name: str, points: Mapping[str, str], field: str) -> dict[str, Any]:
        """Return one field of one point of each tenant, with one request."""
        with self.reading(next(iter(points))) as opened:
            records = opened.get(name, list(points.values()), payload=[field])
        return {
            tenant: records[point].payload.get(field)
            for tenant, point in points.items()
            if point in records
        }

    def drop(self, tenant: str, part: str) -> None:
        """Remove everything of the tenant in this part. Its list of tools is emptied by `manifest_records.forget`."""
        with self.writing(tenant) as points:
            for name in points.names():
                if name.startswith(_COLLECTIONS[part]) and name != _CATALOGUES:
                    points.drop(name)

    def check_version(self) -> None:
        with self._named_failures():
            self._version = self._version or self._rest.version()
        numbers = re.match(r"(\d+)\.(\d+)", self._version)
        if numbers and (int(numbers[1]), int(numbers[2])) < _CONDITIONAL:
            needed = ".".join(map(str, _CONDITIONAL))
            raise InvalidConfig(
                f"the store {self} runs Qdrant {self._version}, in which one writer can undo another's write: upgrade "
                f"the server to {needed} or later"
            )

    def check_writes(self, tenant: str) -> None:
        """Write a record that nobody looks for, as a list of tools is written, and remove it."""
        probe = str(uuid4())
        with self._named_failures():
            points = QdrantPoints(self._rest, tenant, self.prefix)
            if points.size(_CATALOGUES) is not None:
                points.swap(_CATALOGUES, probe, {"state": probe}, None)
                points.delete(_CATALOGUES, [probe])

    def close(self) -> None:
        self._connections.close()

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        try:
            yield
        except (OSError, *_NO_ANSWER) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StoreUnavailable | Unauthorised:
        status = error.status_code if isinstance(error, Refused) else None
        if status in (401, 403):
            return Unauthorised(
                f"the store {self} refused the key: set QDRANT_API_KEY to a key for reading and writing"
            )
        sentence = _own_sentence(error)
        why = (
            one_line(without_credentials(sentence or str(error)), _MOST_TEXT)
            or type(error).__name__
        )
        if isinstance(error, _NO_ANSWER) or (status in (404, 405) and not sentence):
            # The text may have data of other programs.
            problem = "does not answer like a Qdrant server"
            remedy = "give the address of its REST interface without a further path, such as http://localhost:6333"
        elif isinstance(error, AnswerTooLarge):
            problem = f"cannot be read: {why}"
            remedy = "check whether this is the address of a Qdrant server"
        elif sentence:
            problem = f"answers with HTTP status {status}: {why}"
            remedy = _remedy_of_answer(sentence, status)
        else:
            problem = f"does not answer: {f'HTTP status {status}' if status else why}"
            remedy = _remedy_of_silence(why, status)
        return StoreUnavailable(
            f"the store {self} {problem}; {remedy}, or give another with --store or TOOLROUTE_STORE"
        )


def _own_sentence(error: Exception) -> str:
    """Return the sentence in a Qdrant server's answer: `{"status": {"error": "Wrong input: ..."}}`. Otherwise empty."""
    with suppress(ValueError, LookupError, TypeError):
        return str(json.loads(str(error))["status"]["error"]) if isinstance(error, Refused) else ""
    return ""


def _remedy_of_answer(sentence: str, status: int | None) -> str:
    """Return the remedy for a request that the server refused, by the server's sentence."""
    if "No space left" in sentence:
        return "free space on the server's disk"
    if (
        "strict mode" in sentence.lower()
        or "limit exceeded" in sentence.lower()
        or "Help:" in sentence
    ):
        return "change the setting of the collection's strict mode on the server"
    if status == 413 or "payload" in sentence.lower():
        return "raise the server's `service.max_request_size_mb`"
    return "see the server's log"


def _remedy_of_silence(why: str, status: int | None) -> str:
    """Return the remedy for a server that cannot be reached, by the error's text."""
    if "CERTIFICATE" in why:
        return "set SSL_CERT_FILE to the certificate of the authority that signed the server's certificate"
    if status == 413:
        return "raise the limit of a request's size on the server or its proxy"
    if "SSL" in why:
        return "write http:// if the server has no TLS"
    if status == 400 or "disconnected" in why or "reset by peer" in why or "illegal" in why:
        return "give the port of its REST interface (6333, not 6334), and write https:// if the server has TLS"
    if "no answer within" in why or "timed out" in why:
        return "check whether the server is overloaded or a firewall blocks the address"
    return "start the server"
