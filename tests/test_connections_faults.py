"""Servers with faults: each fault has one outcome, no call is sent twice, and the other servers continue."""

import asyncio
import os
import signal
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Connections
from orchestrator.errors import (
    InvalidArguments,
    InvalidCatalogue,
    InvalidConfig,
    OutcomeUnknown,
    ServerUnavailable,
    ToolrouteError,
)
from orchestrator.mcp.listing.offers import Offer
from orchestrator.mcp.server_requests import Host
from tests.servers.start import alive, config, entry, owners
from tests.waiting import until

PLAIN = entry("quick.py")


def faulty(fault: str, **own: float) -> dict[str, Any]:
    return entry("faulty.py", fault, own=own)


@pytest.mark.parametrize(
    ("server", "error", "message"),
    [
        ({"command": "sh -c true"}, ServerUnavailable, "'sh ...' was not found: write only the program into command"),
        ({"command": "no-such-program"}, ServerUnavailable, "'no-such-program' was not found: install it"),
        ({"command": "true", "cwd": "/no/such/folder"}, ServerUnavailable, "working folder '/no/such/folder' does not"),
        ({"command": "/etc/passwd"}, ServerUnavailable, "cannot be run"),
        ({"command": "false"}, ServerUnavailable, "exited before it answered"),
        ({"command": "sh", "args": ["-c", "echo no licence >&2"]}, ServerUnavailable, "last stderr output: no licence"),
        ({"command": "x", "env": {"A": "${MISSING_ONE}"}}, InvalidConfig, "MISSING_ONE"),
        ({"url": "http://127.0.0.1:9/mcp"}, ServerUnavailable, "http://127.0.0.1:9 cannot be reached"),
        (faulty("mute", connect_timeout_s=1), ServerUnavailable, "not connected within 1 s"),
        (faulty("crowded"), InvalidCatalogue, "lists at least 5,001 tools, the limit is 5,000: "),
        (
            faulty("decorated"),
            InvalidCatalogue,
            "Name the needed ones in includeTools of its entry",
        ),
        pytest.param(
            faulty("endless"),
            InvalidCatalogue,
            "lists at least 501 pages of tools, the limit is 500: ",
            marks=pytest.mark.slow,
        ),
        (faulty("misshapen"), InvalidCatalogue, "its tool number 1 of its page cannot be read ("),
        (faulty("nameless"), InvalidCatalogue, "its tool '' cannot be read (name: "),
        (faulty("heavy"), ServerUnavailable, "it sent a message of more than 16 MiB"),
        (faulty("future"), ServerUnavailable, "2999-01-01"),
        (faulty("exit"), ServerUnavailable, "last stderr output: out of order"),
    ],
)
async def test_a_server_that_cannot_be_used_says_why_and_the_others_go_on(
    server: dict[str, Any], error: type[ToolrouteError], message: str
) -> None:
    async with Connections(config(bad=server, time=faulty("none"))) as servers:
        bad: object
        good: object
        bad, good = await asyncio.gather(servers.call("bad:it"), servers.call("time:it"), return_exceptions=True)
        assert type(bad) is error
        assert message in str(bad)
        assert getattr(good, "text", good) == "fine"
        state = servers.states()[0]
        assert state.state == "failed"
        assert message in state.last_error
    assert owners() == []


@pytest.mark.parametrize("fault", ["picky", "taciturn"])
async def test_a_refused_protocol_version_is_followed_by_an_accepted_one(fault: str) -> None:
    """`picky` names the versions that it supports, and `taciturn` names none."""
    async with Connections(config(old=faulty(fault))) as servers:
        assert (await servers.call("old:it")).text == "fine"


async def test_a_server_with_other_protocol_versions_is_not_tried_with_older_ones(tmp_path: Path) -> None:
    count = tmp_path / "count"
    async with Connections(config(new=entry("faulty.py", "ahead", COUNT_FILE=str(count)))) as servers:
        with pytest.raises(ToolrouteError, match="Unsupported protocol version"):
            await servers.tools("new")
    assert count.read_text() == "initialize\n"


async def test_an_unknown_protocol_version_of_an_entry_is_refused() -> None:
    async with Connections(config(old=entry("quick.py", own={"protocol_version": "2025"}))) as servers:
        with pytest.raises(InvalidConfig, match=r"protocol_version: .*'2025-11-25' or '2026-07-28'"):
            await servers.tools("old")


