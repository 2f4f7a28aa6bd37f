"""Completing: one model call. Only its result enters the history, never the endpoint, the key or the prompt."""

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.working import Activities, working
from orchestrator.errors import InvalidConfig
from orchestrator.llm.complete import complete
from orchestrator.records import durable_names as names
from orchestrator.records.completion import CompleteRequest, Completion
from orchestrator.temporal.payload import read_input


class CompletingActivities(Activities):
    """Over the worker's models."""

    @activity.defn(name=names.COMPLETE)
    async def complete(self, request: RawValue) -> Completion:
        """Return what the model gave for a CompleteRequest; fail without retry on a worker that has no model."""
        async with working():
            asked = read_input(request, CompleteRequest)
            models = self.resources.models()
            if models is None:
                raise InvalidConfig("this worker has no model: set TOOLROUTE_MODEL for it, or give it models=...")
            return await complete(models, asked)
