"""One tool call from inside a workflow, as an activity or as a child workflow. This module is deterministic.

One retry policy serves every call. The activity itself (`orchestrator.activities`) makes sure that a change is not sent
twice. A further attempt of a call that may not be repeated sends nothing, unless the attempt before it reported that it
sent nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from temporalio import workflow
from temporalio.api.common.v1 import RetryPolicy as RetryPolicyRecord
from temporalio.common import Priority, RawValue, RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    NexusOperationError,
    TimeoutError as TimedOut,
    TimeoutType,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

from orchestrator.common.digests import digest, digest_of
from orchestrator.errors import InvalidInput, OutcomeUnknown, ToolrouteError
from orchestrator.records import durable_names as names
from orchestrator.records.call import Present, ToolCall, ToolResult
from orchestrator.records.tool import Kind, Tool
from orchestrator.records.tool_limits import ToolLimits
from orchestrator.temporal.workflow.payload import (
    MAX_RESULT_BYTES,
    as_result,
    check_size,
    hold_bytes,
    read,
)

ActivityConfig = workflow.ActivityConfig
Record = TypeVar("Record")


def retry(attempts: int) -> RetryPolicy:
    """Return a retry policy with this number of attempts, with pauses of half a second to ten seconds."""
    return RetryPolicy(
        initial_interval=timedelta(seconds=0.5),
        maximum_interval=timedelta(seconds=10),
        maximum_attempts=attempts,
    )


CALL_RETRY = retry(8)
"""For calls: about 35 seconds of trying, without the time in which a call waits for its turn."""
PATIENT = retry(60)
"""For routing and planning: about 10 minutes of trying, so that a store or an endpoint can restart.

The limit is a number of attempts, because a time limit would include the time in which no worker runs.
"""
MODEL_RETRY = retry(3)
"""For a language model. After these attempts a run continues without it."""

MOST_KEY = 64
"""The maximum number of bytes of a fairness key."""
BYTES_PER_TOKEN = 3
"""A low estimate. o200k_base has 4.5 bytes per token in JSON, and 3 in Chinese.

Workflow code counts no tokens, because a better counter would change the decisions of running workflows.
"""
ASKED_IN = timedelta(minutes=1)
"""The time that a step waits for a worker to check its call. After it, a person is asked without the check."""
_UNUSABLE = {
    "InvalidInput",
    "InvalidCatalogue",
    "InvalidConfig",
    "UnknownTenant",
    "UnknownTool",
    "InvalidArguments",
}
"""The types of InvalidInput. The call fails whether or not a person is asked."""

MOST_SENT = 2 * 1024 * 1024
"""The maximum number of bytes of arguments in one workflow task.

