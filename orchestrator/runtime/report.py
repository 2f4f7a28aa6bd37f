"""A Decision in the log, the metrics and the span of its route. Texts appear only on request."""

import logging
from typing import Any

from orchestrator import telemetry
from orchestrator.pipeline.state import State
from orchestrator.records.decision import Decision
from orchestrator.runtime.recording import masked

logger = logging.getLogger(__package__)


def report(state: State, attributes: dict[str, Any]) -> Decision:
    """Report a state's Decision to the log, the metrics and the route's span, and return it.

    Args:
        state: The state at the end of a pipeline.
        attributes: The attributes of the span.
    """
    decision = state.decision
    if decision is None:
        raise ValueError("the pipeline ended before its selection")
    telemetry.routed(attributes, decision, masked, gate_open=state.gate_open)
    if logger.isEnabledFor(logging.INFO):
        _log(decision)
    return decision


def _log(decision: Decision) -> None:
    logger.info(
        "routed for %s: stage %s, confidence %.0f%%, %d tools, %s tokens saved, %.1f ms",
        decision.tenant,
        decision.stage,
        decision.confidence * 100,
        len(decision.matches),
        f"{decision.tokens.before - decision.tokens.after:,}",
        decision.timings_ms["total"],
    )
    keys = ", ".join(match.tool.key for match in decision.matches)
    logger.debug("task %r: %s", masked(decision.query), keys)
