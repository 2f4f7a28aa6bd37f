"""What something costs: this thread's own time, which a busy machine does not add to."""

import time
from collections.abc import Callable


def seconds(do: Callable[[], object], runs: int = 1) -> float:
    """The least time of so many runs. What is done must answer with something: nothing done costs no time."""
    took = []
    for _ in range(runs):
        began = time.thread_time()
        assert do()
        took.append(time.thread_time() - began)
    return min(took)
