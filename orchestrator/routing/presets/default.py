"""The default: what measures best. Calibrated legs, a gate between them, and a fitted merge."""

from orchestrator.routing.narrow import narrow
from orchestrator.routing.pipeline import Pipeline
from orchestrator.routing.refiners.floors import floor_always, lift_named
from orchestrator.routing.refiners.parts import take_turns
from orchestrator.routing.refiners.related import related
from orchestrator.routing.refiners.standing import append_flagged, note_deprecated, spread_duplicates
from orchestrator.routing.refiners.together import together
from orchestrator.routing.stages.always import always
from orchestrator.routing.stages.experience import calibrate, experience, learnt
from orchestrator.routing.stages.explicit import explicit
from orchestrator.routing.stages.fusion import fuse
from orchestrator.routing.stages.keyword import gate, keyword
from orchestrator.routing.stages.semantic import semantic

PIPELINE = Pipeline(
    name="default",
    cheap=(always, explicit, narrow, keyword, experience),
    gate=gate,
    dear=(semantic, experience),
    fusion=fuse,
    refiners=(
        learnt,
        calibrate,
        together,
        related,
        lift_named,
        floor_always,
        take_turns,
        spread_duplicates,
        append_flagged,
        note_deprecated,
    ),
)