Above gRPC's limit of 4 MiB the task would fail forever.
"""


def require_valid_retries(config: Mapping[str, object]) -> None:
    """Raise InvalidInput for a retry policy that Temporal refuses. It would do so again and again, and never fail."""
    policy = config.get("retry_policy")
    if not isinstance(policy, RetryPolicy):
        return
    try:
        policy.apply_to_proto(RetryPolicyRecord())
    except ValueError as error:
        raise InvalidInput(f"retry_policy={policy}: {error}; give another policy") from None


def fair(tenant: str, config: ActivityConfig) -> ActivityConfig:
    """Return the options with the tenant as fairness key. A server with fairness serves the tenants in turns."""
    require_valid_retries(config)
    key = tenant if len(tenant.encode()) <= MOST_KEY else digest(tenant, 32)
    return {"priority": Priority(fairness_key=key or None), **config}


async def execute(
    activity: str, request: Any, kind: type[Record], config: ActivityConfig
) -> Record:
    """Return the record that one of our activities returns.

    Args:
        activity: The name of the activity.
        request: Its input.
        kind: The type of the record.
        config: The activity options.
    """
    return read(
        await workflow.execute_activity(activity, request, result_type=RawValue, **config), kind
    )


async def call_tool(
    call: ToolCall, config: ActivityConfig, call_options: ActivityConfig | None = None
) -> ToolResult:
    """Return the tool's answer. It raises Temporal's failures or a ToolrouteError, and `why_failed` reads both.

    Args:
        call: The call.
        config: The activity options of the run. The tool's own limits take precedence over them.
        call_options: The caller's options for this call. They take precedence over both.
    """
    size = check_size(f"the arguments of {call.tool.key!r}", call.arguments)
    await _room(size)
    limits = ToolLimits.of(call.tool)
    call_options = call_options or ActivityConfig()
    settings: ActivityConfig = {
        "retry_policy": CALL_RETRY,
        "summary": call.tool.key[:200],
        **fair(call.tenant, config),
    }
    if is_child(call.tool):
        settings.update(call_options)
        # A workflow has no executor that would check the arguments.
        await workflow.execute_activity(names.CHECK_CALL, call, **settings)
        await _room(size)
        return await _call_workflow(call, limits, call_options)
    settings.setdefault(
        "cancellation_type", workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
    )
    settings = {**settings, **_config_of(limits), **call_options}
    require_valid_retries(settings)
    if policy := settings.get("retry_policy"):
        # The worker counts the attempts, because Temporal also counts those that only waited for a turn.
        call = replace(call, attempts=policy.maximum_attempts)
        settings["retry_policy"] = replace(policy, maximum_attempts=0)
    return await execute(names.CALL_TOOL, call, ToolResult, settings)


async def present_tool(call: ToolCall, config: ActivityConfig) -> Tool:
    """Return the call's tool as its server defines it now. Raise an error if the call cannot be carried out.

    If no worker answers in time, return the call's own tool. A person may answer much later than this.
    """
    await _room(check_size(f"the arguments of {call.tool.key!r}", call.arguments))
    limits = ToolLimits.of(call.tool)
    settings: ActivityConfig = {
        **fair(call.tenant, config),
        "summary": call.tool.key[:200],
        **_config_of(limits),
        # A person is asked in any case, so the check does not wait for a server to come back.
        "retry_policy": retry(2),
    }
    settings["schedule_to_start_timeout"] = ASKED_IN
    try:
        present = await execute(names.CHECK_CALL, call, Present, settings)
    except ActivityError as error:
        if was_cancelled(error) or (
            isinstance(_cause(error), ApplicationError) and why_failed(error)[0] in _UNUSABLE
        ):
            raise
        return call.tool
    return present.tool or call.tool


def is_child(tool: Tool) -> bool:
    """Return True if a workflow starts the tool as a child workflow, without an executor."""
    return tool.kind is Kind.WORKFLOW and not tool.labels.get("executor")


async def _room(size: int) -> None:
    """Wait for a workflow task that has room for this many bytes and the bytes that it already sends."""
    loop = asyncio.get_running_loop()
    while True:
        task = workflow.info().get_current_history_length()
        task_and_bytes = _SENT.get(loop, (0, 0))
        task_and_bytes = task_and_bytes if task_and_bytes[0] == task else (task, 0)
        if not task_and_bytes[1] or task_and_bytes[1] + size <= MOST_SENT:
            _SENT[loop] = task, task_and_bytes[1] + size
            return
        await workflow.sleep(timedelta(milliseconds=1))


def _config_of(limits: ToolLimits) -> ActivityConfig:
    config = ActivityConfig()
    if limits.timeout_s is not None:
        config["start_to_close_timeout"] = timedelta(seconds=limits.timeout_s)
    if limits.retries is not None:
        config["retry_policy"] = retry(1 + limits.retries)
    if limits.task_queue is not None:
        config["task_queue"] = limits.task_queue
    return config


async def _call_workflow(
    call: ToolCall, limits: ToolLimits, call_options: ActivityConfig
) -> ToolResult:
    """Start the workflow with the name in the label `workflow`, or the tool's name, with the arguments
    as its only input.

    It has no time limit, unless the tool's own limits or the caller's options set one.
    """
    name = call.tool.labels.get("workflow", call.tool.name)
    limits_of_config = _config_of(limits)
    try:
        answer = await workflow.execute_child_workflow(
            name,
            call.arguments,
            id=call.idempotency_key,
            task_queue=limits.task_queue,
            # The child may clean up. A terminated one could not.
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
            cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            execution_timeout=call_options.get(
                "start_to_close_timeout", limits_of_config.get("start_to_close_timeout")
            ),
            retry_policy=limits_of_config.get("retry_policy") if call.replayable else None,
            static_summary=call.tool.key[:200],
            priority=fair(call.tenant, call_options)["priority"],
        )
    except WorkflowAlreadyStartedError as error:
        raise OutcomeUnknown(
            f"{call.tool.key}: a workflow with this call's idempotency key has already run; check its result"
        ) from error
    except ChildWorkflowError as error:
        task = asyncio.current_task()
        if isinstance(error.cause, ApplicationError) or (task and task.cancelling()):
            raise
        ended = (
            f"its workflow {name!r}, id {error.workflow_id!r}, was terminated or ran out of time"
        )
        raise OutcomeUnknown(f"{call.tool.key}: {ended} ({why_failed(error)[0]})") from error
    limited = hold_bytes(
        as_result(answer), min(MAX_RESULT_BYTES, call.max_result_tokens * BYTES_PER_TOKEN)
    )
    return replace(limited, tokens=-(-len(limited.text.encode()) // BYTES_PER_TOKEN))


_LATE = {
    TimeoutType.START_TO_CLOSE: "no answer within the time of one call: raise call_timeout_s, or the tool's timeout_s",
    TimeoutType.SCHEDULE_TO_START: "no worker took the call in time: check that a worker polls its task queue",
    TimeoutType.HEARTBEAT: "the worker was lost, or too busy to send heartbeats; check the worker",
}
"""Explanations of Temporal's timeouts for a call. Temporal's own text is `activity StartToClose timeout`."""


_AROUND = (ActivityError, ChildWorkflowError, NexusOperationError)
"""Errors that Temporal wraps around the original failure. Nexus adds an ApplicationError of the type OperationError."""


def _cause(error: BaseException) -> BaseException:
    cause = error.__cause__
    if cause is not None and (
        isinstance(error, _AROUND) or getattr(error, "type", "") == "OperationError"
    ):
        return _cause(cause)
    return error


def why_failed(error: BaseException) -> tuple[str, str]:
    """Return the kind of failure (the name of an error class, or Temporal's cause) and its message."""
    inner = _cause(error)
    if isinstance(inner, ApplicationError):
        return inner.type or "ApplicationError", inner.message
    late = _LATE.get(inner.type) if isinstance(inner, TimedOut) and inner.type else None
    return type(inner).__name__, late or str(inner)


def described(error: BaseException) -> str:
    """Return the kind of failure and its message as one text."""
    return ": ".join(why_failed(error))


def tokens_of(error: BaseException) -> int:
    """Return the tokens that a model used before the failure. They are in the failure's details."""
    inner = _cause(error)
    details = inner.details if isinstance(inner, ApplicationError) else ()
    return next((detail for detail in details if isinstance(detail, int)), 0)


def was_cancelled(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error)


def outcome_is_unknown(error: BaseException, call: ToolCall) -> bool:
    """Return True if a failed call may have taken effect. An error that was raised on a worker states this itself."""
    inner = _cause(error)
    if why_failed(error)[0] == OutcomeUnknown.__name__:
        return True
    untaken = isinstance(inner, TimedOut) and inner.type is TimeoutType.SCHEDULE_TO_START
    return not (call.replayable or untaken or isinstance(inner, ApplicationError | ToolrouteError))


_SENT: "WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[int, int]]" = WeakKeyDictionary()
"""By execution: the history's length at the latest workflow task with calls, and the bytes of their arguments."""


def occurrence(*content: Any) -> str:
    """Return a key of this content in this execution.

    It is the same in replays and resets, and differs each further time.

    It is counted by content, not by order, because parallel branches may come in another order after a reset.
    """
    content_digest = digest_of(*content)
    occurrences = _SEEN.setdefault(asyncio.get_running_loop(), Counter())
    occurrences[content_digest] += 1
    return f"{workflow.info().original_execution_run_id}:{content_digest}.{occurrences[content_digest]}"


_SEEN: "WeakKeyDictionary[asyncio.AbstractEventLoop, Counter[str]]" = WeakKeyDictionary()
"""By execution. Each execution has its own event loop."""
