"""Equations 1 and 2 and Theorem 1 of the paper, against brute force and exact arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.cost import best_interval, expected_cost, expected_cost_sum, interval_threshold
from acetune.core.errors import GoalError
from acetune.core.measured_costs import Costs
from acetune.policies import ACE
from properties import examples

EXACT = examples(150, derandomize=True)
shares = st.sampled_from([0.001, 0.03, 0.1, 0.25, 0.5, 0.75, 0.97, 0.999]) | st.floats(0.001, 0.999)
ratios = st.sampled_from([0.0, 0.01, 0.5, 1.0, 1.94, 14.0, 20.0, 24.0, 1000.0]) | st.floats(0, 100)
horizons = st.integers(1, 60)


def exact_sum(beta: int, p: Fraction, r: Fraction, T: int) -> Fraction:
    """Equation 1 over C_2, as printed."""
    z = next(z for z in range(1, T + 1) if (z - 1) * beta < T <= z * beta)
    stays = (1 - p) ** z * (r * z + T)
    leaves = [(1 - p) ** (k - 1) * p * (r * k + k * beta) for k in range(1, z + 1)]
    return stays + sum(leaves)


def exact_threshold(p: Fraction, T: int) -> Fraction:
    """The right-hand side of Theorem 1, as printed."""
    return (p * T + (1 - p) ** T - 1) / (1 - p - (1 - p) ** T)


def precise_threshold(p: float, T: int) -> float:
    """The same with 1,500 digits, for powers that no fraction can hold."""
    with localcontext(prec=1500, Emin=-(10**17), Emax=10**17):
        p_, T_ = Decimal(p), Decimal(T)
        stays = ((1 - p_).ln() * T_).exp()
        return float((p_ * T_ + stays - 1) / (1 - p_ - stays))


# -- the two equations ---------------------------------------------------------------------------


@EXACT
@given(shares, ratios, horizons, st.data())
def test_equation_1_is_what_the_paper_prints(
    p: float, r: float, T: int, data: st.DataObject
) -> None:
    beta = data.draw(st.integers(1, T))
    exact = exact_sum(beta, Fraction(p), Fraction(r), T)
    assert expected_cost_sum(beta, p, r, T) == pytest.approx(float(exact), rel=1e-11)


@EXACT
@given(shares, ratios, horizons)
def test_the_equations_agree_where_the_interval_divides_the_horizon(
    p: float, r: float, T: int
) -> None:
    for beta in (beta for beta in range(1, T + 1) if T % beta == 0):
        both = expected_cost(beta, p, r, T), expected_cost_sum(beta, p, r, T)
        assert both[0] == pytest.approx(both[1], rel=1e-9)


@pytest.mark.parametrize(("p", "cost"), [(0.0, (2 + 4) * 3), (1.0, 2 + 4)])
def test_equation_2_at_certain_survival_and_certain_death(p: float, cost: float) -> None:
    assert expected_cost(beta=4, p=p, r=2, T=12) == cost
    assert expected_cost_sum(beta=4, p=p, r=2, T=12) == cost


# -- Theorem 1 -----------------------------------------------------------------------------------


@EXACT
@given(shares, ratios, horizons)
def test_no_real_interval_is_cheaper_than_both_ends_in_equation_2(
    p: float, r: float, T: int
) -> None:
    ends = min(expected_cost(1, p, r, T), expected_cost(T, p, r, T))
    grid = (1 + (T - 1) * i / 400 for i in range(401))
    assert all(expected_cost(beta, p, r, T) >= ends * (1 - 1e-12) for beta in grid)


@EXACT
@given(shares, ratios, st.integers(1, 25))
def test_no_whole_interval_is_cheaper_than_both_ends_in_equation_1(
    p: float, r: float, T: int
) -> None:
    """The theorem is about Equation 2; that it carries over to Equation 1, where the interval need
    not divide the horizon, is checked here without rounding."""
    costs = [exact_sum(beta, Fraction(p), Fraction(r), T) for beta in range(1, T + 1)]
    assert min(costs) == min(costs[0], costs[-1])


@EXACT
@given(shares, ratios, horizons)
def test_the_chosen_interval_is_the_cheaper_end(p: float, r: float, T: int) -> None:
    every = exact_sum(1, Fraction(p), Fraction(r), T)
    once = exact_sum(T, Fraction(p), Fraction(r), T)
    if abs(every - once) > once / 10**12:
        assert best_interval(p, r, T) == (1 if every < once else T)


@pytest.mark.parametrize("T", [2, 3, 10, 3000])
def test_an_interval_of_one_needs_a_ratio_strictly_below_the_threshold(T: int) -> None:
    threshold = interval_threshold(0.25, T)
    assert best_interval(0.25, math.nextafter(threshold, 0), T) == 1
    assert best_interval(0.25, threshold, T) == T
    assert best_interval(0.25, math.nextafter(threshold, math.inf), T) == T


def test_equality_goes_to_the_end() -> None:
    assert exact_threshold(Fraction(1, 2), 2) == 1
    assert best_interval(p=0.5, r=1.0, T=2) == 2


@pytest.mark.parametrize(
    ("p", "r", "T", "beta"),
    [
        (0.0, 0.0, 10, 10),  # nothing is ever stopped: checking early saves nothing
        (0.0, 5.0, 10, 10),
        (1.0, 0.0, 10, 1),  # everything is stopped at its first check
        (1.0, 1e12, 10, 1),
        (0.5, 0.0, 10, 1),  # a check that costs nothing
        (0.0, 1.0, 1, 1),
        (0.5, 1.0, 1, 1),
        (1.0, 1.0, 1, 1),
    ],
)
def test_the_borders(p: float, r: float, T: int, beta: int) -> None:
    assert best_interval(p, r, T) == beta


# -- the paper's numbers -------------------------------------------------------------------------


def test_half_stopped_in_sixteen_iterations_gives_fourteen() -> None:
    assert interval_threshold(p=0.5, T=16) == pytest.approx(14, abs=1e-3)
    assert [best_interval(0.5, r, 16) for r in (0.0625, 1, 8, 13.9)] == [1, 1, 1, 1]
    assert [best_interval(0.5, r, 16) for r in (14.1, 16, 1024)] == [16, 16, 16]


def test_half_stopped_at_ratio_twenty_favours_the_end_below_twenty_two_iterations() -> None:
    assert all(best_interval(0.5, 20, T) == T for T in range(2, 22))
    assert all(best_interval(0.5, 20, T) == 1 for T in range(22, 200))


# -- the threshold in floating point -------------------------------------------------------------


@EXACT
@given(shares, st.integers(2, 400))
def test_the_threshold_is_the_exact_one(p: float, T: int) -> None:
    exact = exact_threshold(Fraction(p), T)
    assert interval_threshold(p, T) == pytest.approx(float(exact), rel=1e-11)


@pytest.mark.parametrize("T", [2, 3, 4, 5, 10, 1000, 10**6, 10**9, 10**12, 10**15])
@pytest.mark.parametrize(
    "p",
    [1e-15, 1e-12, 1e-9, 9.9e-7, 1e-6, 1.1e-6, 1e-4, 0.01, 0.25, 0.5, 0.99, 1 - 1e-9, 1 - 2**-53],
)
def test_the_threshold_at_extremes(p: float, T: int) -> None:
    assert interval_threshold(p, T) == pytest.approx(precise_threshold(p, T), rel=1e-10, abs=0)


@pytest.mark.parametrize("T", [2, 3, 100])
@pytest.mark.parametrize("p", [1e-300, 1e-200, 1e-100, 1e-30])
def test_the_threshold_does_not_vanish_for_a_tiny_share(p: float, T: int) -> None:
    """For p towards 0 the threshold goes to p T / 2, however small p is."""
    assert interval_threshold(p, T) == pytest.approx(p * T / 2, rel=1e-10, abs=0)


def test_the_threshold_rises_with_the_horizon() -> None:
    """Also across the point where the way of computing it changes."""
    for p in (1e-9, 1e-6, 1e-3, 0.25):
        thresholds = [interval_threshold(p, T) for T in range(2, 3000)]
        assert thresholds == sorted(thresholds)
        assert all(0 < threshold < math.inf for threshold in thresholds)


def test_the_threshold_at_the_borders() -> None:
    assert interval_threshold(0.0, 10) == 0.0
    assert interval_threshold(1.0, 10) == math.inf


def test_a_threshold_too_large_to_write_is_infinite() -> None:
    assert interval_threshold(1 - 2**-53, 1e300) == math.inf


# -- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "r", "T", "named"),
    [
        (-0.1, 1.0, 10, "-0.1"),
        (1.1, 1.0, 10, "1.1"),
        (math.nan, 1.0, 10, "nan"),
        (0.5, -1.0, 10, "-1.0"),
        (0.5, math.nan, 10, "nan"),
        (0.5, math.inf, 10, "inf"),
        (0.5, 1.0, 0, "0"),
    ],
)
def test_numbers_that_make_no_sense_are_named(p: float, r: float, T: int, named: str) -> None:
    with pytest.raises(GoalError, match=named):
        best_interval(p, r, T)


@pytest.mark.parametrize("beta", [0, 11, math.nan])
def test_an_interval_outside_the_trial_is_named(beta: float) -> None:
    with pytest.raises(GoalError, match=str(beta)):
        expected_cost(beta, 0.5, 1.0, 10)


# -- from measured costs -------------------------------------------------------------------------


def costs(primary: list[float], checks: list[dict[str, float]], snapshots: float = 0.0) -> Costs:
    found = Costs()
    for seconds in primary:
        found.primary_s += seconds
        found.primary_n += 1
    for check in checks:
        found.add_check(check, 0.0)
    found.add_check(None, snapshots)
    return found


def test_the_ratio_is_of_means_over_what_was_timed() -> None:
    assert costs([1.0, 3.0], [{"g": 2.0}, {"g": 4.0}, {"g": 6.0}]).ratio == 2.0


def test_the_cost_of_a_check_is_the_sum_of_each_constraints_mean() -> None:
    assert costs([1.0], [{"g": 1.0, "h": 2.0}, {"g": 3.0, "h": 4.0}, {"g": 5.0}]).ratio == 6.0


def test_a_snapshot_counts_as_check_cost_but_not_as_often_as_it_is_taken() -> None:
    found = costs([1.0], [{"g": 1.0}, {"g": 1.0}], snapshots=4.0)
    for _ in range(10):
        found.add_check(None, 4.0)
    assert found.ratio == 5.0
    assert found.total_check_s == 46.0


def test_a_report_that_covers_several_iterations_counts_as_so_many() -> None:
    found = Costs()
    found.primary_s, found.primary_n = 10.0, 10
    found.add_check({"g": 3.0}, 0.0)
    assert found.ratio == 3.0


@pytest.mark.parametrize(
    ("primary", "checks"), [([], []), ([1.0], []), ([], [{"g": 1.0}]), ([0.0, 0.0], [{"g": 1.0}])]
)
def test_the_ratio_is_unknown_until_both_are(
    primary: list[float], checks: list[dict[str, float]]
) -> None:
    found = costs(primary, checks)
    assert found.ratio is None
    assert ACE().first_check(10, found) == 10


def test_a_free_check_has_a_ratio_of_zero() -> None:
    found = costs([1.0], [{"g": 0.0}])
    assert found.ratio == 0.0
    assert ACE().first_check(10, found) == 1


@pytest.mark.parametrize(
    ("policy", "total_steps", "interval"),
    [
        (ACE(interval=1), 10, 1),
        (ACE(interval=1), None, 1),
        (ACE(interval="end"), 10, 10),
        (ACE(interval="end"), None, None),
        (ACE(), None, 1),
        (ACE(), 1, 1),
        (ACE(), 10, 10),  # threshold 2.2, ratio 2.5
        (ACE(), 20, 1),  # threshold 5.4
        (ACE(truncation=0.0), 20, 20),
        (ACE(truncation=1.0), 10, 1),
    ],
)
def test_the_interval_of_ace(policy: ACE, total_steps: int | None, interval: int | None) -> None:
    assert policy.first_check(total_steps, costs([1.0], [{"g": 2.5}])) == interval


def test_an_iteration_that_takes_next_to_nothing_makes_checks_expensive() -> None:
    """The ratio of the means is beyond any float; it is still just a large one."""
    assert ACE().first_check(10, costs([5e-324], [{"g": 1.0}])) == 10
