"""The benchmarks' own arithmetic, on a small catalogue."""

from pathlib import Path

import pytest

from benchmarks import learning, peers, quality, renewal, routing
from orchestrator.evaluate.runner import Query
from orchestrator.index.calibration import shipped
from orchestrator.index.index import Index
from tests.catalogues import sample
from tests.stores import embedder_of

QUERIES = [
    Query(id="1", text="refund the charge ch_3PqX", relevant=frozenset(["stripe:refund_charge"])),
    Query(id="2", text="water the plants", relevant=frozenset(["garden:water"])),
]


@pytest.mark.parametrize("way", quality.WAYS)
async def test_each_way_of_ranking_is_measured_on_the_same_queries(way: str) -> None:
    decisions = await quality.routed(sample(), QUERIES, shipped(), embedder_of(), way)
    assert quality.recalls(quality.keys_of(decisions), QUERIES) == [(1, 1), (0, 0)]
    right, error, settled, precision, opened, area = quality.claims(decisions, QUERIES)
    assert (right, area) == (0.5, 0.75)
    assert max(error, settled, precision, opened) <= 1


def test_what_peers_found_is_kept_for_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "PEERS", {"rank-bm25": ("rank-bm25", peers.rank_bm25)})
    keep = tmp_path / "peers.json"
    first = quality.peer_recalls("sample", sample().tools, QUERIES, keep)
    monkeypatch.setattr(quality, "PEERS", {"rank-bm25": ("rank-bm25", lambda tools: pytest.fail("asked again"))})
    assert first == {"rank-bm25": [(1, 1), (0, 0)]}
    again = quality.peer_recalls("sample", sample().tools, QUERIES, keep)
    assert quality.table(["rank-bm25"], {"sample": list(again.values())}).endswith("| sample | 0.500 / 0.500 |")


def test_the_keyword_leg_alone_ranks_and_an_index_is_renewed() -> None:
    assert routing.keyword_leg(Index(sample()))(QUERIES[0].text)[0] == "stripe:refund_charge"
    table = renewal.renewal_table(sample().tools[:30])
    assert [line.count("|") for line in table.splitlines()] == [3] * 6


def test_one_small_set_has_a_table_of_what_its_past_is_worth() -> None:
    step = learning.Step(0.5, 1.0, [(0.9, True)])
    table = learning.tables({"small": {"clean": {0: step, 1_500: step}, "wrong": {1_500: step}, "unused": {}}})
    assert [line.split(" |")[0] for line in table.splitlines()[-2:]] == ["| 0", "| 1,500"]
