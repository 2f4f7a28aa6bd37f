"""How long a call may take: a server's timeout, what progress adds to it, and the call's own deadline."""

import time

import pytest

from orchestrator import Connections
from orchestrator.errors import OutcomeUnknown
from tests.servers.start import config, entry


async def test_a_calls_own_deadline_goes_before_the_servers_timeout() -> None:
    async with Connections(config(plain=entry("quick.py")), call_timeout_s=0.2) as servers:
        assert (await servers.call("plain:wait", {"seconds": 0.6}, deadline_s=30)).text == "waited"


async def test_progress_gives_a_call_more_time_ten_times_as_much_at_most() -> None:
    async with Connections(config(busy=entry("faulty.py", "busy", own={"call_timeout_s": 0.4}))) as servers:
        assert (await servers.call("busy:it", {"notices": 6})).text == "fine"
        begin = time.monotonic()
        with pytest.raises(OutcomeUnknown, match=r"busy:it was sent .*no answer within 4 s of being sent"):
            await servers.call("busy:it", {"notices": 1_000})
        assert 3.5 < time.monotonic() - begin < 8
        with pytest.raises(OutcomeUnknown, match="no answer within"):
            await servers.call("busy:it", {"notices": 1_000}, deadline_s=0.6)
