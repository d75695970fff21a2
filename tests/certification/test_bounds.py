"""Bounds beside SciPy, beside slow second implementations, and on data whose truth is known."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from acetune import Constraint, Estimate
from acetune.certification import _binomial as binomial
from acetune.certification import _bounded_means as bounded_means
from acetune.certification import _two_shares as two_shares
from acetune.certification import group_rates as group_rates_module
from acetune.certification.evidence import (
    Counts,
    Normal,
    Parts,
    Quantile,
    Refused,
    Rows,
    evidence_of,
)
from acetune.certification.group_rates import GroupRates, Rate
from acetune.certification.share_and_mean import Mean, Share, cluster_means
from acetune.core.errors import GoalError
from properties import examples

# -- the binomial distribution -----------------------------------------------------------------


@given(st.integers(1, 50_000), st.floats(0, 1), st.floats(1e-6, 1 - 1e-6))
@examples(300)
def test_tails_are_scipys(rows: int, part: float, share: float) -> None:
    count = round(rows * part)
    at_most = stats.binom.cdf(count, rows, share)
    at_least = stats.binom.sf(count - 1, rows, share)
    assert binomial.at_most(count, rows, share) == pytest.approx(at_most, rel=1e-8, abs=1e-13)
    assert binomial.at_least(count, rows, share) == pytest.approx(at_least, rel=1e-8, abs=1e-13)


@given(st.integers(1, 20_000), st.floats(0, 1), st.sampled_from([0.2, 0.05, 0.001, 1e-6]))
@examples(200)
def test_clopper_pearson_is_scipys(rows: int, part: float, level: float) -> None:
    count = round(rows * part)
    upper = 1.0 if count == rows else stats.beta.ppf(1 - level, count + 1, rows - count)
    lower = 0.0 if count == 0 else stats.beta.ppf(level, count, rows - count + 1)
    assert binomial.upper_bound(count, rows, level) == pytest.approx(upper, abs=1e-9)
    assert binomial.lower_bound(count, rows, level) == pytest.approx(lower, abs=1e-9)


def test_tails_by_counting() -> None:
    """Exactly, in fractions."""
    for rows, share in ((1, Fraction(1, 3)), (7, Fraction(1, 2)), (12, Fraction(1, 20))):
        masses = [
            math.comb(rows, k) * share**k * (1 - share) ** (rows - k) for k in range(rows + 1)
        ]
        for count in range(rows + 1):
            found = binomial.at_most(count, rows, float(share))
            assert found == pytest.approx(float(sum(masses[: count + 1])), rel=1e-12)


def test_tails_beyond_the_counts() -> None:
    assert binomial.at_most(-1, 5, 0.5) == 0 and binomial.at_most(5, 5, 0.5) == 1
    assert binomial.at_least(0, 5, 0.5) == 1 and binomial.at_least(6, 5, 0.5) == 0


# -- two shares --------------------------------------------------------------------------------


def slow_p_value(
    x: int, n: int, y: int, m: int, a: float, b: float, c: float, points: int = 2001
) -> float:
    """Every outcome and very many boundary points, one by one, without ruling any rate out."""
    end = min(1.0, (a - c) / b)

    def distance(i: int, j: int) -> float:
        second = min(max((i + j - n * c / a) / (m + n * b / a), 0.0), end)
        first = min(max((c + b * second) / a, 0.0), 1.0)
        variance = a**2 * first * (1 - first) / n + b**2 * second * (1 - second) / m
        return (a * i / n - b * j / m - c) / math.sqrt(max(variance, 1e-12))

    seen = distance(x, y) + 1e-9
    most, largest = [], -1
    for j in range(m + 1):
        largest = max([largest, *[i for i in range(n + 1) if distance(i, j) <= seen]])
        most.append(largest)
    second = np.linspace(0, end, points)
    first = np.clip((c + b * second) / a, 0, 1)
    chance = sum(
        stats.binom.pmf(j, m, second) * (stats.binom.cdf(most[j], n, first) if most[j] >= 0 else 0)
        for j in range(m + 1)
    )
    return float(np.max(chance))


@given(
    st.integers(1, 25),
    st.integers(1, 25),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from([(1.0, 0.1), (1.0, 0.3), (0.8, 0.0), (0.5, 0.0)]),
)
@examples(60)
def test_two_shares_against_all_outcomes(
    n: int, m: int, left: float, right: float, way: tuple[float, float]
) -> None:
    a, c = way
    x, y = round(left * n), round(right * m)
    slow = slow_p_value(x, n, y, m, a, 1.0, c)
    fast = two_shares.p_value(x, n, y, m, a, 1.0, c)
    # rates that the data rule out are left out of the maximum: it may be smaller, not larger
    assert fast <= slow + two_shares.RULED_OUT + 1e-4 * slow


@pytest.mark.parametrize("way", [(1.0, 0.15), (0.8, 0.0)])
@pytest.mark.parametrize(("n", "m"), [(4, 30), (15, 15), (30, 4), (60, 200)])
def test_two_shares_err_seldom_enough_everywhere_on_the_boundary(
    n: int, m: int, way: tuple[float, float]
) -> None:
    """The exact probability of a wrong certificate, from all outcomes, at many rates."""
    a, c = way
    level = 0.05
    passes = np.zeros((n + 1, m + 1), bool)
    for y in range(m + 1):  # with the first count rising the p-value does
        for x in range(n + 1):
            if two_shares.p_value(x, n, y, m, a, 1.0, c) > level:
                break
            passes[x, y] = True
    for second in np.linspace(0, min(1.0, a - c), 41):
        first = min(1.0, (c + second) / a)
        chances = np.outer(
            stats.binom.pmf(np.arange(n + 1), n, first),
            stats.binom.pmf(np.arange(m + 1), m, second),
        )
        assert chances[passes].sum() <= level + 1e-9


def test_two_shares_of_many_rows_come_to_the_normal() -> None:
    p = two_shares.p_value(5000, 25_000, 5000, 25_000, 1, 1, 0.0125)
    assert p == pytest.approx(stats.norm.cdf(-0.0125 / math.sqrt(2 * 0.16 / 25_000)), rel=0.25)


# -- bounded means -----------------------------------------------------------------------------


def slow_bets(values: list[float], limit: float) -> float:
    """Row by row, as the paper has it."""
    wealth = best = 0.0
    seen: list[float] = []
    squares = 0.25
    for value in np.random.default_rng(0).permutation(values).tolist():
        variance = squares / (len(seen) + 1)
        bet = math.sqrt(2 * math.log(20) / (len(values) * variance))
        wealth += math.log1p(min(bet, 0.75 / (1 - limit)) * (limit - value))
        best = max(best, wealth)
        seen.append(value)
        squares += (value - (0.5 + sum(seen)) / (len(seen) + 1)) ** 2
    return min(1.0, math.exp(-best))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.01, 0.99))
@examples(150)
def test_bets_against_row_by_row(values: list[float], limit: float) -> None:
    fast = bounded_means.betting_p_value(np.array(values), limit)
    assert fast == pytest.approx(slow_bets(values, limit), rel=1e-9)


@pytest.mark.parametrize("kind", ["coin", "beta", "rare"])
@pytest.mark.parametrize("rows", [30, 400])
def test_bets_err_seldom_enough(kind: str, rows: int) -> None:
    rng = np.random.default_rng(7)
    draws = {
        "coin": (lambda: rng.random(rows) < 0.3, 0.3),
        "beta": (lambda: rng.beta(0.4, 1.6, rows), 0.2),
        "rare": (lambda: (rng.random(rows) < 0.02) * 1.0, 0.02),
    }
    draw, mean = draws[kind]
    studies = 3000
    wrong = sum(bounded_means.betting_p_value(draw() * 1.0, mean) <= 0.05 for _ in range(studies))
    assert stats.binomtest(wrong, studies, 0.05, alternative="greater").pvalue > 1e-4


def test_sums_of_parts_err_seldom_enough() -> None:
    rng, studies = np.random.default_rng(3), 3000
    weights = np.repeat([1 / 150, 2 / 150, 3 / 150], 25)
    wrong = 0
    for _ in range(studies):
        failed = rng.random(75) < 0.25  # all cases of a cluster fail together: the worst
        wrong += bounded_means.sum_p_value(weights * failed, weights, 0.25) <= 0.05
    assert stats.binomtest(wrong, studies, 0.05, alternative="greater").pvalue > 1e-4


# -- evidence ----------------------------------------------------------------------------------

KINDS: list[Any] = [
    Counts(12, 400),
    Rows(tuple(np.linspace(0, 0.4, 300).tolist()), 0.0, 1.0),
    Parts((0.01,) * 20, (0.05,) * 20),
    Normal(0.2, 0.02),
    GroupRates((Rate("tpr", (40, 90), (100, 200)), Rate("fpr", (4, 9), (80, 250))), "difference"),
]


@pytest.mark.parametrize("evidence", KINDS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_a_bound_is_where_the_p_value_reaches_the_level(evidence: Any, level: float) -> None:
    bound = evidence.bound(level, "<=")
    assert evidence.p_value(bound + 1e-6, "<=") <= level * (1 + 1e-6)
    assert evidence.p_value(bound - 1e-4, "<=") > level * 0.97


@pytest.mark.parametrize("evidence", KINDS, ids=lambda kind: type(kind).__name__)
def test_a_stricter_limit_is_never_easier(evidence: Any) -> None:
    p_values = [evidence.p_value(limit, "<=") for limit in np.linspace(0.01, 0.99, 25)]
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(p_values))


@pytest.mark.parametrize(
    "evidence", [Counts(388, 400), Rows(tuple(np.linspace(0.6, 1, 300)), 0, 1), Normal(0.9, 0.02)]
)
def test_lower_limits_mirror_upper_ones(evidence: Any) -> None:
    bound = evidence.bound(0.05, ">=")
    assert evidence.p_value(bound - 1e-6, ">=") <= 0.05 < evidence.p_value(bound + 1e-3, ">=")


def test_groups_take_the_worst_pair_and_rate() -> None:
    rates = (Rate("tpr", (40, 45, 30), (100, 100, 100)), Rate("fpr", (5, 6, 4), (90, 90, 90)))
    found = GroupRates(rates, "difference").p_value(0.3, "<=")
    single = [
        two_shares.p_value(r.selected[i], r.total[i], r.selected[j], r.total[j], 1, 1, 0.3)
        for r in rates
        for i, j in itertools.permutations(range(3), 2)
    ]
    assert found == max(single)


def test_ratios_of_groups() -> None:
    even = GroupRates((Rate("selection", (500, 490), (1000, 1000)),), "ratio")
    assert even.p_value(0.8, ">=") < 0.001 < 0.05 < even.p_value(0.97, ">=")
    bound = even.bound(0.05, ">=")
    assert 0.88 < bound < 0.95 and even.p_value(bound, ">=") <= 0.05
    assert "no bound on that side" in str(even.refused("<="))


def test_an_empty_group_certifies_nothing() -> None:
    found = GroupRates((Rate("tpr", (4, 0), (10, 0)),), "difference")
    assert "no rows" in str(found.refused("<=")) and found.p_value(0.9, "<=") == 1.0


def test_a_percentile_takes_59_calls() -> None:
    fast = Quantile((1.0,) * 59, 0.05, "a machine")
    assert fast.p_value(2.0, "<=") <= 0.05 and fast.bound(0.05, "<=") == 1.0
    assert Quantile((1.0,) * 58, 0.05, "a machine").p_value(2.0, "<=") > 0.05
    assert Quantile((1.0,) * 58, 0.05, "a machine").bound(0.05, "<=") == math.inf
    assert "a machine" in fast.how
    # one slow call of 93 may be
    slow = Quantile((*[1.0] * 92, 9.0), 0.05, "a machine")
    assert slow.bound(0.05, "<=") == 1.0 and slow.p_value(1.0, "<=") <= 0.05


# -- what is returned by users -----------------------------------------------------------------


def test_values_are_estimates_and_travel() -> None:
    for value in (Share(12, 400), Mean([0.1, 0.4]), Mean([1, 3], 0, 5, clusters=["a", "b"])):
        again = pickle.loads(pickle.dumps(value))
        assert isinstance(value, Estimate) and again == value
        assert again.evidence == value.evidence  # type: ignore[attr-defined]
    assert Share(12, 400) == (0.03, pytest.approx(0.0088, abs=1e-4))
    assert Share(np.int64(1), np.int32(2)).value == 0.5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Share(5, 4), "got 5 of 4"),
        (lambda: Share(0, 0), "got 0 of 0"),
        (lambda: Share(0.5, 10), "count must be a whole number"),  # type: ignore[arg-type]
        (lambda: Mean([]), "one number per row"),
        (lambda: Mean([0.5, 1.5]), "row 1 has 1.5"),
        (lambda: Mean([math.nan]), "row 0 has nan"),
        (lambda: Mean([0.5], high=0), "low < high"),
        (lambda: Mean([0.5, 0.1], clusters=["a"]), "1 clusters for 2 rows"),
        (lambda: Mean([0.5, 0.1], clusters=["a", None]), "row 1 has no cluster \\(None\\)"),
        (lambda: Mean([0.5, 0.1], clusters=np.array([np.nan, 1.0])), "row 0 has no cluster"),
        (lambda: Mean([0.5, 0.1], clusters=pd.array([1, pd.NA])), "row 1 has no cluster"),
        (
            lambda: Mean([0.5, 0.1], clusters=[["a"], ["b"]]),
            "one name per row; row 0 has \\['a'\\]",
        ),
        (lambda: Mean([0.5, 0.1], clusters=np.ones((2, 2))), "one name per row; row 0 has array"),
        (
            lambda: Mean([0.5, 0.1], clusters=np.ma.array([1, 2], mask=[0, 1])),
            "one name per row; row 1 has masked",
        ),
        (lambda: Mean([0.5, 0.1], clusters=2), "one name per row, got 2"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, words: str) -> None:
    with pytest.raises(GoalError, match=words):
        make()


def test_which_evidence_a_value_has() -> None:
    limit = Constraint("g", upper=1)
    assert isinstance(evidence_of(limit, Share(1, 2)), Counts)
    assert isinstance(evidence_of(limit, Estimate(0.5, 0.1)), Normal)
    plain = evidence_of(limit, 0.5)
    assert isinstance(plain, Refused) and plain.p_value(1.0, "<=") == 1.0
    assert "acetune.Share(count, rows)" in plain.why and "exact=True" in plain.why
    assert evidence_of(Constraint("g", upper=1, exact=True), 0.5).p_value(0.5, "<=") == 0.0
    assert evidence_of(Constraint("g", upper=1, exact=True), 0.5).p_value(0.4, "<=") == 1.0
    sure = evidence_of(limit, Estimate(0.5, 0.0))
    assert sure.approximate and "standard error is 0" in str(sure.refused("<="))
    assert sure.p_value(0.9, "<=") == 1.0


def test_clusters_count_once() -> None:
    """Ten copies of each row say no more than one."""
    rows = (np.random.default_rng(0).random(200) < 0.1) * 1.0
    once = Mean(rows, clusters=range(200)).evidence
    tenfold = Mean(np.repeat(rows, 10), clusters=np.repeat(np.arange(200), 10).tolist()).evidence
    for limit in (0.15, 0.2):
        assert tenfold.p_value(limit, "<=") == pytest.approx(once.p_value(limit, "<="))
    assert cluster_means(np.array([0.5, 1.0]), ["a", "a"]).tolist() == [0.75]


def test_the_mean_over_clusters_is_bounded_where_large_ones_fail_more_often() -> None:
    """Weighed by their size, clusters whose size tells of failures are certified wrongly."""
    rng = np.random.default_rng(1)
    false = 0
    for _ in range(400):
        heavy = rng.random(200) < 0.05
        sizes = np.where(heavy, 50, 1)
        failed = rng.random(200) < np.where(heavy, 0.9, 0.02)
        value = Mean(
            np.repeat(failed, sizes).astype(float), clusters=np.repeat(np.arange(200), sizes)
        )
        assert value.value == pytest.approx(failed.mean())
        false += value.evidence.p_value(0.05 * 0.9 + 0.95 * 0.02, "<=") <= 0.05
    assert false <= 0.05 * 400
    assert "mean over independent clusters" in value.evidence.how


@pytest.mark.parametrize("value", [Share(1, 4), Mean([0.1, 0.2]), Estimate(0.1, 0.01), (0.1, 0.01)])
def test_an_estimate_is_not_exact_because_it_is_called_so(value: object) -> None:
    found = evidence_of(Constraint("g", upper=0.5, exact=True), value)
    assert found.p_value(0.5, "<=") == 1.0 and "declared exact" in str(found.refused("<="))


def test_one_group_alone_is_refused() -> None:
    found = GroupRates((Rate("selection rate", (3,), (9,)),), "difference")
    assert "one group alone" in str(found.refused("<="))
    assert found.p_value(0.5, "<=") == 1.0 and math.isnan(found.bound(0.05, "<="))


def test_a_time_that_is_no_number_is_slow() -> None:
    times = (1.0,) * 92 + (math.nan,) * 8
    found = Quantile(times, 0.05, "a machine")
    assert found.approximate and "exact" not in found.how
    assert found.p_value(2.0, "<=") == Quantile((1.0,) * 92 + (9.0,) * 8, 0.05, "").p_value(2, "<=")
    assert found.bound(0.05, "<=") == math.inf


# -- many groups -------------------------------------------------------------------------------


def many_groups(groups: int, comparison: Any = "difference", worst: float = 0.3) -> GroupRates:
    """Two rates of 0.3 in every group, but one in which the first of the rates is another."""
    rng = np.random.default_rng(groups)
    rates = []
    for name in ("tpr", "fpr"):
        rows = rng.integers(60, 400, groups)
        share = np.full(groups, 0.3)
        share[groups // 2] = worst if name == "tpr" else 0.3
        hits = rng.binomial(rows, share)
        rates.append(Rate(name, tuple(hits.tolist()), tuple(rows.tolist())))
    return GroupRates(tuple(rates), comparison)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The pairs that were compared."""
    pairs: list[tuple[Any, ...]] = []
    compare = group_rates_module.compared

    def compared(*pair: Any) -> float:
        pairs.append(pair)
        return compare(*pair)

    monkeypatch.setattr(group_rates_module, "compared", compared)
    return pairs


