"""One tool call from inside a workflow: as an activity, or as a child workflow. Deterministic; Temporal does the rest.

A tool that may be called again (read-only, idempotent, or honouring the key) is retried by Temporal's policy. Any other
is given one attempt, and another only where the failure says that nothing was sent.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    TerminatedError,
    TimeoutType,
    WorkflowAlreadyStartedError,
)
from temporalio.exceptions import TimeoutError as TimedOut

from orchestrator import errors
from orchestrator.errors import (
    InvalidInput,
    ModelUnavailable,
    OutcomeUnknown,
    ToolFailed,
    ToolrouteError,
    Unavailable,
)
from orchestrator.records import durable_names as names
from orchestrator.records.call import ToolCall, ToolResult
from orchestrator.records.run import RunRequest
from orchestrator.records.tool import Kind
from orchestrator.temporal.held import MAX_INPUT_BYTES, as_result, check_bytes, hold_roughly
from orchestrator.temporal.payload import read, size_of

RETRY = RetryPolicy(initial_interval=timedelta(seconds=0.5), maximum_interval=timedelta(seconds=10), maximum_attempts=6)
"""For calls that may run again: about 25 s of trying."""

PATIENT = RetryPolicy(
    initial_interval=timedelta(seconds=0.5), maximum_interval=timedelta(seconds=10), maximum_attempts=60
)
"""For routing and planning: about 10 minutes of trying, in which a store or an endpoint may be restarted. Counted in
attempts, since a time limit would also count the time in which no worker is up."""

MODEL_RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=0.5), maximum_interval=timedelta(seconds=10), maximum_attempts=3
)
"""For a language model: after these a run goes on without it."""

ONCE = RetryPolicy(maximum_attempts=1)
TRIES = 5
"""How often a call is scheduled that provably sent nothing, or that may go again and lost its workers each time."""

MAX_ID_BYTES = 1_000
"""Of a workflow's id, as servers are set up by default."""

MAX_MESSAGE = 4_000
"""Characters of an error's message."""


def as_failure(error: ToolrouteError, *, retry: bool | None = None) -> ApplicationError:
    """The error as Temporal carries it: its class's name as the type, never retried where trying again cannot help."""
    again = error.retry if retry is None else retry
    wait = error.retry_after_s if isinstance(error, ModelUnavailable) else None
    delay = None if wait is None else timedelta(seconds=wait)
    used = [error.usage.total] if error.usage else []
    return ApplicationError(
        brief(str(error)), *used, type=type(error).__name__, non_retryable=not again, next_retry_delay=delay
    )


@contextmanager
def as_failures() -> Iterator[None]:
    """Raises ToolrouteErrors as Temporal carries them."""
    try:
        yield
    except ToolrouteError as error:
        raise as_failure(error) from error


def brief(message: str) -> str:
    """The message as long as a history may hold it: a failure beyond the server's limit would never be heard of."""
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[:MAX_MESSAGE]} [cut: {len(message) - MAX_MESSAGE:,} characters left out]"


def check_kind(name: str, value: Any, kind: type | tuple[type, ...], wanted: str) -> None:
    """Fails at once for what a workflow's own code gave by mistake: any other error would leave it stuck."""
    if not isinstance(value, kind):
        raise as_failure(InvalidInput(f"{name}={value!r:.80}: give {wanted}"))


def check_given(what: str, value: Any, limit: int = MAX_INPUT_BYTES) -> None:
    """Fails at once where an activity cannot be given the value: it is too large, or no data converter writes it."""
    with as_failures():
        check_bytes(what, _size(what, value), limit)


def _size(what: str, value: Any) -> int:
    """Bytes of JSON; what plain JSON has no form for is the workflow's own data converter's."""
    with suppress(TypeError, ValueError, RecursionError):
        return len(json.dumps(value))
    try:
        return size_of(value)
    except Exception as error:
        raise InvalidInput(
            f"{what} cannot be written as JSON ({error!r:.200}): give texts, numbers and lists"
        ) from None


def call_config(request: RunRequest, given: workflow.ActivityConfig | None = None) -> workflow.ActivityConfig:
    """A run's timeouts for its calls, and whatever the caller of `ToolRouter` chose over them."""
    config = workflow.ActivityConfig(
        start_to_close_timeout=timedelta(seconds=request.call_timeout_s),
        heartbeat_timeout=timedelta(seconds=request.heartbeat_s),
    )
    config.update(given or {})
    return config


async def call_tool(call: ToolCall, config: workflow.ActivityConfig) -> ToolResult:
    """The tool's answer. Raises ActivityError, ChildWorkflowError or ApplicationError; `why_failed` reads them."""
    check_given(f"what {call.tool.key!r} is given as arguments", call.arguments)
    if call.tool.kind is Kind.WORKFLOW and not call.tool.labels.get("executor"):
        return await _call_workflow(call, config)
    cancelled = _cancellations()
    for number in range(1, TRIES + 1):
        try:
            return await _call_activity(call, config)
        except ActivityError as error:
            again = _workers_were_lost(error, config) if call.replayable else nothing_was_sent(error)
            if number == TRIES or not again:
                raise
            # Temporal waits for a cancelled activity, and where that fails for a reason of its own tells nothing else.
            if _cancellations() > cancelled and workflow.patched(names.NONE_AFTER_CANCEL):
                raise asyncio.CancelledError from error
            await workflow.sleep(timedelta(seconds=min(10.0, 0.5 * 2**number)))
    raise AssertionError("unreachable")


