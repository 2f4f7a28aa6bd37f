"""The confidence from which recommendations are right as often as promised, as people read it."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.cli.shared.output import print_table

_COLUMNS = ("level", "confidence from", "recommended", "right")


def share(value: float | None) -> str:
    """Return a share in percent, "-" for none."""
    return "-" if value is None else f"{value:.0%}"


def show_guarantees(guarantees: Sequence[Mapping[str, Any]], measured_on: str) -> None:
    """Show from which confidence on each level holds, and the scope of the promise."""
    print_table(
        _COLUMNS,
        map(_row, guarantees),
        numbers=_COLUMNS,
        footer=(
            "level: of the tools that are recommended from this confidence on, at least this share is right",
            "recommended: the share of tasks that reach it; right: how many of these had the right tool first",
            f"measured on {measured_on}; it holds in the mean for further tasks like these, not for other catalogues",
            "-: too few tasks, or too many wrong ones, for this level",
        ),
    )


def _row(guarantee: Mapping[str, Any]) -> tuple[str, ...]:
    threshold = "-" if guarantee["threshold"] is None else f"{guarantee['threshold']:.3f}"
    reached = guarantee["recommended"]
    of_all = reached / guarantee["queries"] if reached else None
    right = guarantee["right"] / reached if reached else None
    return f"{guarantee['level']:.0%}", threshold, share(of_all), share(right)
