"""The connected clients of the gateway, which servers ask and which receive notifications of changes."""

import asyncio
import logging
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import ResourceUpdated, event_to_notification
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    LOG_LEVEL_META_KEY,
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequest,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsResult,
    LoggingLevel,
    LoggingMessageNotification,
    ServerNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from orchestrator.common.redact import Secrets
from orchestrator.mcp.server_requests import ANSWER_S, ASKER
from orchestrator.server.masking import masked_model

Context = ServerRequestContext[Any, Any]
R = TypeVar("R")
_LEVELS: tuple[str, ...] = LoggingLevel.__args__  # type: ignore[attr-defined]
_NO_URLS = "2025-06-18"
"""The protocol version that has elicitation, but not by URL."""
_NOTIFY_S = 5.0
"""Seconds that a client has to accept a notification. A client that does not read loses the notification."""
_MOST_QUESTIONS = 1_000

logger = logging.getLogger(__name__)


def is_modern(context: Context) -> bool:
    """Return True if the client uses protocol 2026-07-28 or later, where questions are part of answers."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


class ClientAsker:
    """A client with a request under way, as the servers that work for it may ask it (`asking.Asker`).

    `context` is replaced when a client of 2026-07-28 sends its request again with answers. `fixed` are values that the
    client never reads.
    """

    def __init__(self, context: Context, who: object, log_level: str) -> None:
        self.who, self.log_level, self.context = who, log_level, context
        self.is_open, self.fixed = True, Secrets()
        self.asked = asyncio.Event()
        self.questions: dict[str, tuple[InputRequest, asyncio.Future[InputResponse]]] = {}

    async def ask(self, request: InputRequest) -> InputResponse | ErrorData:
        """Ask the client, in the way of its protocol."""
        request = masked_model(request, self.fixed)
        if lacking := _lacking(self.context, request):
            return ErrorData(code=INVALID_REQUEST, message=f"the client of toolroute does not support {lacking}")
        if is_modern(self.context):
            return await self._with_the_answer(request)
        related = ServerMessageMetadata(related_request_id=self.context.request_id)
        if isinstance(request, ElicitRequest) and isinstance(own := request.params, ElicitRequestURLParams):
            # Servers of 2026-07-28 give no such id, and earlier clients require one.
            word = own.elicitation_id or secrets.token_hex(8)
            request = ElicitRequest(params=own.model_copy(update={"elicitation_id": word}))
        try:
            return await self.context.session.send_request(request, _result_of(request), metadata=related)
        except MCPError as error:
            return error.error

    async def _with_the_answer(self, request: InputRequest) -> InputResponse:
        """Have the client's request be answered by this question, and wait until it comes again with the answer."""
        word = f"question-{len(self.questions) + 1}-{secrets.token_hex(4)}"
        answer: asyncio.Future[InputResponse] = asyncio.get_running_loop().create_future()
        self.questions[word] = request, answer
        self.asked.set()
        try:
            return await answer
        finally:
            self.questions.pop(word, None)

    async def tell(self, notification: ServerNotification) -> None:
        """Pass a notification on, where the client wants log messages that are so severe."""
        if isinstance(notification, LoggingMessageNotification):
            unwanted = self.log_level and _LEVELS.index(notification.params.level) < _LEVELS.index(self.log_level)
            if unwanted or (is_modern(self.context) and not self.log_level):
                return
        related = self.context.request_id if self.is_open else None
        notification = masked_model(notification, self.fixed)
        await _sent(self.context.session.send_notification(notification, related))


def _lacking(context: Context, request: InputRequest) -> str:
    """Return the capability that the client lacks for a request."""
    able = context.session.client_capabilities
    if isinstance(request, ElicitRequest):
        own, is_url = able and able.elicitation, isinstance(request.params, ElicitRequestURLParams)
        # A client that declares neither mode has the form, as before there were modes.
        can = own and (own.url and context.protocol_version != _NO_URLS if is_url else own.form or not own.url)
        return "" if can else f"elicitation by {'URL' if is_url else 'form'}"
    if isinstance(request, CreateMessageRequest):
        own_sampling = able and able.sampling
        wants_tools = request.params.tools is not None or request.params.tool_choice is not None
        return "" if own_sampling and (own_sampling.tools or not wants_tools) else "sampling"
    return "" if able and able.roots else "roots"


def _result_of(request: InputRequest) -> Any:
    if isinstance(request, ElicitRequest):
        return ElicitResult
    if isinstance(request, CreateMessageRequest):
        return CreateMessageResultWithTools if request.params.tools else CreateMessageResult
    return ListRootsResult


async def _sent(sending: Awaitable[None]) -> None:
    try:
        await asyncio.wait_for(sending, _NOTIFY_S)
    except Exception as error:
        logger.debug("a client did not take a notification: %s", type(error).__name__)


class Questions:
    """Requests of protocol 2026-07-28 that continue while their client answers a server's question."""

    def __init__(self) -> None:
        self._parked: dict[str, tuple[ClientAsker, asyncio.Task[Any]]] = {}

    async def answered(
        self, asker: ClientAsker, params: Any, answer: Callable[[], Awaitable[R]]
    ) -> R | InputRequiredResult:
        """Return the answer to a request, or a question for its client.

        Args:
            asker: The client of the request.
            params: The request's parameters. They may contain answers to questions.
            answer: Makes the answer.
        """
        if not is_modern(asker.context):
            return await self._with_asker(asker, answer)
        if (state := params.request_state) is not None:
            asker, task = self._resumed(state, asker, params.input_responses or {})
        else:
            task = asyncio.create_task(self._with_asker(asker, answer))
        asked = asyncio.create_task(asker.asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        finally:
            asked.cancel()
        if task.done():
            result: R = await task
            return result
        return self._park(asker, task)

    async def _with_asker(self, asker: ClientAsker, answer: Callable[[], Awaitable[R]]) -> R:
        before = ASKER.set(asker)
        try:
            return await answer()
        finally:
            asker.is_open = False
            ASKER.reset(before)

    def _park(self, asker: ClientAsker, task: "asyncio.Task[Any]") -> InputRequiredResult:
        state = secrets.token_urlsafe(16)
        self._parked[state] = asker, task
        # A request that ends meanwhile keeps its answer: not every question is one that it waits for.
        asyncio.get_running_loop().call_later(ANSWER_S, self._forget, state)
        while len(self._parked) > _MOST_QUESTIONS:
            self._forget(next(iter(self._parked)))
        asker.asked.clear()
        return InputRequiredResult(
            input_requests={word: asked for word, (asked, future) in asker.questions.items() if not future.done()},
            request_state=state,
        )

    def _forget(self, state: str) -> None:
        if (parked := self._parked.pop(state, None)) is not None:
            parked[1].cancel()

    def _resumed(self, state: str, now: ClientAsker, answers: dict[str, InputResponse]) -> tuple[ClientAsker, Any]:
        """Pass the answers to the waiting request and let it continue. Requests of other clients are not found."""
        asker, task = self._parked.get(state, (None, None))
        if asker is None or asker.who != now.who:
            raise MCPError(
                INVALID_PARAMS,
                f"no request waits for this answer (a request waits {ANSWER_S:g} seconds): call the tool again",
            )
        del self._parked[state]
        asker.context = now.context
        for word, (_, future) in asker.questions.items():
            if word in answers and not future.done():
                future.set_result(answers[word])
        if any(not future.done() for _, future in asker.questions.values()):
            asker.asked.set()
        return asker, task


class Sessions:
    """The connected clients of each tenant, with their subscriptions and log levels."""

    def __init__(self) -> None:
        self._open: defaultdict[str, WeakKeyDictionary[Any, Any]] = defaultdict(WeakKeyDictionary)
        self._levels: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._wanted: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
        self._alone: ClientAsker | None = None
        self._buses = defaultdict[str, InMemorySubscriptionBus](InMemorySubscriptionBus)

    def bus(self, tenant: str) -> InMemorySubscriptionBus:
        """Return the tenant's bus. Its events go to listening clients of protocol 2026-07-28."""
        return self._buses[tenant]

    def opened(self, tenant: str, context: Context) -> None:
        """Register a client of an earlier protocol, which receives notifications while it is connected."""
        self._open[tenant][_connection(context)] = context.session
        if context.request is None:
            self._alone = ClientAsker(context, "stdio", "")

    def alone(self) -> ClientAsker | None:
        """Return the client over stdio, which is the only client and can always be asked. None over HTTP."""
        if self._alone is not None:
            self._alone.log_level = self.level(self._alone.context)
        return self._alone

    def set_level(self, context: Context, level: str) -> None:
        self._levels[_connection(context)] = level

    def level(self, context: Context) -> str:
        """Return the lowest level of log messages that the client wants, or ""."""
        if is_modern(context):
            return str((context.meta or {}).get(LOG_LEVEL_META_KEY) or "")
        return self._levels.get(_connection(context), "")

    def wanted(self, context: Context) -> set[str]:
        """Return the URIs that a client of an earlier protocol has subscribed to, to be changed in place."""
        return self._wanted.setdefault(_connection(context), set())

    async def publish(self, tenant: str, *events: ServerEvent) -> None:
        """Send an event to the tenant's clients that receive such events."""
        for event in events:
            await self.bus(tenant).publish(event)
            told = [
                _sent(session.send_notification(event_to_notification(event, {})))
                for connection, session in list(self._open[tenant].items())
                if not isinstance(event, ResourceUpdated) or event.uri in self._wanted.get(connection, ())
            ]
            await asyncio.gather(*told)

    @property
    def tenants(self) -> list[str]:
        """The tenants with clients that can receive notifications of changes."""
        return [*{*self._buses, *self._open}]


def _connection(context: Context) -> Any:
    """Return an object that identifies the client's connection. The library has no public name for it."""
    return context.session._connection  # noqa: SLF001
