"""An embedding endpoint that hangs takes none of the threads that the rest of the process works in."""

import asyncio
import os
import threading
from collections.abc import Sequence

import numpy as np

from orchestrator import Router
from orchestrator.index.embed import Vectors
from orchestrator.options import Options
from orchestrator.records.request import RouteHint, RouteRequest
from tests.catalogues import sample

MORE_THAN_ASYNCIO_HAS = min(32, (os.cpu_count() or 1) + 4) + 2


class Hanging:
    """An endpoint's embedder that answers for the tools, and for a query only when it is released."""

    id, dimension, remote = "hanging", 8, True

    def __init__(self) -> None:
        self.release = threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        if len(texts) < 5:
            self.release.wait(50)
        return np.ones((len(texts), self.dimension), np.float32)


async def test_a_hanging_embedder_holds_up_neither_other_threads_nor_the_answers() -> None:
    embedder, request = Hanging(), RouteRequest(query="warm it up", tenant="local", route_hint=RouteHint.SEMANTIC)
    async with Router(sample(), embedder=embedder, options=Options(semantic_timeout_s=40)) as router:
        await asyncio.to_thread((await router.index("local")).semantic, embedder)
        routes = asyncio.gather(*(router.route(request) for _ in range(MORE_THAN_ASYNCIO_HAS)))
        try:
            await asyncio.sleep(0.1)
            async with asyncio.timeout(20):
                assert await asyncio.to_thread(threading.active_count)
        finally:
            embedder.release.set()
        assert all(decision.semantic_ran for decision in await routes)


async def test_a_closed_router_leaves_no_thread() -> None:
    embedder = Hanging()
    embedder.release.set()
    async with Router(sample(), embedder=embedder) as router:
        await router.route(RouteRequest(query="warm it up", tenant="local", route_hint=RouteHint.SEMANTIC))
        own = [thread for thread in threading.enumerate() if thread.name.startswith("toolroute embedding")]
        assert own
    for thread in own:
        thread.join(20)
        assert not thread.is_alive()
