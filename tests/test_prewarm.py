"""The servers to prewarm are the most probable of the matches', and never more than wanted."""

from orchestrator import Kind, Match, Tool
from orchestrator.runtime.prewarm import servers_to_prewarm


def match(key: str, score: float, kind: Kind = Kind.MCP) -> Match:
    server, _, name = key.partition(":")
    return Match(tool=Tool(server=server, name=name, kind=kind), probability=score)


def test_servers_are_taken_by_the_chance_that_any_of_their_matches_is_right() -> None:
    matches = [match("one:a", 0.5), match("two:a", 0.4), match("two:b", 0.4), match("far:a", 0.2)]
    assert servers_to_prewarm(matches, 2) == ("two", "one")
    assert servers_to_prewarm(matches, 1) == ("two",)
    assert servers_to_prewarm(matches, 9) == ("two", "one"), "an improbable one is not worth its start"
    assert servers_to_prewarm(matches, 0) == ()


def test_what_is_called_without_a_server_starts_none() -> None:
    assert servers_to_prewarm([match("agents:plan", 0.9, Kind.AGENT)], 2) == ()
