"""Adam that touches only the rows of the tokens in the batch (each row keeps its own step count)."""

import numpy as np


class RowAdam:
    def __init__(self, matrix: np.ndarray, beta1: float = 0.9, beta2: float = 0.99) -> None:
        self._matrix = matrix
        self._mean, self._square = np.zeros_like(matrix), np.zeros_like(matrix)
        self._steps = np.zeros((len(matrix), 1), np.float32)
        self._beta1, self._beta2 = beta1, beta2

    def step(self, rows: np.ndarray, gradient: np.ndarray, rate: float) -> None:
        """Change the given rows of the matrix by one step.

        Args:
            rows: The numbers of the rows, each once, shape [R].
            gradient: Their gradient, shape [R, D].
            rate: The learning rate.
        """
        self._steps[rows] += 1
        steps = self._steps[rows]
        mean, square = self._mean[rows], self._square[rows]
        mean += (1 - self._beta1) * (gradient - mean)
        square += (1 - self._beta2) * (gradient * gradient - square)
        self._mean[rows], self._square[rows] = mean, square
        mean /= 1 - self._beta1**steps
        square /= 1 - self._beta2**steps
        np.sqrt(square, out=square)
        square += 1e-8
        mean /= square
        self._matrix[rows] -= rate * mean
