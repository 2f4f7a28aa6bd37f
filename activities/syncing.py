"""Syncing: lists a tenant's servers and stores their tools, from a workflow or a schedule."""

from typing import Any

from temporalio import activity
from temporalio.common import RawValue

from orchestrator.activities.beating import heartbeats
from orchestrator.activities.failing import as_temporal_errors
from orchestrator.records import durable_names as names
from orchestrator.records.call import SyncRequest
from orchestrator.temporal.payload import read_request
from orchestrator.temporal.resources import Resources


class SyncingActivities:
    """Over the worker's store and the tenant's servers."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources

    @activity.defn(name=names.SYNC_CATALOGUE)
    async def sync_catalogue(self, request: RawValue) -> dict[str, Any]:
        """SyncRequest to what `toolroute tools sync -o json` prints; may run again, since a sync repeats nothing."""
        with as_temporal_errors():
            asked = read_request(request, SyncRequest)
            asked.validate()
            async with heartbeats():
                return (await self.resources.sync(asked)).to_json()
