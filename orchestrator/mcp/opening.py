"""How a session is opened: with the newest protocol first, and with an older one if the server needs it.

stdio   a process that exits at the first request is started once more with the handshake of 2025
HTTP    a URL that refuses the first message is tried with SSE
both    a server that refuses the protocol version is asked for an older one: one that it names, or each in turn
"""

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from orchestrator.mcp import faults
from orchestrator.mcp.config.launch import Launch
from orchestrator.mcp.config.parse import WITHOUT_HANDSHAKE, ServerSpec
from orchestrator.mcp.listing.changes import Changes
from orchestrator.mcp.listing.tools import Listing
from orchestrator.mcp.server_requests import ServerRequests
from orchestrator.mcp.transports.child import Child
from orchestrator.mcp.transports.runners import mend_cache, npm_cache
from orchestrator.mcp.transports.streams import Pace, Proposing, Watched, http, sse

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp.client._transport import TransportStreams

_SILENT = logging.NullHandler()
logger = logging.getLogger(__name__)


class Opening:
    """Opens the session of one connection.

    Attributes:
        handshake: True for the protocol before 2026-07-28, from the start or as the server turned out to need it.
        child: The last process that was started for it.
        greeted: True once the session is open. From then on, an end of the messages is the end of the connection.
    """

    def __init__(self, spec: ServerSpec, *, tenant: str, handshake: bool, pace: Pace) -> None:
        self._spec = spec
        self._tenant = tenant
        self._pace = pace
        self._sse = spec.transport == "sse"
        stated: str = spec.limits.protocol_version or ""
        self._version: str = "" if stated == WITHOUT_HANDSHAKE else stated
        self._refused_versions: set[str] = set()
        self._restarted = False
        self.handshake = (handshake and not stated) or bool(self._version)
        self.child = Child(pace)
        self.greeted = False

    @property
    def phase(self) -> str:
        """The phase of connecting: installing, starting, connecting, handshake or listing."""
        if self.greeted:
            return "listing"
        if self._spec.transport != "stdio":
            return "connecting"
        if self.child.answered:
            return "handshake"
        return "installing" if self._spec.runner else "starting"

    @asynccontextmanager
    async def session(
        self,
        launch: Launch,
        requests: ServerRequests,
        changes: Changes,
        listing: Listing,
        on_end: Callable[[], None],
    ) -> AsyncIterator["Client"]:
        """Open a session, falling back to an older protocol or transport.

        Args:
            launch: The entry with its variables replaced.
            requests: Answers the server's questions.
            changes: Receives the server's notifications.
            listing: Repairs the server's messages.
            on_end: Is called when the server ends an open session.
        """

        async def on_message(message: Any) -> None:
            changes.note(message)
            await requests.note(message)

        def ended() -> None:
            # Before the session is open the request under way fails, and the server may be started once more.
            if self.greeted:
                on_end()

        @asynccontextmanager
        async def streams() -> AsyncIterator["TransportStreams"]:
            async with self._transport(launch, changes) as (read, write):
                watched = Watched(read, self._pace, listing.mend, ended)
                yield watched, Proposing(write, self._version) if self._version else write

        first_error: Exception | None = None
        client: Client | None = None
        async with AsyncExitStack() as stack:
            while client is None:
                try:
                    client = await stack.enter_async_context(
                        self._client(streams(), on_message, requests)
                    )
                except Exception as error:
                    # Of any kind: the transports raise groups of their libraries' errors.
                    first_error = first_error or error
                    if self._falls_back(launch, error):
                        continue
                    # A URL that accepts neither transport: its answer to the newer one is the better error.
                    is_useless = self._sse and not faults.has_code(error, faults.DENIED)
                    raise first_error if is_useless else error from None
            self.greeted = True
            if not launch.url:
                self.handshake = client.session.initialize_result is not None
            yield client

    def _falls_back(self, launch: Launch, error: Exception) -> bool:
        """Switch to an older way of opening a session, if the error indicates that the server needs it."""
        if self._falls_back_to_version(error):
            return True
        if launch.url:
            return self._falls_back_to_sse(error)
        may_help = not self.handshake or (bool(launch.runner) and not self._restarted)
        failed = self.child.flaw or self.child.install_failure
        if not may_help or failed or not faults.is_end(error):
            return False
        self._restarted = True
        if launch.runner:
            cache = npm_cache({**os.environ, **launch.env})
            mended = mend_cache(self.child.stderr, cache)
            if mended:
                name = self._spec.name
                logger.warning(
                    "server %s: %s was installed incompletely and is installed again", name, mended
                )
        self.handshake = True
        self.child = Child(self._pace)
        return True

    def _falls_back_to_version(self, error: Exception) -> bool:
        """Propose the next protocol version, if the server refused the last one."""
        from mcp_types.version import LATEST_HANDSHAKE_VERSION

        accepted = faults.accepted_versions(error)
        if accepted is None:
            return False
        self._refused_versions.add(self._version or LATEST_HANDSHAKE_VERSION)
        remaining = [version for version in accepted if version not in self._refused_versions]
        if not remaining:
            return False
        self._version = remaining[0]
        self.handshake = True
        self.child = Child(self._pace)
        return True

    def _falls_back_to_sse(self, error: Exception) -> bool:
        if self._sse or not faults.has_code(error, faults.REFUSED):
            return False
        self._sse = True
        return True

    def _client(
        self,
        streams: "AbstractAsyncContextManager[TransportStreams]",
        on_message: Any,
        requests: ServerRequests,
    ) -> "Client":
        from mcp import Client
        from mcp.types import Implementation

        for name in ("mcp", "client"):
            # Without a handler Python would print these libraries' tracebacks on the user's terminal.
            logging.getLogger(name).addHandler(_SILENT)
        return Client(
            streams,
            message_handler=on_message,
            client_info=Implementation(name="toolroute", version=version("toolroute")),
            cache=None,
            **requests.callbacks(),
            mode="legacy" if self.handshake or self._sse else "auto",
        )

    def _transport(
        self, launch: Launch, changes: Changes
    ) -> "AbstractAsyncContextManager[TransportStreams]":
        if not launch.url:
            return self.child.streams(launch)
        connect = sse if self._sse else http
        return connect(launch, changes.streaming.set, self._auth(launch))

    def _auth(self, launch: Launch) -> "httpx2.Auth | None":
        if not launch.signs_in:
            return None
        if launch.oauth.is_for_worker:
            from orchestrator.mcp.signin.unattended import WorkerAuth

            return WorkerAuth(self._spec, launch)
        from orchestrator.mcp.signin.signed_in import SignedIn

        return SignedIn(self._tenant, self._spec, launch)
