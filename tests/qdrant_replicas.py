"""Two replicas of a Qdrant server, one request at a time. A test decides which writer is next, and which message is
lost.

Each replica applies a write with weak ordering when it arrives there, and judges the condition of an update by itself.
Writes with strong ordering go through one leader, one after the other. Both kinds are answered once both replicas have
applied them, as in Qdrant (`ShardReplicaSet::update_with_consistency`). One replica answers a read. No socket is used.
Requests and answers have the form of the HTTP protocol.
"""

import threading
from collections.abc import Callable
from typing import Any

import httpx2

from tests.qdrant_front import Answer, Engine


class Crash(BaseException):
    """The end of a writer's process."""


class Asked:
    """A request: the replicas that have yet to apply it, and its answer once there is one."""

    def __init__(self, request: httpx2.Request, engines: tuple[Engine, Engine]) -> None:
        self.method, self.path, self.body = request.method, request.url.path, request.content
        self.strong = request.url.params.get("ordering") == "strong"
        self.writes = (self.method, self.path.rpartition("/")[2]) in (("PUT", "points"), ("POST", "delete"))
        self.shared = not self.writes and self.method != "GET" and self.method != "POST"  # All nodes agree on these.
        self.left, self.answer = [*engines] if self.writes or self.shared else [], Answer

    def apply(self, engine: Engine) -> Answer:
        return engine.answer(self.method, self.path, self.body)


class Cluster:
    """The replicas. `applied` is called with a writer and a replica before and after it applies a writer's request."""

    def __init__(self) -> None:
        self.engines = (Engine(), Engine())
        self.writers: list[Writer] = []
        self.late: list[Writer] = []
        """Writers whose last request is still on its way, though nobody waits for its answer."""

        self.client = client(lambda request: threading.current_thread().send(request))  # type: ignore[attr-defined]
        """The client of all writers."""

    def clear(self) -> None:
        self.writers, self.late = [], []
        for engine in self.engines:
            engine.indexes.clear()
            for collection in engine.client.get_collections().collections:
                engine.client.delete_collection(collection.name)

    def apply(self, writer: "Writer", replica: int) -> bool:
        """Let a replica do its part of the writer's request. Return True if that was the last part.

        replica: The first replica to apply a weak write, or the replica that answers a read.
        """
        asked = writer.asked
        assert asked is not None
        if not asked.left:
            writer.answer = asked.apply(self.engines[replica])
            return True
        if asked.strong and len(asked.left) == 2:
            for other in [*self.writers, *self.late]:  # The leader orders strong writes.
                if other.asked is not None and other.asked.strong and len(other.asked.left) == 1:
                    self.apply(other, 0)
        several = len(asked.left) == 2
        engine = asked.left.pop(1 if several and (asked.strong or replica) else 0)
        before = writer.watch(engine)
        writer.answer = asked.apply(engine)
        writer.saw(engine, before)
        if asked.shared and asked.left:
            return self.apply(writer, 0)
        return not asked.left

    def direct(self, engines: tuple[Engine, ...]) -> httpx2.Client:
        """Return a client that the first of these replicas answers at once. All of them apply each write."""

        def answer(request: httpx2.Request) -> httpx2.Response:
            asked = Asked(request, self.engines)
            applied = [asked.apply(engine) for engine in (engines if asked.left else engines[:1])]
            return httpx2.Response(applied[0][0], content=applied[0][1])

        return client(answer)


def client(answer: Callable[[httpx2.Request], httpx2.Response]) -> httpx2.Client:
    return httpx2.Client(base_url="http://replicas", transport=httpx2.MockTransport(answer))


class Writer:
    """A process that writes to the cluster. It stops at each of its requests until a test lets it continue."""

    def __init__(
        self, cluster: Cluster, do: Callable[[], Any], watch: Callable[[Engine], Any] = lambda _: None
    ) -> None:
        self.cluster, self.watch = cluster, watch
        cluster.writers.append(self)
        self.asked: Asked | None = None
        self.answer: Answer | BaseException = (0, b"")
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended = False
        self.seen: list[tuple[Any, Any]] = []
        """What `watch` saw before and after each change that a request of this writer made."""
        self._blocked, self._go = threading.Semaphore(0), threading.Semaphore(0)
        thread = threading.Thread(target=self._run, args=(do,), daemon=True)
        thread.send = self._send  # type: ignore[attr-defined]
        thread.start()
        self._blocked.acquire()

    def saw(self, engine: Engine, before: Any) -> None:
        if (after := self.watch(engine)) != before:
            self.seen.append((before, after))

    def step(self, replica: int) -> None:
        """Let the cluster do a part of the request. After the last part, let the writer continue."""
        if self.cluster.apply(self, replica):
            self._resume(self.answer)

    def crash(self) -> None:
        """End the process. Its request was not sent, or the replicas that have it carry it out."""
        self._forget()
        self._resume(Crash())

    def lose_answer(self) -> None:
        """Have the request done, but not its answer."""
        while not self.cluster.apply(self, 0):
            pass
        self._resume(httpx2.ReadTimeout("timed out"))

    def be_late(self) -> None:
        """Let the writer give up waiting, while its request is still on its way."""
        late = Writer.__new__(Writer)
        late.__dict__ |= {**self.__dict__, "seen": self.seen}
        self.cluster.late.append(late)
        self._resume(httpx2.ReadTimeout("timed out"))

    def _forget(self) -> None:
        """Let all replicas apply the writes of one of them."""
        if self.asked is not None and len(self.asked.left) == 1:
            self.cluster.apply(self, 0)

    def _resume(self, answer: Answer | BaseException) -> None:
        self.answer, self.asked = answer, None
        self._go.release()
        self._blocked.acquire()

    def _run(self, do: Callable[[], Any]) -> None:
        try:
            self.result = do()
        except BaseException as error:
            self.error = error
        self.ended = True
        self._blocked.release()

    def _send(self, request: httpx2.Request) -> httpx2.Response:
        self.asked = Asked(request, self.cluster.engines)
        self._blocked.release()
        self._go.acquire()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return httpx2.Response(self.answer[0], content=self.answer[1])
