"""The merge by name: agreement wins, and ranks are no confidence."""

import numpy as np
import pytest

from orchestrator.records.request import Fusion, RouteHint, RouteRequest
from orchestrator.records.tool import Match
from orchestrator.routing.merge import merge
from orchestrator.routing.router import Router


def test_agreement_of_both_legs_never_loses_to_a_single_vote() -> None:
    keyword, semantic = np.array([0.6, 0.6, 0.0]), np.array([0.6, 0.0, 0.5])
    probability, order = merge(Fusion.WEIGHTED, keyword, semantic, keyword)
    np.testing.assert_allclose(probability, [0.6, 0.36, 0.3])
    assert order.tolist() == [0, 1, 2]


def test_ranks_order_and_never_pose_as_confidence() -> None:
    learnt = np.array([0.2, 0.9, 0.1])
    probability, order = merge(Fusion.RRF, np.array([0.9, 0.1, 0.5]), np.array([0.8, 0.2, 0.1]), learnt)
    assert probability is learnt
    assert order[0] == 0


def test_what_a_leg_has_not_found_has_one_rank_there_whatever_its_place() -> None:
    semantic = np.array([0.1, 0.2, 0.3])
    _, order = merge(Fusion.RRF, np.zeros(3), semantic, semantic)
    assert order.tolist() == [2, 1, 0]


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
    assert [match.score for match in weighted.values()] == pytest.approx([*map(voted, weighted.values())])
    assert [match.score for match in learnt.values()] != pytest.approx([*map(voted, learnt.values())])
    assert [*by_ranks] != [*learnt]
    assert all(by_ranks[key].score == learnt[key].score for key in by_ranks.keys() & learnt.keys())
