"""What is wrong with a check is found, and said."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest

from acetune import Constraint, Estimate
from acetune.testing import check_constraint


class Ranged:
    value_range = (0.0, 1.0)

    def __call__(self, model: list[float]) -> float:
        return model[0]


class Locked:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, model: list[float]) -> float:
        return 1.0


def noisy(model: list[float]) -> Estimate:
    return Estimate(random.SystemRandom().random(), 0.3)


@pytest.mark.parametrize("check", [len, Ranged(), noisy, Constraint("n", upper=3, check=len)])
def test_a_good_one_passes(check: Any) -> None:
    check_constraint(check, [0.5, 1.0])


def appends(model: list[float]) -> float:
    model.append(1.0)
    return 1.0


def draws(model: list[float]) -> float:
    return 0 * random.random()


def draws_numpy(model: list[float]) -> float:
    return float(0 * np.random.rand())


def unsure(model: list[float]) -> float:
    return random.SystemRandom().random()


def breaks(model: list[float]) -> float:
    raise KeyError("weights")


def not_a_number(model: list[float]) -> float:
    return float("nan")


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (appends, "appends: the check has changed the model"),
        (draws, "draws: the check draws from the random numbers of training"),
        (draws_numpy, "draws_numpy: the check draws from the random numbers of training"),
        (unsure, "a second measurement of the same model gives .* return acetune.Estimate"),
        (breaks, "breaks: the check failed: KeyError: 'weights'"),
        (not_a_number, "not_a_number: the check failed: .* is nan"),
        (Locked(), "Locked: the check cannot be sent to a worker: .*lock"),
        (Constraint("size", upper=1), "size: the constraint has no check"),
        (3, "a check must be callable, got 3"),
    ],
)
def test_what_is_wrong_is_said(check: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_constraint(check, [0.5, 1.0])


def test_a_value_outside_its_range() -> None:
    with pytest.raises(AssertionError, match=r"'Ranged' is 2, and its .* between 0 and 1"):
        check_constraint(Ranged(), [2.0])
