"""The fitted maps from features to probabilities, the gate, and a Fit that corrects them for one's own catalogue.

The maps are fitted by `python -m research.confidence`.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from orchestrator.common.arrays import Mask
from orchestrator.common.fields import Give, named
from orchestrator.common.json_input import reading
from orchestrator.common.regular import MOST_SETTINGS_BYTES, read_text
from orchestrator.errors import InvalidConfig
from orchestrator.index.features import ASKED, KEYWORD, SEMANTIC, Rows

Probabilities = NDArray[np.float64]
"""Shape [candidates]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticMap:
    """Logistic regression: probability = 1 / (1 + exp(-(bias + sum of weight * feature)))."""

    features: tuple[str, ...]
    weights: NDArray[np.float64]
    bias: float

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        """Return the map that a record holds as weights by feature name, and a bias."""
        weights = record["weights"]
        return cls(
            features=tuple(weights),
            weights=np.array([*weights.values()], np.float64),
            bias=record["bias"],
        )

    def __call__(
        self, rows: NDArray[np.float64], query: Sequence[float] | Rows = ()
    ) -> Probabilities:
        """Return probabilities [rows] for rows [rows, features] with columns in the order of `features`.

        The last columns may be given separately as `query`: the same for every row, or [rows, columns]. Columns that
        this map does not use are ignored.
        """
        columns = rows.shape[1]
        of_rows = self.weights[:columns]
        of_query = self.weights[columns:]
        odds = rows @ of_rows + self.bias
        if len(of_query):
            read = np.asarray(query, np.float64)[..., : len(of_query)]
            odds = odds + read @ of_query
        return np.asarray(expit(odds))

    def chance(self, features: Sequence[float]) -> float:
        """Return the probability for one row."""
        return float(expit(self.weights @ features + self.bias))

    def of_best(
        self,
        probabilities: Probabilities,
        rows: Rows,
        query: Sequence[float],
        unfamiliar: float = 0.0,
    ) -> float:
        """Return the probability that the best candidate is right, 0 without candidates, by a map from `top_features`.

        Args:
            probabilities: The candidates' probabilities.
            rows: Their features.
            query: The query's features.
            unfamiliar: The share of the query's tokens that the embedder does not know well, 0 to 1.
        """
        if not len(probabilities):
            return 0.0
        return self.chance(top_features(probabilities, rows, query, unfamiliar=unfamiliar))


def supported(chances: Probabilities, factors: Probabilities | float) -> Probabilities:
    """Return the chances with their odds multiplied."""
    return chances * factors / (1 - chances + chances * factors)


FITTED = 0.8
"""The weight of the map that was fitted on both legs' features. With .5, one leg that is sure and wrong leads more
often: hit@1 of the nine development sets is .7525 instead of .7531, of sister tools .662 instead of .700."""


def vote(keyword: Probabilities, semantic: Probabilities) -> Probabilities:
    """Return 0.6 * max + 0.4 * min of the legs' probabilities, so that agreement never loses to a single vote."""
    return 0.6 * np.maximum(keyword, semantic) + 0.4 * np.minimum(keyword, semantic)


def blend(keyword: Probabilities, semantic: Probabilities, fitted: Probabilities) -> Probabilities:
    """Return the weighted mean, in log-odds, of the vote and of the map fitted on both legs' features.

    The map alone prefers the leg that its training queries favoured. The vote alone does not use the features.

    Args:
        keyword: The probabilities by the keyword leg.
        semantic: The probabilities by the semantic leg.
        fitted: The probabilities by the map.
    """
    odds = (1 - FITTED) * log_odds(vote(keyword, semantic), 1e-5) + FITTED * log_odds(fitted, 1e-5)
    return np.asarray(expit(odds))


def expit(odds: Any) -> Any:
    """Return the probability of log-odds, or of an array of log-odds. Beyond 30 all are the same."""
    return 1 / (1 + np.exp(-np.minimum(np.maximum(odds, -30.0), 30.0)))


def log_odds(chance: Any, least: float = 1e-4) -> Any:
    """Return the log-odds of a probability, or of an array of probabilities, kept this far from 0 and 1."""
    clipped = np.minimum(np.maximum(chance, least), 1 - least)
    return np.log(clipped / (1 - clipped))


