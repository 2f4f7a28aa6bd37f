"""The connections to a Qdrant server: plain requests for reading, and qdrant-client for writing.

A route only reads. Importing qdrant-client takes longer than a first route, and decoding an answer with it takes longer
than the server needs for the answer. Both ways use the same connections, so both fail and are repeated in the same way.
"""

import json
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from orchestrator.errors import InvalidConfig
from orchestrator.options import store_key
from orchestrator.store.qdrant.retries import AnswerTooLarge, Refused, Retries

if TYPE_CHECKING:
    from httpx2 import URL, Client
    from qdrant_client import QdrantClient

_PORT = 6333
"""The port of Qdrant's REST interface, which an address may leave out."""
_MOST_TEXT = 4_000
"""The characters of a failure's text that are kept."""


class Connections:
    """The connections to one address. They stay open between requests, and threads may share them."""

    def __init__(self, location: str, label: str, timeout_s: float) -> None:
        """Create the access. The first request opens the connections.

        Args:
            location: The address.
            label: The address without credentials, for messages.
            timeout_s: Seconds to wait for an answer.
        """
        self.timeout_s = timeout_s
        self.retries = Retries(label)
        self._location = location
        self._label = label
        self._lock = threading.Lock()
        self._client: Client | None = None

    def send(self, method: str, path: str, content: bytes | None, timeout_s: float) -> bytes:
        """Return the body of the server's answer. The request is sent once.

        Args:
            method: The HTTP method.
            path: The path below the address.
            content: The body, as JSON. None: no body.
            timeout_s: Seconds to wait for the answer.

        Raises:
            Refused: The server answered with a status other than 200, or its answer is larger than 24 MiB.
            OSError: The server cannot be reached. A late answer is a TimeoutError.
        """
        import httpx2

        from orchestrator.common.bounded_http import AnswerTooLong

        headers = {"content-type": "application/json"} if content else None
        try:
            response = self._opened().request(
                method, path.lstrip("/"), timeout=timeout_s, content=content, headers=headers
            )
        except httpx2.TimeoutException as error:
            raise TimeoutError(f"no answer within {timeout_s:.3g} s") from error
        except AnswerTooLong as error:
            raise AnswerTooLarge(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error), 0.0) from error
        except httpx2.HTTPError as error:
            raise ConnectionError(str(error)) from error
        if response.status_code != 200:
            raise Refused(
                response.status_code, response.text[:_MOST_TEXT], _retry_after(response.headers)
            )
        return response.content

    def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _opened(self) -> "Client":
        from orchestrator.common.bounded_http import BoundedClient

        with self._lock:
            if self._client is None:
                key = store_key()
                if key and self._location.startswith("http:"):
                    message = "the store's key is sent without encryption: use an https:// address"
                    warnings.warn(message, UserWarning, stacklevel=2)
                self._client = BoundedClient(
                    base_url=self._address(),
                    headers={"api-key": key} if key else None,
                    timeout=self.timeout_s,
                )
                # A caller may forget to close the Store.
                weakref.finalize(self, self._client.close)
            return self._client

    def _address(self) -> "URL":
        """Return the address with a port, and without user, password and query."""
        import httpx2

        try:
            # httpx drops the default port of a scheme.
            port = urlsplit(self._location).port or _PORT
            url = httpx2.URL(self._location)
            if not url.host:
                raise ValueError
            return url.copy_with(port=port, userinfo=b"", query=None, fragment=None)
        except (httpx2.InvalidURL, ValueError):  # The message has the address with its credentials.
            raise InvalidConfig(
                f"store {self._label!r} is not an address: give http://HOST:PORT or https://HOST (port up to 65535)"
            ) from None


@dataclass(frozen=True)
class Rest:
    """Requests to a server.

    Attributes:
        connections: The connections to the server.
        repeat: Whether requests are repeated while the server does not answer.
    """

    connections: Connections
    repeat: bool = False

    def repeating(self) -> "Rest":
        """Return an access that repeats its requests."""
        return replace(self, repeat=True)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the result in the server's answer.

        Args:
            method: The HTTP method.
            path: The path below the address, such as `/collections/NAME/points`.
            body: The body, sent as JSON.

        Raises:
            Refused: The server answered with a status other than 200.
            OSError: The server cannot be reached. A late answer is a TimeoutError.
            ValueError: The answer is not one of a Qdrant server.
        """
        content = None if body is None else json.dumps(body).encode()
        answer = json.loads(self.send(method, path, content))
        if not isinstance(answer, dict) or "result" not in answer:
            raise ValueError("the answer has no result")
        return answer["result"]

    def version(self) -> str:
        """Return the version of the server."""
        return str(json.loads(self.send("GET", "/"))["version"])

    def send(self, method: str, path: str, content: bytes | None = None) -> bytes:
        """Return the body of the server's answer.

        Args:
            method: The HTTP method.
            path: The path below the address.
            content: The body, as JSON. None: no body.

        Raises:
            Refused: The server answered with a status other than 200.
            OSError: The server cannot be reached. A late answer is a TimeoutError.
        """
        connections = self.connections
        return connections.retries.run(
            lambda limit_s: connections.send(
                method, path, content, min(connections.timeout_s, limit_s)
            ),
            repeat=self.repeat,
        )

    @cached_property
    def client(self) -> "QdrantClient":
        """A qdrant-client that sends its requests over these connections."""
        return _client_over(self.send)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that an answer asks to wait, or 0. A date is not read."""
    with suppress(ValueError):
        return max(0.0, float(headers.get("retry-after", "0")))
    return 0.0


def _client_over(send: Callable[[str, str, bytes], bytes]) -> "QdrantClient":
    import httpx
    from qdrant_client import QdrantClient

    class Transport(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            content = send(request.method, request.url.raw_path.decode(), request.read())
            return httpx.Response(200, content=content)

    return QdrantClient(url="http://store", transport=Transport(), check_compatibility=False)
