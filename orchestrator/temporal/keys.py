"""What tells the plans and calls of a workflow apart, the same in replays and resets. Deterministic.

Counted by content for the execution, not by order or by ToolRouter: on a reset what runs side by side may come in
another order, and of two ToolRouters each has a first call.
"""

import asyncio
from collections import Counter
from typing import Any
from weakref import WeakKeyDictionary

from temporalio import workflow

from orchestrator.records.digests import digest_of

_SEEN: "WeakKeyDictionary[asyncio.AbstractEventLoop, Counter[str]]" = WeakKeyDictionary()
"""Of each execution that this process holds, which has an event loop of its own."""


def occurrence(*content: Any) -> str:
    """This execution and which time it is that it has this content: what it continues as, a cron's next execution and
    a retry of the workflow have ids of their own, a reset has not."""
    digest = digest_of(*content)
    seen = _SEEN.setdefault(asyncio.get_running_loop(), Counter())
    seen[digest] += 1
    return f"{workflow.info().original_execution_run_id}:{digest}.{seen[digest]}"
