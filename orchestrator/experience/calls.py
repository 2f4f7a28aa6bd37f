"""Calls: how those of a tool or a server went in finished tasks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from orchestrator.records.outcome import Outcome, Use

MOST_CALLS = 100
"""The number of a tool's newest calls that determine its health."""
OFTEN = 10
"""The minimum number of calls of a stable tool."""
RELIABLE = 0.9
"""The minimum share of a stable tool's calls that worked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The number of calls, the number of failed calls, and the median milliseconds, or None if no time is known."""

    calls: int = 0
    failures: int = 0
    ms: float | None = None

    @classmethod
    def of(cls, uses: Sequence[Use]) -> "Calls":
        times = [use.ms for use in uses if use.ms is not None]
        ms = round(median(times), 1) if times else None
        return cls(calls=len(uses), failures=sum(not use.ok for use in uses), ms=ms)

    @property
    def maturity(self) -> str:
        """Return `stable` if most calls worked, `emerging` for few or failing calls, and "" without calls."""
        if not self.calls:
            return ""
        worked = self.calls - self.failures
        return "stable" if self.calls >= OFTEN and worked >= RELIABLE * self.calls else "emerging"


def uses_by(key: Callable[[Use], str], outcomes: Iterable[Outcome]) -> dict[str, list[Use]]:
    """Return the calls grouped by this key, most frequent first."""
    groups: dict[str, list[Use]] = {}
    for outcome in outcomes:
        for use in outcome.used:
            groups.setdefault(key(use), []).append(use)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def by_definition(
    outcomes: Iterable[Outcome], earlier: Mapping[str, Sequence[Use]]
) -> dict[str, Sequence[Use]]:
    """Return the newest calls by key and hash of their tools, with these Outcomes' behind the earlier ones."""
    calls = dict(earlier)
    for name, uses in uses_by(lambda use: f"{use.tool} {use.hash}", outcomes).items():
        calls[name] = [*calls.get(name, ()), *uses][-MOST_CALLS:]
    return calls
