"""The sequence of candidates, the account of looks, and the error probability of whole studies."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from acetune.certification.account import Account, require_confidence
from acetune.certification.candidates import Position, choose
from acetune.certification.planning import (
    calls_for_percentile,
    rows_for_groups,
    rows_for_mean,
    rows_for_share,
)
from acetune.core.errors import GoalError

positions = st.lists(
    st.builds(Position, st.integers(0, 9).map(float), st.integers(-3, 6).map(float)), max_size=12
)


@given(positions, st.integers(1, 6))
def test_candidates_are_spread_from_safe_to_bold(found: list[Position], most: int) -> None:
    chosen = choose(found, most)
    assert len(chosen) == min(most, len(found)) and len(set(chosen)) == len(chosen)
    if not found:
        return
    # the best objective is always there; with two places, so is the safest that is not beaten
    assert min(p.loss for p in found) in [found[i].loss for i in chosen]
    safest = max(p.safety for p in found)
    if most > 1:
        assert found[chosen[0]].safety == safest
    assert all(a >= b for a, b in pairwise(found[i].safety for i in chosen))


def test_near_twins_leave_room_for_others() -> None:
    twins = [Position(1.0 + i / 100, 0.1) for i in range(5)]
    spread = [Position(1.5, 1.0), Position(2.0, 2.0), Position(3.0, 3.0), Position(4.0, 50.0)]
    assert choose([*twins, *spread], 4, enough=3.0) == [7, 6, 5, 0]  # 50 is more than enough


@given(st.floats(0.5, 0.999))
def test_looks_never_cost_more_than_there_is(confidence: float) -> None:
    account = Account(confidence, looks=2000)
    assert account.spent <= 1 - confidence
    assert account.left == pytest.approx(0, abs=1e-3 * (1 - confidence))
    levels = [Account(confidence).level(look) for look in range(1, 50)]
    assert all(a > b > 0 for a, b in pairwise(levels))


def test_a_confidence_that_makes_no_sense() -> None:
    assert require_confidence(0.9) == 0.9
    for wrong, words in ((95, "write 0.95"), (1.0, "below 1"), (0.05, "from 0.5"), ("x", "'x'")):
        with pytest.raises(GoalError, match=words):
            require_confidence(wrong)  # type: ignore[arg-type]


def test_studies_err_seldom_enough() -> None:
    """Five candidates on their limit, on the same rows, and up to four looks at new ones."""
    rng, studies, rows, limit = np.random.default_rng(5), 4000, 500, 0.2
    account = Account(0.95)
    wrong = np.zeros(studies, bool)
    for look in range(1, 5):
        shared = rng.random((studies, rows, 1)) < 0.7  # what candidates have in common
        coins = np.where(shared, rng.random((studies, rows, 1)), rng.random((studies, rows, 5)))
        counts = (coins < limit).sum(axis=1)
        p_values = stats.binom.cdf(counts, rows, limit)
        wrong |= p_values[:, 0] <= account.level(look)  # no other is certified unless this one is
    found = stats.binomtest(int(wrong.sum()), studies, 0.05, alternative="greater")
    assert found.pvalue > 1e-4 and wrong.mean() > 0.01  # and the test is no dead one


# -- planning ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "limit"), [(0.22, 0.25), (0.05, 0.1), (0.93, 0.9)])
def test_a_plan_for_a_share_has_the_power_it_promises(value: float, limit: float) -> None:
    rows = rows_for_share(value, limit, 0.05, 0.8)
    counts = np.arange(rows + 1)
    tail = stats.binom.cdf if value < limit else lambda k, n, p: stats.binom.sf(k - 1, n, p)
    power = stats.binom.pmf(counts, rows, value)[tail(counts, rows, limit) <= 0.05].sum()
    assert 0.79 <= power <= 0.86


def test_a_plan_for_groups_is_near_the_normal_one() -> None:
    rows = rows_for_groups(0.1, 0.2, 0.05, 0.8, rate=0.3, smallest=0.5, comparison="difference")
    normal = ((1.645 + 0.842) / 0.1) ** 2 * (0.4 * 0.6 + 0.3 * 0.7) * 2
    assert normal * 0.9 < rows < normal * 1.35
    more = rows_for_groups(0.1, 0.2, 0.05, 0.8, rate=0.3, smallest=0.05, comparison="difference")
    assert more > 3 * rows  # a small group decides
    assert rows_for_groups(0.9, 0.8, 0.05, 0.8, rate=0.3, smallest=0.5, comparison="ratio") > 1000


def test_plans_say_when_nothing_can_be_certified() -> None:
    with pytest.raises(GoalError, match="lies on its limit"):
        rows_for_share(0.25, 0.25, 0.05, 0.8)
    with pytest.raises(GoalError, match="too near its limit"):
        rows_for_share(0.249999, 0.25, 0.05, 0.8)
    with pytest.raises(GoalError, match="percentile breaks it"):
        calls_for_percentile(95, 0.05, 0.06, 0.8)
    assert rows_for_mean(0.22, 0.25, 0.05, 0.8, 0.1) < rows_for_mean(0.22, 0.25, 0.05, 0.8, 0.4)
    assert math.isfinite(calls_for_percentile(99, 0.05, 0.001, 0.8))
