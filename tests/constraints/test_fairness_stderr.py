"""Standard errors, by simulation: how often an interval contains what it is about.

The seeds are fixed; with 1,500 samples a share of 0.95 has a standard error of 0.006.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from acetune import Estimate
from acetune.constraints import fairness

ODDS = "equalized_odds_difference"


class Coverage(NamedTuple):
    both: float  # share of 95 % intervals, value +- 1.96 s.e., with the truth inside
    unfair_side: float  # share of samples whose value with 1.645 s.e. is at least as unfair
    bias: float  # of the value


def simulate(
    name: str,
    truth: float,
    rates: list[list[float]],
    sizes: list[int],
    *,
    samples: int = 1500,
    **options: Any,
) -> Coverage:
    """``rates``: probability to be selected, by label and group; ``sizes``: rows of each label."""
    rng = np.random.default_rng(0)
    group = np.tile(np.repeat(np.arange(len(sizes)), sizes), 2)
    y = np.repeat([0, 1], sum(sizes))
    metric, chance = getattr(fairness, name), np.array(rates)[y, group]
    found = np.array(
        [
            metric(y, rng.random(len(y)) < chance, sensitive_features=group, stderr=True, **options)
            for _ in range(samples)
        ]
    )
    values, errors = found.T
    sign = -1 if name.endswith("ratio") else 1
    return Coverage(
        float(np.mean(np.abs(values - truth) <= 1.96 * errors)),
        float(np.mean(sign * values + 1.645 * errors >= sign * truth)),
        float(np.mean(values) - truth),
    )


OVERALL = {"method": "to_overall"}


@pytest.mark.parametrize(
    ("name", "truth", "options"),
    [
        (ODDS, 0.2, {}),
        (ODDS, 0.1, OVERALL),
        (ODDS, 0.125, {"agg": "mean"}),
        ("equalized_odds_ratio", 5 / 7, {}),
        ("equalized_odds_ratio", 5 / 6, OVERALL),
        ("equal_opportunity_difference", 0.2, {}),
        ("equal_opportunity_difference", 0.1, OVERALL),
        ("equal_opportunity_ratio", 5 / 7, {}),
        ("equal_opportunity_ratio", 5 / 6, OVERALL),
    ],
)
def test_where_two_groups_are_clearly_apart(
    name: str, truth: float, options: dict[str, Any]
) -> None:
    fpr = [0.5, 0.55] if name.endswith("ratio") else [0.2, 0.25]
    found = simulate(name, truth, [fpr, [0.7, 0.5]], [400, 400], **options)
    assert 0.935 <= found.both <= 0.968
    assert 0.94 <= found.unfair_side <= 0.97
    assert abs(found.bias) < 0.01


@pytest.mark.parametrize(
    ("name", "truth"),
    [("demographic_parity_difference", 0.2), ("demographic_parity_ratio", 5 / 7)],
)
def test_selection_rates(name: str, truth: float) -> None:
    found = simulate(name, truth, [[0.7, 0.5]] * 2, [300, 300])
    assert 0.935 <= found.both <= 0.965


def test_small_groups_and_rates_near_one() -> None:
    for size in (12, 30):
        found = simulate(
            "equal_opportunity_difference", 0.47, [[0.1, 0.2], [0.97, 0.5]], [size, size]
        )
        assert 0.91 <= found.both <= 0.98


def test_a_group_of_which_everybody_was_selected_is_not_known_exactly() -> None:
    found = fairness.equal_opportunity_difference(
        [1] * 8, [1] * 4 + [0] * 4, sensitive_features=list("aaaabbbb"), stderr=True
    )
    assert found.value == 1.0
    p = 5 / 6  # a success and a failure added
    assert found.stderr == pytest.approx(math.sqrt(2 * p * (1 - p) / 4))


class TestRatiosOfZeros:
    """Nothing happened in any group: the ratio is 1, and nothing is known about it."""

    def ratio(self, sizes: list[int], **options: Any) -> Estimate:
        group = np.repeat(np.arange(len(sizes)), sizes)
        y, guess = np.zeros(len(group)), np.zeros(len(group))
        return fairness.demographic_parity_ratio(
            y, guess, sensitive_features=group, stderr=True, **options
        )

    @pytest.mark.parametrize("sizes", [[10, 10], [10, 1000], [50, 40, 30]])
    def test_it_is_that_of_rates_with_a_success_and_a_failure_added(self, sizes: list[int]) -> None:
        relative = []  # variance over squared rate
        for n in sizes:
            p = 1 / (n + 2)
            relative.append(p * (1 - p) / n / p**2)
        expected = math.sqrt(sum(sorted(relative)[-2:]))
        assert self.ratio(sizes) == (1.0, pytest.approx(expected))

    def test_to_overall(self) -> None:
        # the other half is as large: log p - log((p + q) / 2) varies as (log p - log q) / 2
        apart, found = self.ratio([20, 20]), self.ratio([20, 20], method="to_overall")
        assert found == (1.0, pytest.approx(apart.stderr / 2))

    def test_weights_count_by_their_effective_size(self) -> None:
        weighted = self.ratio([20, 20], sample_weight=[1.0, 3.0] * 20)
        n = 20 * 4**2 / (2 * (1 + 9))
        assert weighted == (1.0, pytest.approx(math.sqrt(2 * (n + 1) / n)))

    def test_one_group_has_nothing_to_compare_with(self) -> None:
        assert self.ratio([20]) == (1.0, 0.0)
        assert self.ratio([20], method="to_overall") == (1.0, 0.0)

    def test_the_worse_of_both_odds_reaches_as_far(self) -> None:
        y, group = np.repeat([0, 1], 400), np.tile(np.repeat([0, 1], 200), 2)
        guess = y.copy()
        guess[-20:] = 0  # true positive rates 1 and 0.9
        found = fairness.equalized_odds_ratio(y, guess, sensitive_features=group, stderr=True)
        zeros = math.sqrt(2 * 201 / 200)  # the false ones' ratio is 1, less that
        assert found == (0.9, pytest.approx(0.9 - (1 - zeros)))


class TestTies:
    """Where several differences are about the largest, the value is biased to the unfair side."""

    def test_both_rates_equally_far_apart(self) -> None:
        found = simulate(ODDS, 0.2, [[0.2, 0.4], [0.5, 0.7]], [400, 400])
        assert 0.93 <= found.both <= 0.97
        assert found.unfair_side >= 0.99
        assert 0.005 < found.bias < 0.03

    def test_several_groups_near_both_ends(self) -> None:
        rates = [[0.2, 0.21, 0.22, 0.48, 0.49, 0.5]] * 2
        found = simulate(ODDS, 0.3, rates, [200] * 6, samples=600)
        assert 0.8 <= found.both <= 0.92  # what the bias costs
        assert found.unfair_side >= 0.99

    def test_of_many_equal_groups_the_interval_is_not_about_the_truth(self) -> None:
        """What cannot be had: of eight equal groups some two differ by chance."""
        found = simulate(ODDS, 0.0, [[0.3] * 8] * 2, [200] * 8, samples=300)
        assert found.both < 0.5
        assert found.unfair_side == 1.0

    def test_a_small_group_that_may_be_the_worst(self) -> None:
        """The two large groups alone would give 0.03, and far too narrow an interval."""
        rates = [[0.3] * 3, [0.5, 0.6, 0.65]]
        found = simulate("equal_opportunity_difference", 0.15, rates, [500, 500, 15])
        assert found.both >= 0.93
        assert found.unfair_side >= 0.97


def test_where_one_pair_stands_out_it_is_the_delta_method() -> None:
    y = np.repeat([0, 1], 400)
    group = np.tile(np.repeat([0, 1], 200), 2)
    guess = np.zeros(800)
    guess[400:560] = 1  # of the first group 160 of 200, of the second none of 200, no false ones
    guess[600:640] = 1  # and then 40 of them
    found = fairness.equalized_odds_difference(y, guess, sensitive_features=group, stderr=True)
    p, q = 161 / 202, 41 / 202
    assert found == (
        pytest.approx(0.6),
        pytest.approx(math.sqrt(p * (1 - p) / 200 + q * (1 - q) / 200)),
    )
    ratio = fairness.equal_opportunity_ratio(y, guess, sensitive_features=group, stderr=True)
    p_hat = 0.8
    expected = math.sqrt(q * (1 - q) / 200 + 0.25**2 * p * (1 - p) / 200) / p_hat
    assert ratio == (pytest.approx(0.25), pytest.approx(expected))


class TestWeights:
    def sample(self, rng: np.random.Generator) -> tuple[Estimate, Estimate]:
        """Selection depends on the weight; also what comes if weights counted as rows."""
        group = np.repeat([0, 1], 400)
        weight = rng.choice([0.2, 3.0], 800)
        chance = np.where(group == 0, 0.4, 0.2) + np.where(weight > 1, 0.3, 0.0)
        guess = rng.random(800) < chance
        given = (np.zeros(800), guess)
        metric = fairness.demographic_parity_difference
        right = metric(*given, sensitive_features=group, sample_weight=weight, stderr=True)
        naive = metric(*given, sensitive_features=group, stderr=True)
        return right, naive

    def test_intervals_hold(self) -> None:
        rng = np.random.default_rng(0)
        pairs = [self.sample(rng) for _ in range(1500)]
        right, naive = (np.array(found) for found in zip(*pairs, strict=True))
        inside = [np.abs(right[:, 0] - 0.2) <= 1.96 * s for s in (right[:, 1], naive[:, 1])]
        assert 0.935 <= np.mean(inside[0]) <= 0.965
        assert np.mean(inside[1]) < 0.9  # what weights cost is not overlooked

    def test_only_the_proportions_of_weights_matter(self) -> None:
        rng = np.random.default_rng(0)
        y, guess, group = (rng.integers(0, 2, 200) for _ in range(3))
        weight = rng.random(200)
        one, *others = (
            fairness.equalized_odds_ratio(
                y, guess, sensitive_features=group, sample_weight=weight * times, stderr=True
            )
            for times in (1.0, 1000.0, 1e-250, 1e300)
        )
        for other in others:
            assert other == pytest.approx(one)

    def test_equal_weights_are_none(self) -> None:
        rng = np.random.default_rng(1)
        y, guess, group = (rng.integers(0, high, 200) for high in (2, 2, 3))
        for name in fairness.__all__:
            metric = getattr(fairness, name)
            plain = metric(y, guess, sensitive_features=group, stderr=True)
            same = metric(
                y, guess, sensitive_features=group, stderr=True, sample_weight=np.full(200, 0.3)
            )
            assert same == pytest.approx(plain)
