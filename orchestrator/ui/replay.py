"""Replay: shows the effect of another pipeline or catalogue on past tasks."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.errors import InvalidInput
from orchestrator.evaluate import replay_decisions as replaying
from orchestrator.pipeline.presets import PRESETS
from orchestrator.runtime.router import Router
from orchestrator.ui.page import page
from orchestrator.ui.scope import Scope

_MOST = 200
"""The number of latest tasks that are routed again."""
_SHOWN = 30


async def form(request: Request) -> Response:
    """Show the form for the change."""
    return _page(request, None)


async def replay(request: Request, form: FormData) -> Response:
    """Route past tasks again and show the gained and lost tools."""
    scope = Scope.of(request)
    pipeline, catalogue = str(form.get("pipeline", "")), str(form.get("catalogue", "")).strip()
    if pipeline not in PRESETS:
        raise InvalidInput(f"pipeline {pipeline!r}: choose {', '.join(PRESETS)}")
    if not scope.stores:
        raise InvalidInput("past tasks are kept in a store: start `toolroute ui` without --catalogue, or with --store")
    tasks = replaying.tasks_of(await asyncio.to_thread(scope.outcomes))[-_MOST:]
    still = replace(scope.options, experience="off")
    where: dict[str, Any] = {"catalogue": Path(catalogue)} if catalogue else {"stores": scope.stores}
    async with AsyncExitStack() as stack:
        before = await stack.enter_async_context(Router(stores=scope.stores, options=still))
        after = await stack.enter_async_context(Router(**where, options=replace(still, pipeline=pipeline)))
        found = await replaying.replay_all(tasks, before, after, scope.tenant, lambda *_: None)
    return _page(request, found, pipeline, catalogue)


def _page(
    request: Request, found: list[replaying.Replayed] | None, pipeline: str = "", catalogue: str = ""
) -> Response:
    summary = None if found is None else replaying.summary(found)
    changed = [one for one in found or () if one.lost or one.gained or one.moved][:_SHOWN]
    chosen: dict[str, Any] = {"pipeline": pipeline or Scope.of(request).options.pipeline, "catalogue": catalogue}
    return page(request, "replay.html", presets=PRESETS, summary=summary, changed=changed, **chosen)
