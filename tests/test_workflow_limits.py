"""What a run's limits keep it from, on a real Temporal server."""

from temporalio.client import Client

from orchestrator.records.budget import Limits
from tests.runner import Runner, statuses
from tests.running import Desk, plugin_over
from tests.temporal import working
from tests.test_workflow_model import assisted


async def test_a_step_whose_arguments_leave_no_room_for_its_result_is_not_called(
    temporal_address: str, task_queue: str
) -> None:
    desk = Desk()
    client = await Client.connect(temporal_address, plugins=[plugin_over(desk)])
    async with working(client, task_queue):
        result, _ = await Runner(client, task_queue, desk).run(
            "Add a note titled 'x'", arguments={"s1.body": "word " * 400}, limits=Limits(max_tokens_per_step=600)
        )
    assert statuses(result) == ["refused"]
    assert result.steps[0].reason.startswith(
        "budget: of the 600 tokens that a step may take, the arguments of s1 leave"
    )
    assert desk.calls == []
    assert result.budget.settled == 0


async def test_where_no_step_may_start_no_model_is_paid_for_a_plan(temporal_address: str, task_queue: str) -> None:
    async with assisted(temporal_address, task_queue, []) as at:
        result, _ = await at.run("Read the file a.txt", limits=Limits(max_total_tokens=1))
    assert at.model.asked == []
    assert statuses(result) == ["refused"]
    assert result.warnings == ("decided without a model: the run's limits let no step start",)
