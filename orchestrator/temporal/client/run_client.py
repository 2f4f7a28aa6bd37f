"""RunClient: one tenant's runs on a Temporal server, and people's decisions on their steps."""

import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote

from pydantic import TypeAdapter
from pydantic_core import to_json
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.contrib.workflow_streams import WorkflowStreamClient
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from orchestrator.errors import InvalidInput, StepsFailed, Unavailable
from orchestrator.records import durable_names as names
from orchestrator.records.run import Approval, Progress, RunMemo, RunResult
from orchestrator.temporal.workflow.call import why_failed

SOON = timedelta(seconds=10)
"""The time for a request about a run. A worker answers a query within seconds, or it is lost or busy."""
_WAITS = "waiting for approval"
_RUNS = f"(WorkflowType = '{names.RUN}' OR TemporalChangeVersion = '{names.RUN}')"
"""The runs of `toolroute.run`, and users' workflows whose ToolRouter carries out a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A run, as lists show it.

    Attributes:
        id: The id of the workflow.
        status: Its status.
        started: The time when it started.
        waiting: The steps that wait for approval, each with its tool.
        link: The address of its page in Temporal's web UI.
        workflow: The type of the workflow: `toolroute.run` or a user's own.
    """

    id: str
    status: str
    started: str
    waiting: tuple[str, ...]
    link: str
    workflow: str = names.RUN

    @property
    def under_way(self) -> bool:
        """True until the run has ended."""
        return self.status in ("running", _WAITS)


@dataclass(frozen=True, slots=True)
class RunClient:
    """A tenant's view of a Temporal namespace. `pages` is the address of its UI's workflow pages, or "" if unknown."""

    client: Client
    tenant: str
    pages: str = ""

    async def runs(
        self, *, ended: bool, most: int | None = None, waiting: bool = False
    ) -> list[Listed]:
        """Return the tenant's runs, newest first.

        If the namespace has the search attributes ToolrouteTenant and ToolrouteWaiting, the server finds the runs that
        were started with them. The memo of all other runs is read.

        Args:
            ended: Whether ended runs are included.
            most: The maximum number of runs.
            waiting: Only runs with a step that waits for approval.
        """
        query = _RUNS + ("" if ended else " AND ExecutionStatus = 'Running'")
        if await has_search_attributes(self.client):
            tenant = self.tenant.replace("'", "\\'")
            query += (
                f" AND ({names.TENANT_ATTRIBUTE} = '{tenant}' OR {names.TENANT_ATTRIBUTE} IS NULL)"
            )
            if waiting:
                query += (
                    f" AND ({names.WAITING_ATTRIBUTE} = true OR {names.TENANT_ATTRIBUTE} IS NULL)"
                )
        try:
            listed = self.client.list_workflows(query, rpc_timeout=SOON)
            runs = list[Listed]()
            async for execution in listed:
                memo = await _memo(execution)
                if memo and memo.tenant == self.tenant and (memo.waiting or not waiting):
                    runs.append(self._listed(execution, memo))
                if most is not None and len(runs) == most:
                    break
        except RPCError as error:
            raise Unavailable(
                f"the Temporal server could not list its runs: {error.message}"
            ) from None
        return runs

    async def run(self, run_id: str) -> Listed:
        """Return one run.

        Raises:
            InvalidInput: The tenant has no run with this id.
        """
        try:
            execution = await self.client.get_workflow_handle(run_id).describe(rpc_timeout=SOON)
            memo = await _memo(execution)
        except RPCError as error:
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                raise Unavailable(
                    f"the Temporal server could not describe run {run_id!r}: {error.message}"
                ) from None
            memo = None
        # The same answer for another tenant's run, so that nobody learns which ids exist.
        if memo is None or memo.tenant != self.tenant:
            raise InvalidInput(
                f"tenant {self.tenant} has no run {run_id!r}: list its runs with `{self.command('list', '--all')}`"
            )
        return self._listed(execution, memo)

    async def progress(self, run_id: str) -> Progress | None:
        """Return a run's progress. None if no worker answers."""
        try:
            handle = self.client.get_workflow_handle(run_id)
            progress: Progress = await handle.query(
                names.PROGRESS, result_type=Progress, rpc_timeout=SOON
            )
        except RPCError:
            return None
        return progress

    async def result(self, run: Listed) -> RunResult | None:
        """Return the result of a finished run. Return None for a run that has none, and for a user's own workflow."""
        if run.under_way or run.workflow != names.RUN:
            return None
        try:
            handle = self.client.get_workflow_handle(run.id, result_type=RunResult)
            result: RunResult = await handle.result(rpc_timeout=SOON)
        except WorkflowFailureError as error:
            return failed_result(error)
        except (RPCError, ValueError, TypeError, RuntimeError):
            # The server lost it, or a codec hides it.
            return None
        return result

    async def follow(self, run_id: str) -> AsyncIterator[Progress]:
        """Yield each change of a run from its beginning to its end: the changed steps, without arguments.

        Each wait is an update of the workflow, so it adds an event to its history. `progress` does not.

        Raises:
            InvalidInput: The run is in a user's workflow without a stream.
            Unavailable: No worker answers.
        """
        if await self.progress(run_id) is None:
            raise Unavailable(f"run {run_id}: no worker answers; start one with `toolroute worker`")
        stream = WorkflowStreamClient.create(self.client, run_id)
        try:
            async for item in stream.topic(names.PROGRESS, type=Progress).subscribe():
                yield item.data
        except (WorkflowUpdateFailedError, WorkflowQueryFailedError):
            raise InvalidInput(
                f"run {run_id} cannot be followed: its workflow has no stream; use `toolroute runs show`"
            ) from None
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            raise Unavailable(
                f"run {run_id} can no longer be followed: no worker answers"
            ) from None
        except RPCError as error:
            raise Unavailable(f"run {run_id} can no longer be followed: {error.message}") from None

    async def answer(self, run_id: str, approval: Approval) -> None:
        """Approve or reject a step.

        Raises:
            InvalidInput: The step does not wait for this answer.
            Unavailable: No worker answers.
        """
        handle = self.client.get_workflow_handle(run_id)
        try:
            await handle.execute_update(names.APPROVE, approval, rpc_timeout=SOON)
        except WorkflowUpdateFailedError as error:
            raise InvalidInput(f"{run_id}: {why_failed(error.cause)[1]}") from None
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            raise Unavailable(
                f"run {run_id}: no worker answers; start one with `toolroute worker`"
            ) from None
        except RPCError as error:
            raise InvalidInput(
                f"run {run_id}: its steps cannot be approved: {error.message}"
            ) from None

    def command(self, *words: str) -> str:
        """Return a `toolroute runs` command for this tenant and server, for a shell."""
        where = ["--address", self.client.service_client.config.target_host]
        if self.tenant != "local":
            where += ["--tenant", self.tenant]
        if self.client.namespace != "default":
            where += ["--namespace", self.client.namespace]
        return shlex.join(["toolroute", "runs", *words, *where])

    def _listed(self, execution: WorkflowExecution, memo: RunMemo) -> Listed:
        status = execution.status.name.lower().replace("_", " ") if execution.status else "unknown"
        running = status == "running"
        return Listed(
            id=execution.id,
            status=_WAITS if running and memo.waiting else status,
            started=execution.start_time.astimezone().isoformat(sep=" ", timespec="seconds"),
            waiting=memo.waiting if running else (),
            link=page_of(self.pages, execution.id),
            workflow=execution.workflow_type,
        )