async def test_failures_back_off_and_all_who_wait_get_the_same_error_from_one_try(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    script = {"command": "sh", "args": ["-c", f"echo x >> {tries}; exit 1"]}
    async with Connections(config(bad=script), backoff_s=600, max_backoff_s=9_000) as servers:
        for number, wait in ((2, 600), (4, 1200)):  # Each is started again for the older handshake.
            outcomes = await asyncio.gather(*(servers.call("bad:it") for _ in range(20)), return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {ServerUnavailable}
            with pytest.raises(ServerUnavailable, match=r"next try in \d+\.\d s"):
                await servers.call("bad:it")
            assert tries.read_text() == "x\n" * number
            assert wait / 2 < (servers.states()[0].retry_in_s or 0) <= wait
            servers._servers["bad"].backoff.retry_at = 0.0


async def test_a_call_that_a_crash_loses_is_sent_again_only_if_it_reads(tmp_path: Path) -> None:
    count = tmp_path / "count"
    plain = entry("quick.py", COUNT_FILE=str(count))
    async with Connections(config(plain=plain)) as servers:
        first = (await servers.call("plain:pid")).text
        with pytest.raises(OutcomeUnknown, match="plain:crash was sent, and its answer was lost"):
            await servers.call("plain:crash")
        assert count.read_text() == "crash\n"
        second = (await servers.call("plain:pid")).text
        assert second != first
        assert not alive(first)
        count.write_text("")
        assert (await servers.call("plain:crash_once")).text == "survived"
        assert count.read_text() == "crash_once\ncrash_once\n"


async def test_a_server_killed_while_idle_is_noticed_before_the_next_call() -> None:
    async with Connections(config(plain=PLAIN)) as servers:
        pid = int((await servers.call("plain:pid")).text)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: "ended the connection" in servers.states()[0].last_error)
        assert servers.states()[0].state == "known"
        assert int((await servers.call("plain:pid")).text) != pid
        assert servers.states()[0].last_error == ""


async def test_secrets_in_last_words_are_masked() -> None:
    crash = entry("faulty.py", "crash", API_KEY="${KEY}")
    async with Connections(config(bad=crash), environ={"KEY": "s3cret-key"}) as servers:
        with pytest.raises(OutcomeUnknown, match=r"out of luck, the key was \*\*\*") as caught:
            await servers.call("bad:it")
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("fault", ["ignore", "garbage"])
async def test_a_call_that_is_not_answered_ends_at_its_deadline_and_the_server_stays(
    fault: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with Connections(config(slow=faulty(fault, call_timeout_s=0.5), plain=PLAIN)) as servers:
        await servers.call("plain:pid")
        with pytest.raises(OutcomeUnknown, match=r"slow:it was sent, .*no answer within 0.5 s of being sent"):
            await servers.call("slow:it")
        pid = (await servers.call("plain:pid")).text
        with pytest.raises(OutcomeUnknown, match="no answer within"):
            await servers.call("plain:wait", {"seconds": 30}, deadline_s=0.5)
        async with servers.using("plain") as connection:
            await until(lambda: not connection.lifetime.suspect)
        assert (await servers.call("plain:pid")).text == pid
    assert capfd.readouterr().err == ""


async def test_a_server_that_hangs_altogether_is_replaced() -> None:
    async with Connections(config(bad=faulty("hang"))) as servers:
        await servers.tools("bad")
        with pytest.raises(OutcomeUnknown):
            await servers.call("bad:it", deadline_s=0.3)
        await until(lambda: servers.states()[0].state != "ready")
        assert len(await servers.tools("bad")) == 1
    assert owners() == []


async def test_a_deadline_that_passes_while_connecting_means_nothing_was_sent() -> None:
    async with Connections(config(bad=faulty("mute"))) as servers:
        with pytest.raises(ServerUnavailable, match="within the deadline"):
            await servers.call("bad:it", deadline_s=0.3)


async def test_a_flooded_standard_error_blocks_nothing_and_stays_off_the_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with Connections(config(loud=faulty("flood"), plain=PLAIN)) as servers:
        for _ in range(20):
            assert (await servers.call("loud:it")).text == "fine"
        assert (await servers.call("plain:add", {"a": 1, "b": 1})).text == "2"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("fault", ["long", "many", "line"])
async def test_an_answer_over_the_limit_ends_its_call_and_its_server_alone(fault: str) -> None:
    reason = "it sent a message of more than 16 MiB or 500,000 values"
    async with Connections(config(bad=faulty(fault), plain=PLAIN)) as servers:
        await servers.tools("bad")
        tracemalloc.start()
        try:
            with pytest.raises(OutcomeUnknown, match=rf"bad:it was sent, and its answer was lost\. .* Cause: {reason}"):
                await servers.call("bad:it")
            assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
        finally:
            tracemalloc.stop()
        assert (await servers.call("plain:add", {"a": 1, "b": 1})).text == "2"
        assert len(await servers.tools("bad")) == 1, "it is started again"


async def test_a_definition_over_the_limit_is_refused_by_name_and_takes_no_other_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Connections(config(bad=faulty("wide"))) as servers:
        assert [tool.name for tool in await servers.tools("bad")] == ["it"]
        assert (await servers.call("bad:it")).text == "fine"
    assert "its tool 'wide' cannot be read (it has 294 KiB, the limit is 256 KiB) and is skipped" in caplog.text


async def test_readable_tools_that_are_included_are_counted_and_none_of_them_goes_silently() -> None:
    spoilt = faulty("spoilt")
    named = {**faulty("crowded"), "includeTools": ["tool_4999", "tool_5000"]}
    async with Connections(config(spoilt=spoilt, named=named)) as servers:
        assert len(await servers.tools("spoilt")) == 4_500
        assert [tool.name for tool in await servers.tools("named")] == ["tool_4999", "tool_5000"]


async def test_of_a_hoard_of_resources_four_mebibytes_are_read_and_no_other_list_is_shorter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    offers = list[Offer]()

    async def keep(_: str, offer: Offer) -> None:
        offers.append(offer)

    async with Connections(
        config(bad=faulty("hoard")), host=Host(on_offer=keep), connect_timeout_s=120, call_timeout_s=120
    ) as servers:
        for _ in range(2):
            await servers.offer("bad")
    sizes = len(offers[0].resources), len(offers[0].templates), len(offers[0].prompts)
    assert sizes == (69, 1, 1), "the first resource alone is larger than the limit"
    warning = "server bad: at least 132 of its resources are left out (the limit is 10,000 items and 4 MiB of them)"
    assert [record.getMessage() for record in caplog.records].count(warning) == 1


async def test_of_endless_pages_the_first_200_are_read_and_a_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    offers = list[Offer]()

    async def keep(_: str, offer: Offer) -> None:
        offers.append(offer)

    async with Connections(config(bad=faulty("leaves")), host=Host(on_offer=keep)) as servers:
        await servers.offer("bad")
    assert [len(offer.templates) for offer in offers] == [200]
    assert "only 200 of its templates are read: they stand on more than 200 pages" in caplog.text


@pytest.mark.parametrize("fault", ["notices", "flood"])
async def test_a_server_that_floods_takes_no_time_from_others(fault: str) -> None:
    async def used_by_calls() -> float:
        begin = time.process_time()
        for _ in range(30):
            assert (await servers.call("plain:add", {"a": 1, "b": 1})).text == "2"
            await asyncio.sleep(0.01)
        return time.process_time() - begin

    loud = {f"loud_{number}": faulty(fault) for number in range(3)}
    async with Connections(config(plain=PLAIN, **loud)) as servers:
        await servers.call("plain:pid")
        quiet = await used_by_calls()
        servers.warm(loud)
        await until(lambda: len(owners()) == 4)
        for _ in range(8):  # At first each may send a burst.
            if (loudly := await used_by_calls()) < 3 * quiet:
                break
        assert loudly < 3 * quiet


@pytest.mark.parametrize(
    ("fault", "said"), [("shapeless", "bad:it ran, but its answer cannot be read (content: "), ("own_code", "quota")]
)
async def test_an_answer_that_is_none_is_an_error_and_no_lost_connection(fault: str, said: str) -> None:
    async with Connections(config(bad=faulty(fault))) as servers:
        result = await servers.call("bad:it")
        assert result.is_error
        assert said in result.text
        assert servers.states()[0].state == "ready"


async def test_arguments_that_json_cannot_carry_are_refused_and_end_no_call_under_way() -> None:
    async with Connections(config(quick=PLAIN)) as servers:
        under_way = asyncio.create_task(servers.call("quick:wait", {"seconds": 0.5}))
        await servers.call("quick:pid")
        for value in ("half an emoji \ud83d", float("nan"), object()):
            with pytest.raises(InvalidArguments, match="quick:add: arguments cannot be sent as JSON"):
                await servers.call("quick:add", {"a": value, "b": 1})
        assert (await under_way).text == "waited"


async def test_a_server_that_ends_over_another_first_request_is_started_once_more_and_remembered(
    tmp_path: Path,
) -> None:
    ends = tmp_path / "ends"
    async with Connections(config(curt=entry("faulty.py", "curt", COUNT_FILE=str(ends))), idle_ttl_s=0.05) as servers:
        outcomes = await asyncio.gather(*(servers.call("curt:it") for _ in range(3)))
        assert [outcome.text for outcome in outcomes] == ["fine"] * 3
        await until(lambda: not owners())
        assert (await servers.call("curt:it")).text == "fine"
    assert ends.read_text() == "server/discover\n"
