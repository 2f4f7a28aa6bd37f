"""Syncing: lists a tenant's servers and stores their tools, from a workflow or a schedule."""

from typing import Any

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.working import Activities, working
from orchestrator.records import durable_names as names
from orchestrator.records.call import SyncRequest
from orchestrator.temporal.payload import read_input


class SyncingActivities(Activities):
    """Over the worker's store and the tenant's servers."""

    @activity.defn(name=names.SYNC_CATALOGUE)
    async def sync_catalogue(self, request: RawValue) -> dict[str, Any]:
        """Return what `toolroute tools sync -o json` prints for a SyncRequest; it may run again at any time."""
        async with working():
            asked = read_input(request, SyncRequest)
            asked.validate()
            return (await self.resources.sync(asked)).to_json()
