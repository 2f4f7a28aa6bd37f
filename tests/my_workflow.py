"""Workflows of users: no pass-through, no activity of theirs."""

import asyncio
from datetime import timedelta
from hashlib import sha256
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import NexusOperationError

from orchestrator import (
    Approval,
    Decision,
    Plan,
    Progress,
    RouteRequest,
    RunRequest,
    ToolCall,
    ToolRouter,
    ToolrouteService,
    Turn,
)
from orchestrator.errors import InvalidArguments, InvalidInput
from orchestrator.temporal.workflow.call import why_failed


@workflow.defn
class Assistant:
    """Routes a task, calls the best tool, and reports the result of the whole run."""

    @workflow.run
    async def run(self, task: str) -> list[str]:
        router = ToolRouter(tenant="org:1", route_options={"start_to_close_timeout": timedelta(seconds=30)})
        decision = await router.route(task)
        plan = await router.plan(decision)
        step = plan.steps[0]
        told = await router.call(decision, step.tool, step.arguments, start_to_close_timeout=timedelta(seconds=20))
        result = await router.run(task, approve="never")
        return [decision.recommended[0], told.text, result.answer]


@workflow.defn
class Waiting:
    """Runs a task under the default policy, and receives a person's approval by its own signal."""

    @workflow.run
    async def run(self, task: str) -> list[str]:
        self.heard: list[bool] = []
        return [str(step.status) for step in (await SHARED.run(task)).steps]

    @workflow.signal
    def say(self, step: str, digest: str) -> None:
        self.heard.append(SHARED.approve(step, digest=digest))

    @workflow.query(name="toolroute.progress")
    def progress(self) -> Progress | None:
        return SHARED.progress()

    @workflow.query
    def words(self) -> list[bool]:
        return self.heard


SHARED = ToolRouter("org:1")
"""Shared by all executions where the sandbox lets this module through."""


@workflow.defn
class OwnModel:
    """Makes the calls of the user's own model, in its provider's form. An error goes back to the model."""

    @workflow.run
    async def run(self, task: str, chosen: list[dict[str, Any]]) -> list[str]:
        router, said = ToolRouter("org:1"), []
        decision = await router.route(task)
        for call in chosen:
            try:
                resolved = decision.resolve(call)
            except InvalidArguments as error:
                said.append(str(error))
            else:
                said.append((await router.call(decision, resolved.tool.key, resolved.arguments)).text)
        return said


@workflow.defn
class Stubborn:
    """Calls tools that are not in the Decision, with arguments that are too large for a history or no JSON."""

    @workflow.run
    async def run(self, tool: str, size: int) -> str:
        router = ToolRouter("org:1")
        decision = await router.route("Read the file a.txt")
        return (await router.call(decision, tool, {"path": "x" * size if size else object()})).text


@workflow.defn
class Direct:
    """Executes an activity by its own name, as Temporal retries it by default."""

    @workflow.run
    async def run(self, activity: str, given: Any, seconds: float) -> Any:
        return await workflow.execute_activity(activity, given, start_to_close_timeout=timedelta(seconds=seconds))


@workflow.defn
class Apart:
    """Runs with activities on another queue, this number of seconds for a plan, and three attempts for a call."""

    @workflow.run
    async def run(self, task: str, queue: str, calls_queue: str, plan_s: float = 60.0) -> list[list[str]]:
        there: workflow.ActivityConfig = {"task_queue": queue}
        router = ToolRouter(
            "org:1",
            route_options=there,
            plan_options={**there, "start_to_close_timeout": timedelta(seconds=plan_s)},
            call_options={
                "task_queue": calls_queue,
                "schedule_to_start_timeout": timedelta(seconds=60 if calls_queue == queue else 2),
                "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_attempts=3),
            },
        )
        result = await router.run(RunRequest(task=task, approve="never"))
        return [*([str(step.status), step.reason] for step in result.steps), [result.answer, *result.warnings]]


@workflow.defn(name="publish_report")
class Publish:
    """The child workflow behind a workflow tool."""

    @workflow.run
    async def run(self, arguments: dict[str, str]) -> dict[str, str]:
        return {"published": arguments["title"], "by": workflow.info().workflow_id}


@workflow.defn(name="publish_report")
class Patient:
    """The same, never done."""

    @workflow.run
    async def run(self, arguments: dict[str, str]) -> None:
        await workflow.wait_condition(lambda: False)


@workflow.defn
class CallPublisher:
    """Calls a tool that is a child workflow, with this number of tokens for its result."""

    @workflow.run
    async def run(self, tokens: int) -> dict[str, Any]:
        router = ToolRouter("org:1")
        decision = await router.route("Publish the report")
        tool, arguments = "reports:publish_report", {"title": "May"}
        try:
            result = await router.call(decision, tool, arguments, max_result_tokens=tokens)
        except InvalidInput as error:
            return {"error": str(error)}
        return {"truncated": result.truncated}


@workflow.defn
class FollowUp:
    """Routes and plans a task within the turns before it."""

    @workflow.run
    async def run(self, task: str, turns: list[Turn]) -> Plan:
        router = ToolRouter("org:1")
        decision = await router.route(task, conversation=turns)
        return await router.plan(decision, conversation=turns)


