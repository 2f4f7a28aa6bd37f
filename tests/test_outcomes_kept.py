"""Outcomes in a store: each is stored once, by any writer and without secrets, and forgotten ones are gone."""

import asyncio
import gc
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator import Options, Router, Store, Use
from orchestrator.errors import StoreBusy
from orchestrator.store.tools.tool_points import collection_of
from tests.catalogues import keys, sample, tool
from tests.past import JARGON, MEANT, filled, outcome, stored
from tests.stores import embedder_of, shipped, smaller_model, watched_embedder
from tests.waiting import until


async def test_a_store_keeps_what_was_recorded_once_each_for_whoever_opens_it(store: Store) -> None:
    filled(store)
    async with Router(store=store) as router:
        for number, task in enumerate([*JARGON, *JARGON]):
            await router.record(task, used=[Use(tool=MEANT, ms=12.5)], name=f"run {number % 3}")
    async with Router(store=store) as later:
        decision = await later.route("friday thing for the board, now")
    kept = store.outcomes.read("local")
    assert keys(decision)[0] == MEANT
    assert [outcome.query for outcome in kept.outcomes] == JARGON
    assert kept.outcomes[0].used[0].ms == 12.5
    assert store.outcomes.forget("local", lambda outcome: outcome.query == JARGON[0]) == 1
    assert len(store.outcomes.read("local").outcomes) == 2
    assert store.outcomes.forget_all("local") == 2
    assert store.outcomes.read("local").outcomes == ()
    assert len(store.load("local").tools) == len(sample())


async def test_recording_for_many_tenants_leaves_no_locks_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", embedder=shipped())
    tenants = [f"org:{number}" for number in range(12)]
    for tenant in tenants:
        store.replace_servers(tenant, {"files": [tool("files:read", "Read a file")]})

    def locks() -> int:
        gc.collect()
        return sum(isinstance(found, asyncio.Lock) for found in gc.get_objects())

    async with Router(store=store, options=Options(cached_tenants=2)) as router:
        await router.record("read a file", used=["files:read"], tenant=tenants[0])
        before = locks()
        for tenant in tenants[1:]:
            await router.record("read a file", used=["files:read"], tenant=tenant)
        assert locks() <= before + 2


@pytest.mark.parametrize("adds", [False, True])
def test_what_two_processes_embed_again_at_the_same_time_stays(adds: bool, tmp_path: Path) -> None:
    place, model = tmp_path / "store", smaller_model(tmp_path / "model")
    own = [outcome(number) for number in range(3)]
    Store(place, embedder=shipped()).outcomes.add("local", own, shipped().embed(["a task"]).repeat(3, axis=0), 365)
    first = Store(place, embedder=embedder_of(embedder=str(model))).outcomes
    more = [outcome(3)] if adds else []

    def meanwhile() -> None:
        if adds:
            first.add("local", more, np.ones((1, 64), np.float32), 365)
        else:
            first.read("local")

    actions = [meanwhile]

    def interrupt(_: Sequence[str]) -> None:
        while actions:
            actions.pop()()

    second = Store(place, embedder=watched_embedder(interrupt, model)).outcomes
    for _ in range(2):
        assert {task.id for task in second.read("local").outcomes} >= {task.id for task in own}
    assert {task.id for task in first.read("local").outcomes} == {task.id for task in [*own, *more]}


def test_a_task_that_cannot_be_read_is_forgotten_by_what_is_known_of_it(store: Store) -> None:
    vectors = np.eye(2, shipped().dimension, dtype=np.float32)
    store.outcomes.add("local", [outcome(1, actor="ann"), outcome(2, actor="bob")], vectors, days=365)
    with store.backend.writing("local", "experience") as points:
        name = collection_of("tool_experience", shipped())
        (ann,) = [record for record in points.find(name, vectors=True) if record.payload["actor"] == "ann"]
        newer = json.dumps({**json.loads(ann.payload["outcome"]), "colour": "blue"})
        points.put(name, {ann.id: {**ann.payload, "outcome": newer}}, np.array([ann.vector]))
    for actor, gone, left in (("nobody", 0, 1), ("bob", 1, 1), ("ann", 1, 0)):
        assert store.outcomes.forget("local", lambda task, actor=actor: task.actor == actor) == gone
        assert store.outcomes.read("local").damaged == left


