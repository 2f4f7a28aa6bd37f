"""Runs remember the tools that they used, once each, whatever is retried."""

from pathlib import Path

from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from orchestrator import OrchestratorPlugin, Outcome, Store, Use
from orchestrator.activities.activities import Activities
from orchestrator.records.outcome import RecordRequest
from tests.decisions import ALL
from tests.runner import Runner, Serve, statuses
from tests.running import SERVERS, TENANT, LocalTools
from tests.stores import by_server, shipped

CONVERTER = DataConverter.default.payload_converter


def over_store(tmp_path: Path, local: LocalTools) -> tuple[OrchestratorPlugin, Store]:
    store = Store(str(tmp_path / "tools"), embedder=shipped())
    store.replace_servers(TENANT, by_server(list(ALL)))
    plugin = OrchestratorPlugin(store=tmp_path / "tools", mcp_servers=SERVERS, executors=local.executors)
    return plugin, store


def kept(store: Store) -> tuple[Outcome, ...]:
    return store.outcomes.read(TENANT).outcomes


async def test_a_run_is_remembered_with_the_tools_that_it_called(serve: Serve, tmp_path: Path) -> None:
    local = LocalTools()
    plugin, store = over_store(tmp_path, local)
    runner: Runner = await serve(plugin)
    result, handle = await runner.run("Read the file a.txt and then add a note titled A", actor="ann")
    [outcome] = kept(store)
    assert statuses(result)[0] == "done"
    assert outcome.used[0].tool == "files:read_file" == outcome.offered[0].tool
    assert (outcome.source, outcome.chosen, outcome.actor, outcome.ok) == ("run", False, "ann", True)
    assert outcome.id.startswith(f"{handle.id}:")
    assert not [warning for warning in result.warnings if "remembered" in warning]


async def test_a_run_that_failed_does_not_speak_for_its_tools(serve: Serve, tmp_path: Path) -> None:
    local = LocalTools()

    async def fails(path: str) -> str:
        raise ApplicationError(f"{path} is gone", non_retryable=True)

    local.read_file = fails  # type: ignore[method-assign]
    plugin, store = over_store(tmp_path, local)
    result, _ = await (await serve(plugin)).run("Read the file a.txt and then add a note titled A", approve="never")
    [outcome] = kept(store)
    assert "failed" in statuses(result)
    assert (outcome.ok, outcome.worked) == (False, ())


async def test_an_outcome_that_is_recorded_again_counts_once(tmp_path: Path) -> None:
    request = RecordRequest(tenant=TENANT, query="read it", used=(Use(tool="files:read_file"),), name="run:1")
    given = RawValue(CONVERTER.to_payload(request))
    for _ in range(2):  # A worker that died before it answered, and the next one.
        plugin, store = over_store(tmp_path, LocalTools())
        activities = Activities(plugin.resources)
        async with plugin.resources.held():
            for _ in range(2):
                await ActivityEnvironment().run(activities.record_outcome, given)
    assert [outcome.id for outcome in kept(store)] == ["run:1"]


async def test_a_store_that_takes_no_outcome_costs_a_run_a_warning(serve: Serve, tmp_path: Path) -> None:
    plugin, _ = over_store(tmp_path, LocalTools())
    runner: Runner = await serve(plugin)
    await runner.run("Read the file a.txt")
    for file in list((tmp_path / "tools").rglob("experience.sqlite*")):
        file.unlink()
        file.mkdir()
    result, _ = await runner.run("Read the file a.txt")
    assert statuses(result) == ["done"]
    assert any("the outcome was not recorded" in warning for warning in result.warnings)