@workflow.defn
class Again:
    """Does the same several times: by two ToolRouters, in runs of the same task, and after continue-as-new."""

    @workflow.run
    async def run(self, task: str, executions: int) -> None:
        routers = ToolRouter("org:1"), ToolRouter("org:1")
        decision = await routers[0].route(task)
        step = (await routers[0].plan(decision)).steps[0]
        for router in routers:
            await router.call(decision, step.tool, step.arguments)
            await router.run(task)
        if executions > 1:
            workflow.continue_as_new(args=[task, executions - 1])


@workflow.defn
class Staged:
    """Routes by an activity for each stage."""

    @workflow.run
    async def run(self, task: str) -> Decision:
        return await ToolRouter("org:1").route(task, staged=True)


@workflow.defn
class Paging:
    """Reads a long file, page by page, and hands all of it to another tool by its reference."""

    @workflow.run
    async def run(self, reader: str) -> list[str]:
        router = ToolRouter("org:1")
        decision = await router.route("Read the file a.txt and add a note")
        result = await router.call(decision, "files:read_file", {"path": "a.txt"})
        pages, at = [result.text], 0
        while at is not None:
            page = await router.page(result, at, max_tokens=200_000, tenant=reader)
            pages.append(page.text)
            at = page.next
        await router.call(decision, "notes:add_note", {"title": "whole", "body": result.whole})
        return [result.text, sha256("".join(pages[1:]).encode()).hexdigest(), str(len(pages) - 1)]


@workflow.defn
class SideBySide:
    """Makes five calls at the same time, with a megabyte of arguments each, and then asks for five results as large."""

    @workflow.run
    async def run(self, size: int) -> int:
        router = ToolRouter("org:1")
        decision = await router.route("Read the file a.txt and publish the report")
        given = [{"path": str(number) * size} for number in range(5)]
        read = await asyncio.gather(*(router.call(decision, "files:read_file", one) for one in given))
        titles = [{"title": str(number) * size} for number in range(5)]
        published = await asyncio.gather(*(router.call(decision, "reports:publish_report", one) for one in titles))
        return len(read) + len(published)


@workflow.defn
class Burst:
    """Makes many calls of one tool at the same time, and returns the seconds that they took together."""

    @workflow.run
    async def run(self, tenant: str, tool: str, arguments: dict[str, str], calls: int) -> float:
        router = ToolRouter(tenant)
        decision = await router.route("Read the file a.txt and add a note")
        began = workflow.time()
        await asyncio.gather(*(router.call(decision, tool, arguments) for _ in range(calls)))
        return workflow.time() - began


@workflow.defn
class Plain:
    """Runs a task as in README, without its own handlers. Several tasks run at the same time, each for a tenant."""

    @workflow.run
    async def run(self, tasks: list[str]) -> list[str]:
        given = [task.partition("|")[::2] for task in tasks]
        runs = (ToolRouter(tenant or "org:1").run(task) for task, tenant in given)
        return [str(step.status) for result in await asyncio.gather(*runs) for step in result.steps]


@workflow.defn
class OwnHandlers:
    """Has its own handlers with toolroute's names, and its own current details."""

    @workflow.run
    async def run(self, task: str) -> list[str]:
        self.heard: list[str] = []
        workflow.set_current_details("mine")
        return [str(step.status) for step in (await SHARED.run(task)).steps]

    @workflow.query(name="toolroute.progress")
    def progress(self) -> Progress | None:
        return SHARED.progress()

    @workflow.update(name="toolroute.approve")
    def approve(self, word: Approval) -> bool:
        return SHARED.approve(word.step, digest=word.digest)


@workflow.defn
class MadeUp:
    """Makes calls through Nexus of tools that no Decision gave, and returns how each ended."""

    @workflow.run
    async def run(self, endpoint: str, calls: list[ToolCall]) -> list[list[str]]:
        toolroute = workflow.create_nexus_client(service=ToolrouteService, endpoint=endpoint)
        within, ended = timedelta(seconds=60), []
        for call in calls:
            try:
                result = await toolroute.execute_operation(
                    ToolrouteService.call, call, schedule_to_close_timeout=within
                )
                ended.append(["called", result.text])
            except NexusOperationError as error:
                ended.append(list(why_failed(error)))
        return ended


@workflow.defn
class SameKey:
    """Makes a call through Nexus twice at the same time under one key, and once more later."""

    @workflow.run
    async def run(self, endpoint: str) -> list[str]:
        toolroute = workflow.create_nexus_client(service=ToolrouteService, endpoint=endpoint)
        within = timedelta(seconds=60)
        request = RouteRequest(query="Read the file a.txt", tenant="org:1")
        decision = await toolroute.execute_operation(ToolrouteService.find, request, schedule_to_close_timeout=within)
        tool = decision.matches[0].tool
        call = ToolCall(tenant="org:1", tool=tool, arguments={"path": "a.txt"}, idempotency_key=endpoint)
        calls = (
            toolroute.execute_operation(ToolrouteService.call, call, schedule_to_close_timeout=within) for _ in range(2)
        )
        texts = [result.text for result in await asyncio.gather(*calls)]
        try:
            await toolroute.execute_operation(ToolrouteService.call, call, schedule_to_close_timeout=within)
        except NexusOperationError as error:
            texts += why_failed(error)
        return texts