@pytest.mark.parametrize(("comparison", "sense"), [("difference", "<="), ("ratio", ">=")])
@pytest.mark.parametrize("limit", [0.15, 0.3, 0.45, 0.6])
def test_a_verdict_at_a_level_is_that_of_all_pairs(
    comparison: Any, sense: Any, limit: float
) -> None:
    found = many_groups(9, comparison, worst=0.38)
    every = [found._one(pair, limit) for pair in found._pairs()]
    assert found.p_value(limit, sense) == max(every)
    for level in (1e-4, 0.0375, 0.5):
        said = found.p_value_until(limit, sense, level)
        assert (said <= level) == (max(every) <= level)
        assert said == max(every) if said <= level else said in every


def test_many_groups_are_given_up_at_the_pair_that_looks_worst(asked: list[Any]) -> None:
    found = many_groups(60, worst=0.9)
    p_value = found.p_value_until(0.3, "<=", 0.0375)
    assert p_value > 0.0375 and len(asked) == 1
    # all pairs would say hardly more: it is what people are told to mend
    assert p_value == pytest.approx(found.p_value(0.3, "<="), rel=0.05)


def test_what_the_data_rule_out_is_computed_once_for_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    bound = two_shares.upper_bound

    def upper_bound(*given: Any) -> float:
        calls.append(given)
        return bound(*given)

    monkeypatch.setattr(two_shares, "upper_bound", upper_bound)
    two_shares._not_ruled_out.cache_clear()
    many_groups(12).p_value(0.5, "<=")
    assert len(calls) <= 12 * 2


def test_no_bound_is_shown_for_very_many_groups_and_they_are_certified_all_the_same(
    asked: list[Any],
) -> None:
    few, many = many_groups(12), many_groups(40)
    assert len(few._pairs()) <= group_rates_module.MOST_PAIRS < len(many._pairs())
    assert few.bound(0.0375, "<=") < 0.6
    del asked[:]
    assert math.isnan(many.bound(0.0375, "<=")) and not asked
    assert many.p_value(0.6, "<=") < 0.0375
