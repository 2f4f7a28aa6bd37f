"""A task of several steps keeps to few servers, so a server's best tool speaks for its others."""

import numpy as np
import pytest

from orchestrator.records.decision import Decision
from orchestrator.records.request import Fusion, RouteHint, RouteRequest, Turn
from orchestrator.routing import ranking, search
from orchestrator.routing.outcome import ASKED_LOOSELY
from orchestrator.routing.router import Router
from orchestrator.routing.support import (
    ELSEWHERE,
    LEAST_THERE,
    LONG,
    SHORT,
    staying,
    support,
    supported,
    supported_behind_best,
)
from tests.catalogues import sample
from tests.test_cases import catalogue as cases

STORY = (
    "A customer named Bloom says they were charged twice in March. Find them, look through their payments, "
    "give back the second charge and end their plan"
)


async def routed(query: str, **given: object) -> Decision:
    async with Router(sample()) as router:
        return await router.route(RouteRequest(query=query, tenant="local", **given))  # type: ignore[arg-type]


def servers(decision: Decision) -> list[str]:
    return [match.tool.server for match in decision.matches]


def odds(chance: float) -> float:
    return chance / (1 - chance)


def strays(decision: Decision) -> float:
    """What the tools of other servers score in all."""
    return sum(match.score for match in decision.matches if match.tool.server != "stripe")


