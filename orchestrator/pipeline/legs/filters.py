"""Filters: which tools may match at all, by the request's filters, its context, and the servers that can be called.

filters {"kind": "mcp"}            only tools with this label
context {"region": "eu"}           tools with this label, if there are any
context {"released_from": "2026"}  tools whose label `released` is no earlier date
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from orchestrator.common.arrays import Mask
from orchestrator.common.json_input import shortened
from orchestrator.errors import InvalidInput
from orchestrator.index.index import Index
from orchestrator.pipeline.state import State, Task
from orchestrator.records.request import within
from orchestrator.records.tool import Tool

_FROM, _TO, _UNDATED = "_from", "_to", "undated"

Label = tuple[str, str]
"""The name and the value of a label."""


def filters(state: State) -> State:
    """Return the state with only the tools allowed that fit filters and context and whose server can be called.

    All filters are required. The last and least important labels of the context are dropped until a tool fits,
    with a warning.
    """
    return _filtered(state, list(state.task.request.context.items()))


def filters_relaxed(*first: str) -> Callable[[State], State]:
    """Return the same stage, where wishes of these names go first, in this order, and the other ones last."""
    rank = {name: place for place, name in enumerate(reversed(first), start=1)}

    def filters(state: State) -> State:
        wishes = list(state.task.request.context.items())
        wishes.sort(key=lambda wish: rank.get(wish[0], 0))
        return _filtered(state, wishes)

    return filters


def _filtered(state: State, context: list[Label]) -> State:
    request = state.task.request
    absent = _absent(state.task)
    if request.filters or request.only or absent:
        allowed = _allowed(state.task, absent)
        if not allowed.all():
            state = state.restricted(allowed)
        elif request.filters or request.only:
            # A search among all tools is faster than one among some that happen to be all.
            state = replace(state, settled=False)
    if absent:
        state = state.warned(
            f"the tools of {shortened(absent)} are left out: the mcpServers file has no entry of that name; "
            "add an entry"
        )
    return _within_context(state, context) if context else state


def _allowed(task: Task, absent: Mapping[str, list[int]]) -> Mask:
    """Return the mask of the tools that fit the filters and whose server can be called [tools]."""
    index = task.index
    allowed = np.ones(len(index.tools), np.bool_)
    for label in task.request.filters.items():
        has_label = np.zeros_like(allowed)
        has_label[index.labelled.get(label, slice(0))] = True
        allowed &= has_label
    only = task.request.only
    if only:
        allowed &= index.derived(("only", only), lambda: _fitting_keys(index.keys, only))
    for positions in absent.values():
        allowed[positions] = False
    return allowed


def _fitting_keys(keys: Iterable[str], patterns: Sequence[str]) -> Mask:
    return np.array([within(key, patterns) for key in keys], np.bool_)


def _absent(task: Task) -> Mapping[str, list[int]]:
    """Return the MCP servers that cannot be called here, with the positions of their tools."""
    if task.servers is None:
        return {}
    by_server = task.index.derived("MCP tools by server", lambda: _mcp_tools_by_server(task.index))
    return {
        server: positions for server, positions in by_server.items() if server not in task.servers
    }


def _mcp_tools_by_server(index: Index) -> dict[str, list[int]]:
    by_server: dict[str, list[int]] = {}
    for position, tool in enumerate(index.tools):
        if tool.kind.is_served:
            by_server.setdefault(tool.server, []).append(position)
    return by_server


def _within_context(state: State, context: Sequence[Label]) -> State:
    """Return the state with the tools allowed that have as many wished labels as possible."""
    undated = state.task.request.context.get(_UNDATED, "in")
    if undated not in ("in", "out"):
        raise InvalidInput(f"context {_UNDATED}={undated!r}: it must be in or out")
    wishes = [wish for wish in context if wish[0] != _UNDATED]
    if not wishes:
        return state
    labels = {label for label, _ in state.task.index.labelled}
    _check_bounds(wishes, labels)
    warnings = []
    for name, value in wishes:
        if labels.isdisjoint(_label_names(name)):
            warnings.append(
                f"context {name}={value} was ignored: no tool has the label {_label_names(name)[-1]!r}"
            )
    wishes = [wish for wish in wishes if not labels.isdisjoint(_label_names(wish[0]))]
    allowed = _fitting(state, wishes, undated=undated == "in")
    while wishes and not allowed.any():
        name, value = wishes.pop()
        warnings.append(
            f"context {name}={value} was ignored: no tool matches it together with the labels before it"
        )
        allowed = _fitting(state, wishes, undated=undated == "in")
    return state.restricted(allowed).warned(*warnings)


def _check_bounds(wishes: Sequence[Label], labels: set[str]) -> None:
    for name, value in wishes:
        is_bound = name.endswith((_FROM, _TO)) and name not in labels
        if is_bound and not _is_date(value):
            raise InvalidInput(
                f"context {name}={value!r} is not a date: give a date such as 2026, 2026-09 or 2026-09-01"
            )


def _is_date(text: str) -> bool:
    """Return True if a text is an ISO date, or a year or month in ISO form. Such texts sort by date."""
    is_whole_date = len(text) >= 10
    try:
        datetime.fromisoformat(text if is_whole_date else f"{text}-01-01"[:10])
    except ValueError:
        return False
    return len(text) in (4, 7) or text[4:5] == "-"


def _label_names(name: str) -> tuple[str, ...]:
    """Return the labels that a wish of this name may mean: its name, or the one that it bounds."""
    bounded = name.removesuffix(_FROM).removesuffix(_TO)
    return tuple(dict.fromkeys((name, bounded)))


def _fitting(state: State, wishes: Sequence[Label], *, undated: bool) -> Mask:
    """Return the mask of the allowed tools that have all these labels [tools]."""
    fits = np.ones(len(state.task.index.tools), np.bool_)
    if state.allowed is not None:
        fits &= state.allowed
    for position, tool in enumerate(state.task.index.tools):
        fits[position] &= all(_fits(tool, name, value, undated=undated) for name, value in wishes)
    return fits


def _fits(tool: Tool, name: str, value: str, *, undated: bool) -> bool:
    """Return True if a tool has this label. `NAME_from` and `NAME_to` are bounds for a label with an ISO date."""
    labels = tool.filtered_by
    if name in labels or not name.endswith((_FROM, _TO)):
        return labels.get(name) == value
    label = _label_names(name)[-1]
    day = labels.get(label)
    if day is None or not _is_date(day):
        return undated
    if name.endswith(_FROM):
        return day >= value
    return day[: len(value)] <= value
