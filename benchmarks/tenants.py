"""Measures the effect of other tenants on a folder store: a first read alone, among many, and by eight processes at
once.

python -m benchmarks.tenants [--tenants 1000]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from orchestrator import Options, Store, Tool
from orchestrator.index.embedders.by_name import embedder_for

ROUNDS = 21
READER = """
import sys
from orchestrator.index.embedders.by_name import embedder_for
from orchestrator.options import Options
from orchestrator.store.store import Store

Store(sys.argv[1], embedder=embedder_for(Options())).load(sys.argv[2])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=1000)
    tenants = parser.parse_args().tenants
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "store"
        store = Store(place, embedder=embedder_for(Options()))
        _fill(store, "org:a", 200)
        alone, small = _read(store), _unknown(store)
        print(
            f"alone: a first read of 200 tools {alone:.1f} ms, of a tenant without tools {small:.1f} ms"
        )
        _fill(store, "org:b", 10_000)
        print(
            f"with a neighbour of 10,000 tools: ratio {_read(store) / alone:.2f}, {_unknown(store) / small:.2f}"
        )
        begin = time.perf_counter()
        for number in range(tenants):
            _fill(store, f"org:{number}", 50)
        print(
            f"{tenants:,} tenants of 50 tools: written at {(time.perf_counter() - begin) / tenants * 1000:.0f} ms each"
        )
        print(f"among them: ratio {_read(store) / alone:.2f}, {_unknown(store) / small:.2f}")
        print(
            f"eight processes at once: {_readers(place, 8) / _readers(place, 1):.2f} times one process"
        )


def _fill(store: Store, tenant: str, tools: int) -> None:
    store.replace_server(
        tenant, "s", [Tool(server="s", name=f"t{n}", description=f"Does {n}") for n in range(tools)]
    )


def _read(store: Store, tenant: str = "org:a") -> float:
    """Return the median milliseconds of a read by a Store that knows nothing yet."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        Store(store.location, embedder=store.embedder).load(tenant)
        times.append((time.perf_counter() - begin) * 1000)
    return median(times)


def _unknown(store: Store) -> float:
    return _read(store, "org:nobody")


def _readers(place: Path, count: int) -> float:
    begin = time.perf_counter()
    command = [sys.executable, "-c", READER, str(place), "org:a"]
    for reader in [subprocess.Popen(command) for _ in range(count)]:
        if reader.wait(120):
            raise RuntimeError(f"a reader ended with {reader.returncode}")
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
