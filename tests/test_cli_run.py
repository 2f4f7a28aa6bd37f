"""`toolroute run`, `plan` and `worker` as a user starts them: in processes of their own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.fit import Fit
from orchestrator.models import Tool
from tests.decisions import CONVERT, DELETE, NOW, READ, schema
from tests.running import SERVERS
from tests.servers.start import alive, entry

WAIT = Tool(
    server="plain",
    name="wait",
    description="Wait some seconds, then answer",
    input_schema=schema("seconds", seconds={"type": "number"}),
)


@dataclass
class Folder:
    """A user's folder with a catalogue and a config, and the Temporal server that they use."""

    path: Path
    address: str

    async def toolroute(self, *arguments: str, said: bytes = b"") -> tuple[int, str, str]:
        """Exit code, standard output, standard error; `said` is what the user types."""
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(said), 90)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "orchestrator", *arguments)
        # A suite that runs in the background ignores SIGINT or SIGHUP, and children would inherit that.
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=self.path,
            start_new_session=True,
            preexec_fn=_heed_interrupts,
        )

    async def run(self, task: str, *options: str, said: bytes = b"") -> tuple[int, Any, str]:
        shared = ("--catalogue", "tools.jsonl", "--config", "mcp.json", "--address", self.address, "-o", "json")
        code, out, err = await self.toolroute("run", task, *shared, *options, said=said)
        return code, json.loads(out) if out else None, err


def _heed_interrupts() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def folder(tmp_path: Path, temporal_address: str) -> Folder:
    lines = [json.dumps({"kind": str(tool.kind), **_listed(tool)}) for tool in (NOW, CONVERT, READ, DELETE, WAIT)]
    (tmp_path / "tools.jsonl").write_text("\n".join(lines))
    servers = {**SERVERS["mcpServers"], "plain": entry("plain.py", COUNT_FILE=str(tmp_path / "count"))}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return Folder(tmp_path, temporal_address)


def _listed(tool: Any) -> dict[str, Any]:
    wanted = ("server", "name", "description", "input_schema")
    return {name: value for name, value in asdict(tool).items() if name in wanted}


async def test_a_run_prints_its_json_and_nothing_else_on_standard_output(folder: Folder) -> None:
    code, told, err = await folder.run("What is the current time in Europe/Berlin?")
    assert code == 0, err
    assert list(told)[:5] == ["decision", "plan", "steps", "budget", "answer"]
    assert told["decision"]["recommended"] == ["time:get_current_time"]
    assert [step["status"] for step in told["steps"]] == ["done"]
    assert told["steps"][0]["tool"] == told["plan"]["steps"][0]["tool"]
    assert json.loads(told["answer"])["timezone"] == "Europe/Berlin"
    assert told["budget"]["settled"] > 0


async def test_dev_starts_a_server_of_its_own(folder: Folder) -> None:
    code, out, err = await folder.toolroute(
        *("run", "What is the current time in UTC?", "--catalogue", "tools.jsonl", "--config", "mcp.json", "--dev")
    )
    assert code == 0, err
    assert "time:get_current_time" in out
    assert "Server:" not in out
    assert '"timezone": "UTC"' in out


