"""A client of the gateway with a request in progress, as the servers that work for it may ask it."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    INVALID_REQUEST,
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
from orchestrator.mcp.passed_messages import masked_model
from orchestrator.server.sessions.outcome_recorder import Conversation
from orchestrator.trust.server_texts import progress_for_model

Context = ServerRequestContext[Any, Any]

_LEVELS: tuple[str, ...] = LoggingLevel.__args__  # type: ignore[attr-defined]
_WITHOUT_URL_ELICITATION = "2025-06-18"
"""The protocol version that has elicitation, but not by URL."""
_NOTIFY_TIMEOUT_S = 5.0
"""Seconds that a client has to accept a notification. A client that does not read loses the notification."""

logger = logging.getLogger(__name__)


def is_modern(context: Context) -> bool:
    """Return True if the client uses protocol 2026-07-28 or later, where questions are part of answers."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


class InputRequired(Exception):
    """Raised where the client has to ask its user, and then to repeat the call."""

    def __init__(self, result: InputRequiredResult) -> None:
        self.result = result


def answer_in_request(params: Any, question_id: str, question: InputRequest) -> InputResponse:
    """Return the answer that a repeated request of 2026-07-28 has.

    Args:
        params: The request's parameters.
        question_id: The id of the question, which is the same in each repetition.
        question: The question to ask if the request has no answer.

    Raises:
        InputRequired: The request has no answer to the question.
    """
    answer: InputResponse | None = (params.input_responses or {}).get(question_id)
    if answer is None:
        raise InputRequired(InputRequiredResult(input_requests={question_id: question}))
    return answer


class ClientAsker:
    """A client with a request in progress (an `Asker` of `mcp.server_requests`).

    Attributes:
        context: The request. It is replaced when a client of 2026-07-28 sends it again with answers.
        who: The client's conversation.
        log_level: The lowest level of log messages that the client wants, or "".
        is_open: True until the request has been answered.
        fixed: Values that the client never reads.
        asked: Is set while a question waits for the client.
        questions: The questions of a client of 2026-07-28 by id, with their answers.
        is_handed_over: True once the client has a handle in place of the answer.
        status_message: The last words of the call's progress since then.
    """

    def __init__(self, context: Context, who: Conversation, log_level: str) -> None:
        self.context = context
        self.who = who
        self.log_level = log_level
        self.is_open = True
        self.fixed = Secrets()
        self.asked = asyncio.Event()
        self.is_handed_over = False
        self.status_message = ""
        self.questions: dict[str, tuple[InputRequest, asyncio.Future[InputResponse]]] = {}

    @property
    def is_modern(self) -> bool:
        """Whether the client has protocol 2026-07-28 or later."""
        return is_modern(self.context)

    async def ask(self, request: InputRequest) -> InputResponse | ErrorData:
        """Ask the client, in the way of its protocol."""
        request = masked_model(request, self.fixed)
        lacking = _lacking_capability(self.context, request)
        if lacking:
            return ErrorData(
                code=INVALID_REQUEST, message=f"the client of toolroute does not support {lacking}"
            )
        if is_modern(self.context):
            return await self._answer_in_next_request(request)
        try:
            return await self.context.session.send_request(
                _with_elicitation_id(request),
                _result_type(request),
                metadata=ServerMessageMetadata(related_request_id=self.context.request_id),
            )
        except MCPError as error:
            return error.error

    @property
    def open_questions(self) -> dict[str, InputRequest]:
        """The questions that have no answer yet, by id."""
        return {
            question_id: question
            for question_id, (question, answer) in self.questions.items()
            if not answer.done()
        }

    def take_answers(self, answers: Mapping[str, InputResponse]) -> None:
        """Pass the client's answers to the servers that asked."""
        for question_id in self.open_questions.keys() & answers.keys():
            self.questions[question_id][1].set_result(answers[question_id])

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass the progress of a call on. A client that has a handle polls it.

        Args:
            progress: The progress so far, in the server's own unit.
            total: The progress at the end. None: the server does not know it.
            message: The server's message, or None. Secrets in it are masked. It is left out if it acts on its reader.
        """
        # A client may show it to its model, above all as the message of a task.
        message = message and (progress_for_model(self.fixed.redact(message)) or None)
        if not self.is_handed_over:
            await self.context.session.report_progress(progress, total, message)
            return
        share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self.status_message = message or share

    async def tell(self, notification: ServerNotification) -> None:
        """Pass a notification on. A log message is passed on only if the client wants its level."""
        if self.is_handed_over:  # The request is answered, and the client does not listen.
            return
        if isinstance(notification, LoggingMessageNotification) and not self._wants(notification):
            return
        related = self.context.request_id if self.is_open else None
        notification = masked_model(notification, self.fixed)
        session = self.context.session
        await deliver(partial(session.send_notification, notification, related))

    async def _answer_in_next_request(self, request: InputRequest) -> InputResponse:
        """Let the client's request be answered by this question, and wait until it comes again with the answer."""
        question_id = f"question-{len(self.questions) + 1}-{secrets.token_hex(4)}"
        answer: asyncio.Future[InputResponse] = asyncio.get_running_loop().create_future()
        self.questions[question_id] = request, answer
        self.asked.set()
        try:
            return await answer
        finally:
            self.questions.pop(question_id, None)

    def _wants(self, notification: LoggingMessageNotification) -> bool:
        if self.log_level:
            return _LEVELS.index(notification.params.level) >= _LEVELS.index(self.log_level)
        return not is_modern(self.context)


