"""Replay: shows the effect of another pipeline or catalogue on past tasks."""

import asyncio
from dataclasses import replace
from pathlib import Path

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
    pipeline = str(form.get("pipeline", ""))
    catalogue = str(form.get("catalogue", "")).strip()
    if pipeline not in PRESETS:
        raise InvalidInput(f"pipeline {pipeline!r}: choose {', '.join(PRESETS)}")
    if not scope.stores:
        raise InvalidInput(
            "past tasks are kept in a store: start `toolroute ui` without --catalogue, or with --store"
        )
    tasks = replaying.tasks_of(await asyncio.to_thread(scope.outcomes))[-_MOST:]
    # Experience has the answers to these very tasks.
    options = replace(scope.options, experience="off")
    changed_options = replace(options, pipeline=pipeline)
    before = Router(stores=scope.stores, options=options)
    if catalogue:
        after = Router(Path(catalogue), options=changed_options)
    else:
        after = Router(stores=scope.stores, options=changed_options)
    async with before, after:
        replayed = await replaying.replay_all(tasks, before, after, scope.tenant, lambda *_: None)
    return _page(request, replayed, pipeline, catalogue)


def _page(
    request: Request,
    replayed: list[replaying.Replayed] | None,
    pipeline: str = "",
    catalogue: str = "",
) -> Response:
    changed = [task for task in replayed or () if task.lost or task.gained or task.moved]
    return page(
        request,
        "replay.html",
        presets=PRESETS,
        summary=None if replayed is None else replaying.summary(replayed),
        changed=changed[:_SHOWN],
        pipeline=pipeline or Scope.of(request).options.pipeline,
        catalogue=catalogue,
    )
