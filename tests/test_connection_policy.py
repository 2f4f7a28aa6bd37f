"""The rules of connections without any server: when one closes, when it is tried again, when a call is sent again."""

from dataclasses import dataclass

import pytest

from orchestrator.mcp.policy import Action, Backoff, Lifetime, Resend, progress_deadline, resend, surplus


def ready(idle_ttl_s: float = 300, last_used: float = 0) -> Lifetime:
    lifetime = Lifetime(idle_ttl_s)
    lifetime.last_used = last_used
    return lifetime


def test_an_unused_connection_closes_after_its_idle_time() -> None:
    lifetime = ready()
    assert lifetime.next_step(10) == (Action.WAIT, 290)
    assert lifetime.next_step(300).action is Action.CLOSE


def test_a_used_connection_stays_open_until_its_last_caller_leaves() -> None:
    lifetime = ready()
    lifetime.users = 2
    lifetime.retired = True
    assert not lifetime.usable
    assert lifetime.next_step(1_000).action is Action.WAIT
    lifetime.leave(1_000)
    lifetime.leave(1_001)
    assert lifetime.next_step(1_001).action is Action.CLOSE


def test_a_suspect_connection_is_probed_and_a_dead_one_closed() -> None:
    lifetime = ready()
    lifetime.users = 1
    lifetime.suspect = True
    assert lifetime.next_step(0).action is Action.PROBE
    lifetime.die("it exited")
    lifetime.die("later")
    assert lifetime.death == "it exited"
    assert lifetime.next_step(0).action is Action.CLOSE


def test_the_pause_after_failures_doubles_up_to_its_maximum() -> None:
    backoff = Backoff(1, 3)
    pauses = []
    for _ in range(3):
        backoff.fail(100, may_be_mended=False)
        pauses.append(backoff.retry_at - 100)
    assert pauses == [1, 2, 3]
    assert backoff.is_waiting(102)
    assert not backoff.is_waiting(103)
    backoff.succeed()
    assert not backoff.is_waiting(100)


def test_a_fault_that_a_person_may_have_mended_is_tried_at_once() -> None:
    backoff = Backoff(60, 60)
    backoff.fail(100, may_be_mended=True)
    assert backoff.failures == 1
    assert not backoff.is_waiting(100)


@dataclass
class _Open:
    name: str
    lifetime: Lifetime


def test_beyond_the_maximum_the_longest_unused_connections_close() -> None:
    used = ready(last_used=0)
    used.users = 1
    connections = [_Open("used", used), _Open("new", ready(last_used=9)), _Open("old", ready(last_used=5))]
    assert [connection.name for connection in surplus(connections, 2)] == ["old"]
    assert [connection.name for connection in surplus(connections, 0)] == ["old", "new"]
    assert surplus(connections, 3) == []


@pytest.mark.parametrize(
    ("sent", "timed_out", "replayable", "is_first", "fate"),
    [
        (False, False, False, True, Resend.AGAIN),
        (False, False, False, False, Resend.BY_CALLER),
        (True, False, True, True, Resend.AGAIN),
        (True, True, True, True, Resend.BY_CALLER),
        (True, False, False, True, Resend.NEVER),
        (True, True, False, True, Resend.NEVER),
    ],
)
def test_a_lost_call_is_sent_again_only_if_that_is_safe(
    sent: bool, timed_out: bool, replayable: bool, is_first: bool, fate: Resend
) -> None:
    assert resend(sent=sent, timed_out=timed_out, replayable=replayable, is_first=is_first) is fate


def test_progress_extends_a_call_up_to_sixty_times_its_limit() -> None:
    assert progress_deadline(at=100, begun=0, limit_s=10) == 110
    assert progress_deadline(at=595, begun=0, limit_s=10) == 600