@pytest.mark.parametrize("hint", list(RouteHint))
async def test_the_tools_of_a_long_task_come_from_fewer_servers(
    hint: RouteHint, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = await routed(STORY, route_hint=hint)
    monkeypatch.setattr(search, "support", lambda servers, chances, terms: np.ones(len(chances)))
    unheard = await routed(STORY, route_hint=hint)
    assert servers(heard).count("stripe") >= servers(unheard).count("stripe")
    assert 0 < strays(heard) < strays(unheard) / 2
    first, before = heard.matches[0], unheard.matches[0]
    assert (first.tool.key, first.score, heard.confidence) == (before.tool.key, before.score, unheard.confidence)


LESS = "its server has less of what is asked"


async def test_a_tool_whose_odds_its_server_halves_tells_why_it_scores_less(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = await routed(STORY, limit=30)
    monkeypatch.setattr(search, "support", lambda servers, chances, terms: np.ones(len(chances)))
    unheard = {match.tool.key: match.score for match in (await routed(STORY, limit=50)).matches}
    told = {match.tool.key for match in heard.matches if LESS in match.why}
    lowered = {m.tool.key for m in heard.matches if odds(m.score) < ranking.LITTLE * odds(unheard[m.tool.key])}
    assert told == lowered
    assert told
    assert not any(key.startswith("stripe:") for key in told)


async def test_what_stands_for_a_reason_of_its_own_is_not_told_to_score_less() -> None:
    named = await routed(f"{STORY} with jira, then close the issue", limit=12)
    raised = [match for match in named.matches if match.tool.server == "jira" and "explicit" in match.evidence]
    assert len(raised) > 1
    assert not any(LESS in match.why for match in raised)
    assert any(LESS in match.why for match in named.matches)
    for capability, score in ((". Look it up.", 1.0), (", then google Bloom", ASKED_LOOSELY)):
        led = await routed(f"{STORY}{capability}", limit=12)
        search_web = next(match for match in led.matches if match.tool.key == "builtin:web_search")
        assert search_web.score == score
        assert LESS not in search_web.why


async def test_servers_that_have_about_as_much_of_a_task_are_not_told_to_have_less() -> None:
    tasks = "list overdue invoices, search flights, request time off, void envelope 17 and text him"
    decision = await routed(tasks, route_hint=RouteHint.KEYWORD)
    asked = {match.tool.server for match in decision.matches if match.score > 0.2}
    assert asked == {"quickbooks", "amadeus", "bamboohr", "docusign", "twilio"}
    told = [match for match in decision.matches if LESS in match.why]
    assert not asked & {match.tool.server for match in told}
    assert all(match.score < 0.02 for match in told)


async def test_a_short_task_hears_every_server_alike() -> None:
    decision = await routed("send a message to Tom")
    assert len(set(servers(decision)[:3])) > 1
    assert not any(LESS in match.why for match in decision.matches)


async def test_a_part_that_another_server_alone_would_serve_recommends_nothing() -> None:
    """ "Find them" alone is surest of a calendar's `find_free_time`."""
    decision = await routed(STORY)
    assert {key.partition(":")[0] for key in decision.recommended} == {"stripe"}


async def test_reciprocal_ranks_hear_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    decision = await routed(STORY, fusion=Fusion.RRF, route_hint=RouteHint.SEMANTIC)
    monkeypatch.setattr(search, "support", lambda servers, chances, terms: np.ones(len(chances)))
    unheard = await routed(STORY, fusion=Fusion.RRF, route_hint=RouteHint.SEMANTIC)
    assert decision.matches == unheard.matches
    assert not any(LESS in match.why for match in decision.matches)


def test_a_tool_is_lowered_by_what_its_server_lacks() -> None:
    of, chances = np.array([0, 0, 1, 2]), np.array([0.6, 0.1, 0.3, 0.0])
    said = support(of, chances, LONG)
    assert said[0] == said[1] == 1 > said[2] > said[3] > 0
    assert support(of, chances, SHORT).tolist() == [1, 1, 1, 1]
    between = support(of, chances, (SHORT + LONG) // 2)
    assert (said[2:] < between[2:]).all()
    assert (between[2:] < 1).all()
    lower = supported(chances, said)
    assert lower[:2].tolist() == chances[:2].tolist()
    assert 0 < lower[2] < chances[2]
    assert lower[2] / (1 - lower[2]) == pytest.approx(said[2] * 0.3 / 0.7)


def test_the_best_keeps_its_chance_also_where_a_part_has_a_better_server() -> None:
    chances, said = np.array([0.2, 0.5, 1.0]), np.array([1.0, 0.3, 0.1])
    assert supported_behind_best(chances[:2], said[:2]).tolist() == [0.2, 0.5]
    assert supported(chances, said)[2] == 1  # What is certain stays certain.
    assert supported_behind_best(np.zeros(0), np.zeros(0)).tolist() == []
    assert support(np.zeros(0, np.int64), np.zeros(0), LONG).tolist() == []


async def turned(query: str, *before: Turn, **given: object) -> Decision:
    async with Router(cases()) as router:
        return await router.route(RouteRequest(query=query, tenant="local", conversation=before, **given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "used", "query", "wanted"),
    [
        ("show the crm pipeline", "crm:pipeline_report", "set the Initech one to won", "crm:update_deal"),
        ("list the payments of Contoso", "payments:list_payments", "give the last one back", "payments:refund_payment"),
    ],
)
async def test_a_turn_that_says_little_stays_with_the_server_just_used(
    before: str, used: str, query: str, wanted: str
) -> None:
    without = await turned(query, Turn(text=before))
    within = await turned(query, Turn(text=before, tools=(used,)), Turn(text="Done.", role="assistant"))
    assert within.matches[0].tool.key == wanted != without.matches[0].tool.key


@pytest.mark.parametrize(
    "query",
    [
        "lock the front door",
        "book a hotel in Graz",
        "show the git log",
        "create a channel",
        "use github to merge the PR",
        "post the numbers of the monthly tables in the team channel",
    ],
)
async def test_a_change_of_topic_keeps_its_scores(query: str) -> None:
    alone = await turned(query)
    within = await turned(query, Turn(text="list the tables of the database", tools=("database:list_tables",)))
    assert within.confidence == alone.confidence
    assert within.matches[0].score == alone.matches[0].score


async def test_only_what_the_last_exchange_used_is_talked_about() -> None:
    long_ago = Turn(text="show the crm pipeline", tools=("crm:pipeline_report",))
    turns = long_ago, Turn(text="weather forecast for Paris"), Turn(text="18 degrees", role="assistant")
    asked = "show me the logs"
    assert (await turned(asked, *turns)).confidence == (await turned(asked)).confidence


def test_other_servers_fall_while_those_just_used_have_a_chance() -> None:
    there, hopeless = np.array([False, True, False]), LEAST_THERE / 2
    for best in (0.9, 0.01):  # Where all have little chance, a little is much.
        assert staying(there, best * np.array([1, 0.1, 0.2])).tolist() == [ELSEWHERE, 1.0, ELSEWHERE]
        assert staying(there, best * np.array([1, hopeless, 0.2])).tolist() == [1.0, 1.0, 1.0]
    assert staying(~there & there, np.array([0.9, 0.1, 0.2])).tolist() == [1.0, 1.0, 1.0]
    assert not len(staying(there[:0], np.zeros(0)))
