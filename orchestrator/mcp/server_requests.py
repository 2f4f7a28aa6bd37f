"""Requests from servers to the client behind toolroute (elicitation, sampling, roots), and servers' log messages."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from orchestrator.common.redact import Secrets
from orchestrator.mcp.listing.offers import OnOffer
from orchestrator.mcp.passed_messages import masked_model

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import ErrorData, InputRequest, InputResponse, ServerNotification

logger = logging.getLogger(__name__)

ANSWER_S = 600.0
"""Seconds that a server waits for the answer to its question. A person answers, so the call's timeout is too short."""

APPS = "io.modelcontextprotocol/ui"
_APP_TYPE = "text/html;profile=mcp-app"
"""The extension that passes through toolroute as it is: only metadata and resources belong to it. Other extensions with
requests of their own are not declared, because toolroute would not pass these on."""
_SET_LEVEL_S = 1.0
"""Seconds that a call waits for the answer to `logging/setLevel`. Some servers never answer it."""


class Asker(Protocol):
    """A client with a request in progress, which a server may therefore ask.

    Attributes:
        log_level: The lowest level of log messages that the client wants, "" if it gave none.
        is_modern: Whether its protocol is that of 2026-07-28, in which a server asks with its answer.
        fixed: Values of a profile's fixed parameters, which the client must never read.
    """

    log_level: str
    fixed: Secrets

    @property
    def who(self) -> object:
        """The client's conversation. Requests of the same conversation may answer for each other."""
        ...

    @property
    def is_modern(self) -> bool: ...

    @property
    def is_open(self) -> bool:
        """True until the request has been answered."""
        ...

    async def ask(self, request: "InputRequest") -> "InputResponse | ErrorData":
        """Return the client's answer, or an error result."""
        ...

    async def tell(self, notification: "ServerNotification") -> None:
        """Pass a server's log message, or the end of an elicitation, on to the client."""
        ...


ASKER: ContextVar[Asker | None] = ContextVar("toolroute_asker", default=None)
"""The client whose request this task answers."""