def _cancellations() -> int:
    """How often the present task was told to end; some go on after that, to clean up."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


async def _call_activity(call: ToolCall, config: workflow.ActivityConfig) -> ToolResult:
    """With a deadline ahead of Temporal's own: what was not sent by then is told as such, and may go again."""
    settings: workflow.ActivityConfig = {
        "retry_policy": RETRY,
        "cancellation_type": workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        "summary": call.tool.key[:200],
        **config,
    }
    given = config.get("retry_policy")
    if not call.replayable:
        settings["retry_policy"] = replace(given, maximum_attempts=1) if given else ONCE
    whole = config.get("start_to_close_timeout")
    held = replace(call, deadline_s=None if whole is None else 0.9 * whole.total_seconds())
    return read(await workflow.execute_activity(names.CALL_TOOL, held, result_type=RawValue, **settings), ToolResult)


async def _call_workflow(call: ToolCall, config: workflow.ActivityConfig) -> ToolResult:
    """Starts the workflow named by the label `workflow` (else the tool's name) with the arguments as its one input.

    The check before it is an activity, with the call's own options: it runs where calls of tools run.
    """
    checked: workflow.ActivityConfig = {"retry_policy": RETRY, "summary": call.tool.key[:200], **config}
    await workflow.execute_activity(names.CHECK_CALL, call, **checked)
    name = call.tool.labels.get("workflow", call.tool.name)
    try:
        answer = await workflow.execute_child_workflow(
            name,
            call.arguments,
            id=_child_id(call.idempotency_key),
            task_queue=call.tool.labels.get("task_queue"),
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
            cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            execution_timeout=config.get("start_to_close_timeout"),
            static_summary=call.tool.key[:200],
        )
    except WorkflowAlreadyStartedError as error:
        raise as_failure(OutcomeUnknown(f"{call.tool.key}: a workflow with this call's key ran before")) from error
    except ChildWorkflowError as error:
        ended = _ended_by_others(error)
        if not ended:
            raise
        told = f"{call.tool.key}: its workflow {name!r}, id {error.workflow_id!r}, was {ended}"
        raise as_failure(OutcomeUnknown(told)) from error
    return hold_roughly(as_result(answer), call.max_result_tokens)


def _child_id(key: str) -> str | None:
    """The call's key, or what the server takes of it with a hash of all: a longer id would leave the workflow stuck."""
    whole = key.encode()
    if len(whole) <= MAX_ID_BYTES:
        return key or None
    digest = hashlib.sha256(whole).hexdigest()
    return f"{whole[: MAX_ID_BYTES - len(digest) - 1].decode(errors='ignore')}:{digest}"


def _ended_by_others(error: ChildWorkflowError) -> str:
    """How a child ended that neither answered nor failed, nor was cancelled with the step that called it."""
    if isinstance(error.cause, TimedOut):
        return "ended when its time was up: see whether a worker runs it, and give it more time"
    if isinstance(error.cause, TerminatedError):
        return "terminated by someone"
    own = asyncio.current_task() is None or _cancellations()
    if isinstance(error.cause, CancelledError) and not own and workflow.patched(names.GOES_ON):
        return "cancelled by someone"
    return ""


def why_failed(error: BaseException) -> tuple[str, str]:
    """The kind of failure (an error class's name, `Timeout`, `Cancelled` or the cause's type) and its message."""
    inner: BaseException = error
    while isinstance(inner, (ActivityError, ChildWorkflowError)) and inner.cause is not None:
        inner = inner.cause
    if isinstance(inner, ApplicationError):
        return inner.type or "ApplicationError", inner.message
    if isinstance(inner, TimedOut) and inner.type in _LATE:
        return type(inner).__name__, _LATE[inner.type]
    return type(inner).__name__, str(inner)


_LATE = {
    TimeoutType.START_TO_CLOSE: "no answer within the time of one call: give more as call_timeout_s",
    TimeoutType.SCHEDULE_TO_START: "no worker took it in time: see whether one serves its task queue",
    TimeoutType.HEARTBEAT: "its worker was lost, or too busy to say that it lives",
}
"""What Temporal's timeouts mean for a call, where it says `activity StartToClose timeout`."""


def tokens_of(error: BaseException) -> int:
    """The tokens that a model took although nothing of use came of it, as `as_failure` tells them."""
    details = (
        error.cause.details if isinstance(error, ActivityError) and isinstance(error.cause, ApplicationError) else ()
    )
    return next((found for found in details if isinstance(found, int)), 0)


def outcome_is_unknown(error: BaseException, call: ToolCall) -> bool:
    """Whether the call may have taken effect although it failed: an answer was lost, or it broke in an unknown way."""
    kind, _ = why_failed(error)
    if kind == OutcomeUnknown.__name__:
        return True
    if call.replayable or isinstance(error, ChildWorkflowError) or _nobody_took_it(error):
        return False
    return kind not in _TOLD and kind != ToolFailed.__name__


def _nobody_took_it(error: BaseException) -> bool:
    """Whether no worker began the call in the time that it was given for that."""
    cause = error.cause if isinstance(error, ActivityError) else None
    return isinstance(cause, TimedOut) and cause.type is TimeoutType.SCHEDULE_TO_START


def nothing_was_sent(error: BaseException) -> bool:
    """Whether a call failed before anything of it was sent."""
    return why_failed(error)[0] in _UNAVAILABLE


def _workers_were_lost(error: ActivityError, config: workflow.ActivityConfig) -> bool:
    """Whether the last attempt ended with its worker, not by its tool, and the policy that counts attempts is ours."""
    cause = error.cause
    return isinstance(cause, TimedOut) and cause.type is TimeoutType.HEARTBEAT and "retry_policy" not in config


def _family(root: type[ToolrouteError]) -> Iterable[str]:
    return (name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, root))


_UNAVAILABLE = frozenset(_family(Unavailable))
_TOLD = frozenset(_family(ToolrouteError)) - {OutcomeUnknown.__name__}
