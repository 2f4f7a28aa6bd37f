"""The training loop: one contrastive batch of one family and one batch of teacher texts a step."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from training.losses import contrastive, similarities, through_unit, towards, unit
from training.optimiser import RowAdam
from training.pairs import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    steps: int = 4000
    batch: int = 768  # pairs
    taught: int = 512  # teacher texts
    foreign: float = 0.3  # share of translations among them
    rate: float = 5e-3  # falls linearly to zero after the warm-up
    warm_up: int = 200
    scale: float = 20.0  # inverse temperature
    towards: float = 3.0
    similarities: float = 20.0
    dropout: float = 0.1  # of tokens
    seed: int = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """What the teacher says: text numbers [N], the row [N] of each in the teacher's vectors (a translation has its
    English wording's), those vectors as they are [R, 384] and projected to the student's space [R, 256]."""

    texts: np.ndarray
    rows: np.ndarray
    foreign: int  # the last so many of the texts are translations
    full: np.ndarray
    projected: np.ndarray

    def draw(self, rng: np.random.Generator, size: int, foreign_share: float) -> tuple[np.ndarray, np.ndarray]:
        """Text numbers and rows [size] of a lesson."""
        native = len(self.texts) - self.foreign
        foreign_size = int(size * foreign_share)
        chosen = np.concatenate(
            [rng.integers(native, size=size - foreign_size), native + rng.integers(self.foreign, size=foreign_size)]
        )
        return self.texts[chosen], self.rows[chosen]


def thin(bag: sparse.csr_matrix, dropout: float, rng: np.random.Generator) -> sparse.csr_matrix:
    """A copy without a random share of its tokens."""
    bag.data *= rng.random(len(bag.data)) >= dropout
    return bag


def train(
    matrix: np.ndarray,
    bags: sparse.csr_matrix,
    families: list[Family],
    taught: Taught,
    settings: Settings,
    report: Callable[[int, np.ndarray], None] | None = None,
) -> np.ndarray:
    """Trains matrix [V, D] in place; bags [N, V] holds the bags of all texts by number."""
    rng = np.random.default_rng(settings.seed)
    adam = RowAdam(matrix)
    shares = np.array([f.share for f in families])
    sums = np.zeros(3)
    began = time.monotonic()
    for step in range(settings.steps):
        family = families[rng.choice(len(families), p=shares / shares.sum())]
        chosen = rng.choice(len(family.left), min(settings.batch, len(family.left)), replace=False)
        left, right, key = family.left[chosen], family.right[chosen], family.key[chosen]
        lesson, rows = taught.draw(rng, settings.taught, settings.foreign)
        texts = np.concatenate([left, right, lesson])
        bag = thin(bags[texts], settings.dropout, rng)
        tokens, places = np.unique(bag.indices, return_inverse=True)
        bag = sparse.csr_matrix((bag.data, places.astype(np.int32), bag.indptr), (len(texts), len(tokens)))
        z, length = unit(bag @ matrix[tokens])

        n = len(chosen)
        same = (key[:, None] == key) | (right[:, None] == right) | (left[:, None] == left)
        dz = np.zeros_like(z)
        loss, dz[:n], dz[n : 2 * n] = contrastive(z[:n], z[n : 2 * n], same, settings.scale)
        apart, pull = towards(z[2 * n :], taught.projected[rows])
        shape, push = similarities(z[2 * n :], taught.full[rows])
        dz[2 * n :] = settings.towards * pull + settings.similarities * push
        rate = settings.rate * min((step + 1) / settings.warm_up, 1 - step / settings.steps)
        adam.step(tokens, bag.T @ through_unit(z, length, dz), rate)

        sums += loss, apart, shape
        if (step + 1) % 200 == 0:
            means, sums = sums / 200, np.zeros(3)
            print(
                f"step {step + 1:5d}  contrastive {means[0]:.3f}  towards {means[1]:.3f}  "
                f"similarities {means[2]:.4f}  {time.monotonic() - began:.0f} s",
                flush=True,
            )
        if report and (step + 1) % 1000 == 0:
            report(step + 1, matrix)
    return matrix
