"""Mistakes in a workflow of one's own fail it with a word, where they would leave it stuck."""

import asyncio
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError

from orchestrator.temporal.call import why_failed
from tests.my_workflow import Mistaken
from tests.running import plugin_over
from tests.temporal import working


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("run an object", "request={'task': 'Read the file a.txt'}: give the task as text, or a RunRequest"),
        ("run nothing", "request=None: give"),
        ("plan nothing", "decision=None: give"),
        ("plan after texts", "a turn of the conversation='hi': give Turn"),
        ("call with a list", "arguments=['a.txt']: give an object"),
        ("call with a date", "what 'files:read_file' is given as arguments cannot be written as JSON"),
        ("call with a decimal", "what 'files:read_file' is given as arguments cannot be written as JSON"),
    ],
)
async def test_a_mistake_fails_the_workflow_at_once(
    temporal_address: str, task_queue: str, mistake: str, said: str
) -> None:
    client = await Client.connect(temporal_address, plugins=[plugin_over()])
    async with working(client, task_queue, workflows=[Mistaken]):
        handle = await client.start_workflow(Mistaken.run, mistake, id=f"mine-{uuid4().hex[:8]}", task_queue=task_queue)
        with pytest.raises(WorkflowFailureError) as failure:
            await asyncio.wait_for(handle.result(), 20)
    kind, message = why_failed(failure.value.cause or failure.value)
    assert kind == "InvalidInput"
    assert message.startswith(said)
