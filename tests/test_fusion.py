"""Fusion: agreement of both legs wins, ranks are no confidence, and parts raise the tools that serve them."""

import pytest

from orchestrator import Catalogue, Fusion, Match, RouteHint, Router, RouteRequest
from orchestrator.pipeline.fusion import rrf
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