async def has_search_attributes(client: Client) -> bool:
    """Return True if the client's namespace has ToolrouteTenant and ToolrouteWaiting."""
    request = ListSearchAttributesRequest(namespace=client.namespace)
    try:
        attributes = await client.operator_service.list_search_attributes(request, timeout=SOON)
    except RPCError:  # Not everybody may ask the operator service.
        return False
    return {names.TENANT_ATTRIBUTE, names.WAITING_ATTRIBUTE} <= set(attributes.custom_attributes)


async def run_attributes(client: Client, tenant: str) -> TypedSearchAttributes:
    """Return the search attributes with which a tenant's run starts. Empty if the namespace does not have them.

    Args:
        client: The client that starts the run.
        tenant: The tenant.

    Examples:
        >>> from temporalio.client import Client
        >>> from orchestrator import RunRequest
        >>> from orchestrator.temporal.client.run_client import run_attributes
        >>> async def start(client: Client, task: str) -> None:
        ...     request = RunRequest(task=task, tenant="org:acme")
        ...     attributes = await run_attributes(client, request.tenant)
        ...     await client.start_workflow(
        ...         "toolroute.run", request, id="r1", task_queue="toolroute", search_attributes=attributes
        ...     )
    """
    if not await has_search_attributes(client):
        return TypedSearchAttributes.empty
    return TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(names.TENANT_ATTRIBUTE), tenant),
            SearchAttributePair(SearchAttributeKey.for_bool(names.WAITING_ATTRIBUTE), False),
        ]
    )


async def _memo(execution: WorkflowExecution) -> RunMemo | None:
    """Return a run's memo. None if no worker has started the run yet."""
    try:
        memo: RunMemo | None = await execution.memo_value(names.RUN, None, type_hint=RunMemo)
    except (LookupError, TypeError, ValueError, RuntimeError):
        # Another program's memo, or one with a codec.
        return None
    return memo


def failed_result(error: BaseException) -> RunResult | None:
    """Return the result of a run of `toolroute.run` in which no step succeeded. Return None for any other failure.

    Args:
        error: The error from `handle.result()` or `client.execute_workflow(...)`.

    Examples:
        >>> from orchestrator import failed_result
        >>> failed_result(TimeoutError()) is None
        True
    """
    cause = error.cause if isinstance(error, WorkflowFailureError) else error
    if not isinstance(cause, ApplicationError) or cause.type != StepsFailed.__name__:
        return None
    result: RunResult = TypeAdapter(RunResult).validate_json(to_json(cause.details[0]))
    return result


def page_of(pages: str, workflow_id: str) -> str:
    """Return the address of a workflow's page. Empty if `pages` is empty."""
    return f"{pages}/{quote(workflow_id, safe='')}" if pages else ""
