"""The training loop: one contrastive batch of one family and one batch of teacher texts a step."""

import time
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from research.losses import contrastive, similarities, through_unit, towards, unit
from research.optimiser import RowAdam
from research.pairs import Family

REPORT_EVERY = 200  # steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    steps: int = 5000
    batch: int = 768  # pairs
    taught: int = 512  # teacher texts
    foreign: float = 0.3  # share of translations among them
    rate: float = 5e-3  # falls linearly to zero after the warm-up
    warm_up: int = 200
    scale: float = 20.0  # inverse temperature
    towards: float = 3.0
    similarities: float = 20.0
    dropout: float = 0.2  # of tokens
    seed: int = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """The teacher's data: text numbers [N], the row [N] of each in the teacher's vectors (a translation has the row of
    its English text), these vectors [R, 384], and their projection to the student's space [R, 256].
    """

    texts: np.ndarray
    rows: np.ndarray
    foreign: int  # how many of the texts, the last ones, are translations
    full: np.ndarray
    projected: np.ndarray

    def draw(
        self, rng: np.random.Generator, size: int, foreign_share: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the texts and the rows of a lesson, shape [size].

        Args:
            rng: The random generator.
            size: The number of texts.
            foreign_share: The share of texts in other languages.
        """
        native = len(self.texts) - self.foreign
        foreign_size = int(size * foreign_share)
        chosen = np.concatenate(
            [
                rng.integers(native, size=size - foreign_size),
                native + rng.integers(self.foreign, size=foreign_size),
            ]
        )
        return self.texts[chosen], self.rows[chosen]


def thinned(
    bag: sparse.csr_matrix, dropout: float, rng: np.random.Generator
) -> tuple[np.ndarray, sparse.csr_matrix]:
    """Return the tokens that occur [R] and the bags over only these [B, R], without a random share of the occurrences.

    Args:
        bag: The bags.
        dropout: The share of dropped occurrences.
        rng: The random generator.
    """
    tokens, places = np.unique(bag.indices, return_inverse=True)
    counts = bag.data * (rng.random(len(bag.data)) >= dropout)
    return tokens, sparse.csr_matrix(
        (counts, places.astype(np.int32), bag.indptr), (bag.shape[0], len(tokens))
    )


def gradient(
    z: np.ndarray, same: np.ndarray, full: np.ndarray, projected: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray]:
    """Return the three losses [3] and the gradient at z.

    Args:
        z: n anchors, their n positives, and the lesson.
        same: True for pairs that are not negatives [n, n].
        full: The teacher's vectors of the lesson.
        projected: The same in the student's space.
        settings: The settings.
    """
    n = len(same)
    dz = np.zeros_like(z)
    contrast, dz[:n], dz[n : 2 * n] = contrastive(z[:n], z[n : 2 * n], same, settings.scale)
    apart, pull = towards(z[2 * n :], projected)
    shape, push = similarities(z[2 * n :], full)
    dz[2 * n :] = settings.towards * pull + settings.similarities * push
    return np.array([contrast, apart, shape]), dz


def train(
    matrix: np.ndarray,
    bags: sparse.csr_matrix,
    families: list[Family],
    taught: Taught,
    settings: Settings,
) -> None:
    """Train the matrix in place.

    Args:
        matrix: The vectors of the tokens, shape [V, D].
        bags: The bags of all texts by number, shape [N, V].
        families: The pairs of texts, by family.
        taught: The teacher's vectors.
        settings: The settings of the training.
    """
    rng = np.random.default_rng(settings.seed)
    adam = RowAdam(matrix)
    shares = np.array([family.share for family in families])
    sums, began = np.zeros(3), time.monotonic()
    for step in range(settings.steps):
        family = families[rng.choice(len(families), p=shares / shares.sum())]
        chosen = rng.choice(len(family.left), min(settings.batch, len(family.left)), replace=False)
        left, right, key = family.left[chosen], family.right[chosen], family.key[chosen]
        same = (key[:, None] == key) | (right[:, None] == right) | (left[:, None] == left)
        lesson, rows = taught.draw(rng, settings.taught, settings.foreign)
        tokens, bag = thinned(bags[np.concatenate([left, right, lesson])], settings.dropout, rng)
        z, length = unit(bag @ matrix[tokens])
        losses, dz = gradient(z, same, taught.full[rows], taught.projected[rows], settings)
        rate = settings.rate * min((step + 1) / settings.warm_up, 1 - step / settings.steps)
        adam.step(tokens, bag.T @ through_unit(z, length, dz), rate)
        sums += losses
        if (step + 1) % REPORT_EVERY == 0:
            _report(step + 1, sums / REPORT_EVERY, time.monotonic() - began)
            sums = np.zeros(3)


def _report(step: int, losses: np.ndarray, seconds: float) -> None:
    names = ("contrastive", "towards", "similarities")
    means = "  ".join(f"{name} {loss:.4f}" for name, loss in zip(names, losses, strict=True))
    print(f"step {step:5d}  {means}  {seconds:.0f} s", flush=True)
