"""Results that a history can't hold: kept whole for their tenant, read page by page, handed on by reference."""

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowFailureError
from temporalio.converter import (
    DataConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)
from temporalio.testing import ActivityEnvironment

from orchestrator.errors import InvalidInput
from orchestrator.temporal.worker.whole_results import KEPT_S, Results
from tests.my_workflow import Paging
from tests.runner import Serve
from tests.running import LocalTools, plugin_over
from tests.temporal import why_failed

LONG = "".join(f"line {number} of a long file\n" for number in range(110_000))


class Shelf(StorageDriver):
    """An external storage in memory."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def name(self) -> str:
        return "shelf"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        self.kept += [payload.SerializeToString() for payload in payloads]
        return [StorageDriverClaim(claim_data={"at": str(len(self.kept) - 1)})] * len(payloads)

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        return [Payload.FromString(self.kept[int(claim.claim_data["at"])]) for claim in claims]


def kept_in(folder: Path) -> list[Path]:
    return [*folder.rglob("results/*")]


@pytest.mark.slow
@pytest.mark.parametrize("external", [False, True], ids=["a file of the store", "external storage"])
async def test_three_megabytes_are_read_page_by_page_and_reach_another_tool_whole(
    serve: Serve, tmp_path: Path, external: bool
) -> None:
    shelf, local = Shelf(), LocalTools()
    local.padding = LONG
    settings = {}
    if external:
        settings["data_converter"] = DataConverter(external_storage=ExternalStorage(drivers=[shelf]))
    runner = await serve(plugin_over(local), Paging, client=settings)
    cut, read, pages = await runner.execute(Paging, "org:1", **settings)
    assert len(cut) < 40_000
    assert (read, int(pages)) == (sha256(f"read_file a.txt{LONG}".encode()).hexdigest(), len(LONG) // (192 * 1024) + 1)
    assert local.calls[-1] == ("add_note", {"title": "whole", "body": f"read_file a.txt{LONG}"})
    assert bool(shelf.kept) is external
    assert bool(kept_in(tmp_path)) is not external
    with pytest.raises(WorkflowFailureError) as failure:
        await runner.execute(Paging, "org:2", **settings)
    assert why_failed(failure.value.cause)[1].endswith("or use external storage")


async def test_what_is_cut_but_below_the_threshold_goes_to_the_external_storage_too(tmp_path: Path) -> None:
    """Otherwise workers on other machines could not read it."""
    shelf = Shelf()
    worker = ActivityEnvironment(client=_client(DataConverter(external_storage=ExternalStorage(drivers=[shelf]))))
    results = Results(lambda: tmp_path)
    reference = await worker.run(results.keep, "org:1", "x" * 40_000)
    assert (len(shelf.kept), kept_in(tmp_path)) == (1, [])
    assert await worker.run(results.text, "org:1", reference) == "x" * 40_000


def _client(converter: DataConverter) -> Any:
    return SimpleNamespace(data_converter=converter)


async def test_results_go_when_they_are_old_and_only_their_tenant_reads_them(tmp_path: Path) -> None:
    results = Results(lambda: tmp_path)
    old = await results.keep("org:1", "old")
    [file] = kept_in(tmp_path)
    assert file.stat().st_mode & 0o077 == 0
    os.utime(file, (0, time() - KEPT_S - 1))
    new = await results.keep("org:1", "new\r\n")
    assert await results.text("org:1", new) == "new\r\n"
    for tenant, reference in (("org:1", old), ("org:2", new), ("org:1", "toolroute-result:../../etc/passwd")):
        with pytest.raises(InvalidInput, match="not found for"):
            await results.text(tenant, reference)


@pytest.mark.parametrize("levels", [1, 2, 3])
async def test_a_link_in_the_store_leads_no_result_outside(levels: int, tmp_path: Path) -> None:
    store = tmp_path / "store"
    results = Results(lambda: store)
    kept = await results.keep("org:1", "kept")
    [file] = kept_in(store)
    place = file.parents[levels - 1]
    elsewhere = place.rename(tmp_path / "elsewhere")
    place.symlink_to(elsewhere)
    diary = elsewhere / file.parent.relative_to(place) / "diary"
    diary.write_text("mine")
    os.utime(diary, (0, time() - KEPT_S - 1))
    with pytest.raises(OSError, match="it is a link"):
        await results.keep("org:1", "new")
    with pytest.raises(InvalidInput, match="not found for"):
        await results.text("org:1", kept)
    assert diary.read_text() == "mine"


async def test_a_link_in_place_of_a_result_is_not_read(tmp_path: Path) -> None:
    results = Results(lambda: tmp_path / "store")
    kept = await results.keep("org:1", "kept")
    [file] = kept_in(tmp_path / "store")
    file.unlink()
    (tmp_path / "diary").write_text("mine")
    file.symlink_to(tmp_path / "diary")
    with pytest.raises(InvalidInput, match="not found for"):
        await results.text("org:1", kept)
