"""Pipelines: legs, gate, fusion, refiners and selection as one value. A user can write one, or change a preset."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from orchestrator.errors import InvalidInput
from orchestrator.records.decision import Decision
from orchestrator.routing.decide import decide
from orchestrator.routing.refiners.floors import floor_always, lift_named
from orchestrator.routing.refiners.parts import take_turns
from orchestrator.routing.refiners.related import related
from orchestrator.routing.refiners.standing import append_flagged, note_deprecated, spread_duplicates
from orchestrator.routing.stages.always import always
from orchestrator.routing.stages.experience import calibrate, experience, learnt
from orchestrator.routing.stages.explicit import explicit
from orchestrator.routing.stages.fusion import fuse
from orchestrator.routing.stages.keyword import gate, keyword
from orchestrator.routing.stages.semantic import semantic
from orchestrator.routing.task import Found, Ranking, Task

Leg = Callable[[Task, Found], Found | Awaitable[Found]]
"""Returns what was found so far with its own part added. It may be a coroutine function."""
Gate = Callable[[Task, Found], bool]
"""Returns whether what the cheap legs found is enough."""
Fuse = Callable[[Task, Found], Ranking]
Refiner = Callable[[Task, Found, Ranking], Ranking]
Select = Callable[[Task, Found, Ranking], Decision]


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
        return PRESETS[name]


DEFAULT = Pipeline(
    name="default",
    cheap=(always, explicit, keyword, experience),
    gate=gate,
    dear=(semantic, experience),
    fusion=fuse,
    refiners=(
        learnt,
        calibrate,
        related,
        lift_named,
        floor_always,
        take_turns,
        spread_duplicates,
        append_flagged,
        note_deprecated,
    ),
)
PRESETS = {DEFAULT.name: DEFAULT}