async def deliver(send: Callable[[], Awaitable[None]]) -> None:
    """Send a notification. A client that does not take it in time, or has gone, loses it."""
    try:
        await asyncio.wait_for(send(), _NOTIFY_TIMEOUT_S)
    except Exception as error:  # The client's transport may raise anything.
        logger.debug("a client did not take a notification: %s", type(error).__name__)


def _lacking_capability(context: Context, request: InputRequest) -> str:
    """Return the capability that the client lacks for a request, or ""."""
    if isinstance(request, ElicitRequest):
        if isinstance(request.params, ElicitRequestURLParams):
            return "" if can_ask_by_url(context) else "elicitation by URL"
        return "" if can_ask_by_form(context) else "elicitation by form"
    capabilities = context.session.client_capabilities
    if isinstance(request, CreateMessageRequest):
        sampling = capabilities.sampling if capabilities else None
        wants_tools = request.params.tools is not None or request.params.tool_choice is not None
        can = sampling and (sampling.tools or not wants_tools)
        return "" if can else "sampling"
    return "" if capabilities and capabilities.roots else "roots"


def can_ask_by_form(context: Context) -> bool:
    """Return True if the client can show its user a form."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities and capabilities.elicitation
    # A client that declares neither mode has the form, as before there were modes.
    return bool(elicitation and (elicitation.form or not elicitation.url))


def can_ask_by_url(context: Context) -> bool:
    """Return True if the client can show its user a link."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities and capabilities.elicitation
    has_mode = context.protocol_version != _WITHOUT_URL_ELICITATION
    return bool(elicitation and elicitation.url is not None and has_mode)


def extensions_of(context: Context) -> dict[str, Any]:
    """Return the extensions that the client declares, with their settings."""
    capabilities = context.session.client_capabilities
    return (capabilities and capabilities.extensions) or {}


def _with_elicitation_id(request: InputRequest) -> InputRequest:
    """Return the request with the id that clients before 2026-07-28 require, and newer servers do not give."""
    if not isinstance(request, ElicitRequest) or not isinstance(
        request.params, ElicitRequestURLParams
    ):
        return request
    elicitation_id = request.params.elicitation_id or secrets.token_hex(8)
    return ElicitRequest(
        params=request.params.model_copy(update={"elicitation_id": elicitation_id})
    )


def _result_type(request: InputRequest) -> Any:
    if isinstance(request, ElicitRequest):
        return ElicitResult
    if isinstance(request, CreateMessageRequest):
        return CreateMessageResultWithTools if request.params.tools else CreateMessageResult
    return ListRootsResult
