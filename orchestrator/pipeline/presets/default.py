"""The default: what measures best. Calibrated legs, a gate between them, and a fitted merge."""

from orchestrator.pipeline.fusion import fuse
from orchestrator.pipeline.legs.always import always
from orchestrator.pipeline.legs.experience import calibrate, experience, learnt
from orchestrator.pipeline.legs.explicit import explicit
from orchestrator.pipeline.legs.keyword import gate, keyword
from orchestrator.pipeline.legs.narrow import narrow
from orchestrator.pipeline.legs.semantic import semantic
from orchestrator.pipeline.pipeline import Pipeline
from orchestrator.pipeline.refiners.demote import append_flagged, note_deprecated, spread_duplicates
from orchestrator.pipeline.refiners.floors import floor_always, lift_named
from orchestrator.pipeline.refiners.parts import cover_clauses
from orchestrator.pipeline.refiners.related import related
from orchestrator.pipeline.refiners.together import together

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
        cover_clauses,
        spread_duplicates,
        append_flagged,
        note_deprecated,
    ),
)
