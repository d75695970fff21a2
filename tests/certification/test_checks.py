"""What the ready-made checks bring along for a certificate, and what they refuse."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np
import pytest

from acetune import Constraint, Estimate, Mean, Share
from acetune.certification.evidence import Parts, Quantile, evidence_of
from acetune.certification.group_rates import GroupRates, Rate
from acetune.constraints import FairnessCheck, fairness, size
from acetune.constraints.latency import LatencyCheck, LatencyProfile, block_of, spacing
from acetune.constraints.robustness import BehaviouralTest, RobustnessCheck, Suite
from acetune.core.errors import GoalError
from acetune.study.fresh_rows import fingerprint, row_count

RNG = np.random.default_rng(0)
Y, GROUP = RNG.integers(0, 2, 400), RNG.choice(["a", "b", "c"], 400)
SCORES = RNG.random(400)
LIMIT = Constraint("g", upper=0.5)


def of(value: Any) -> Any:
    return evidence_of(LIMIT, value)


def test_fairness_brings_the_counts_of_every_group_and_rate() -> None:
    check = FairnessCheck("equalized_odds_difference", Y, GROUP, threshold=0.5)
    found = of(check(SCORES))
    assert isinstance(found, GroupRates) and len(found.rates) == 2
    for rate, label in zip(found.rates, (0, 1), strict=True):
        rows = [(label == Y) & (g == GROUP) for g in "abc"]
        assert rate == Rate(
            rate.name,
            tuple(int((SCORES[r] >= 0.5).sum()) for r in rows),
            tuple(int(r.sum()) for r in rows),
        )
    assert "false" in found.rates[0].name and "true" in found.rates[1].name
    assert check.rows == 400
    assert pickle.loads(pickle.dumps(check(SCORES))).evidence == found
    same = fairness.equalized_odds_difference(
        Y, SCORES, sensitive_features=GROUP, threshold=0.5, stderr=True
    )
    assert of(same) == found


def test_a_group_that_the_fresh_rows_lack_certifies_nothing() -> None:
    """Without the group that is treated worst a model would look fair."""
    name = "demographic_parity_difference"
    limit = Constraint("g", upper=0.5, check=FairnessCheck(name, Y, GROUP, threshold=0.5))
    there = GROUP != "c"
    fresh = FairnessCheck(name, Y[there], GROUP[there], threshold=0.5)(SCORES[there])
    assert evidence_of(limit, fresh).refused("<=") == (
        "the search compared groups that the fresh rows do not have ('c' is missing): name the "
        "groups alike, and draw rows of all of them"
    )
    assert evidence_of(limit, fresh).p_value(0.5, "<=") == 1.0
    renamed = FairnessCheck(name, Y, np.char.upper(GROUP), threshold=0.5)(SCORES)
    assert "('a' and 2 more are missing)" in str(evidence_of(limit, renamed).refused("<="))
    more = np.where(np.arange(400) < 20, "d", GROUP)  # more groups are more to hold
    whole = FairnessCheck(name, Y, more, threshold=0.5)(SCORES)
    assert evidence_of(limit, whole).refused("<=") is None
    # where the search has a check of its own, nothing is known of its groups
    assert of(fresh).refused("<=") is None


def test_another_metric_than_that_of_the_search_certifies_nothing() -> None:
    def check(name: str) -> FairnessCheck:
        return FairnessCheck(f"{name}_difference", Y, GROUP)  # type: ignore[arg-type]

    odds = Constraint("g", upper=0.5, check=check("equalized_odds"))
    assert evidence_of(odds, check("equal_opportunity")(SCORES)).refused("<=") == (
        "the search measured equalized_odds_difference, and confirm the difference of each true "
        "positive rate: return the same metric"
    )
    parity = evidence_of(odds, check("demographic_parity")(SCORES)).refused("<=")
    assert "the difference of each selection rate" in str(parity)
    ratio = FairnessCheck("equalized_odds_ratio", Y, GROUP)(SCORES)
    assert "the ratio of each false positive" in str(evidence_of(odds, ratio).refused("<="))
    less = Constraint("g", upper=0.5, check=check("equal_opportunity"))
    more = evidence_of(less, check("equalized_odds")(SCORES))
    assert more.refused("<=") is None  # both rates: more than was asked for


def test_another_threshold_than_that_of_the_search_certifies_nothing() -> None:
    def check(threshold: float | None) -> FairnessCheck:
        return FairnessCheck("equalized_odds_difference", Y, GROUP, threshold=threshold)

    limit = Constraint("g", upper=0.5, check=check(0.85))
    labels = (np.asarray(SCORES) >= 0.85).astype(int)
    assert evidence_of(limit, check(0.5)(SCORES)).refused("<=") == (
        "the search took scores from 0.85 on for positive, and confirm from 0.5 on: give both one "
        "threshold, as in threshold=check.threshold"
    )
    assert evidence_of(limit, check(0.85)(SCORES)).refused("<=") is None
    assert evidence_of(limit, check(None)(labels)).refused("<=") is None  # whose, nobody can tell


@pytest.mark.parametrize(("given", "refused"), [(50, True), (95, False), (99, False)])
def test_another_percentile_than_that_of_the_search(given: int, refused: bool) -> None:
    limit = Constraint("ms", upper=2, check=LatencyCheck(lambda model: None, percentile=95))
    calls = LatencyProfile(np.ones(200), "a machine", np.ones(200))
    said = evidence_of(limit, calls.percentile(given)).refused("<=")
    assert (said is not None) == refused
    if said is not None:
        assert "limits the percentile 95, and confirm gave the percentile 50" in said


def words(**of: Any) -> BehaviouralTest:
    return BehaviouralTest(labels=2, **of)


def suite_check(**cases: list[str]) -> RobustnessCheck:
    """A model that fails what does not begin with an e, over a test of each of the cases."""
    suite = Suite([words(name=name, cases=texts) for name, texts in cases.items()])
    return RobustnessCheck(suite, lambda model, texts: [0.1 + 0.8 * (t[0] == "e") for t in texts])


EASY, HARD = [f"e{n}" for n in range(800)], [f"h{n}" for n in range(800)]
CALLS = LatencyProfile(np.ones(200), "a machine", np.ones(200)).p95
RATES = FairnessCheck("demographic_parity_difference", Y, GROUP)
SUITE = suite_check(easy=EASY)
KINDS = {
    "share": Share(3, 3000),
    "mean": Mean([0.01] * 3000),
    "clusters": Mean([0.01] * 3000, clusters=range(3000)),
    "groups": RATES(np.zeros(400)),
    "tests": SUITE(None),
    "calls": CALLS,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("check", "own"),
    [
        (RATES, "groups"),
        (LatencyCheck(lambda model: None), "calls"),
        (SUITE, "tests"),
    ],
)
def test_another_kind_of_value_than_that_of_the_search_certifies_nothing(
    check: Any, own: str, kind: str
) -> None:
    found = evidence_of(Constraint("g", upper=0.9, check=check), KINDS[kind])
    said = found.refused("<=")
    if kind == own:
        assert said is None
        return
    assert said is not None and "the search measured" in said
    assert found.p_value(0.9, "<=") == 1.0
    if (own, kind) == ("groups", "share"):
        assert "confirm gave a share of rows: return what the check returns" in said
    if (own, kind) == ("tests", "clusters"):
        assert "confirm gave a mean over clusters" in said


@pytest.mark.parametrize("check", [RATES, LatencyCheck(lambda model: None), SUITE])
def test_a_refusal_keeps_its_own_reason_and_an_estimate_is_approximate(check: Any) -> None:
    limit = Constraint("g", upper=0.5, check=check)
    refused = FairnessCheck("demographic_parity_difference", Y, GROUP, sample_weight=np.ones(400))
    said = evidence_of(limit, refused(SCORES)).refused("<=")
    assert "weights have no exact bound" in str(said)
    own = evidence_of(limit, Estimate(0.1, 0.01))
    assert own.refused("<=") is None and own.approximate


def test_a_suite_with_other_tests_than_that_of_the_search_certifies_nothing() -> None:
    limit = Constraint("g", upper=0.9, check=suite_check(easy=EASY, hard=HARD))
    fewer = evidence_of(limit, suite_check(easy=EASY)(None))
    assert "other tests (hard (labels) missing)" in str(fewer.refused("<="))
    assert fewer.p_value(0.9, "<=") == 1.0
    more = evidence_of(limit, suite_check(easy=EASY, hard=HARD, easier=EASY)(None))
    assert "other tests (easier (labels) added)" in str(more.refused("<="))
    pairs = BehaviouralTest("hard", [(t, f"{t}.") for t in HARD], rule="invariant")
    ruled = RobustnessCheck(
        Suite([words(name="easy", cases=EASY), pairs]), lambda model, texts: [0.9] * len(texts)
    )
    said = evidence_of(limit, ruled(None)).refused("<=")
    assert "hard (labels) missing; hard (invariant) added" in str(said)
    # other cases of the same tests, in another order
    fresh = suite_check(hard=HARD[:400], easy=EASY[:300])(None)
    assert evidence_of(limit, fresh).refused("<=") is None
    assert pickle.loads(pickle.dumps(fresh)).evidence.tests == ("hard (labels)", "easy (labels)")


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [
        (Share(1, 100), {"upper": 5}, "a share lies between 0 and 1, so the limit 5 says nothing"),
        (Mean([0.1, 0.2]), {"upper": 5}, "its values lie between 0 and 1, so the limit 5 says"),
        (Mean([3.0, 4.0], low=2, high=9), {"lower": 1}, "between 2 and 9, so the limit 1 says"),
        (Mean([0.1, 0.2], clusters=[1, 2]), {"upper": 5}, "its values lie between 0 and 1"),
    ],
)
def test_a_limit_in_other_units_certifies_nothing(
    value: Any, limit: dict[str, float], words: str
) -> None:
    found = evidence_of(Constraint("g", **limit), value)  # type: ignore[arg-type]
    assert words in str(found.refused("<="))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"agg": "mean"}, "agg='mean' has no exact bound"),
        ({"method": "to_overall"}, "method='to_overall' has no exact bound"),
        ({"sample_weight": np.ones(400)}, "weights have no exact bound"),
        ({"threshold": "prevalence"}, "its threshold was taken from the fresh rows"),
    ],
)
def test_variants_without_a_bound_are_refused(options: dict[str, Any], words: str) -> None:
    check = FairnessCheck("equalized_odds_difference", Y, GROUP, **options)
    found = of(check(SCORES))
    assert words in found.refused("<=") and found.p_value(1.0, "<=") == 1.0


def test_one_rate_has_no_aggregation_to_refuse() -> None:
    check = FairnessCheck("demographic_parity_ratio", Y, GROUP, agg="mean")
    assert of(check(SCORES)).refused(">=") is None


def test_cases_of_one_sentence_are_one_cluster() -> None:
    tests = [
        BehaviouralTest("stop", [("fun", "fun."), ("dull", "dull.")], rule="invariant"),
        BehaviouralTest("shout", [("fun", "FUN"), ("nice", "NICE")], rule="invariant"),
    ]
    answers = {"fun": 0.9, "fun.": 0.1, "FUN": 0.1}
    check = RobustnessCheck(Suite(tests), lambda model, texts: [answers.get(t, 0.9) for t in texts])
    value = check(None)
    found = of(value)
    assert isinstance(found, Parts) and found.rows == 3 and value.value == 0.5
    assert found.parts == (0.5, 0.0, 0.0) and found.weights == (0.5, 0.25, 0.25)
    assert sum(found.parts) == value.value and sum(found.weights) == 1.0
    assert found.approximate  # fun stands in both tests, the others in one


def test_a_sentence_counts_once_in_a_test_however_many_cases_it_has() -> None:
    cases = [("fun", f"fun{'!' * n}") for n in range(1, 10)] + [("dull", "dull!")]
    answers = {"dull!": 0.1}
    suite = Suite([BehaviouralTest("shout", cases, rule="invariant")])
    check = RobustnessCheck(suite, lambda model, texts: [answers.get(t, 0.9) for t in texts])
    value = check(None)
    found = of(value)
    assert value.value == pytest.approx(0.1) and found.parts == (0.0, 0.5)
    assert found.weights == (0.5, 0.5) and not found.approximate
    assert "counts once in a test: a mean of 0.5" in found.how


def test_a_test_without_cases_that_count_is_refused() -> None:
    left_out = BehaviouralTest("calm", [("hm", "hm!")], rule="not less confident")
    other = BehaviouralTest("stop", [("fun", "fun.")], rule="invariant")
    check = RobustnessCheck(Suite([left_out, other]), lambda model, texts: [0.5] * len(texts))
    assert "every case of the test 'calm' was left out" in of(check(None)).refused("<=")


def test_latency_names_the_hardware_and_spaces_its_calls() -> None:
    check = LatencyCheck(lambda model: sum(range(50)), repeats=100)
    found = of(check(None))
    assert isinstance(found, Quantile) and found.share == pytest.approx(0.05)
    assert "calls on " in found.how and "in a row counted as one" in found.how
    assert found.rows == 100 and found.block >= 40 and found.approximate
    bursts = np.repeat(RNG.random(100), 4)
    assert spacing(bursts) >= 4 and spacing(np.random.default_rng(1).random(400)) == 1


def test_spells_are_assumed_where_none_was_seen() -> None:
    still = np.ones(2_600)
    assert block_of(still, 0.05, 20) == 40 and block_of(still, 0.05, 1) == 1
    assumed, alone = (LatencyProfile(still, "a machine", still, spell) for spell in (20, 1))
    assert of(assumed.p95).p_value(2.0, "<=") <= 0.0375
    few = LatencyProfile(still[:200], "a machine", still[:200])
    found = of(few.p95)
    assert found.p_value(2.0, "<=") > 0.5 and found.bound(0.0375, "<=") == np.inf
    assert found.times_more(2.0, 0.0375) == pytest.approx(12.8, abs=0.4)  # 2,600 calls
    assert of(LatencyProfile(still[:70], "", still[:70], 1).p95).p_value(2.0, "<=") <= 0.0375
    assert of(alone.p95).block == 1
    with pytest.raises(GoalError, match="spell_calls"):
        LatencyCheck(lambda model: None, spell_calls=0)


def test_a_machine_that_is_slow_now_and_then_is_hardly_ever_certified() -> None:
    """Slow for 20 calls in a row on average, 5 % of the time: the limit is not kept."""
    rng, passed, studies = np.random.default_rng(4), 0, 150
    for _ in range(studies):
        times: list[float] = []
        while len(times) < 3_000:
            times += [1.0] * int(rng.geometric(1 / 380)) + [9.0] * int(rng.geometric(1 / 20))
        calls = np.array(times[:3_000]) + 0.1 * rng.random(3_000)
        passed += of(LatencyProfile(np.sort(calls), "", calls).p95).p_value(5.0, "<=") <= 0.05
    assert passed <= 0.05 * studies


def test_short_spells_of_slow_calls_are_spaced() -> None:
    """The ranks of most calls tell nothing of them; whether a call is slow does."""
    times = 1 + 0.1 * RNG.random(1000)
    for start in range(0, 1000, 100):
        times[start : start + 5] += 10
    assert spacing(times) >= 4


def test_without_the_order_of_calls_there_is_no_certificate() -> None:
    found = of(LatencyProfile(np.ones(200), "a machine").p95)
    assert "order of the calls is not known" in found.refused("<=")
    assert found.p_value(2.0, "<=") == 1.0


def test_calls_that_are_all_alike_are_not_spaced() -> None:
    still = LatencyProfile(np.ones(70), "a machine", np.ones(70), spell_calls=1)
    assert of(still.p95).rows == 70 and of(still.p95).block == 1


def test_sizes_are_exact() -> None:
    for check in (size.parameters, size.serialized_bytes, functools.partial(size.parameters)):
        assert Constraint("bytes", upper=10, check=check).compared_directly
    assert not Constraint("g", upper=10, check=lambda model: 1).compared_directly
    assert Constraint("g", upper=10, check=lambda config: 1, on="config").compared_directly
    assert isinstance(size.serialized_bytes(b"123"), int)


def test_a_measured_value_is_an_estimate_like_any_other() -> None:
    value = FairnessCheck("demographic_parity_difference", Y, GROUP)(SCORES)
    assert isinstance(value, Estimate) and repr(value).startswith("Estimate(value=")
    same, stderr = value
    assert Estimate(same, stderr) == value


@pytest.mark.parametrize("kind", ["array", "table", "dict"])
def test_equal_rows_of_objects_have_one_checksum(kind: str) -> None:
    """Whether two equal texts are one object depends on how the rows were read."""
    pandas = pytest.importorskip("pandas")

    def rows(last: str) -> object:
        column = ["x y", last]
        if kind == "table":
            return pandas.DataFrame({"c": column}, dtype=object)
        return {"c": column} if kind == "dict" else np.array(column, dtype=object)

    same, other = "x y", "".join(["x", " y"])
    assert same is not other and fingerprint(rows(same)) == fingerprint(rows(other))
    assert fingerprint(rows(same)) != fingerprint(rows("x z"))


def test_rows_have_a_name_or_a_checksum() -> None:
    pandas = pytest.importorskip("pandas")
    rows = np.arange(12.0).reshape(6, 2)
    assert fingerprint(rows) == fingerprint(rows.copy()) != fingerprint(rows + 1)
    assert fingerprint((rows, [1, 2])) != fingerprint((rows, [1, 3]))
    assert fingerprint(pandas.DataFrame(rows)) == fingerprint(pandas.DataFrame(rows.copy()))
    assert (fingerprint("May"), fingerprint(None)) == ("May", None)
    assert [row_count(d) for d in (rows, (rows, [1]), "May", None, 5)] == [6, 6, None, None, None]
    with pytest.raises(GoalError, match="give the fresh rows a name"):
        fingerprint(lambda: None)
