"""The training loop: one contrastive batch of one family and one batch of teacher texts a step."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from training.groups import Groups
from training.losses import contrastive, similarities, through_unit, towards, unit
from training.optimiser import RowAdam
from training.pairs import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    steps: int = 4000
    batch: int = 768  # pairs
    taught: int = 512  # teacher texts
    rate: float = 3e-3  # falls linearly to zero after the warm-up
    warm_up: int = 200
    scale: float = 20.0  # inverse temperature
    towards: float = 3.0
    similarities: float = 20.0
    dropout: float = 0.1  # of tokens
    hard: float = 0.5  # share of the batches that are drawn from few groups
    groups: int = 400
    groups_a_batch: int = 8
    near: float = 0.9  # cosine of two positives above which they are no negatives of one another
    seed: int = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """Texts by number with the teacher's vectors: full [N, 384] and projected to the student's space [N, 256]."""

    texts: np.ndarray
    full: np.ndarray
    projected: np.ndarray


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
    family_groups = [Groups(unit(bags[f.left] @ matrix)[0], rng, settings.groups) for f in families]
    lesson_groups = Groups(taught.projected, rng, settings.groups)

    def draw(groups: Groups, total: int, size: int) -> np.ndarray:
        if rng.random() < settings.hard:
            return groups.draw(rng, size, settings.groups_a_batch)
        return rng.choice(total, min(size, total), replace=False)

    sums = np.zeros(3)
    began = time.monotonic()
    for step in range(settings.steps):
        number = rng.choice(len(families), p=shares / shares.sum())
        family = families[number]
        chosen = draw(family_groups[number], len(family.left), settings.batch)
        left, right, key = family.left[chosen], family.right[chosen], family.key[chosen]
        lesson = draw(lesson_groups, len(taught.texts), settings.taught)
        texts = np.concatenate([left, right, taught.texts[lesson]])
        bag = thin(bags[texts], settings.dropout, rng)
        tokens, places = np.unique(bag.indices, return_inverse=True)
        bag = sparse.csr_matrix((bag.data, places.astype(np.int32), bag.indptr), (len(texts), len(tokens)))
        z, length = unit(bag @ matrix[tokens])

        n = len(chosen)
        same = (key[:, None] == key) | (right[:, None] == right) | (left[:, None] == left)
        same |= z[n : 2 * n] @ z[n : 2 * n].T > settings.near
        dz = np.zeros_like(z)
        loss, dz[:n], dz[n : 2 * n] = contrastive(z[:n], z[n : 2 * n], same, settings.scale)
        apart, pull = towards(z[2 * n :], taught.projected[lesson])
        shape, push = similarities(z[2 * n :], taught.full[lesson])
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