async def _ignore(*_: Any) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The client side of a pool's connections. Servers learn that the client can be asked.

    Attributes:
        fallback: Returns the client to ask outside of any request, or None if there is not exactly one.
        on_offer: Receives each server's offer.
        on_updated: Receives a server's name and the URI of a resource that changed.
        extensions: Returns the extensions that the only client declares, or None if there may be several clients.
        needs_handshake: Returns True if the clients have a protocol before 2026-07-28. Servers are then connected with
            such a protocol, because only then they may ask a client at any time.
    """

    fallback: Callable[[], Asker | None] = lambda: None
    on_offer: OnOffer = _ignore
    on_updated: Callable[[str, str], Awaitable[None]] = _ignore
    extensions: Callable[[], dict[str, Any] | None] = lambda: None
    needs_handshake: Callable[[], bool] = lambda: False


def _only_client(askers: Iterable[Asker]) -> Asker | None:
    """Return the client whose requests a server is working on, or None if there is not exactly one.

    A message over stdio does not name the request that it belongs to, and no client may see another's messages.
    """
    present = [asker for asker in askers if asker.is_open]
    return present[-1] if len({asker.who for asker in present}) == 1 else None


def _passed_on(host: Host) -> list[tuple[str, dict[str, Any]]]:
    """Return the extensions of the clients that pass through toolroute, with their settings."""
    declared = host.extensions()
    if declared is None:
        return [(APPS, {"mimeTypes": [_APP_TYPE]})]
    return [(APPS, declared[APPS])] if APPS in declared else []


class ServerRequests:
    """Answers the requests of one server by asking the client that they are about."""

    def __init__(self, server: str, host: Host | None) -> None:
        self._server = server
        self.host = host
        self.secrets = Secrets()
        self.askers: list[Asker] = []
        self._joined = asyncio.Event()
        self._patient: dict[asyncio.Timeout, float] = {}
        self._questions = 0

    @property
    def waiting(self) -> bool:
        """True while a client thinks about a question."""
        return self._questions > 0

    def join(self) -> Asker | None:
        """Return the client of the request that begins here, if any. The server may ask it until it leaves."""
        asker = ASKER.get()
        if asker is not None:
            self.askers.append(asker)
            self._joined.set()
        return asker

    async def _next(self) -> Asker | None:
        """Return the client of the next request."""
        self._joined.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._joined.wait(), ANSWER_S)
        return self._present()

    @contextmanager
    def patient(self, within: asyncio.Timeout, limit_s: float) -> Iterator[None]:
        """Stop this timeout while a client thinks, and give it its whole time again afterwards."""
        self._patient[within] = limit_s
        try:
            yield
        finally:
            del self._patient[within]

    def callbacks(self) -> dict[str, Any]:
        """Return the callbacks of a Client that answer a server's requests, and the extensions that it takes. Without a
        host nobody answers questions.
        """
        from mcp import types
        from mcp.client import advertise

        from orchestrator.mcp.tasks import Tasks

        tasks = Tasks(self._ask)
        if self.host is None:
            return {"extensions": [tasks]}

        async def elicit(_: Any, params: "types.ElicitRequestParams") -> Any:
            return await self._ask(types.ElicitRequest(params=params))

        async def sample(_: Any, params: "types.CreateMessageRequestParams") -> Any:
            return await self._ask(types.CreateMessageRequest(params=params))

        async def roots(_: Any) -> Any:
            return await self._ask(types.ListRootsRequest())

        tools = types.SamplingCapability(tools=types.SamplingToolsCapability())
        return {
            "elicitation_callback": elicit,
            "sampling_callback": sample,
            "sampling_capabilities": tools,
            "list_roots_callback": roots,
            "extensions": [tasks, *(advertise(*extension) for extension in _passed_on(self.host))],
        }

    async def _ask(self, request: "InputRequest") -> "InputResponse | ErrorData":
        from mcp.types import INVALID_REQUEST, ErrorData, ListRootsRequest

        asker = ASKER.get() or self._present()
        if asker is None and isinstance(request, ListRootsRequest):
            asker = await self._next()  # Servers ask for roots as soon as they are connected.
        if asker is None:
            why = "several clients" if self.askers else "no client"
            return ErrorData(
                code=INVALID_REQUEST, message=f"{request.method}: {why} can be asked now"
            )
        self._questions += 1
        for within in self._patient:
            within.reschedule(None)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await asker.ask(_named(masked_model(request, self.secrets), self._server))
        except TimeoutError:
            return ErrorData(
                code=INVALID_REQUEST, message=f"{request.method}: no answer within {ANSWER_S:g} s"
            )
        finally:
            self._questions -= 1
            now = asyncio.get_running_loop().time()
            for within, limit_s in self._patient.items():
                if not self.waiting and not within.expired():
                    within.reschedule(now + limit_s)

    async def note(self, message: Any) -> None:
        """Pass on a server's notification: a log message, the end of an elicitation, a changed resource."""
        from mcp import types

        if isinstance(message, types.ResourceUpdatedNotification) and self.host is not None:
            await self.host.on_updated(self._server, message.params.uri)
        elif isinstance(
            message, types.LoggingMessageNotification | types.ElicitCompleteNotification
        ):
            await self._tell(message)

    async def _tell(self, notification: Any) -> None:
        asker = self._present()
        if asker is not None:
            named = _with_logger(notification, self._server)
            await asker.tell(masked_model(named, self.secrets))

    def _present(self) -> Asker | None:
        if any(asker.is_open for asker in self.askers):
            return _only_client(self.askers)
        return self.host.fallback() if self.host else None

    async def set_log_level(self, client: "Client", level: str) -> None:
        """Request log messages from a server with a protocol before 2026-07-28.

        Newer servers are asked with each request.
        """
        from mcp import MCPError
        from mcp.types import EmptyResult, SetLevelRequest, SetLevelRequestParams
        from pydantic import ValidationError

        if (
            level
            and client.server_capabilities.logging is not None
            and client.session.initialize_result is not None
        ):
            params = SetLevelRequestParams.model_validate({"level": level})
            try:
                async with asyncio.timeout(_SET_LEVEL_S):
                    await client.session.send_request(SetLevelRequest(params=params), EmptyResult)
            except (MCPError, TimeoutError, ValidationError) as error:
                logger.debug(
                    "server %s: its log level was not set: %s", self._server, type(error).__name__
                )

    async def roots_changed(self, client: "Client") -> None:
        """Tell a server of a protocol before 2026-07-28 that it may ask for the client's roots again."""
        from mcp.types import RootsListChangedNotification

        if client.session.initialize_result is not None:
            await client.session.send_notification(RootsListChangedNotification())


def _with_logger(notification: Any, server: str) -> Any:
    """Return a log message whose logger begins with its server's name, because a server could log as toolroute."""
    from mcp.types import LoggingMessageNotification

    if not isinstance(notification, LoggingMessageNotification):
        return notification
    logger_of_server = notification.params.logger
    name = f"{server}: {logger_of_server}" if logger_of_server else server
    params = notification.params.model_copy(update={"logger": name})
    return notification.model_copy(update={"params": params})


def _named(request: "InputRequest", server: str) -> "InputRequest":
    """Return a question to a person that begins with its server's name.

    The client shows the question as one of toolroute, and a server could ask for the secret of another one.
    """
    from mcp.types import ElicitRequest

    if not isinstance(request, ElicitRequest):
        return request
    message = f"Server {server!r} asks: {request.params.message}"
    params = request.params.model_copy(update={"message": message})
    return ElicitRequest(params=params)
