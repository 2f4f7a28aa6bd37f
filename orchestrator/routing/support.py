"""Servers: a task keeps to few of them, so a tool is likelier where its server has the best of what any part asks for.

"Ann says she paid twice: find her, look through her bills, give one payment back" holds words of many servers' tools;
that one server has a tool that fits a part of it well tells which tools the other parts mean. And a turn that says
little ("give the last one back") stays with the servers just used, while they have anything for it.
"""

import numpy as np
from numpy.typing import NDArray

SHORT, LONG = 8, 20
"""A task of so few terms asks one thing, which several servers may do equally well; of so many it has several steps."""
LEAST = 0.05
"""What is added to the chance of each server's best tool. All chosen on the development sets and on long tasks of our
own (docs/decisions.md)."""
ELSEWHERE, LEAST_THERE = 0.2, 0.02
"""What is left of the odds of other servers' tools where a conversation may stay with its servers, if these have a tool
of so large a share of the best one's chance: else the topic has changed. Both chosen on follow-ups and on changes of
topic (docs/decisions.md)."""

Rows = NDArray[np.float64]


def support(servers: NDArray[np.int64], chances: Rows, terms: int) -> Rows:
    """What to multiply the odds of each candidate with: 1 where its server has the best of all, else less.

    Both [rows]: the candidates of the whole task and of its parts, each one's server and its chance to be right there.
    """
    if terms <= SHORT:
        return np.ones(len(chances))
    weight = min(1.0, (terms - SHORT) / (LONG - SHORT))
    best = np.zeros(servers.max(initial=0) + 1)
    np.maximum.at(best, servers, chances)
    return np.asarray(((best[servers] + LEAST) / (best.max() + LEAST)) ** weight, np.float64)


def staying(there: NDArray[np.bool_], chances: Rows) -> Rows:
    """What to multiply the odds of each candidate with, as a conversation stays with its servers: 1 where a candidate
    is of them, or none that is has a chance beside the best. Both [rows]."""
    least = LEAST_THERE * np.max(chances, initial=0.0)
    return np.where(there | (np.max(chances, initial=0.0, where=there) < least), 1.0, ELSEWHERE)


def supported(chances: Rows, support: Rows) -> Rows:
    """The chances with their odds multiplied."""
    return chances * support / (1 - chances + chances * support)


def supported_behind_best(chances: Rows, support: Rows) -> Rows:
    """The same, but the best keeps its own, as the confidence is about it. All others can only fall, so it stays."""
    lower = supported(chances, support)
    if len(chances):
        first = int(np.argmax(chances))
        lower[first] = chances[first]
    return lower