@pytest.mark.parametrize("tasks", [3, 70])
def test_nothing_of_what_is_forgotten_stays_on_the_disk(tasks: int, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", embedder=shipped())
    vectors = np.eye(tasks, shipped().dimension, dtype=np.float32)
    own = [outcome(0, query="swordfish", actor="ann"), *(outcome(number) for number in range(1, tasks))]
    store.outcomes.add("local", own, vectors, days=365)

    def written() -> bool:
        return any(b"swordfish" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert written()
    assert store.outcomes.forget("local", lambda task: task.actor == "ann") == 1
    assert not written()
    kept = store.outcomes.read("local")
    assert {one.id: int(row.argmax()) for one, row in zip(kept.outcomes, kept.vectors, strict=True)} == {
        str(number): number for number in range(1, tasks)
    }
    assert store.outcomes.forget("local", lambda _: True) == tasks - 1
    store.outcomes.add("local", own, vectors, days=365)
    assert store.outcomes.forget_all("local") == tasks
    assert not written()
    store.outcomes.add("local", own, vectors, days=365)
    assert len(store.outcomes.read("local").outcomes) == tasks


async def test_what_a_busy_store_refused_is_kept_when_it_is_recorded_again(tmp_path: Path) -> None:
    stored(tmp_path).close()
    store, other = (Store(tmp_path / "store", embedder=shipped(), timeout_s=0.2) for _ in range(2))
    async with Router(store=store) as router:
        await router.record(JARGON[0], used=[MEANT], name="first")
        with other.backend.writing("local", "experience"):
            tasks = [router.record(task, used=[MEANT], name=task) for task in JARGON[1:]]
            answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(answer) for answer in answers] == [StoreBusy] * len(answers)
        await router.record(JARGON[1], used=[MEANT], name=JARGON[1])
    assert {outcome.query for outcome in other.outcomes.read("local").outcomes} == {*JARGON}


async def test_what_is_recorded_while_the_past_is_read_again_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, adding, added = stored(tmp_path), asyncio.Event(), threading.Event()
    loop, add = asyncio.get_running_loop(), store.outcomes.add

    def held(*given: Any) -> None:
        loop.call_soon_threadsafe(adding.set)
        assert added.wait(60)
        add(*given)

    def known() -> list[str]:
        past = router.engine.experience.at_hand("local")
        return [task.query for task in past.tasks] if past else []

    async with Router(store=store) as router, Router(store=tmp_path / "store") as other:
        await router.record(JARGON[0], used=[MEANT])
        await other.record(JARGON[1], used=[MEANT])
        monkeypatch.setattr(store.outcomes, "add", held)
        recording = asyncio.create_task(router.record(JARGON[2], used=[MEANT]))
        await adding.wait()
        await until(lambda: known() == JARGON)
        added.set()
        await recording
        await router.engine.experience.get("local")
        assert known() == JARGON


async def test_texts_stay_out_of_the_store_where_they_are_switched_off(tmp_path: Path) -> None:
    store = stored(tmp_path)
    async with Router(store=store, options=Options(experience="no-texts")) as router:
        for task in JARGON:
            await router.record(task, used=[MEANT])
    assert {outcome.query for outcome in store.outcomes.read("local").outcomes} == {""}
    assert keys(await Router(store=store).route("friday thing for the board, now"))[0] == MEANT
    async with Router(store=store, options=Options(experience="off")) as deaf:
        assert keys(await deaf.route("friday thing for the board, now"))[0] != MEANT


async def test_no_key_or_password_of_a_task_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden-12345678")
    store = stored(tmp_path)
    task = "query the records at https://ann:swordfish9@crm.example/x with sk-hidden-12345678"
    await Router(store=store).record(task, used=[MEANT])
    [outcome] = store.outcomes.read("local").outcomes
    assert outcome.query.startswith("query the records at https://ann:")
    assert [secret for secret in ("swordfish9", "sk-hidden-12345678") if secret in outcome.query] == []


async def test_another_routers_record_is_heard_and_another_embedder_reads_the_texts_again(tmp_path: Path) -> None:
    store = stored(tmp_path)
    router = Router(store=str(tmp_path / "store"))
    await router.route("anything")
    for task in JARGON:
        await Router(store=store).record(task, used=[MEANT])
    async with asyncio.timeout(150):
        while keys(await router.route("friday thing for the board, now"))[0] != MEANT:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # It reads them behind its answers.
    other = Router(store=str(tmp_path / "store"), options=Options(embedder=str(smaller_model(tmp_path / "model"))))
    assert MEANT in keys(await other.route("friday thing for the board, now"))[:3]
