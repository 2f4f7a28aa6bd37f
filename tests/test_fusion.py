"""Fusion: agreement of both legs wins, ranks are no confidence, and parts raise the tools that serve them."""

import numpy as np
import pytest

from orchestrator.catalogue.catalogue import Catalogue
from orchestrator.index.calibration import supported
from orchestrator.pipeline.fusion import _raised, rrf
from orchestrator.pipeline.odds import LONG, SHORT, server_support
from orchestrator.records.request import Fusion, RouteHint, RouteRequest
from orchestrator.records.tool import Match
from orchestrator.runtime.router import Router
from tests.catalogues import tool


def test_reciprocal_ranks_count_only_what_a_list_has_found() -> None:
    lists = {"bm25": {1: 8.0, 2: 4.0, 4: 0.0}, "vectors": {2: 0.5, 3: 0.25}}
    merged = rrf(k=60)(lists)
    assert merged == pytest.approx({1: 1 / 61, 2: 1 / 62 + 1 / 61, 3: 1 / 62})
    assert [*merged] == [2, 1, 3]
    assert rrf(k=60, bm25=3.0)(lists)[1] == pytest.approx(3 / 61)


async def test_a_request_is_merged_as_it_asks(router: Router) -> None:
    async def routed(fusion: Fusion | None) -> dict[str, Match]:
        query = "create an issue about the broken login page"
        request = RouteRequest(query=query, tenant="local", fusion=fusion, route_hint=RouteHint.SEMANTIC)
        matches = (await router.route(request)).matches
        return {match.tool.key: match for match in matches if "required" not in match.evidence}

    def voted(match: Match) -> float:
        legs = [match.evidence.get(leg, 0.0) for leg in ("keyword", "semantic")]
        return 0.6 * max(legs) + 0.4 * min(legs)

    weighted, learnt, by_ranks = [await routed(fusion) for fusion in (Fusion.WEIGHTED, None, Fusion.RRF)]
    assert [match.probability for match in weighted.values()] == pytest.approx([*map(voted, weighted.values())])
    assert [match.probability for match in learnt.values()] != pytest.approx([*map(voted, learnt.values())])
    assert [*weighted] != [*learnt]
    assert [*by_ranks] != [*learnt]
    scores = [match.probability for match in by_ranks.values()]
    assert scores == sorted(scores, reverse=True)


def test_a_tool_that_serves_a_part_scores_half_of_its_chance_there_and_less_than_the_best() -> None:
    chances = np.array([[0.9, 0.1, 0.8, 0.0], [0.0, 0.2, 0.0, 0.9]])
    assert _raised(np.array([0.6, 0.3, 0.1, 0.1]), chances).tolist() == pytest.approx([0.6, 0.3, 0.4, 0.45])
    raised = _raised(np.array([0.3, 0.2, 0.1, 0.1]), chances)
    assert int(raised.argmax()) == 0
    assert _raised(np.zeros(0), np.zeros((2, 0))).tolist() == []


def test_in_a_long_task_a_tool_is_lowered_by_what_its_server_lacks() -> None:
    of, chances = np.array([0, 0, 1, 2]), np.array([0.6, 0.1, 0.3, 0.0])
    said = server_support(of, chances, LONG)
    assert said[0] == said[1] == 1 > said[2] > said[3] > 0
    assert server_support(of, chances, SHORT).tolist() == [1, 1, 1, 1]
    lower = supported(chances, said)
    assert lower[:2].tolist() == chances[:2].tolist()
    assert 0 < lower[2] < chances[2]
    assert supported(np.array([1.0]), 0.1).tolist() == [1.0]  # What is certain stays certain.


async def test_an_example_in_a_description_finds_its_tool() -> None:
    texts = {
        "get_revisions": """Get the history of a page: each version with its number, its editor and a comment.
            Use when the user asks "who edited the policy page" or "show the last five versions".""",
        "get_page_info": """Get the metadata of a page without its text: size, language, protection and dates.
            Use when the user asks "when was the page last changed" or "how long is the page".""",
        "get_user_edits": """Get the pages that somebody edited, newest first, with a comment on each edit.
            Use when the user asks "what did somebody change this week" or "is this editor still active".""",
        "find_replace": """Change a text on a page and save a new version with a comment.
            Use when the user says "change the old name to the new name" or "fix the typo on the page".""",
    }
    async with Router(Catalogue([tool(f"wiki:{name}", text) for name, text in texts.items()])) as router:
        decision = await router.route("when was the handbook last changed?")
    assert decision.matches[0].tool.key == "wiki:get_page_info"
