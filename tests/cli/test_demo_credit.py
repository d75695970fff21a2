from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.cli.demo_credit import (
    CreditModel,
    auc,
    lightgbm,
    made_credit,
)


def slow_auc(y: np.ndarray, scores: np.ndarray) -> float:
    pairs = [(p > n) + 0.5 * (p == n) for p in scores[y == 1] for n in scores[y == 0]]
    return float(np.mean(pairs))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=30))
def test_auc_counts_pairs(rows: list[tuple[bool, int]]) -> None:
    y = np.array([1.0, 0.0, *[float(label) for label, _ in rows]])
    scores = np.array([3.0, 2.0, *[float(score) for _, score in rows]])
    assert np.isclose(auc(y, scores).value, slow_auc(y, scores))


def test_the_check_counts_who_reaches_the_share_of_defaults() -> None:
    """The larger gap between the groups' rates, by hand."""
    task = made_credit(3000)
    rows, share = task.select_rows, task.train_rows.y.mean()
    scores = np.random.default_rng(0).random(len(rows.y)) * 2 * share
    scores[:50] = share  # just enough
    found = task.check(CreditModel(None, 1, scores))
    gaps = []
    for label in (0, 1):
        rates = [np.mean(scores[(rows.y == label) & (rows.group == g)] >= share) for g in (1, 2)]
        gaps.append(abs(rates[0] - rates[1]))
    assert found.value == max(gaps)
    assert 0 < found.stderr < 0.1


def test_the_three_parts_share_no_client_and_the_share_of_defaults() -> None:
    task = made_credit(3000)
    parts = (task.train_rows, task.select_rows, task.confirm_rows)
    assert [len(part.y) for part in parts] == [1799, 600, 601]
    assert len(np.unique(np.concatenate([part.x[:, 0] for part in parts]))) == 3000
    shares = [part.y.mean() for part in parts]
    assert max(shares) - min(shares) < 0.01


def test_one_feature_is_informative_for_one_group_only() -> None:
    rows = made_credit(6000).train_rows
    for group, informative in ((1, False), (2, True)):
        chosen = rows.group == group
        area = auc(rows.y[chosen], rows.x[chosen, 0]).value
        assert (area > 0.8) is informative


@pytest.mark.slow
def test_a_pickled_model_predicts_as_at_its_own_round() -> None:
    task = made_credit(1500)
    lgb = lightgbm()
    booster = lgb.Booster({"verbosity": -1, "objective": "binary"}, task._datasets(63)[0])
    for _ in range(5):
        booster.update()
    early = CreditModel(booster, 2, np.zeros(1))
    again = pickle.loads(pickle.dumps(early))
    x = task.select_rows.x
    assert np.allclose(again.predict(x), booster.predict(x, num_iteration=2))
    assert not np.allclose(again.predict(x), booster.predict(x))
