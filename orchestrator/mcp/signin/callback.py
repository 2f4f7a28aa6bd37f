"""The loopback address to which the browser returns after a sign-in."""

import asyncio
import html
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from orchestrator.errors import ServerUnavailable, Unauthorised

PERSON_S = 900.0
"""Seconds for a person to sign in."""
_REQUEST_S = 10.0
"""Seconds for a browser to send its request."""
_TITLE = "<!doctype html><meta charset=utf-8><title>toolroute</title>"
_HEADERS = (
    "content-type: text/html; charset=utf-8\r\nreferrer-policy: no-referrer\r\nconnection: close"
)


class Callback:
    """The loopback address that the browser returns to, and the parameters that it brings."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._state = ""
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self.address = ""

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        try:
            server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        except OSError as error:
            raise ServerUnavailable(
                f"port {port} for the sign-in's redirect is not free ({error.strerror})"
            ) from None
        port = server.sockets[0].getsockname()[1]
        self.address = f"http://localhost:{port}/callback"
        async with server:
            with suppress(OSError):  # Where `localhost` means ::1 first.
                six = await asyncio.start_server(self._serve, "::1", port)
                async with six:
                    yield
                return
            yield

    def expect(self, link: str) -> None:
        self._state = parse_qs(urlsplit(link).query)["state"][0]

    async def wait(self) -> AuthorizationCodeResult:
        try:
            async with asyncio.timeout(PERSON_S):
                answer = await self._answer
        except TimeoutError:
            raise Unauthorised(f"nobody signed in within {PERSON_S / 60:g} minutes") from None
        if "error" in answer:
            words = filter(None, (answer["error"], answer.get("error_description", "")))
            reason = " ".join(": ".join(words).split())[:200]
            raise Unauthorised(f"it was refused ({reason})")
        return AuthorizationCodeResult(
            code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss")
        )

    def take(self, address: str) -> str:
        """Accept the address that the browser was sent to.

        Returns the text to show, or "" if the address belongs to another sign-in.
        """
        parts = urlsplit(address.strip())
        answer = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != "/callback" or not self._state or answer.get("state") != self._state:
            return ""
        if not self._answer.done():
            self._answer.set_result(answer)
        if "error" in answer:
            return f"{self._server} sign-in failed ({answer['error']})."
        return f"toolroute continues in the terminal and shows there whether it can use {self._server}."

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                words = (await reader.readline()).split(b" ")
                while (await reader.readline()).strip():
                    pass
                is_get = len(words) > 1 and words[0] == b"GET"
                text = self.take(words[1].decode("latin-1")) if is_get else ""
                writer.write(_page(text))
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass
        finally:
            writer.close()


def _page(text: str) -> bytes:
    """Return the response with a text. Without a text it is the refusal."""
    status = "200 OK" if text else "400 Bad Request"
    message = html.escape(text or "toolroute is not waiting for this sign-in.")
    page = f"{_TITLE}<h1>{message}</h1><p>Close this window."
    return f"HTTP/1.1 {status}\r\n{_HEADERS}\r\n\r\n{page}".encode()
