"""What a search finds: the candidates of a query and of its parts, with features and chances."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.index.calibration import NOT_IDLE, Probabilities, most_by_words
from orchestrator.index.features import Positions, Rows, places_among
from orchestrator.routing.parts import Chances
from orchestrator.routing.support import supported


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseFound:
    """What a clause, or a sentence beside the clauses, finds as a query of its own, by the legs that ran: candidates as
    in Candidates, each one's chance to be right, and that of the best. `asking`: what their odds were multiplied with,
    as it may ask for nothing."""

    chosen: Positions
    rows: Rows
    query: list[float]
    overlap: NDArray[np.bool_]
    fits: Probabilities
    chances: Probabilities
    support: Probabilities
    sure: float
    asking: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What the gate opens by: the chance of the part that is least sure, and the most that the words of any support."""

    least: float
    most: float

    @property
    def chance(self) -> float:
        """That the keyword leg's best tool is right; of several clauses the least sure one's."""
        return min(self.least, self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What a search found: positions in the catalogue, and for each the features and the legs' probabilities.

    `semantic` and `merged` are None where the semantic leg did not run; `overlap`: shares a term with the query;
    `fits`: what the odds of each were multiplied with, as it does or does not what is wanted (modes.py);
    `support`: how far its server speaks for each (servers.py); `sure`: the keyword leg's chance that its best
    tool is right; `clauses`: what each finds, where there are several; `told`: what the sentences beside them find,
    where both legs ran; `idle`: the query's cosine with what needs no tool.
    """

    chosen: Positions
    rows: Rows
    query: list[float]
    keyword: Probabilities
    overlap: NDArray[np.bool_]
    fits: Probabilities
    support: Probabilities
    sure: float = 0.0
    semantic: Probabilities | None = None
    merged: Probabilities | None = None
    clauses: tuple[ClauseFound, ...] = ()
    told: tuple[ClauseFound, ...] = ()
    idle: float = NOT_IDLE

    def of_parts(self, positions: Positions, *, heard: bool = True) -> Chances:
        """The chance of each of these to be right for each part alone [parts, positions], the clauses' first; heard:
        with its server's word."""
        parts = (*self.clauses, *self.told)
        chances = np.zeros((len(parts), len(positions)))
        for row, part in zip(chances, parts, strict=True):
            places, known = places_among(part.chosen, positions)
            own = supported(part.chances, part.support) if heard else part.chances
            row[known] = own[places[known]]
        return chances

    def of_clauses(self, *, heard: bool = True) -> Chances:
        """The same of each candidate for the clauses, which ask, or where there are none for the sentences."""
        return self.of_parts(self.chosen, heard=heard)[: len(self.clauses) or None]

    @property
    def opening(self) -> Opening:
        """Of what the keyword leg found."""
        words = [most_by_words(one.chances, one.rows, one.query) for one in self.clauses]
        return Opening(
            least=min([self.sure, *(one.sure for one in self.clauses)]),
            most=min([most_by_words(self.keyword, self.rows, self.query), *words]),
        )
