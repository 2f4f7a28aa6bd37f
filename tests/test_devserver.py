import asyncio
import socket
import sys

import pytest

from orchestrator import Options
from orchestrator.cli.runs.temporal import connect, temporal_server
from orchestrator.testing import dev_server
from tests.waiting import until


async def test_an_address_that_is_set_is_used_and_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "temporal.example:7233")
    async with dev_server() as address:
        assert address == "temporal.example:7233"


async def test_a_server_answers_on_loopback_keeps_quiet_and_is_gone_afterwards(
    temporal_address: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    async with temporal_server(Options(temporal_namespace="desk.a1b2c"), dev=True) as to:
        host, _, port = to.address.rpartition(":")
        assert (host, to.namespace) == ("127.0.0.1", "desk.a1b2c")
        await connect(to)
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection(host, int(port))
    assert capfd.readouterr().out == ""


SERVE = """
import asyncio
from orchestrator.testing import dev_server

async def main():
    async with dev_server() as address:
        print(address, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_server_does_not_outlive_a_process_that_is_killed(
    temporal_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVE, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    host, _, port = (await process.stdout.readline()).decode().strip().rpartition(":")
    process.kill()
    await process.communicate()

    def is_gone() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) != 0

    await until(is_gone)
