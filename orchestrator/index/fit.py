"""A fit: what a catalogue's own queries say of the shipped numbers, kept in a file and read by a Router."""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.catalogue.reading import first_problem, why_unread
from orchestrator.errors import InvalidConfig
from orchestrator.index import coverage
from orchestrator.index.calibration import Calibration, LogisticMap
from orchestrator.index.coverage import Coverage
from orchestrator.options import Options

LEAST_SLOPE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Log-odds times a slope, plus an offset."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, chance: float) -> float:
        return float(1 / (1 + np.exp(-(self.slope * log_odds(chance) + self.offset))))

    def on(self, fitted: LogisticMap) -> LogisticMap:
        """The map whose chances are corrected."""
        return replace(fitted, weights=fitted.weights * self.slope, bias=fitted.bias * self.slope + self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What replaces or corrects the shipped numbers; None leaves them as they are.

    `embedder` is the id of the one that it was fitted with, "" if any will do; `about` tells people what it is from.
    """

    gate: Correction | None = None
    confidence: Correction | None = None
    floor: float | None = None
    coverage: Coverage | None = None
    embedder: str = ""
    about: dict[str, Any] | None = None

    def maps(self, base: Calibration) -> Calibration:
        """The maps with the corrections in them."""
        gate, confidence = self.gate or Correction(), self.confidence or Correction()
        return replace(base, gate=gate.on(base.gate), confidence=confidence.on(base.confidence))

    def options(self, options: Options) -> Options:
        """The options with the fitted floor in place of theirs."""
        return options if self.floor is None else replace(options, floor=self.floor)

    def check(self, embedder: str) -> None:
        """Raises InvalidConfig when another embedder is in use than the one it was fitted with."""
        if self.embedder not in ("", embedder):
            raise InvalidConfig(
                f"the calibration file was fitted with the embedder {self.embedder!r}, but {embedder!r} is in use: "
                "fit it again, or leave it out"
            )

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The fit in a file; InvalidConfig says what is wrong with it, or that other maps are shipped by now."""
        try:
            record = _Record.model_validate_json(Path(path).read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidConfig(f"calibration {str(path)!r} cannot be read ({why_unread(error)}); {REMEDY}") from None
        except ValidationError as error:
            wrong = first_problem(error, "the file")
            raise InvalidConfig(f"calibration {str(path)!r}: {wrong}; {REMEDY}") from None
        if record.maps != shipped_maps():
            raise InvalidConfig(
                f"calibration {str(path)!r} corrects the maps {record.maps!r}, but this version of toolroute has "
                f"{shipped_maps()!r}; {REMEDY}"
            )
        return cls(
            gate=_correction(record.gate),
            confidence=_correction(record.confidence),
            floor=record.floor,
            coverage=coverage.from_json(record.coverage) if record.coverage else None,
            embedder=record.embedder,
            about=record.about,
        )

    def write(self, path: Path) -> None:
        """Keeps the fit in a file; InvalidConfig where that cannot be."""
        record = {
            "maps": shipped_maps(),
            "embedder": self.embedder,
            "gate": _correction_json(self.gate),
            "confidence": _correction_json(self.confidence),
            "floor": self.floor,
            "coverage": None
            if self.coverage is None
            else {legs: list(s) for legs, s in self.coverage.thresholds.items()},
            "about": self.about or {},
        }
        try:
            path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidConfig(f"calibration {str(path)!r} cannot be written: {error.strerror}") from None


REMEDY = "make it with `toolroute doctor --catalogue PATH --write FILE` or `toolroute eval FOLDER --fit --write FILE`"


class _Pair(BaseModel):
    slope: float = Field(ge=LEAST_SLOPE, le=10, allow_inf_nan=False)
    offset: float = Field(ge=-20, le=20, allow_inf_nan=False)


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore")
    maps: str
    embedder: str = ""
    gate: _Pair | None = None
    confidence: _Pair | None = None
    floor: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    coverage: dict[str, Any] | None = None
    about: dict[str, Any] = Field(default_factory=dict)


def _correction(pair: _Pair | None) -> Correction | None:
    return None if pair is None else Correction(slope=pair.slope, offset=pair.offset)


def _correction_json(correction: Correction | None) -> dict[str, float] | None:
    return None if correction is None else {"slope": round(correction.slope, 5), "offset": round(correction.offset, 5)}


@cache
def shipped_maps() -> str:
    """Names the shipped maps: what a correction belongs to."""
    return hashlib.sha256((files("orchestrator") / "data" / "calibration.json").read_bytes()).hexdigest()[:12]


def log_odds(chance: Any) -> Any:
    """Of a chance, or of an array of them, kept off 0 and 1."""
    clipped = np.clip(chance, 1e-4, 1 - 1e-4)
    return np.log(clipped / (1 - clipped))