async def test_a_long_line_of_an_answer_is_not_broken(folder: Folder) -> None:
    told = {"server": "plain", "name": "environment", "description": "The names and values of the environment"}
    (folder.path / "tools.jsonl").write_text(json.dumps(told))
    servers = {"plain": entry("plain.py", NOTE="long " * 100)}
    (folder.path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    options = ("--catalogue", "tools.jsonl", "--config", "mcp.json", "--address", folder.address)
    code, out, err = await folder.toolroute("run", "the names and values of the environment", *options)
    assert code == 0, err
    assert "long " * 100 in out


async def test_exit_codes_tell_what_the_user_can_do(folder: Folder) -> None:
    code, told, _ = await folder.run("What is the current time?")
    assert code == 5
    assert [step["status"] for step in told["steps"]] == ["needs_input"]
    code, told, _ = await folder.run("What is the current time?", "--arg", "timezone=Asia/Tokyo")
    assert (code, told["plan"]["steps"][0]["arguments"]) == (0, {"timezone": "Asia/Tokyo"})
    code, told, _ = await folder.run("zzqx vrrm plonk")
    assert (code, told["steps"]) == (3, [])
    code, told, _ = await folder.run("Read the file a.txt")
    assert code == 1
    assert "no executor" in told["steps"][0]["reason"]
    code, told, _ = await folder.run("Read the file a.txt and get the current time")
    assert [step["status"] for step in told["steps"]] == ["failed", "needs_input"]
    assert code == 1


async def test_the_progress_of_every_step_is_told_to_its_end_while_it_runs(folder: Folder) -> None:
    code, _, err = await folder.run(
        "Wait 0.8 seconds, then what is the current time in UTC?", "--arg", "s1.seconds=0.8"
    )
    assert code == 0, err
    told = [line for line in err.splitlines() if line.startswith("s")]
    assert told[0] == "s1 plain:wait: running"
    assert {"s1 plain:wait: done", "s2 time:get_current_time: done"} <= set(told)
    assert told.index("s1 plain:wait: done") < told.index("s2 time:get_current_time: done")


async def test_the_user_is_asked_before_something_may_be_destroyed(folder: Folder) -> None:
    task = "Delete the file a.txt and delete the file b.txt"
    code, told, err = await folder.run(task, "--ask", said=b"y\nn\n")
    assert code == 1
    assert """'delete the file b.txt': may files:delete_file be called with {"path": "b.txt"}? [y/N]""" in err
    assert [step["status"] for step in told["steps"]] == ["failed", "refused"]  # nobody here deletes files
    code, told, err = await folder.run(task, "--ask")
    assert code == 1
    assert "nobody can be asked here" in err
    assert [step["status"] for step in told["steps"]] == ["refused", "refused"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run", "  "), 2, "query is empty"),
        (("run", "x", "--arg", "novalue"), 2, "NAME=VALUE"),
        (("run", "x", "--catalogue", "nowhere.jsonl"), 2, "does not exist"),
        (("run", "x", "--catalogue", "tools.jsonl", "--address", "127.0.0.1:1"), 1, "(Connection refused): start one"),
        (("run", "x", "--limit", "0"), 2, "limit=0"),
        (("run", "x", "--limit", "3", "--coverage", "0.9"), 2, "leave out --limit"),
        (("run", "x", "--calibration", "no.json", "--catalogue", "tools.jsonl"), 2, "'no.json' cannot be read"),
        (("worker", "--calibration", "no.json", "--catalogue", "tools.jsonl"), 2, "'no.json' cannot be read"),
        (("serve", "--calibration", "no.json"), 2, "'no.json' cannot be read"),
    ],
)
async def test_what_is_wrong_is_said_with_its_remedy(
    folder: Folder, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ended, out, err = await folder.toolroute(*arguments)
    assert (ended, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


async def test_what_a_plan_lacks_is_asked_for_as_it_is_to_be_given(folder: Folder) -> None:
    code, out, err = await folder.toolroute("plan", "What is the current time?", "--catalogue", "tools.jsonl")
    assert code == 0, err
    assert "--arg s1.timezone=..." in out


async def test_a_plan_is_shown_and_nothing_is_called(folder: Folder) -> None:
    task = "What is the current time in Europe/Berlin, then read the file a.txt"
    code, out, err = await folder.toolroute("plan", task, "--catalogue", "tools.jsonl", "-o", "json")
    assert code == 0, err
    steps = json.loads(out)["plan"]["steps"]
    assert [step["tool"] for step in steps] == ["time:get_current_time", "files:read_file"]
    assert steps[1]["depends_on"] == ["s1"]


async def test_what_shapes_a_route_shapes_those_of_plans_and_runs(folder: Folder) -> None:
    task = "What is the current time in UTC?"
    shaped = ("--filter", "server=files", "--route-hint", "keyword")
    _, told, err = await folder.run(task, *shaped, "--coverage", "0.9")
    assert (told["decision"]["coverage"] is not None, told["decision"]["semantic_ran"]) == (True, False), err
    assert {match["server"] for match in told["decision"]["matches"]} == {"files"}
    own = ("--catalogue", "tools.jsonl", "-o", "json", "--token-cap", "100", "--fusion", "rrf")
    _, out, err = await folder.toolroute("plan", task, *shaped, *own)
    found = json.loads(out)["decision"]
    assert {match["server"] for match in found["matches"]} == {"files"}, err
    assert (found["semantic_ran"], found["tokens"]["after"] <= 100) == (False, True)


async def test_a_fit_reaches_plans_and_runs(folder: Folder) -> None:
    Fit(floor=1.0).write(folder.path / "fit.json")
    task, fit = "What is the current time in UTC?", ("--calibration", "fit.json")
    code, told, err = await folder.run(task, *fit)
    assert (code, told["decision"]["stage"]) == (3, "none"), err
    code, out, err = await folder.toolroute("plan", task, "--catalogue", "tools.jsonl", "-o", "json", *fit)
    assert (code, json.loads(out)["decision"]["stage"]) == (3, "none"), err


@asynccontextmanager
async def served(folder: Folder, task_queue: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await folder.start(
        *("worker", "--catalogue", "tools.jsonl", "--config", "mcp.json"),
        *("--address", folder.address, "--task-queue", task_queue),
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"serves" not in (line := await process.stderr.readline()):
                assert line, "the worker ended"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_worker_serves_its_queue_and_stops_cleanly(folder: Folder, task_queue: str) -> None:
    check = ("worker", "--check", "--address", folder.address, "--task-queue", task_queue)
    assert (await folder.toolroute(*check))[0] == 1
    async with served(folder, task_queue) as worker:
        code, told, err = await folder.run("What is the current time in UTC?", "--task-queue", task_queue)
        assert code == 0, err
        assert told["steps"][0]["status"] == "done"
        assert "--catalogue, --config not used here: the workers" in err
        assert (await folder.toolroute(*check))[0] == 0
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.wait(), 30) == 0


async def test_a_run_that_nobody_serves_says_so_and_can_be_interrupted(folder: Folder) -> None:
    process = await folder.start(
        *("run", "What is the current time in UTC?", "--address", folder.address, "--task-queue", "nobody-serves-this")
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while b"no worker serves" not in (line := await process.stderr.readline()):
            assert line, "the run ended"
    process.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 130, err
    assert b"Traceback" not in err


async def test_a_terminals_interrupt_which_reaches_the_server_too_cancels_the_run(folder: Folder) -> None:
    process = await folder.start(
        *("run", "Wait 60 seconds", "--arg", "seconds=60", "--catalogue", "tools.jsonl"),
        *("--config", "mcp.json", "--dev"),
    )
    assert os.getpgid(process.pid) == process.pid
    async with asyncio.timeout(60):
        while not (folder.path / "count").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = await asyncio.wait_for(process.communicate(), 25)
    assert process.returncode == 130, err
    assert b"s1 plain:wait: outcome unknown" in err


async def test_a_terminal_that_closes_leaves_no_server_behind(folder: Folder) -> None:
    process = await folder.start(
        *(
            "run",
            "Wait 60 seconds",
            "--arg",
            "seconds=60",
            "--catalogue",
            "tools.jsonl",
            "--config",
            "mcp.json",
            "--dev",
        )
    )
    async with asyncio.timeout(60):
        while not (folder.path / "count").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    servers = await asyncio.to_thread(_children, process.pid)
    assert servers
    os.killpg(process.pid, signal.SIGHUP)
    _, err = await asyncio.wait_for(process.communicate(), 40)
    assert process.returncode == 128 + signal.SIGHUP, err
    assert not [pid for pid in servers if alive(pid)]


def _children(parent: int) -> list[str]:
    threads = Path(f"/proc/{parent}/task").glob("*/children")
    return [pid for thread in threads for pid in thread.read_text().split()]


@pytest.mark.parametrize("times", [1, 2])
async def test_an_interrupted_run_stops_its_call_and_tells_how_each_step_ended(folder: Folder, times: int) -> None:
    process = await folder.start(
        *("run", "Wait 60 seconds, then what is the current time in UTC?", "--arg", "s1.seconds=60"),
        *("--catalogue", "tools.jsonl", "--config", "mcp.json", "--address", folder.address),
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while not (folder.path / "count").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.5)
    out, err = await asyncio.wait_for(process.communicate(), 50)
    assert (process.returncode, out) == (130, b""), err
    assert b"Traceback" not in err
    if times > 1:  # whoever is in a hurry waits for no outcome
        return
    assert b"s1 plain:wait: outcome unknown" in err
    assert b"s2 time:get_current_time: cancelled" in err


async def test_a_worker_told_to_stop_lets_the_call_under_way_end(folder: Folder, task_queue: str) -> None:
    async with served(folder, task_queue) as first:
        running = asyncio.create_task(folder.run("Wait 2 seconds", "--arg", "seconds=2", "--task-queue", task_queue))
        async with asyncio.timeout(60):
            while not (folder.path / "count").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        first.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(first.wait(), 30) == 0
        async with served(folder, task_queue):
            code, told, err = await running
    assert code == 0, err
    assert told["answer"] == "waited"
    assert (folder.path / "count").read_text() == "wait\n"
