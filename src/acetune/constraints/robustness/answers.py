"""What a sentiment model answered: labels, confidences and sentiments of many texts at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import ReportError

Array = NDArray[Any]

NEGATIVE, NEUTRAL, POSITIVE = 0, 1, 2


class Answers:
    """The answers of a model of two classes (negative, positive) or of three (neutral between).

    Parameters
    ----------
    probabilities:
        One row a text, one column a class; or P(positive) alone.

    A model of two classes calls a text neutral where P(positive) lies in the middle third, both
    ends included.

    >>> Answers(np.array([0.1, 0.5, 0.9])).labels.tolist()
    [0, 1, 2]
    >>> Answers(np.array([[0.2, 0.5, 0.3]])).labels.tolist()
    [1]
    """

    def __init__(self, probabilities: Array) -> None:
        found = np.asarray(probabilities, dtype=float)
        shape = found.shape
        if found.ndim != 1 and (found.ndim != 2 or shape[1] not in (2, 3)):
            raise ReportError(
                "a sentiment model answers with P(positive), or with one column for each of two "
                f"or three classes; got an array of shape {shape}"
            )
        outside = ~((found >= 0.0) & (found <= 1.0))  # NaN too
        if outside.any():
            raise ReportError(
                f"a probability is between 0 and 1; text {np.argwhere(outside)[0][0]} got "
                f"{found[outside][0]}: are these logits?"
            )
        if found.ndim == 1:
            found = np.column_stack([1.0 - found, found])
        self.probabilities = found
        self.labels: Array
        if found.shape[1] == 3:
            self.labels = found.argmax(axis=1)
        else:
            positive = found[:, 1]
            self.labels = np.where(positive < 1 / 3, NEGATIVE, NEUTRAL)
            self.labels[positive > 2 / 3] = POSITIVE

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sentiment(self) -> Array:
        """P(positive) minus P(negative), from -1 to 1."""
        difference: Array = self.probabilities[:, -1] - self.probabilities[:, 0]
        return difference

    def rise(self, original: Array, variant: Array) -> Array:
        """By how much each variant raises the confidence in the label of its original.

        Two classes have no probability of neutral; for an original that is called neutral, any
        movement of P(positive) is a fall.
        """
        labels = self.labels[original]
        if self.probabilities.shape[1] == 3:
            moved = self.probabilities[variant, labels] - self.probabilities[original, labels]
        else:
            up = self.probabilities[variant, 1] - self.probabilities[original, 1]
            moved = np.where(labels == POSITIVE, up, np.where(labels == NEGATIVE, -up, -abs(up)))
        result: Array = moved
        return result
