"""The connections to a Qdrant server: plain requests for reading, and qdrant-client for writing.

A route only reads. Importing qdrant-client takes longer than a first route, and decoding an answer with it takes longer
than the server needs for the answer. Both ways use the same connections, so both fail and are repeated in the same way.
"""

import json
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from orchestrator.errors import InvalidConfig
from orchestrator.options import store_key

if TYPE_CHECKING:
    from httpx2 import URL, Client
    from qdrant_client import QdrantClient

_PORT = 6333


class Refused(OSError):
    """The server answered with this HTTP status, which is a failure."""

    def __init__(self, status_code: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status_code


class Rest:
    """A server at an address. Connections stay open between requests, and threads may share them."""

    def __init__(self, location: str, shown: str, timeout_s: float) -> None:
        """Create the access. The first request opens the connections.

        Args:
            location: The address.
            shown: The address without credentials, for messages.
            timeout_s: Seconds to wait for an answer.
        """
        self.answered = False
        """Whether the server has answered a request."""
        self._location, self._shown, self._timeout_s = location, shown, timeout_s
        self._opening = threading.Lock()
        self._opened: Client | None = None
        self._version = ""

    def ask(self, method: str, path: str, body: Any = None, patience_s: float = 0.0) -> Any:
        """Return the result in the server's answer.

        Args:
            method: The HTTP method.
            path: The path below the address, such as `/collections/NAME/points`.
            body: The body, sent as JSON.
            patience_s: Seconds to wait, if less than the timeout. 0: the timeout.

        Raises:
            Refused: The server answered with a status other than 200.
            OSError: The server cannot be reached. A late answer is a TimeoutError.
            ValueError: The answer is not one of a Qdrant server.
        """
        content = None if body is None else json.dumps(body).encode()
        answer = json.loads(self.send(method, path, content, patience_s))
        if not isinstance(answer, dict) or "result" not in answer:
            raise ValueError("the answer has no result")
        self.answered = True
        return answer["result"]

    def version(self) -> str:
        """Return the version of the server. It is read once."""
        self._version = self._version or str(json.loads(self.send("GET", "/"))["version"])
        return self._version

    def send(self, method: str, path: str, content: bytes | None = None, patience_s: float = 0.0) -> bytes:
        """Return the body of the server's answer. It fails as `ask` does.

        Args:
            method: The HTTP method.
            path: The path below the address.
            content: The body.
            patience_s: Seconds to wait, if less than the timeout. 0: the timeout.
        """
        import httpx2

        timeout_s, kind = min(patience_s or self._timeout_s, self._timeout_s), {"content-type": "application/json"}
        given: dict[str, Any] = {"content": content, "headers": kind} if content else {}
        try:
            response = self._client().request(method, path.lstrip("/"), timeout=timeout_s, **given)
        except httpx2.TimeoutException as error:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from error
        except httpx2.HTTPError as error:
            raise ConnectionError(str(error)) from error
        if response.status_code != 200:
            raise Refused(response.status_code, response.text[:1_000])
        return response.content

    def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def _client(self) -> "Client":
        import httpx2

        with self._opening:
            if self._opened is None:
                key = store_key()
                if key and self._location.startswith("http:"):
                    message = "the store's key is sent without encryption: use an https:// address"
                    warnings.warn(message, UserWarning, stacklevel=2)
                headers = {"api-key": key} if key else {}
                self._opened = httpx2.Client(base_url=self._address(), headers=headers, timeout=self._timeout_s)
                weakref.finalize(self, self._opened.close)  # A caller may forget to close the Store.
            return self._opened

    def _address(self) -> "URL":
        """Return the address with a port, and without user, password and query."""
        import httpx2

        try:
            port = urlsplit(self._location).port or _PORT  # httpx drops the default port of a scheme.
            url = httpx2.URL(self._location)
            if not url.host:
                raise ValueError
            return url.copy_with(port=port, userinfo=b"", query=None, fragment=None)
        except (httpx2.InvalidURL, ValueError):  # The message has the address with its credentials.
            raise InvalidConfig(
                f"store {self._shown!r} is not an address: give http://HOST:PORT or https://HOST (port up to 65535)"
            ) from None


def client_over(send: Callable[[str, str, bytes], bytes]) -> "QdrantClient":
    """Return a qdrant-client that sends its requests with `send`."""
    import httpx
    from qdrant_client import QdrantClient

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=send(request.method, request.url.raw_path.decode(), request.read()))

    return QdrantClient(url="http://store", transport=httpx.MockTransport(answer), check_compatibility=False)
