"""The cost of an action in this thread's own time, which a busy machine does not increase."""

import gc
import time
from collections.abc import Callable


def seconds(do: Callable[[], object], runs: int = 1) -> float:
    """Return the shortest time of these runs. The action must return a value, because no action costs no time."""
    took = []
    gc.disable()  # As timeit does: a collection goes through all that earlier tests of this process left.
    try:
        for _ in range(runs):
            began = time.thread_time()
            assert do()
            took.append(time.thread_time() - began)
    finally:
        gc.enable()
    return min(took)
