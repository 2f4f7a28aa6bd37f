"""A workflow with its own approval: a query lists the calls that wait for a person, an update takes the answer.

With a Temporal server at localhost:7233, or at TEMPORAL_ADDRESS:

    python examples/own_approval.py "add a note titled 'rent'"

`ToolRouter.run` also answers to `toolroute runs show` and `toolroute runs approve`, whatever handlers a workflow has.
"""

import asyncio
import os
import sys
import uuid

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from orchestrator import Approval, Catalogue, OrchestratorPlugin, StepProgress, ToolRouter

NOTES: list[str] = []


def all_notes() -> list[str]:
    """All notes, the oldest first."""
    return NOTES


def add_note(title: str) -> str:
    """Add a note."""
    NOTES.append(title)
    return f"{title!r} is noted"


@workflow.defn
class Desk:
    @workflow.init
    def __init__(self, task: str) -> None:
        self.router = ToolRouter(tenant="org:acme")

    @workflow.run
    async def run(self, task: str) -> str:
        return (await self.router.run(task)).answer

    @workflow.query
    def questions(self) -> list[StepProgress]:
        """The steps that wait, each with its tool, the arguments of the call, and their digest."""
        progress = self.router.progress()
        return [step for step in progress.steps if step.digest] if progress else []

    @workflow.update
    def decide(self, answer: Approval) -> bool:
        """Allow or refuse one of them. False: nothing waits for this answer, or the call is another one by now."""
        return self.router.approve(answer.step, answer.allowed, digest=answer.digest)


async def main(task: str) -> None:
    plugin = OrchestratorPlugin(catalogue=Catalogue.of(all_notes, add_note, read_only=[all_notes]))
    client = await Client.connect(
        os.environ.get("TEMPORAL_ADDRESS") or "localhost:7233", plugins=[plugin]
    )
    async with Worker(client, task_queue="desk", workflows=[Desk]):
        desk = await client.start_workflow(
            Desk.run, task, id=f"desk-{uuid.uuid4().hex[:8]}", task_queue="desk"
        )
        answered = asyncio.create_task(desk.result())
        while not answered.done():
            await asyncio.wait([answered], timeout=0.5)
            for step in await desk.query(Desk.questions):
                said = await asyncio.to_thread(input, f"{step.tool} with {step.arguments}? [y/N] ")
                answer = Approval(step=step.step, digest=step.digest, allowed=said == "y")
                print("counted:", await desk.execute_update(Desk.decide, answer))
        print(await answered)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "add a note titled 'rent'"))
