"""Factors on the odds of candidates, for facts that the fitted maps do not read: the server, the kind of request, and
whether a part of the task asks for anything.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Integers
from orchestrator.index.calibration import Probabilities
from orchestrator.index.features import CandidateSet
from orchestrator.index.index import Index
from orchestrator.pipeline.understand import Understood

SHORT, LONG, LEAST = 8, 20, 0.05
"""A task of up to SHORT terms asks for one thing, which several servers may do equally well. A task of LONG terms has
several steps. LEAST is added to the probability of each server's best tool. Chosen on the development sets."""
CHANGES_UNASKED = 0.2
"""The factor on the odds of a tool that may change something, if its part of the task only reads and a twin of the tool
only reads."""
NEARER, STEEPER, LEAST_ASKED = 0.5, 6.0, 0.2
"""A part of a task is doubted if it is almost as near to texts that need no tool as to its best tool: the
difference at which the doubt begins, its slope, and the smallest factor on the odds. Chosen on our own tasks and
the development sets."""


def server_support(servers: Integers, chances: Probabilities, terms: int) -> Probabilities:
    """Return the factor for each candidate's odds [rows]: 1 if its server has the best tool, otherwise less.

    A long task usually needs few servers. If a server has a tool that fits one part well, the other parts probably mean
    its tools, too.

    Args:
        servers: The number of each candidate's server [rows].
        chances: The candidates' probabilities [rows].
        terms: The number of terms of the task. All factors are 1 up to SHORT terms.
    """
    if terms <= SHORT:
        return np.ones(len(chances))
    weight = min(1.0, (terms - SHORT) / (LONG - SHORT))
    best_of_server = np.zeros(servers.max(initial=0) + 1)
    np.maximum.at(best_of_server, servers, chances)
    best_of_all = best_of_server.max()
    share = (best_of_server[servers] + LEAST) / (best_of_all + LEAST)
    return np.asarray(share**weight, np.float64)


def asks_for_a_tool(
    understood: Understood, no_tool_similarity: NDArray[Any], nearest: NDArray[np.float32]
) -> Probabilities:
    """Return the factor for the odds of tools for the whole task and each part [1 + parts].

    It is below 1 for a part that begins with no action and is not much more similar to a tool than to requests that
    need no tool. Most such sentences only describe the task.

    Args:
        understood: The task.
        no_tool_similarity: The cosine of the whole and each part with requests that need no tool [1 + parts].
        nearest: Their cosines with the nearest tool [1 + parts].
    """
    doubt = np.maximum(0.0, no_tool_similarity - nearest + NEARER)
    factor = np.maximum(LEAST_ASKED, np.exp(-STEEPER * doubt))
    acts = [True, *(part.acts for part in understood.parts)]
    return np.asarray(np.where(acts, 1.0, factor), np.float64)


def unasked_changes(
    index: Index, understood: Understood, candidates: CandidateSet
) -> Probabilities:
    """Return the factor for each candidate's odds [rows].

    It is below 1 for a deprecated tool, and for a tool that may change something if its part only reads and a
    twin is read-only.

    Args:
        index: The index.
        understood: The task.
        candidates: The candidates of the whole task and of each part.
    """
    reads = [understood.reads, *(part.reads for part in understood.parts)]
    only_reads = candidates.per_row(np.array(reads, np.bool_))
    is_unasked = only_reads & index.keyword.write_variants[candidates.positions]
    factor = np.where(is_unasked, CHANGES_UNASKED, 1.0)
    if index.deprecation_factor is None:
        return factor
    return factor * index.deprecation_factor[candidates.positions]
