"""Servers that know only the older protocol's handshake, and take any other first request amiss."""

import asyncio
import shlex
import sys
import time
from pathlib import Path

import pytest

from orchestrator import Connections
from orchestrator.errors import ServerUnavailable
from tests.servers.start import config, entry, owners, until


async def test_a_server_that_ends_over_another_first_request_is_started_once_more_and_remembered(
    tmp_path: Path,
) -> None:
    ends = tmp_path / "ends"
    curt = entry("faulty.py", "curt", COUNT_FILE=str(ends))
    async with Connections(config(curt=curt), idle_ttl_s=0.05) as servers:
        outcomes = await asyncio.gather(*(servers.call("curt:it") for _ in range(3)))
        assert [outcome.text for outcome in outcomes] == ["fine"] * 3
        assert servers.states()[0].last_error == ""
        await until(lambda: not owners())
        assert (await servers.call("curt:it")).text == "fine"
    assert ends.read_text() == "server/discover\n"
    assert owners() == []


async def test_a_server_that_does_not_answer_another_first_request_costs_that_wait_once() -> None:
    async with Connections(config(shy=entry("faulty.py", "shy")), idle_ttl_s=0.05) as servers:
        assert (await servers.call("shy:it")).text == "fine"
        await until(lambda: not owners())
        begin = time.monotonic()
        assert (await servers.call("shy:it")).text == "fine"
        assert time.monotonic() - begin < 8


async def test_a_server_that_ends_both_times_fails_with_its_last_words_of_one_start(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    ending = {"command": "sh", "args": ["-c", f"echo x >> {starts}; read request; echo no licence >&2"]}
    async with Connections(config(bad=ending), backoff_s=0.01) as servers:
        for number in (1, 2):
            with pytest.raises(ServerUnavailable, match=r"it ended before it answered; its last words: no licence$"):
                await servers.call("bad:it")
            assert starts.read_text() == "x\nx\n" * number
            await asyncio.sleep(0.1)


async def test_a_server_that_ends_before_it_reads_anything_is_started_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    waits = "import select, sys; select.select([0], [], []); sys.exit('no licence')"
    ending = {"command": "sh", "args": ["-c", f"echo x >> {starts}; {sys.executable} -c {shlex.quote(waits)}"]}
    async with Connections(config(bad=ending)) as servers:
        with pytest.raises(ServerUnavailable, match=r"it ended before it answered; its last words: no licence$"):
            await servers.call("bad:it")
        assert starts.read_text() == "x\n"
