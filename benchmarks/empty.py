"""An empty activity and its workflow, to measure Temporal itself. It is a separate module, because the sandbox loads
each module again.
"""

from datetime import timedelta

from temporalio import activity, workflow


@activity.defn
async def empty(text: str) -> str:
    return text


@workflow.defn
class Empty:
    """One activity that does nothing."""

    @workflow.run
    async def run(self, text: str) -> str:
        return await workflow.execute_activity(
            empty, text, start_to_close_timeout=timedelta(seconds=30)
        )
