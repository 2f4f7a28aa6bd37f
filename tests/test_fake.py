"""FakeRouting: a workflow under test gets the tools and the answers that its author wrote."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from orchestrator.errors import InvalidConfig, ToolFailed
from orchestrator.temporal.workflow.call import why_failed
from orchestrator.testing import FakeRouting
from tests.decisions import READ
from tests.my_workflow import Assistant, Staged
from tests.pages import python_of
from tests.runner import Serve, statuses

TASK = "read it"


def fake(**settings: Any) -> FakeRouting:
    return FakeRouting({TASK: [("files:read_file", {"path": "a.txt"})]}, tools=[READ], **settings)


async def test_a_users_workflow_routes_plans_calls_and_runs(serve: Serve) -> None:
    faked = fake(results={"files:read_file": {"text": "hello"}})
    runner = await serve(faked, Assistant, Staged)
    recommended, told, answer = await runner.execute(Assistant, TASK)
    assert (recommended, told) == ("files:read_file", '{"text":"hello"}')
    assert "hello" in answer
    assert [call.arguments for call in faked.calls] == [{"path": "a.txt"}] * 2
    assert [record.used[0].tool for record in faked.recorded] == ["files:read_file"]
    assert (await runner.execute(Staged, TASK)).recommended == ("files:read_file",)


async def test_runs_meet_errors_missing_arguments_and_unknown_tasks(serve: Serve) -> None:
    tasks = {TASK: [("files:read_file", {"path": 7})], "ask": ["files:read_file"], "fail": ["mail:send"]}
    runner = await serve(FakeRouting(tasks, tools=[READ], results={"mail:send": ToolFailed("no such address")}))
    for task, status, named in [
        (TASK, "failed", "path"),
        ("ask", "needs_input", "path"),
        ("fail", "failed", "no such"),
    ]:
        result, _ = await runner.run(task)
        assert statuses(result) == [status]
        assert named in result.steps[0].reason
    with pytest.raises(WorkflowFailureError) as failure:
        await runner.run("something else")
    assert why_failed(failure.value.cause) == (
        "InvalidInput",
        "FakeRouting has no tools for the task 'something else'; its tasks: ['read it', 'ask', 'fail']",
    )


def test_a_misspelt_result_is_named() -> None:
    with pytest.raises(InvalidConfig, match="'files:read_fil'; did you mean 'files:read_file'"):
        fake(results={"files:read_fil": "hello"})


@pytest.mark.slow
def test_the_test_file_of_the_page_passes(temporal_address: str, tmp_path: Path) -> None:
    [workflow, tests] = python_of("docs/how-to/temporal-testing.md")
    (tmp_path / "refunds.py").write_text(workflow, encoding="utf-8")
    (tmp_path / "test_refunds.py").write_text(tests, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "TEMPORAL_ADDRESS": temporal_address, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout
