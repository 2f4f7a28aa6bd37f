"""A user's own workflow, as in the README: no pass-through, no activity of theirs, fifteen lines."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

from orchestrator.errors import InvalidArguments
from orchestrator.records.budget import Limits
from orchestrator.records.call import ToolCall
from orchestrator.records.plan import Plan
from orchestrator.records.request import RouteRequest, Turn
from orchestrator.records.run import Progress, RunRequest
from orchestrator.temporal.workflow import ToolRouter


@workflow.defn
class Assistant:
    """Routes a task, calls the best tool, and reports what the whole run would say."""

    @workflow.run
    async def run(self, task: str) -> list[str]:
        router = ToolRouter(tenant="org:1", route_options={"start_to_close_timeout": timedelta(seconds=30)})
        decision = await router.route(task)
        plan = await router.plan(decision)
        step = plan.steps[0]
        told = await router.call(decision, step.tool, step.arguments, start_to_close_timeout=timedelta(seconds=20))
        result = await router.run(task)
        return [decision.recommended[0], told.text, result.answer]


@workflow.defn
class Hasty:
    """Gives the plan two seconds."""

    @workflow.run
    async def run(self, task: str) -> list[str]:
        result = await ToolRouter("org:1", plan_options={"start_to_close_timeout": timedelta(seconds=2)}).run(task)
        return [result.plan.model, result.answer, *result.warnings]


@workflow.defn
class OwnModel:
    """Calls what a model of its own chose, as that model's provider says it; a slip goes back to the model."""

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
    """Calls what the Decision does not hold, or more than a history may."""

    @workflow.run
    async def run(self, tool: str, size: int) -> str:
        router = ToolRouter("org:1")
        decision = await router.route("Read the file a.txt")
        return (await router.call(decision, tool, {"path": "x" * size})).text


@workflow.defn
class Careless:
    """Gives a run limits that are none, or a route no query."""

    @workflow.run
    async def run(self, limits: Any) -> str:
        if limits is None:
            return (await ToolRouter("org:1").route(RouteRequest(query=limits))).query
        total = Limits(max_total_tokens=limits["max_total_tokens"]) if "max_total_tokens" in limits else limits
        return (await ToolRouter("org:1").run(RunRequest(task="Read the file a.txt", limits=total))).answer


@workflow.defn
class Mistaken:
    """Gives a ToolRouter what its type hints do not allow."""

    @workflow.run
    async def run(self, mistake: str) -> None:
        router: Any = ToolRouter("org:1")
        if mistake.startswith("run"):
            await router.run({"task": "Read the file a.txt"} if mistake == "run an object" else None)
        decision = await router.route("Read the file a.txt")
        if mistake == "plan nothing":
            await router.plan(None)
        if mistake == "plan after texts":
            await router.plan(decision, conversation=["hi"])
        values = {"call with a list": ["a.txt"], "call with a date": {"path": date(2026, 1, 1)}}
        await router.call(decision, "files:read_file", values.get(mistake, {"path": Decimal("1.5")}))


@workflow.defn
class Direct:
    """Calls a tool by the activity's own name, as Temporal retries it by default."""

    @workflow.run
    async def run(self, call: ToolCall, seconds: float) -> str:
        told: dict[str, Any] = await workflow.execute_activity(
            "toolroute.call_tool", call, start_to_close_timeout=timedelta(seconds=seconds)
        )
        return str(told["text"])


@workflow.defn
class Refresh:
    """Lists a tenant's servers anew, as a schedule would."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> dict[str, Any]:
        report: dict[str, Any] = await workflow.execute_activity(
            "toolroute.sync_catalogue", request, start_to_close_timeout=timedelta(seconds=60)
        )
        return report


@workflow.defn
class Apart:
    """Runs on a worker that has no activity: all of them are those of another queue."""

    @workflow.run
    async def run(self, task: str, queue: str) -> str:
        there: workflow.ActivityConfig = {"task_queue": queue, "schedule_to_start_timeout": timedelta(seconds=20)}
        router = ToolRouter("org:1", route_options=there, plan_options=there, call_options=there)
        return (await router.run(task)).answer


SHARED = ToolRouter("org:1", route_options={"start_to_close_timeout": timedelta(seconds=30)})


@workflow.defn
class Sharing:
    """Uses a ToolRouter of its module, which all executions share where the sandbox lets the module through."""

    @workflow.run
    async def run(self, task: str) -> list[str]:
        request = RunRequest(task=task, tenant="org:1", approve_destructive=True)
        return [str(step.status) for step in (await SHARED.run(request)).steps]

    @workflow.signal
    def approve(self, step: str) -> None:
        SHARED.approve(step)

    @workflow.query(name="toolroute.progress")
    def progress(self) -> Progress | None:
        return SHARED.progress()


@workflow.defn
class Insistent:
    """Would try a call three times, or gives it a second to begin on a queue."""

    @workflow.run
    async def run(self, task: str, queue: str | None) -> list[list[str]]:
        options: workflow.ActivityConfig = {"retry_policy": RetryPolicy(maximum_attempts=3)}
        if queue:
            options = {"task_queue": queue, "schedule_to_start_timeout": timedelta(seconds=1)}
        result = await ToolRouter("org:1", call_options=options).run(task)
        return [[str(step.status), step.reason] for step in result.steps]


@workflow.defn(name="publish_report")
class Publish:
    """The child workflow that a workflow tool stands for."""

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
class FollowUp:
    """Routes and plans a task within the turns before it."""

    @workflow.run
    async def run(self, task: str, turns: list[Turn]) -> Plan:
        router = ToolRouter("org:1")
        decision = await router.route(task, conversation=turns)
        return await router.plan(decision, conversation=turns)


@workflow.defn
class Again:
    """Does the same several times: by two ToolRouters, in runs of the same task, and in what it continues as."""

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
