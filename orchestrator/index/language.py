"""Tasks that are not in English, which the static embedder knows: how they are noticed and scored.

A task's words show its language:

    "Busca las notas de mi madre"  of 6 words 4 are strange, and none is an English stop word
    "Find the notes of my mother"  of 6 words none is strange, and 3 are English stop words

The extra `languages` then adds a second embedder. Its cosines are added to the tools' log-odds.
"""

import re
from collections.abc import Container

import numpy as np

from orchestrator.index.calibration import (
    Calibration,
    LanguageMaps,
    LogisticMap,
    Probabilities,
    expit,
    language_maps,
    log_odds,
)
from orchestrator.index.features import ASKED, Rows
from orchestrator.index.text import STOP_WORDS, strange_words

LEAST = 0.8
"""The least probability of another language. 7 of 2,755 tasks of eleven English sets reach it, and most of these are
not in English. Of 501 tasks in ten languages 493 do (`python -m research.multilingual --data FOLDER --noticed`)."""
_LETTERS = re.compile(r"[^\W\d_]+")
_FIRST_WORDS = 64
"""The number of words that are read. A task's language is visible in its first words."""
EVIDENCE = ("strange", "stop_words")
TOP = ("best", "lead", "second_z", "second_lead", "second_cos", "log_tools")
LEAST_COSINE, STEEPNESS = 0.12, 10.0
"""The cosine with the second encoder at which the confidence is 0, and how it may rise above. 2 of 61 best tools below
a cosine of .15 are right, and 9 of 43 up to .2. The best tools of greetings and thanks have .09 to .19."""
_BEST, _COSINE = TOP.index("best"), TOP.index("second_cos")
ABOVE = 0.3
"""The maximum difference by which the confidence may exceed the best tool's own probability, so that an improbable tool
is not claimed (docs/decisions/confidence.md)."""
_LOG_TOOLS = ASKED.index("log_tools")


def is_other_language(text: str, stems: Container[str], corrected: Container[str] = ()) -> bool:
    """Return True if a task is probably in another language than English.

    Args:
        text: The task without quotations.
        stems: The catalogue's stems.
        corrected: The words that are misspelt if the task is in English.
    """
    return language_maps().other.chance(evidence(text, stems, corrected)) >= LEAST


def evidence(text: str, stems: Container[str], corrected: Container[str] = ()) -> list[float]:
    """Return EVIDENCE: the share of words that neither a tool nor the embedder has, and that of English stop words.

    Names are not read: words that begin with a capital, behind the first word.

    Args:
        text: The task without quotations. Only its first words are read.
        stems: The catalogue's stems.
        corrected: The words that are misspelt if the task is in English. They do not count as strange.
    """
    letters = _LETTERS.findall(text)[:_FIRST_WORDS]
    if not letters:
        return [0.0, 1.0]
    words = [letters[0].lower()]
    words += [word for word in letters[1:] if word == word.lower()]
    spelt_right = [word for word in words if word not in corrected]
    strange = strange_words(spelt_right, stems)
    stop_words = [word for word in words if word in STOP_WORDS]
    return [len(strange) / len(words), len(stop_words) / len(words)]


def in_other_language(maps: LanguageMaps, chances: Probabilities, second: Rows) -> Probabilities:
    """Return the tools' probabilities with the second encoder's cosines.

    Args:
        maps: The fitted maps.
        chances: The probabilities without it.
        second: Its features, SECOND.
    """
    return maps.chances(np.column_stack([log_odds(chances, 1e-5), second]))


def confidence(
    calibration: Calibration, chances: Probabilities, second: Rows, query: list[float]
) -> float:
    """Return the probability that the best candidate is right, 0 without candidates.

    Args:
        calibration: The fitted maps.
        chances: The candidates' probabilities [rows].
        second: The features SECOND of the candidates [rows, 2].
        query: The features ASKED of the query.
    """
    if not len(chances):
        return 0.0
    return limited(calibration.languages.confidence, top_features(chances, second, query))


def limited(confidence: LogisticMap, features: list[float]) -> float:
    """Return the probability by a map from TOP, limited by the best candidate's cosine and own probability."""
    by_cosine = STEEPNESS * (features[_COSINE] - LEAST_COSINE)
    chance = float(expit(features[_BEST]))
    return min(confidence.chance(features), max(by_cosine, 0.0), chance + ABOVE)


def top_features(chances: Probabilities, second: Rows, query: list[float]) -> list[float]:
    """Return TOP of the best candidate.

    They are its log-odds, its lead over the next candidate, its cosine in deviations above the mean, the lead of that
    over all other candidates, the cosine itself, and the size of the catalogue.

    Args:
        chances: The candidates' probabilities [rows]. At least one.
        second: The features SECOND of the candidates [rows, 2].
        query: The features ASKED of the query.
    """
    best = int(np.argmax(chances))
    odds = log_odds(chances, 1e-6)
    best_odds = float(odds[best])
    next_odds = float(np.delete(odds, best).max(initial=log_odds(1e-3)))
    deviations = second[:, 0]
    best_deviation = float(deviations[best])
    next_deviation = float(np.delete(deviations, best).max(initial=0.0))
    return [
        best_odds,
        best_odds - next_odds,
        best_deviation,
        best_deviation - next_deviation,
        float(second[best, 1]),
        query[_LOG_TOOLS],
    ]
