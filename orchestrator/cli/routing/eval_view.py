"""The figures of `toolroute eval`, as people read them: a table of the order of tools, and one of the confidence."""

from collections.abc import Mapping
from typing import Any

from orchestrator.cli.shared.guarantees_view import show_guarantees
from orchestrator.cli.shared.output import console, counted, dim, print_table

_ORDER = ("recall@1", "recall@3", "recall@5", "recall@10", "ndcg@5", "mrr", "hit@1")
_CONFIDENCE = ("ece", "resolved", "precision")
_REFUSALS = ("none, wrongly", "none, rightly")
_ORDER_MEANINGS = (
    "recall@k: the share of a query's relevant tools that are among the first k matches",
    "ndcg@5: like recall@5, but an earlier place counts more; the best order has 1",
    "mrr: 1 divided by the place of the first relevant tool",
    "hit@1: the share of queries whose first match is relevant",
)
_CONFIDENCE_MEANINGS = (
    "ece: the calibration error of the confidence, with its 95 % interval; 0 is best",
    "resolved: the share of queries whose confidence reaches the gate ({gate})",
    "precision: the share of resolved queries whose first match is relevant",
)
_REFUSAL_MEANING = "none: no recommendation, as a share of queries with relevant tools (wrongly) and without (rightly)"


def _figure(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def print_result(result: dict[str, Any]) -> None:
    """Show two tables, at most 80 columns wide: the order of the tools, and the confidence."""
    measured = {result["set"]: result}
    if "decided" in result:
        measured["decided"] = result["decided"]
    _print_order(measured)
    rows = [_confidence_row(name, figures) for name, figures in measured.items()]
    meanings = _meanings(result["confidence"]["gate"])
    footer = [*meanings, _REFUSAL_MEANING, "", *_summary(result)]
    shares = (*_CONFIDENCE, *_REFUSALS)
    print_table(("", *shares), rows, numbers=shares, footer=footer)


def _print_order(measured: dict[str, dict[str, Any]]) -> None:
    rows = [_order_row(name, figures) for name, figures in measured.items()]
    numbers = ("queries", *_ORDER)
    footer = (*_ORDER_MEANINGS, "")
    print_table(("", *numbers), rows, numbers=numbers, footer=footer, padding=(0, 1, 0, 0))


def _order_row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{figures['queries']:,}",
        *(_figure(figures["metrics"][measure]) for measure in _ORDER),
    )


def _confidence_row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    confidence = figures["confidence"]
    low, high = confidence["ece_95"]
    error = f"{_figure(confidence['ece'])} [{_figure(low, 2)}, {_figure(high, 2)}]"
    shares = [*(confidence[measure] for measure in _CONFIDENCE[1:]), *figures["refused"].values()]
    return name, error, *map(_figure, shares)


def _summary(result: dict[str, Any]) -> list[str]:
    tokens = result["tokens"]
    limits = ", ".join(f"{name} {_figure(value)}" for name, value in result["ceiling"].items())
    times = ", ".join(
        f"{name} {_percentiles(values)}" for name, values in result["latency_ms"].items()
    )
    share = f"{result['semantic_share']:.0%}"
    summary = [
        f"{counted(result['tools'], 'tool')}; upper limits for a perfect order: {limits}",
        f"tokens of definitions: {tokens['before']:,} before routing, {tokens['after_mean']:,.0f} after (mean)",
        f"semantic search ran for {share} of queries; milliseconds p50 / p95 / p99: {times}",
    ]
    if "nothing_fits" in result:
        summary.append(_unfit_line(result["nothing_fits"]))
    if "decided" in result:
        summary.append(_cost_line(result["decided"]))
    return summary


def _percentiles(values: Mapping[str, float | None]) -> str:
    return " / ".join(_figure(ms, 2) for ms in values.values())


def _unfit_line(counts: dict[str, int]) -> str:
    """Return the line about the queries of `none.jsonl`."""
    queries = counted(counts["queries"], "query", "queries")
    recommended = counts["recommended"]
    return f"{queries} that no tool fits: {recommended} with a recommendation, {counts['resolved']} resolved"


def _cost_line(decided: dict[str, Any]) -> str:
    """Return the line of tokens and time that a route takes with the second stage."""
    usage = decided["usage"]
    tokens = (usage["input"] + usage["output"]) / max(1, decided["queries"])
    times = _percentiles(decided["latency_ms"]["all"])
    return f"decided: {tokens:,.0f} model tokens per query; milliseconds p50 / p95 / p99: {times}"


def print_fit(about: Mapping[str, Any], gate: float) -> None:
    queries = counted(about["queries"], "query", "queries")
    tools = counted(about["tools"], "tool")
    scope = f"held-out fifths of {queries} of {about['set']}, {tools}"
    built_in = _fit_row("built-in", about["before"])
    fitted = _fit_row("fitted", about["after"])
    footer = (f"on {scope}", *_meanings(gate))
    columns = ("", *_CONFIDENCE)
    print_table(columns, [built_in, fitted], numbers=_CONFIDENCE, footer=footer)
    console().print(dim(""))
    show_guarantees(about["guarantees"], scope)


def _meanings(gate: float) -> list[str]:
    return [line.format(gate=gate) for line in _CONFIDENCE_MEANINGS]


def _fit_row(name: str, figures: Mapping[str, float | None]) -> tuple[str, ...]:
    return name, *(_figure(figures[measure]) for measure in _CONFIDENCE)
