"""A model of the Store on two replicas of a Qdrant server: writers that interleave at each request, crash and stall.

`TOOLROUTE_EXAMPLES=2000` in the environment makes it look further than it does in each run of the tests.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx2
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from orchestrator import Store
from orchestrator.errors import StoreUnavailable
from orchestrator.store.qdrant.points import QdrantPoints
from orchestrator.store.qdrant.rest import Connections, Rest
from orchestrator.store.tools import manifest_records
from orchestrator.store.tools.manifest import Changes, Manifest
from tests.catalogues import tool
from tests.qdrant_front import Engine
from tests.qdrant_replicas import Cluster, Crash, Writer

TENANT, SERVERS = "org:1", ("a", "b")
TOOLS = st.dictionaries(st.sampled_from(("x", "y", "z")), st.integers(0, 1), max_size=3)
Content = dict[str, dict[str, str]]
_LATER = 1 << 30
CLUSTER = Cluster()
ONE = {id(engine): CLUSTER.direct((engine,)) for engine in CLUSTER.engines}
BOTH = CLUSTER.direct(CLUSTER.engines)


class Lengths:
    """An embedder of two dimensions, because no search here depends on the order of results."""

    id, dimension, remote = "lengths", 2, False

    def embed(self, texts: Sequence[str], *_: Any, **__: Any) -> Any:
        return np.array([[1.0, len(text)] for text in texts], np.float32)


def definitions(server: str, editions: dict[str, int]) -> list[Any]:
    return [tool(f"{server}:{name}", f"Edition {edition} of {name}") for name, edition in sorted(editions.items())]


class Write:
    """A write of a server's tools (None: the server goes), or of all that the tenant has (`servers` of both)."""

    def __init__(self, begin: int, given: dict[str, dict[str, int] | None]) -> None:
        self.begin, self.end, self.failed = begin, _LATER, False
        self.hashes = {
            server: {} if own is None else {one.name: one.hash for one in definitions(server, own)}
            for server, own in given.items()
        }


