"""Losses over unit vectors, each returning its value and its gradients (all float32, means over the batch)."""

import numpy as np

Matrix = np.ndarray


def unit(y: Matrix) -> tuple[Matrix, Matrix]:
    """Return unit rows and their lengths [B, 1]. An empty row stays zero."""
    length = np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-6)
    return y / length, length


def through_unit(z: Matrix, length: Matrix, dz: Matrix) -> Matrix:
    """Return the gradient at y from the gradient at z = y / |y|.

    Args:
        z: The unit vectors, shape [B, D].
        length: The lengths of y, shape [B, 1].
        dz: The gradient at z, shape [B, D].
    """
    gradient: Matrix = (dz - z * (z * dz).sum(1, keepdims=True)) / length
    return gradient


def contrastive(a: Matrix, b: Matrix, same: Matrix, scale: float) -> tuple[float, Matrix, Matrix]:
    """Return the symmetric InfoNCE loss, with the gradients at a and at b.

    Args:
        a: The unit vectors of the left texts, shape [B, D].
        b: The unit vectors of the right texts, shape [B, D].
        same: Marks pairs that are not negatives, shape [B, B]. Its diagonal is ignored.
        scale: The factor of the cosines.
    """
    logits = scale * (a @ b.T)
    np.copyto(logits, -1e4, where=same & ~np.eye(len(a), dtype=bool))
    rows = np.exp(logits - scale)
    columns = rows / rows.sum(0, keepdims=True)
    rows = rows / rows.sum(1, keepdims=True)
    diagonal = np.arange(len(a))
    value = -0.5 * float(
        (np.log(rows[diagonal, diagonal]) + np.log(columns[diagonal, diagonal])).mean()
    )
    gradient = 0.5 * (rows + columns)
    gradient[diagonal, diagonal] -= 1
    gradient *= scale / len(a)
    return value, gradient @ b, gradient.T @ a


def towards(z: Matrix, target: Matrix) -> tuple[float, Matrix]:
    """1 - cosine to the target, unit rows [B, D]."""
    return 1 - float((z * target).sum(1).mean()), -target / len(z)


def similarities(z: Matrix, target: Matrix) -> tuple[float, Matrix]:
    """Return the mean squared error between in-batch cosine matrices of z [B, D] and target [B, any width], both unit
    rows.
    """
    difference = z @ z.T - target @ target.T
    return float((difference**2).mean()), 4 / difference.size * (difference @ z)
