"""Past tasks of the tests, and routers and stores that remember them."""

import time
from pathlib import Path

from orchestrator import Catalogue, Outcome, Router, Store
from tests.catalogues import sample
from tests.stores import shipped

JARGON = [
    "do the friday thing for the board",
    "friday thing please, the board waits",
    "the board wants its friday thing again",
]
"""How a team asks for what no tool says."""


MEANT = "salesforce:query_records"


FAR_OFF = ["refund charge ch_3PqX, the customer paid twice", "take a screenshot of the open page", "book a room", "hi"]


async def taught(catalogue: Catalogue, tasks: list[str], used: str, *actors: str) -> Router:
    router = Router(catalogue)
    for number, task in enumerate(tasks):
        await router.record(task, used=[used], actor=actors[number % len(actors)] if actors else "")
    return router


def filled(store: Store) -> Store:
    """The same store, with the sample catalogue in it."""
    tools = sample()
    store.replace_servers("local", {server: tools.of_server(server) for server in tools.places})
    return store


def stored(tmp_path: Path) -> Store:
    return filled(Store(str(tmp_path / "store"), embedder=shipped()))


def outcome(number: int, **given: object) -> Outcome:
    return Outcome(**{"id": str(number), "query": f"task {number}", "used": (), "at": time.time(), **given})  # type: ignore[arg-type]
