"""The connections to a Qdrant server: plain requests for what is read, and qdrant-client for what is written.

A route only reads. Importing qdrant-client takes longer than a first route, and reading an answer with it longer than
the server takes to give it. Both use the same connections, so that both fail, and are tried again, in the same way.
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
    """The server's answer is a failure with this HTTP status."""

    def __init__(self, status_code: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status_code


class Rest:
    """A server at an address. Connections stay open between requests, and threads may share them."""

    def __init__(self, location: str, shown: str, timeout_s: float) -> None:
        """shown: the address without credentials, for messages."""
        self.answered = False
        """Whether a request was ever answered."""
        self._location, self._shown, self._timeout_s = location, shown, timeout_s
        self._opening = threading.Lock()
        self._opened: Client | None = None
        self._version = ""

    def ask(self, method: str, path: str, body: Any = None, patience_s: float = 0.0) -> Any:
        """Return the result in the server's answer.

        Args:
            method: The HTTP method.
            path: The path below the address, such as `/collections/NAME/points`.
            body: Goes as JSON.
            patience_s: How long to wait, where that is less than the timeout; 0 for the timeout.

        Raises:
            Refused: The server answers with another status than 200.
            OSError: It cannot be reached; TimeoutError where it does not answer in time.
            ValueError: The answer is none of a Qdrant server.
        """
        content = None if body is None else json.dumps(body).encode()
        answer = json.loads(self.send(method, path, content, patience_s))
        if not isinstance(answer, dict) or "result" not in answer:
            raise ValueError("an answer without a result")
        self.answered = True
        return answer["result"]

    def version(self) -> str:
        """Ask once for the version of the server."""
        self._version = self._version or str(json.loads(self.send("GET", "/"))["version"])
        return self._version

    def send(self, method: str, path: str, content: bytes | None = None, patience_s: float = 0.0) -> bytes:
        """Return the body of the server's answer, as `ask` does."""
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
        """Close the connections; a later request opens new ones."""
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
                    warnings.warn("the key of the store goes over an insecure connection", UserWarning, stacklevel=2)
                headers = {"api-key": key} if key else {}
                self._opened = httpx2.Client(base_url=self._address(), headers=headers, timeout=self._timeout_s)
                weakref.finalize(self, self._opened.close)  # Not every Store is closed.
            return self._opened

    def _address(self) -> "URL":
        """Return the address with a port, and without what stands for a user or a query."""
        import httpx2

        try:
            port = urlsplit(self._location).port or _PORT  # httpx forgets a scheme's own.
            url = httpx2.URL(self._location)
            if not url.host:
                raise ValueError
            return url.copy_with(port=port, userinfo=b"", query=None, fragment=None)
        except (httpx2.InvalidURL, ValueError):  # Its message holds the address, credentials and all.
            raise InvalidConfig(
                f"store {self._shown!r} is no address: give http://HOST:PORT or https://HOST, a port up to 65535"
            ) from None


def client_over(send: Callable[[str, str, bytes], bytes]) -> "QdrantClient":
    """Return a client whose requests `send` carries out: that of a Rest, or of what asks it again."""
    import httpx
    from qdrant_client import QdrantClient

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=send(request.method, request.url.raw_path.decode(), request.read()))

    return QdrantClient(url="http://store", transport=httpx.MockTransport(answer), check_compatibility=False)
