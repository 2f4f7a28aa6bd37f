"""Filters: which tools may match at all, by the request's filters, its context, and the servers that can be called."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import InvalidInput
from orchestrator.pipeline.state import State, Task
from orchestrator.records.request import within
from orchestrator.records.tool import Kind, Tool

_FROM, _TO, _UNDATED = "_from", "_to", "undated"


def filters(state: State) -> State:
    """Return the state with only the tools allowed that fit filters and context and whose server can be called.

    All filters are required. The last and least important labels of the context are dropped until a tool fits, with a
    warning.
    """
    return _filtered(state, list(state.task.request.context.items()))


def filters_relaxed(*first: str) -> Callable[[State], State]:
    """Return the same stage, where wishes of these names go first, in this order, and the other ones last."""
    order = {name: place for place, name in enumerate(reversed(first), start=1)}

    def filters(state: State) -> State:
        return _filtered(state, sorted(state.task.request.context.items(), key=lambda wish: order.get(wish[0], 0)))

    return filters


def _filtered(state: State, context: list[tuple[str, str]]) -> State:
    task = state.task
    allowed = np.ones(len(task.index.catalogue), np.bool_)
    for label in task.request.filters.items():
        having = np.zeros_like(allowed)
        having[task.index.labelled.get(label, slice(0))] = True
        allowed &= having
    if only := task.request.only:
        allowed &= task.index.derived(("only", only), lambda: _fitting_keys(task.index.catalogue, only))
    absent = _absent(task)
    for positions in absent.values():
        allowed[positions] = False
    if allowed.all():  # A search among all tools is faster than one among some that happen to be all.
        state = replace(state, settled=state.settled and not (task.request.filters or only))
    else:
        state = state.restricted(allowed)
    if absent:
        names = ", ".join(absent)
        others = f"the tools of {names} are left out: the mcpServers file has no entry of that name; add an entry"
        state = replace(state, warnings=(*state.warnings, others))
    return _within_context(state, context)


def _fitting_keys(tools: Iterable[Tool], patterns: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([within(tool.key, patterns) for tool in tools], np.bool_)


def _absent(task: Task) -> Mapping[str, list[int]]:
    """Return the MCP servers that cannot be called here, with the positions of their tools."""
    if task.servers is None:
        return {}

    def by_server() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for position, tool in enumerate(task.index.catalogue):
            if tool.kind is Kind.MCP:
                found.setdefault(tool.server, []).append(position)
        return found

    known = task.index.derived("MCP tools by server", by_server)
    return {server: known[server] for server in known if server not in task.servers}


def _within_context(state: State, wanted: list[tuple[str, str]]) -> State:
    undated = state.task.request.context.get(_UNDATED, "in")
    if undated not in ("in", "out"):
        raise InvalidInput(f"context {_UNDATED}={undated!r}: it must be in or out")
    wanted = [wish for wish in wanted if wish[0] != _UNDATED]
    if not wanted:
        return state
    known = {label for label, _ in state.task.index.labelled}
    _check_bounds(wanted, known)
    relaxed = list[str]()
    for wish in [own for own in wanted if not known.intersection(_labels(own[0]))]:
        wanted.remove(wish)
        relaxed.append(f"context {'='.join(wish)} was ignored: no tool has the label {_labels(wish[0])[-1]!r}")
    while not (left := _fitting(state, wanted, undated=undated == "in")).any() and wanted:
        name, value = wanted.pop()
        relaxed.append(f"context {name}={value} was ignored: no tool matches it together with the labels before it")
    return replace(state.restricted(left), warnings=(*state.warnings, *relaxed))


def _check_bounds(wanted: Sequence[tuple[str, str]], labels: set[str]) -> None:
    for name, value in wanted:
        if name.endswith((_FROM, _TO)) and name not in labels and not _is_date(value):
            raise InvalidInput(
                f"context {name}={value!r} is not a date: give a date such as 2026, 2026-09 or 2026-09-01"
            )


def _is_date(text: str) -> bool:
    """Return True if a text is an ISO date, or a year or month in ISO form. Such texts sort by date."""
    try:
        datetime.fromisoformat(text if len(text) >= 10 else f"{text}-01-01"[:10])
    except ValueError:
        return False
    return len(text) in (4, 7) or text[4:5] == "-"


def _labels(name: str) -> tuple[str, ...]:
    """Return the labels that a wish of this name may mean: its own, or the one that it bounds."""
    return tuple(dict.fromkeys((name, name.removesuffix(_FROM).removesuffix(_TO))))


def _fitting(state: State, wanted: Sequence[tuple[str, str]], *, undated: bool) -> NDArray[np.bool_]:
    tools = state.task.index.catalogue.tools
    fits = [all(_fits(tool, *wish, undated=undated) for wish in wanted) for tool in tools]
    left = np.array(fits, np.bool_)
    return left if state.allowed is None else left & state.allowed


def _fits(tool: Tool, name: str, value: str, *, undated: bool) -> bool:
    """Return True if a tool has this label. `NAME_from` and `NAME_to` are bounds for a label with an ISO date."""
    known = tool.filtered_by
    for suffix in (_FROM, _TO):
        if name.endswith(suffix) and name not in known:
            day = known.get(name.removesuffix(suffix))
            if day is None or not _is_date(day):
                return undated
            return day >= value if suffix == _FROM else day[: len(value)] <= value
    return known.get(name) == value
