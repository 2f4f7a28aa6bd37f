"""Timing in interleaved pairs: every contender answers each query in turn, so that a slow moment affects all equally.

Times are the process's CPU time over all threads, because wall time would include other work on the machine.
"""

import gc
import random
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
"""Milliseconds of CPU, shape [queries]."""


def interleaved(
    contenders: Mapping[str, Callable[[str], object]], queries: Sequence[str], rounds: int
) -> dict[str, Times]:
    """Return each contender's time for each query: the median of its rounds, with a random order within a query.

    Args:
        contenders: The contenders.
        queries: The queries.
        rounds: The number of rounds.
    """
    chance = random.Random(1)
    names = list(contenders)
    times = {name: np.zeros((rounds, len(queries))) for name in names}
    for contender in contenders.values():
        for query in queries[:3]:
            contender(query)
    gc.collect()
    gc.disable()
    try:
        for round_number in range(rounds):
            for number, query in enumerate(queries):
                chance.shuffle(names)
                for name in names:
                    begin = time.process_time()
                    contenders[name](query)
                    times[name][round_number, number] = (time.process_time() - begin) * 1000
            gc.collect()
    finally:
        gc.enable()
    return {name: np.median(found, axis=0) for name, found in times.items()}


def percentiles(times: Times) -> tuple[float, float, float]:
    """p50, p95, p99."""
    p50, p95, p99 = np.percentile(times, (50, 95, 99))
    return float(p50), float(p95), float(p99)


def ratio(one: Times, other: Times) -> float:
    """The median of the queries' own ratios."""
    return float(np.median(one / other))
