"""The leg that narrows: tools that fit the request's context, as much of it as leaves any."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import InvalidInput
from orchestrator.pipeline.state import Found, Task
from orchestrator.records.tool import Tool

_FROM, _TO, _UNDATED = "_from", "_to", "undated"


def narrow(task: Task, found: Found) -> Found:
    """Return the findings with only those tools allowed that fit the context.

    Where none fits all of it, the last and so least important of its wishes goes first, and a warning says so.
    """
    context = task.request.context
    wanted = [wish for wish in context.items() if wish[0] != _UNDATED]
    relaxed, undated = list[str](), context.get(_UNDATED, "in")
    if undated not in ("in", "out"):
        raise InvalidInput(f"context {_UNDATED}={undated!r}: give in or out")
    if not wanted:
        return found
    _check_bounds(task, wanted)
    known = {label for label, _ in task.index.labelled}
    for wish in [own for own in wanted if not known.intersection(_labels(own[0]))]:
        wanted.remove(wish)
        relaxed.append(f"no tool has a label {_labels(wish[0])[-1]!r}: {'='.join(wish)} was left out of account")
    while not (left := _fitting(task, found, wanted, undated=undated == "in")).any() and wanted:
        name, value = wanted.pop()
        relaxed.append(f"no tool fits {name}={value} with all before it: it was left out of account")
    return replace(found, allowed=left, warnings=(*found.warnings, *relaxed))


def _check_bounds(task: Task, wanted: Sequence[tuple[str, str]]) -> None:
    labels = {label for label, _ in task.index.labelled}
    for name, value in wanted:
        if name.endswith((_FROM, _TO)) and name not in labels and not _is_date(value):
            raise InvalidInput(f"context {name}={value!r}: give a date as 2026, 2026-09 or 2026-09-01")


def _is_date(text: str) -> bool:
    """Return whether a text is an ISO date, or the year or the month of one; as texts such stand in order."""
    try:
        datetime.fromisoformat(text if len(text) >= 10 else f"{text}-01-01"[:10])
    except ValueError:
        return False
    return len(text) in (4, 7) or text[4:5] == "-"


def _labels(name: str) -> tuple[str, ...]:
    """Return the labels that a wish of this name may mean: its own, or the one that it bounds."""
    return tuple(dict.fromkeys((name, name.removesuffix(_FROM).removesuffix(_TO))))


def _fitting(task: Task, found: Found, wanted: Sequence[tuple[str, str]], *, undated: bool) -> NDArray[np.bool_]:
    tools = task.index.catalogue.tools
    fits = [all(_fits(tool, *wish, undated=undated) for wish in wanted) for tool in tools]
    left = np.array(fits, np.bool_)
    return left if found.allowed is None else left & found.allowed


def _fits(tool: Tool, name: str, value: str, *, undated: bool) -> bool:
    """Return whether a tool has this label; `NAME_from` and `NAME_to` bound one that holds an ISO date."""
    known = tool.filtered_by
    for suffix in (_FROM, _TO):
        if name.endswith(suffix) and name not in known:
            day = known.get(name.removesuffix(suffix))
            if day is None or not _is_date(day):
                return undated
            return day >= value if suffix == _FROM else day[: len(value)] <= value
    return known.get(name) == value
