"""When a behavioural test passes: the rules of CheckList (Ribeiro et al. 2020), one function each.

A rule sees pairs of texts, an original and a variant of it, by their places among the answers, and
says of each pair whether it fails and whether it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acetune.constraints.robustness.answers import NEUTRAL, Answers

Array = NDArray[Any]
Rule: TypeAlias = Callable[[Answers, Array, Array], tuple[Array, Array]]

TOLERANCE = 0.1  # a movement up to here is no failure
_ROUNDING = 1e-9  # 0.7 - 0.6 is a little more than 0.1


def _nothing_left_out(failed: Array) -> tuple[Array, Array]:
    return failed, np.zeros(len(failed), dtype=bool)


def invariant(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The label stays, or the confidence in it hardly moves."""
    changed = answers.labels[original] != answers.labels[variant]
    moved = np.abs(answers.rise(original, variant)) > TOLERANCE + _ROUNDING
    return _nothing_left_out(changed & moved)


def not_less_confident(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The confidence in the original's label does not drop; neutral originals are left out."""
    dropped = answers.rise(original, variant) < -TOLERANCE - _ROUNDING
    return dropped, answers.labels[original] == NEUTRAL


def not_more_confident(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The confidence in the original's label does not rise; neutral originals are left out."""
    rose = answers.rise(original, variant) > TOLERANCE + _ROUNDING
    return rose, answers.labels[original] == NEUTRAL


def not_more_negative(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The sentiment does not fall."""
    change = answers.sentiment[variant] - answers.sentiment[original]
    return _nothing_left_out(change < -TOLERANCE - _ROUNDING)


def not_more_positive(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The sentiment does not rise."""
    change = answers.sentiment[variant] - answers.sentiment[original]
    return _nothing_left_out(change > TOLERANCE + _ROUNDING)


RULES: dict[str, Rule] = {
    "invariant": invariant,
    "not less confident": not_less_confident,
    "not more confident": not_more_confident,
    "not more negative": not_more_negative,
    "not more positive": not_more_positive,
}
