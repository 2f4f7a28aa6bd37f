"""Types of numpy arrays that many packages share."""

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
"""True for each item that counts, such as a tool that is searched."""
Integers = NDArray[np.int64]
"""Positions, rows, numbers or counts of items."""