class StoreModel(RuleBasedStateMachine):
    """At each step, the tools that a replica's manifest names exist. `teardown` checks the end: each server has the
    tools of a last write, and nothing else is left.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cluster, self.clock, self.moment = CLUSTER, SimpleNamespace(now=1e9), 0
        self.cluster.clear()
        self.patch = pytest.MonkeyPatch()
        time = SimpleNamespace(time=lambda: self.clock.now, sleep=lambda _: None, monotonic=lambda: 0.0)
        tools = ("reader", "writer", "manifest_records", "tool_records", "drafts", "tool_points")
        for module in ("listing_records", *(f"tools.{name}" for name in tools)):
            self.patch.setattr(f"orchestrator.store.{module}.time", time)
        for wait in ("FIRST_WAIT_S", "LONGEST_WAIT_S"):
            self.patch.setattr(f"orchestrator.store.qdrant.retries.{wait}", 0.0)
        self.patch.setattr("orchestrator.store.tools.writer._BATCH", 1)
        self.patch.setattr("orchestrator.store.tools.tool_points._CHUNK", 2)
        self.live: list[tuple[Writer, Write]] = []
        self.history = list[Write]()
        self.torn = False
        """A drop and a write were under way together: either may win, and only the next import makes all right."""

    # --- what happens

    @precondition(lambda self: len(self.live) < 3)
    @rule(server=st.sampled_from(SERVERS), editions=TOOLS | st.none())
    def write(self, server: str, editions: dict[str, int] | None) -> None:
        def do(store: Store) -> Any:
            given = None if editions is None else definitions(server, editions)
            return store.replace_servers(TENANT, {server: given})[server]

        self._start({server: editions}, do)

    @precondition(lambda self: len(self.live) < 3)
    @rule(often=st.integers(0, 3))
    def drop(self, often: int) -> None:
        if not often:
            self._start(dict.fromkeys(SERVERS), lambda store: store.drop(TENANT))

    @precondition(lambda self: self.live)
    @rule(which=st.integers(0, 2), steps=st.integers(1, 12), replica=st.integers(0, 3))
    def go_on(self, which: int, steps: int, replica: int) -> None:
        """Let a writer make some steps. `replica` 2 and 3: at each replica in turn."""
        writer = self._one(which)
        for step in range(steps):
            if not writer.ended:
                writer.step(replica if replica < 2 else (replica + step) % 2)
                self.named_tools_are_there()
        self._end()

    @precondition(lambda self: self.live)
    @rule(which=st.integers(0, 2), replica=st.integers(0, 1))
    def go_on_to_the_end(self, which: int, replica: int) -> None:
        self.go_on(which, 1_000, replica)

    @precondition(lambda self: len(self.live) > 1)
    @rule(steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=4, max_size=40))
    def interleave(self, steps: list[tuple[int, int]]) -> None:
        for which, replica in steps:
            if self.live:
                self.go_on(which, 1, replica)

    @precondition(lambda self: self.live)
    @rule(which=st.integers(0, 2), how=st.sampled_from(("crash", "lose_answer", "be_late", "", "", "")))
    def disturb(self, which: int, how: str) -> None:
        if how:
            getattr(self._one(which), how)()
            self._end()

    @precondition(lambda self: self.cluster.late)
    @rule(which=st.integers(0, 5), replica=st.integers(0, 1))
    def land(self, which: int, replica: int) -> None:
        late = self.cluster.late.pop(which % len(self.cluster.late))
        while not self.cluster.apply(late, replica):
            pass

    @precondition(lambda self: not self.live and not self.cluster.late)
    @rule()
    def two_days_pass(self) -> None:
        self.clock.now += 2 * 86_400

    # --- what must hold

    @invariant()
    def named_tools_are_there(self) -> None:
        for engine in () if self.torn else self.cluster.engines:
            owner, points = self._owner(engine), self._points(engine)
            ids = [point for point, *_ in owner.points()]
            assert len(points.get(owner.collection, ids, payload=False)) == len(ids), "named tools are gone"

    def teardown(self) -> None:
        try:
            self._let_all_end()
            if self.torn:
                with self._store(BOTH) as store:
                    store.drop(TENANT)
            else:
                self._check_content()
            self._check_one_more_import()
        finally:
            for writer, _ in self.live:
                writer.crash()
            self.patch.undo()

    def _let_all_end(self) -> None:
        while self.cluster.late:
            self.land(0, 0)
        while self.live:
            self.go_on(0, 1_000, 2)
        self.named_tools_are_there()

    def _check_content(self) -> None:
        contents = [self._content(engine) for engine in self.cluster.engines]
        assert contents[0] == contents[1], "replicas differ"
        for server in SERVERS:
            assert contents[0].get(server, {}) in self._possible(server), "a write is lost, or one that failed is back"

    def _check_one_more_import(self) -> None:
        given = {"a": {"x": 0, "y": 0}, "b": {"z": 1}}
        for _ in range(2):  # The second one finds what has become old since.
            with self._store(BOTH) as store:
                store.replace_servers(TENANT, {server: definitions(server, own) for server, own in given.items()})
            self.clock.now += 2 * 86_400
        wanted = Write(0, {**given}).hashes
        for engine in self.cluster.engines:
            assert self._content(engine) == wanted
            with self._store(ONE[id(engine)]) as store:
                stored = store.load(TENANT)
            assert (len(stored.tools), stored.damaged) == (3, "")
            left = [one.payload["key"] for name in self._collections(engine) for one in self._points(engine).find(name)]
            assert sorted(left) == ["a:x", "a:y", "b:z"], "points are left that nothing names"

    # --- how

    def _start(self, given: dict[str, dict[str, int] | None], do: Any) -> None:
        def work() -> Any:
            with self._store(self.cluster.client) as store:
                return do(store)

        self.moment += 1
        write = Write(self.moment, given)
        self.history.append(write)
        drops = len(given) > 1 or any(len(other.hashes) > 1 for _, other in self.live)
        self.torn |= bool(self.live or self.cluster.late) and drops
        self.live.append((Writer(self.cluster, work, self._watched), write))
        self._end()

    def _one(self, which: int) -> Writer:
        return self.live[which % len(self.live)][0]

    def _end(self) -> None:
        self.moment += 1
        for writer, write in [one for one in self.live if one[0].ended]:
            self.live.remove((writer, write))
            if writer.error is None:
                write.end = self.moment
                self._check_told(writer, write)
                continue
            write.failed = True
            if not isinstance(writer.error, Crash | StoreUnavailable):
                raise writer.error

    def _check_told(self, writer: Writer, write: Write) -> None:
        if writer.result is None:
            return
        told = {*writer.result.new, *writer.result.changed}
        (server,) = write.hashes
        for before, after in writer.seen:
            was, now = before.get(server, {}), after.get(server, {})
            assert {name for name in now if now[name] != was.get(name)} <= told, "told `same` of what it wrote"

    def _possible(self, server: str) -> list[dict[str, str]]:
        """Return the tools that the server may have now: those of each write after which no other successful write
        began.
        """
        own = [write for write in self.history if server in write.hashes]
        last = max((write.begin for write in own if not write.failed), default=0)
        first: list[dict[str, str]] = [{}] if not last or not [w for w in own if not w.failed] else []
        return [*first, *(write.hashes[server] for write in own if write.end > last)]

    def _watched(self, engine: Engine) -> Content:
        return {} if self.torn else self._content(engine)

    def _content(self, engine: Engine) -> Content:
        return {server: {**own} for server, own in self._owner(engine).seen(None).tools.items() if own}

    def _owner(self, engine: Engine) -> Manifest:
        if not engine.client.collection_exists(manifest_records.CATALOGUES):
            return Manifest(tenant=TENANT)
        return manifest_records.owned(self._points(engine), TENANT)

    def _points(self, engine: Engine) -> QdrantPoints:
        connections = Connections("http://replicas", "", 1)
        connections._client = ONE[id(engine)]
        return QdrantPoints(Rest(connections), TENANT)

    def _collections(self, engine: Engine) -> list[str]:
        names = [one.name for one in engine.client.get_collections().collections]
        return [name for name in names if name.startswith("tool_capabilities")]

    @contextmanager
    def _store(self, client: httpx2.Client) -> Iterator[Store]:
        store = Store("http://replicas", embedder=Lengths())
        store.backend._connections._client = client  # type: ignore[attr-defined]
        yield store


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_server_of_two_replicas_loses_nothing() -> None:
    more = int(os.environ.get("TOOLROUTE_EXAMPLES", "0"))
    checked = settings(
        max_examples=more or 20,
        stateful_step_count=40,
        derandomize=not more,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink] if more else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(StoreModel, settings=checked)


@contextmanager
def _modelled() -> Iterator[StoreModel]:
    model = StoreModel()
    try:
        yield model
    finally:
        model.teardown()


def _swap(writer: Writer) -> None:
    """Let a writer continue until its manifest is in force, before it knows that."""
    for strong in (False, True):
        while writer.asked is not None and writer.asked.strong is strong:
            writer.step(0)


def test_a_writer_that_another_one_follows_at_once_knows_that_its_own_write_was_done() -> None:
    with _modelled() as model:
        model.write(server="a", editions={"x": 0})
        first, _ = model.live[0]
        _swap(first)
        model.write(server="b", editions={"z": 0})
        model.go_on_to_the_end(which=1, replica=0)
        model.go_on_to_the_end(which=0, replica=0)
        assert first.result == Changes(new=("x",))


def test_a_tool_that_comes_back_stays_though_another_writer_sweeps_what_was_left_of_it() -> None:
    with _modelled() as model:
        for editions in ({"x": 0, "y": 0}, {"y": 0}):  # The point of `x` stays for a day.
            model.write(server="a", editions=editions)
            model.go_on_to_the_end(which=0, replica=0)
        model.two_days_pass()
        model.write(server="b", editions={"z": 0})
        sweeper, _ = model.live[0]
        _swap(sweeper)
        model.write(server="a", editions={"x": 0, "y": 0})
        model.go_on_to_the_end(which=1, replica=0)
        model.go_on_to_the_end(which=0, replica=0)
        assert (sweeper.ended, sweeper.error) == (True, None)
        assert {*model._content(CLUSTER.engines[0])["a"]} == {"x", "y"}
