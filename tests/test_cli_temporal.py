"""The commands connect to a Temporal server by the standard variables and file, and report a missing server."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.client import Client

from examples import nexus
from orchestrator import Options, OrchestratorPlugin
from orchestrator.cli.runs.temporal import Target, connect, target
from orchestrator.errors import InvalidConfig
from tests.catalogues import EXAMPLES
from tests.command_line import Run
from tests.temporal import working
from tests.temporal_front import temporal_front
from tests.user import User

KEY = "sk-key-4711"
AWAY = "http://127.0.0.1:9"
Variables = dict[str, str]


async def started(variables: Variables, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator", *arguments),
        env={**os.environ, **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def printed(variables: Variables, *arguments: str) -> tuple[int | None, str, str]:
    """Exit code, standard output, standard error."""
    process = await started(variables, *arguments)
    out, err = await asyncio.wait_for(process.communicate(), 150)
    return process.returncode, out.decode(), err.decode()


@pytest.fixture
async def cloud(temporal_address: str, tmp_path: Path) -> AsyncIterator[Variables]:
    """The variables that lead to a server behind TLS and a key."""
    async with temporal_front(temporal_address, KEY, tmp_path) as (address, certificate):
        known = {"TEMPORAL_API_KEY": KEY, "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(certificate)}
        yield {"TEMPORAL_ADDRESS": address, **known}


@pytest.mark.slow
async def test_a_run_reaches_a_server_behind_tls_and_a_key(cloud: Variables) -> None:
    catalogue = str(EXAMPLES / "tools.jsonl")
    code, out, err = await printed(cloud, "run", "zzz qqq", "--catalogue", catalogue, "-o", "json")
    assert (code, err.count("\n"), err.startswith("run toolroute-run-")) == (3, 1, True)
    assert json.loads(out)["decision"]["stage"] == "none"
    assert KEY not in out + err


@pytest.mark.slow
async def test_the_profile_of_temporals_own_file_is_read(cloud: Variables, tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text(
        f'[profile.default]\naddress = "{cloud["TEMPORAL_ADDRESS"]}"\napi_key = "{KEY}"\n'
        f'tls.server_ca_cert_path = "{cloud["TEMPORAL_TLS_SERVER_CA_CERT_PATH"]}"\n'
    )
    _, out, err = await printed({"TEMPORAL_CONFIG_FILE": str(file)}, "doctor", "-o", "json")
    [found] = [finding for finding in json.loads(out) if finding["what"] == "temporal"]
    assert found["state"] == "works"
    assert found["detail"] == f"a server answers at {cloud['TEMPORAL_ADDRESS']} and has the namespace 'default'"
    assert KEY not in out + err


@pytest.mark.parametrize(
    ("command", "variables", "code", "said"),
    [
        (("worker",), {"TEMPORAL_NAMESPACE": "nope"}, 2, "has no namespace 'nope': use another with --namespace"),
        (("run", "x", "--namespace", "nope"), {}, 2, "has no namespace 'nope': use another with --namespace"),
        (
            ("run", "x", "--task-queue", "q"),
            {"TEMPORAL_API_KEY": "old-key"},
            1,
            "refuses access to namespace 'default'",
        ),
        (("run", "x"), {"TEMPORAL_API_KEY": ""}, 1, "refuses access to namespace 'default': check"),
    ],
)
async def test_what_the_server_refuses_is_one_line_with_the_remedy(
    cloud: Variables, tmp_path: Path, command: tuple[str, ...], variables: Variables, code: int, said: str
) -> None:
    store = {"TOOLROUTE_STORE": str(tmp_path / "store")}
    ended, out, err = await printed({**cloud, **store, **variables}, *command)
    assert (ended, out, err.count("\n")) == (code, "", 1)
    assert f"toolroute: the Temporal server at {cloud['TEMPORAL_ADDRESS']} {said}" in err
    assert "-key" not in err


@pytest.mark.parametrize(
    ("written", "variables", "said"),
    [
        (f"[profile.default]\napi_key = {KEY}", {}, "cannot be read: .*line 2"),
        ("", {"TEMPORAL_PROFILE": "prod"}, "Profile 'prod' not found; see TEMPORAL_CONFIG_FILE"),
        ("", {"TEMPORAL_ADDRESS": "http://localhost:7233"}, "'http://localhost:7233': give HOST:PORT"),
        ("", {"TEMPORAL_CONFIG_FILE": "/no.toml"}, "TEMPORAL_CONFIG_FILE='/no.toml' is not a file: name one"),
        ("\0", {}, r"temporal\.toml': not UTF-8"),
        ("", {"TEMPORAL_TLS_CLIENT_CERT_PATH": "/no.pem"}, "Temporal's settings name '/no.pem': No such file"),
    ],
)
def test_settings_that_cannot_be_read_are_reported_without_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, variables: Variables, said: str
) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text(written)
    for name, value in {"TEMPORAL_CONFIG_FILE": str(file), **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidConfig, match=said) as failed:
        target(Options.from_env())
    assert KEY not in str(failed.value)


async def test_a_server_without_tls_that_is_asked_for_it_is_an_error(temporal_address: str) -> None:
    to = Target(address=temporal_address, more={"tls": True})
    with pytest.raises(InvalidConfig, match="does not speak TLS: set TEMPORAL_TLS=false"):
        await connect(to, None)


def test_options_go_before_variables_and_these_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text('[profile.default]\naddress = "file:1"\nnamespace = "filed"\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    monkeypatch.setenv("TEMPORAL_API_KEY", KEY)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "")
    monkeypatch.delenv("TEMPORAL_NAMESPACE", raising=False)
    read = target(Options.from_env())
    assert (read.address, read.namespace, dict(read.more)) == ("file:1", "filed", {"api_key": KEY, "tls": True})
    assert KEY not in repr(read)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "variable:1")
    assert target(Options.from_env()).address == "variable:1"
    given = target(replace(Options.from_env(), temporal_address="given:1", temporal_namespace="printed"))
    assert (given.address, given.namespace) == ("given:1", "printed")


def test_a_run_asks_its_store_before_it_starts(toolroute: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    away = toolroute("run", "x", "--store", AWAY)
    assert (away.exit_code, away.stdout, away.stderr.count("\n")) == (1, "", 1)
    assert f"the store {AWAY} does not answer: " in away.stderr
    assert away.stderr.endswith("; start the server, or give another with --store or TOOLROUTE_STORE\n")
    misspelt = toolroute("run", "x", "--store", "tols")
    assert (misspelt.exit_code, misspelt.stdout) == (2, "")
    assert "store 'tols' does not exist" in misspelt.stderr


def test_a_worker_starts_without_its_store_and_says_so(
    toolroute: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    started = toolroute("worker", "--store", AWAY, "--address", "127.0.0.1:1")
    first, second = started.stderr.splitlines()
    assert f"the store {AWAY} does not answer: " in first
    assert first.endswith("Until it answers, routing waits for it")
    assert "no Temporal server answers at 127.0.0.1:1" in second


async def test_a_run_tells_what_is_tried_again_and_why(temporal_address: str, task_queue: str) -> None:
    client = await Client.connect(temporal_address, plugins=[OrchestratorPlugin(store=AWAY)])
    async with working(client, task_queue):
        process = await started({}, "run", "x", "--task-queue", task_queue, "--address", temporal_address)
        assert process.stderr is not None
        _, line = [(await asyncio.wait_for(process.stderr.readline(), 150)).decode() for _ in range(2)]
        process.kill()
        await process.communicate()
    assert line.startswith("toolroute.route failed and is retried (Ctrl-C ends the run): ")
    assert f"the store {AWAY} does not answer: " in line


@pytest.mark.slow
async def test_a_worker_takes_the_executors_of_a_module(user: User, task_queue: str) -> None:
    (user.path / "desk.py").write_text("def read(path):\n    return f'read {path}'\nOWN = {'files:read_file': read}\n")
    there = ("--address", user.address, "--organization", "1", "--task-queue", task_queue)
    working = await user.start("worker", "--catalogue", "tools.jsonl", "--executors", "desk:OWN", *there)
    try:
        code, out, err = await user.toolroute("run", "Read the file a.txt", *there, "-o", "json")
    finally:
        working.terminate()
        await working.communicate()
    assert code == 0, err
    assert json.loads(out)["steps"][0]["result"]["text"] == "read a.txt"


@pytest.mark.slow
async def test_a_worker_serves_other_namespaces_for_the_tenants_named(user: User, task_queue: str) -> None:
    (user.path / "desk.py").write_text("def read(path):\n    return f'read {path}'\nOWN = {'files:read_file': read}\n")
    there = ("--address", user.address, "--task-queue", task_queue, "--catalogue", "tools.jsonl")
    serving = await user.start("worker", *there, "--executors", "desk:OWN", "--nexus", "org:1")
    owner = await Client.connect(user.address)
    other = OrchestratorPlugin(register=False)
    desk = await Client.connect(user.address, namespace=await nexus.new_namespace(owner), plugins=[other])
    try:
        async with (
            nexus.new_endpoint(owner, task_queue) as endpoint,
            working(desk, task_queue, workflows=[nexus.Desk]),
        ):
            given = [endpoint, "org:1", "Read the file a.txt"]
            said = await desk.execute_workflow(nexus.Desk.run, args=given, id=task_queue, task_queue=task_queue)
    finally:
        serving.terminate()
        await serving.communicate()
    assert said == "read a.txt"


async def test_a_worker_refuses_to_serve_a_tenant_of_another_form(user: User) -> None:
    code, _, err = await user.toolroute("worker", "--catalogue", "tools.jsonl", "--nexus", "acme")
    assert code == 2
    assert "tenant 'acme': give an organization (org:ID)" in err


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("desk", "give MODULE:NAME, such as desk.tools:EXECUTORS"),
        ("nodesk:OWN", "cannot be imported: ModuleNotFoundError: No module named 'nodesk'"),
        ("json:NONE", "cannot be imported: AttributeError"),
        ("json:loads", "is a function: give a dict of functions by tool key"),
    ],
)
async def test_executors_that_are_no_mapping_are_said_to_be_none(user: User, named: str, said: str) -> None:
    code, _, err = await user.toolroute("worker", "--catalogue", "tools.jsonl", "--executors", named)
    assert code == 2
    assert f"--executors {named!r}" in err
    assert said in err
