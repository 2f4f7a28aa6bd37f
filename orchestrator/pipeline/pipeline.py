"""Pipelines: legs, gate, fusion, refiners and selection as one value. A user can write one, or change a preset."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module

from orchestrator.errors import InvalidInput
from orchestrator.pipeline.decide import decide
from orchestrator.pipeline.state import Found, Ranking, Task
from orchestrator.records.decision import Decision
from orchestrator.records.request import RouteHint

PRESETS = ("default", "coderag", "fabric", "koi", "prismgate", "toolpilot")
"""Each a value in a file of `presets/`, which names its source."""

Leg = Callable[[Task, Found], Found | Awaitable[Found]]
"""Returns what was found so far with its own part added. It may be a coroutine function, as may a refiner."""
Gate = Callable[[Task, Found], bool]
"""Returns whether what the cheap legs found is enough."""
Fuse = Callable[[Task, Found], Ranking]
Refiner = Callable[[Task, Found, Ranking], Ranking | Awaitable[Ranking]]
Select = Callable[[Task, Found, Ranking], Decision]


def never(task: Task, found: Found) -> bool:
    """Keep the gate closed, but for a request that asks for the keyword leg alone."""
    return task.request.route_hint is RouteHint.KEYWORD


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """One way to route. `cheap` legs run in order, `dear` ones where the gate is closed.

    Any legs do: each makes the search that it needs. InvalidInput for what can't be run, or no leg at all.
    """

    name: str
    cheap: tuple[Leg, ...]
    gate: Gate
    dear: tuple[Leg, ...]
    fusion: Fuse
    refiners: tuple[Refiner, ...]
    select: Select = decide

    def __post_init__(self) -> None:
        stages = {"cheap": self.cheap, "dear": self.dear, "refiners": self.refiners}
        stages |= {"gate": (self.gate,), "fusion": (self.fusion,), "select": (self.select,)}
        for name, own in stages.items():
            for stage in own:
                if not callable(stage):
                    raise InvalidInput(f"pipeline {self.name!r}: {name} holds {stage!r}; give a function or the like")
        if not self.cheap + self.dear:
            raise InvalidInput(f"pipeline {self.name!r} has no leg: give one in cheap or dear")

    @staticmethod
    def named(name: str) -> "Pipeline":
        """Return a preset; InvalidInput names those that there are."""
        if name not in PRESETS:
            raise InvalidInput(f"pipeline {name!r}: give one of {', '.join(PRESETS)}")
        preset: Pipeline = import_module(f"orchestrator.pipeline.presets.{name}").PIPELINE
        return preset