MAX_STEPS, SMALLEST_STEP = 50, 1e-7
"""Newton's method ends after 50 steps, or after a step below 1e-7."""
LEAST_SLOPE = 0.1
"""With a slope near 0 every probability would be the same, and a negative one would reverse their order."""
REMEDY = "make it with `toolroute eval FOLDER --fit --write FILE`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Log-odds times a slope, plus an offset."""

    slope: Annotated[float, Give(f"a number from {LEAST_SLOPE} to 10", ge=LEAST_SLOPE, le=10)] = 1.0
    offset: Annotated[float, Give("a number from -20 to 20", ge=-20, le=20)] = 0.0

    def __call__(self, chance: float) -> float:
        return float(expit(self.slope * log_odds(chance) + self.offset))

    @classmethod
    def fitted(cls, claims: Sequence[tuple[float, bool]], prior: float) -> Self:
        """Return the most likely correction of these probabilities, each with its result, by Newton's method.

        The uncorrected probabilities count as `prior` results. A probability of 0 means no answer and is ignored.
        """
        # Without an answer there was no claim that could be wrong.
        answered_claims = [claim for claim in claims if claim[0] > 0]
        if not answered_claims:
            return cls()
        chances, is_right = np.array(answered_claims, np.float64).T
        odds = log_odds(chances)
        constant = np.ones_like(odds)
        inputs = np.column_stack([odds, constant])
        slope, offset = _newton(inputs, is_right, prior).tolist()
        return cls(slope=max(slope, LEAST_SLOPE), offset=offset)

    def on(self, fitted: LogisticMap) -> LogisticMap:
        """Return the map with corrected probabilities."""
        return replace(
            fitted, weights=fitted.weights * self.slope, bias=fitted.bias * self.slope + self.offset
        )


def _newton(
    inputs: NDArray[np.float64], right: NDArray[np.float64], prior: float
) -> NDArray[np.float64]:
    """Return slope and offset with the least loss, drawn to 1 and 0 with the weight `prior`."""
    start = np.array([1.0, 0.0])
    solution = start.copy()

    def loss(values: NDArray[np.float64]) -> float:
        odds = inputs @ values
        misfit = (np.logaddexp(0, odds) - right * odds).sum()
        return float(misfit + prior / 2 * ((values - start) ** 2).sum())

    def newton_step() -> NDArray[np.float64]:
        claimed = expit(inputs @ solution)
        pull = prior * (solution - start)
        gradient = inputs.T @ (right - claimed) - pull
        spread = claimed * (1 - claimed)
        curve = inputs.T @ (inputs * spread[:, None]) + prior * np.eye(2)
        return np.linalg.solve(curve, gradient)

    for _ in range(MAX_STEPS):
        step = newton_step()
        # A whole step from claims that were sure and wrong goes too far, and ends anywhere.
        while loss(solution + step) > loss(solution) and np.abs(step).max() >= SMALLEST_STEP:
            step /= 2
        solution += step
        if np.abs(step).max() < SMALLEST_STEP:
            break
    return solution


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageMaps:
    """The maps for tasks in another language than English, fitted by `python -m research.multilingual`.

    Attributes:
        embedder: The id of the embedder whose probabilities these maps read.
        other: The probability that a task is in another language.
        chances: A tool's probability, from its log-odds without the second encoder and from that encoder's cosines.
        confidence: The probability that the best tool is right.
    """

    embedder: str
    other: LogisticMap
    chances: LogisticMap
    confidence: LogisticMap


