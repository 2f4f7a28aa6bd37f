"""Modes: who asks to be told something hardly means a tool that changes something, and the other way round."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from orchestrator.language.modes import STARTS, TELLS_OF_A_DEED, changes
from orchestrator.language.told import Told
from orchestrator.records.tool import Tool

CHANGES_UNASKED, TELLS_ONLY = 0.15, 0.3
"""What is left of the odds of a tool that changes something where something was to be told, and of one that only tells
something where it was to be changed, as that may have to be looked up first. Chosen on the development sets
(docs/decisions.md)."""
DOES_WHAT_IS_ASKED_OF = 0.0005
"""What is left where it is asked how something stands or what was done, or only told: "is it merged?" and "tell Ana I
merged it" merge nothing."""


def fitting(wanted: NDArray[np.int64], done: NDArray[np.int64]) -> NDArray[np.float64]:
    """What to multiply the odds of each candidate with: 1 where it does what its part wants, or either does not say.

    Modes as `language/modes.py` has them; [candidates], or [1] where all are of one part.
    """
    of_a_deed = wanted == TELLS_OF_A_DEED
    differs = (wanted * done < 0) & (of_a_deed | (done != STARTS))
    unasked = np.where(of_a_deed, DOES_WHAT_IS_ASKED_OF, CHANGES_UNASKED)
    return np.where(differs, np.where(wanted > 0, unasked, TELLS_ONLY), 1.0)


def only_told(tools: Sequence[Tool], told: Told) -> NDArray[np.bool_]:
    """Which tools [tools] change what a part of a task only tells of."""
    covered = (changes(tool) and told.covers(tool) for tool in tools)
    return np.fromiter(covered, np.bool_, len(tools))