@cache
def language_maps() -> LanguageMaps:
    """Return the maps that come with the package."""
    record = json.loads((files("orchestrator") / "data" / "languages.json").read_bytes())
    maps = {
        name: LogisticMap.from_json(record[name]) for name in ("other", "chances", "confidence")
    }
    return LanguageMaps(embedder=record["embedder"], **maps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The fitted maps from features to probabilities.

    Attributes:
        keyword: A tool's probability by the keyword leg alone.
        semantic: A tool's probability by the semantic leg alone.
        merged: A tool's probability by both legs.
        order: A tool's probability after the sentences of the best tools are read.
        gate: The probability that the best tool is right, before the semantic leg.
        confidence: The probability that the best tool is right, after the semantic leg.
        languages: The maps for a task in another language.

    Examples:
        >>> from orchestrator import Calibration
        >>> from orchestrator.index.calibration import shipped
        >>> isinstance(shipped(), Calibration)
        True
    """

    keyword: LogisticMap
    semantic: LogisticMap
    merged: LogisticMap
    order: LogisticMap
    gate: LogisticMap
    confidence: LogisticMap
    languages: LanguageMaps = field(default_factory=language_maps)


@cache
def shipped() -> Calibration:
    """Return the maps that come with the package."""
    return from_json(json.loads(_shipped_file()))


def _shipped_file() -> bytes:
    return (files("orchestrator") / "data" / "calibration.json").read_bytes()


def from_json(record: dict[str, dict[str, Any]]) -> Calibration:
    """Return a Calibration from its JSON form."""
    maps = {name: LogisticMap.from_json(record[name]) for name in record if name != "about"}
    return Calibration(
        keyword=maps["keyword"],
        semantic=maps["semantic"],
        merged=maps["merged"],
        order=maps["order"],
        gate=maps["gate"],
        confidence=maps["confidence"],
    )


TOP = ("best", "lead", "mass", "second_share", "held")
BEST_KEYWORD = ("kw_share_of_ceiling", "name_in_query", "query_in_name")
BEST_BOTH = ("cos_z", "cos_behind_best", "cos_server")
OF_QUERY = ("log_tools", "unknown")
GATE = (*TOP, *OF_QUERY, *BEST_KEYWORD)
"""The gate's features: of all candidates' probabilities, of the query, and of the best candidate."""
CONFIDENCE = (*GATE, *BEST_BOTH, "far", "long", "surest", "strange")
FAR = 0.35
"""The cosine below which a tool is far from the task, even if all other tools are farther."""
LONG = math.log1p(16)
"""A number of terms, as `log_terms`. A task with 16 terms asks for several things, and one tool does only
one of them."""

ALONE = 1e-3
"""The second probability for the confidence if only one tool can be meant. No set that the maps were fitted to is so
small. On three sets that were not used for it, the calibration error is .06 to .07. With 1e-6, as for the gate, it is
.20 to .42: the map takes the distance to the second tool for too large."""

_LEAST = 1e-6
"""How far from 0 and 1 probabilities are kept as features."""
_KEYWORD_COLUMNS = [KEYWORD.index(name) for name in BEST_KEYWORD]
_BOTH_COLUMNS = [*_KEYWORD_COLUMNS, *((*KEYWORD, *SEMANTIC).index(name) for name in BEST_BOTH)]
_QUERY_COLUMNS = [ASKED.index(name) for name in OF_QUERY]
_IN_TOOL, _KNOWN = KEYWORD.index("query_in_tool"), ASKED.index("known_weight")
_TERMS, _UNKNOWN = ASKED.index("log_terms"), ASKED.index("unknown")
_COSINE = (*KEYWORD, *SEMANTIC).index("cos")


def top_features(
    probabilities: Probabilities,
    rows: Rows,
    query: Sequence[float],
    parts: Rows | None = None,
    unfamiliar: float = 0.0,
) -> list[float]:
    """Return the features GATE, or CONFIDENCE if the candidates' rows include the semantic features.

    The first ones are the best candidate's log-odds, its lead over the second candidate in log-odds, and the log of the
    sum of all probabilities. Then come the second candidate's share of both probabilities, and the weight of the
    query's words in the best candidate. `far` is its cosine's distance below FAR, `long` is log_terms above LONG, and
    `surest` its best log-odds for the whole or a part. `strange` is the share of tokens that the embedder does not
    know well, multiplied by the share of words that no tool has.

    Args:
        probabilities: The candidates' probabilities.
        rows: Their features.
        query: The query's features.
        parts: The candidates' probabilities for each part alone [parts, candidates].
        unfamiliar: The first factor of `strange`.
    """
    both = rows.shape[1] > len(KEYWORD)
    clipped = probabilities.clip(_LEAST, 1 - _LEAST)
    best_row = int(clipped.argmax())
    best = float(clipped[best_row])
    alone = min(best, ALONE if both else _LEAST)
    second = float(np.delete(clipped, best_row).max()) if len(clipped) > 1 else alone
    # A tool that is almost certain for one clause is probably needed, even if the task as a text says little.
    surest = best
    if parts is not None:
        surest = max(best, float(parts[:, best_row].max(initial=0.0)))
    odds, second_odds, surest_odds = log_odds([best, second, surest], _LEAST).tolist()
    mass = math.log(clipped.sum())
    columns = rows[best_row].tolist()
    held = columns[_IN_TOOL] * query[_KNOWN]
    features = [odds, odds - second_odds, mass, second / (best + second), held]
    features += [query[column] for column in _QUERY_COLUMNS]
    if not both:
        return features + [columns[column] for column in _KEYWORD_COLUMNS]
    features += [columns[column] for column in _BOTH_COLUMNS]
    far = max(0.0, FAR - columns[_COSINE])
    long = max(0.0, query[_TERMS] - LONG)
    strange = unfamiliar * query[_UNKNOWN]
    return [*features, far, long, surest_odds, strange]


SEVERAL = 1.5
"""The minimum number of words, by their weight, with which the gate trusts a tool. A single word may
have other meanings."""
ABOVE = 0.2
"""The maximum difference by which the gate's confidence may exceed the best tool's own probability. The gate also knows
the distance to the other tools."""


def most_by_words(probabilities: Probabilities, rows: Rows, query: Sequence[float]) -> float:
    """Return an upper limit of the gate's confidence in the keyword leg's best candidate.

    It is at most twice the share of the query's words in the candidate, and at most ABOVE more than the candidate's own
    probability. It is 0 if the candidate has too few of the words. The maps need this limit, because they were fitted
    to queries whose tool exists: "why does this SELECT take so long" shares one word in three with a tool that takes
    screenshots.

    Args:
        probabilities: The candidates' probabilities.
        rows: Their features.
        query: The query's features.
    """
    if not len(probabilities):
        return 0.0
    best = int(np.argmax(probabilities))
    weight_in_tool = float(rows[best, _IN_TOOL]) * (1 - query[_UNKNOWN])
    few = weight_in_tool * math.expm1(query[_TERMS]) < SEVERAL
    return 0.0 if few else min(1.0, 2 * weight_in_tool, float(probabilities[best]) + ABOVE)


UNKNOWN_NO_TOOL_SIMILARITY = -1.0
"""The cosine of a query with texts that need no tool, for an embedder without such a vector: the greatest distance."""


def most_by_meaning(
    probabilities: Probabilities, rows: Rows, overlap: Mask, no_tool_similarity: float
) -> float:
    """Return an upper limit of the confidence from the best candidate's cosine and the similarity to "no tool".

    In a catalogue of five tools one tool is always far ahead, even for a meaningless query. On small catalogues from
    the development sets, 8 % of the best tools without a shared word were right at a cosine of .25, and 56 % at .45. Of
    the tools with a shared word, none was right below .1. If a query is as similar to requests that need no tool as to
    its best tool ("good morning", and "last good version"), the limit is .3. If it is more similar by .1, the limit is
    0. Of 6,034 queries this affects ten, and six of these are right.

    Args:
        probabilities: The candidates' probabilities.
        rows: Their features.
        overlap: The weight of shared words.
        no_tool_similarity: The cosine with requests that need no tool, or None.
    """
    best = int(np.argmax(probabilities))
    cosine = float(rows[best, _COSINE])
    supported = 10 * (cosine - 0.16)
    if not overlap[best]:
        supported = min(supported, 2 * cosine - 0.2)
    return min(1.0, max(0.0, min(supported, 0.3 - 3 * (no_tool_similarity - cosine))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Corrections of the fitted maps for your own queries, kept in a file. `toolroute eval FOLDER --fit` makes it.

    Attributes:
        gate: The correction of the gate's map. None: no correction.
        confidence: The correction of the confidence's map. None: no correction.
        shipped: The name of the maps that the file corrects.
        embedder: The id of the embedder with which the corrections were fitted. Empty: any.
        about: How the file was made.

    Examples:
        >>> from orchestrator import Fit, Router
        >>> with Router("examples/tools.jsonl", calibration=Fit()) as router:  # an empty Fit changes nothing
        ...     router.route_sync("refund a charge").recommended
        ('stripe:refund_charge',)
    """

    gate: Correction | None = None
    confidence: Correction | None = None
    shipped: str = ""
    embedder: str = ""
    about: dict[str, Any] | None = None

    def maps(self, base: Calibration) -> Calibration:
        """Return the maps with the corrections in them."""
        gate, confidence = self.gate or Correction(), self.confidence or Correction()
        return replace(
            base,
            gate=gate.on(base.gate),
            confidence=confidence.on(base.confidence),
            languages=replace(base.languages, confidence=confidence.on(base.languages.confidence)),
        )

    def check(self, embedder: str) -> None:
        """Raise InvalidConfig when another embedder is in use than the one it was fitted with."""
        if self.embedder not in ("", embedder):
            raise InvalidConfig(
                f"the calibration file was fitted with the embedder {self.embedder!r}, but {embedder!r} is in use: "
                "fit it again with `toolroute eval FOLDER --fit --write FILE`, or remove --calibration"
            )

    @classmethod
    @named
    def read(cls, path: str | Path) -> "Fit":
        """Read a fit from a file. Raises InvalidConfig if it is broken, or if the shipped maps have changed."""
        from pydantic import TypeAdapter

        with reading(f"calibration {str(path)!r}", REMEDY, InvalidConfig):
            text = read_text(path, most_bytes=MOST_SETTINGS_BYTES, pipes=True)
            fit = TypeAdapter(Fit).validate_json(text)
        if fit.shipped != shipped_maps():
            raise InvalidConfig(
                f"calibration {str(path)!r} was made for the maps {fit.shipped!r}, but this version of toolroute has "
                f"{shipped_maps()!r}; {REMEDY}"
            )
        return fit

    def write(self, path: Path) -> None:
        """Write the fit to a file. Raises InvalidConfig if that fails."""
        try:
            path.write_text(
                json.dumps({**asdict(self), "shipped": shipped_maps()}, indent=1) + "\n",
                encoding="utf-8",
            )
        except OSError as error:
            raise InvalidConfig(
                f"calibration {str(path)!r} cannot be written: {error.strerror}"
            ) from None


@cache
def shipped_maps() -> str:
    """Return the name of the shipped maps, which a correction belongs to."""
    return hashlib.sha256(_shipped_file()).hexdigest()[:12]
