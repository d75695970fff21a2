"""Several constraints in turn: the order, what may be left out, and what that counts as."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import ReportError
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, Objective
from acetune.core.measured_costs import Costs
from acetune.core.observation import check_result
from acetune.optuna._optuna_link import amounts
from acetune.policies import ACE, ACE2, Policy
from acetune.policies.stopper import Stopper
from acetune.trial.checks import Constant, evaluate

TWO = (Constraint("a", upper=1.0), Constraint("b", upper=10.0))
GOALS = Goals(Objective("loss"), TWO)


def stopper(policy: Policy | None = None, constraints: Sequence[Constraint] = TWO) -> Stopper:
    return Stopper(objective="loss", mode="min", constraints=constraints, policy=policy)


# -- the order -----------------------------------------------------------------------------------


def expected_cost(costs: Costs, order: Sequence[str]) -> float:
    """Of a check that ends with the first violated one, by the odds that were seen."""
    total, reached = 0.0, 1.0
    for name in order:
        n = costs.check_n[name]
        total += reached * costs.check_s[name] / n
        reached *= 1 - (costs.violated_n.get(name, 0) + 1) / (n + 2)
    return total


@given(
    st.lists(
        st.tuples(st.floats(0.0, 1e3), st.integers(1, 50), st.integers(0, 50)),
        min_size=1,
        max_size=5,
    )
)
def test_no_other_order_costs_less(seen: list[tuple[float, int, int]]) -> None:
    costs = Costs()
    for name, (mean, n, violated) in zip("abcde", seen, strict=False):
        costs.check_s[name], costs.check_n[name] = mean * n, n
        costs.violated_n[name] = min(n, violated)
    names = list(costs.check_n)
    order = costs.order(names)
    assert order is not None and sorted(order) == names
    least = min(expected_cost(costs, other) for other in itertools.permutations(names))
    assert expected_cost(costs, order) == pytest.approx(least, rel=1e-9, abs=1e-9)


def test_equals_stay_as_declared() -> None:
    costs = Costs(check_s=dict.fromkeys("ab", 3.0), check_n=dict.fromkeys("ab", 3))
    assert costs.order(["b", "a"]) == ("b", "a")


def test_all_are_measured_until_each_was_timed() -> None:
    study = stopper()
    assert study.order is None
    study.start(1, 5).observe(1, 0.0, {"a": 2.0, "b": 0.0}, 1.0, {"a": 1.0})
    assert study.order is None
    study.start(2, 5).observe(1, 0.0, {"a": 0.0, "b": 20.0}, 1.0, {"a": 1.0, "b": 0.5})
    assert study.order == ("b", "a")


def test_the_likelier_violated_comes_first() -> None:
    study = stopper()
    for trial in range(4):
        study.start(trial, 5).observe(1, 0.0, {"a": 0.0, "b": 20.0}, 1.0, 2.0)
    assert study.order == ("b", "a")


@pytest.mark.parametrize(
    ("policy", "constraints"),
    [(ACE(), TWO), (ACE2(one_by_one=False), TWO), (ACE2(), TWO[:1]), (ACE2(), ())],
)
def test_others_have_no_order(policy: Policy, constraints: Sequence[Constraint]) -> None:
    study = stopper(policy, constraints)
    measured = {constraint.name: 0.0 for constraint in constraints} or None
    study.start(1, 5).observe(1, 0.0, measured, 1.0, 2.0 if constraints else None)
    assert study.order is None


# -- what may be left out ------------------------------------------------------------------------


def test_a_violated_one_is_enough() -> None:
    assert GOALS.measurements({"b": 11.0}) == {"b": Estimate(11.0)}
    assert GOALS.measurements({"a": math.nan}) == {"a": FailedCheck("constraint 'a' is nan")}


@pytest.mark.parametrize("values", [{}, {"a": 1.0}, {"b": 10.0}])
def test_but_not_one_that_holds(values: dict[str, float]) -> None:
    missing = "b" if "a" in values else "a"
    with pytest.raises(ReportError, match=f"unless one of them is broken; '{missing}' is miss"):
        GOALS.measurements(values)


def test_an_unknown_name_is_named() -> None:
    with pytest.raises(ReportError, match=r"unknown constraint 'c'; this study has \['a', 'b'\]"):
        GOALS.measurements({"a": 2.0, "c": 1.0})


def test_what_is_left_out_counts_as_violated_by_its_limit() -> None:
    assert GOALS.judge({"a": Estimate(1.5)}) == (False, 1.5)
    assert GOALS.judge({"a": Estimate(1.0)}) == (False, 1.0)  # never valid, whatever is known
    assert GOALS.judge({"a": Estimate(1.0), "b": Estimate(10.0)}) == (True, 0.0)
    found = check_result(GOALS, 3, 0.5, {"b": Estimate(20.0)})
    assert (found.valid, found.violation) == (False, 2.0)
    assert (found.violated, found.left_out) == (("b",), ("a",))


def test_who_satisfies_one_of_two_is_ahead() -> None:
    study = stopper(ACE2(invalid_truncation=0.0))
    study.start(1, 9).observe(1, 0.0, {"a": 1.1})
    decision = study.start(2, 9).observe(1, 0.0, {"a": 1.0, "b": 15.0})
    assert (decision.stratum, decision.rank, decision.of) == ("invalid", 1, 2)
    # people are told what came nearest by what was measured
    assert study.nearest_miss is not None
    assert (study.nearest_miss.trial, study.nearest_miss.step) == (1, 1)
    assert GOALS.violation({"a": Estimate(1.1)}, left_out=0.0) == pytest.approx(0.1)


def test_a_check_that_leaves_out_is_cheaper() -> None:
    """The mean cost of a check counts what was left out as nothing."""
    study = stopper()
    study.start(1, 9).observe(1, 0.0, {"a": 0.0, "b": 0.0}, 1.0, {"a": 1.0, "b": 9.0})
    assert study.history.costs.mean_check_s == 10.0
    trial = study.start(2, 9)
    trial.observe(1, 0.0, {"a": 2.0}, 1.0, 1.0)  # one number: of those measured
    costs = study.history.costs
    assert (costs.check_n, costs.left_out_n) == ({"a": 2, "b": 1}, {"b": 1})
    assert costs.mean_check_s == 1.0 + 9.0 / 2
    assert trial.record.progress.last_check_s == 1.0
    trial.observe(2, 0.0, {"a": 2.0}, 1.0, {"a": 1.0, "b": 9.0})  # b was not measured
    assert trial.record.progress.last_check_s == 1.0


def test_only_what_was_timed_counts() -> None:
    study = stopper()
    study.start(1, 9).observe(1, 0.0, {"a": 0.0, "b": 0.0}, 1.0, {"a": 1.0, "b": 9.0})
    for trial in range(2, 11):
        study.start(trial, 9).observe(1, 0.0, {"a": 2.0}, 1.0)  # nobody says what it cost
    failed = FailedCheck("not evaluated, because 'a' failed")
    study.start(11, 9).observe(1, 0.0, {"a": math.nan, "b": failed}, 1.0, {"a": 1.0})
    costs = study.history.costs
    assert (costs.violated_n, costs.left_out_n) == ({"a": 1}, {})
    assert costs.mean_check_s == 10.0


def test_a_repeated_report_is_known_by_the_names_too() -> None:
    study = stopper()
    trial = study.start(1, 9)
    said: list[str] = []
    study.on_repeat = said.append
    trial.observe(1, 0.0, {"b": 20.0})
    trial.observe(1, 0.0, {"b": 20.0})
    assert said == []
    trial.observe(1, 0.0, {"a": 20.0})
    assert len(said) == 1
    trial.observe(2, 0.0, {"a": 20.0, "b": 1.0})
    trial.observe(2, 0.0, {"b": 1.0, "a": 20.0})
    assert len(said) == 1


def test_what_is_told_adds_up_to_the_violation() -> None:
    measured: dict[str, Estimate | FailedCheck] = {"b": Estimate(20.0)}
    assert amounts(GOALS, measured, largest=7.0) == {"a": 1.0, "b": 1.0}
    assert sum(amounts(GOALS, measured, largest=7.0).values()) == GOALS.judge(measured)[1]
    # with a failed one: together as bad as the worst
    assert amounts(GOALS, {"b": FailedCheck("it raised")}, 7.0) == {"a": 3.5, "b": 3.5}
    assert amounts(GOALS, {"a": Estimate(0.5), "b": FailedCheck("")}, 7.0) == {"a": -0.5, "b": 7.0}


# -- calling them --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "a", "b", "called", "found"),
    [
        (None, 2.0, 20.0, "ab", "ab"),
        (("b", "a"), 2.0, 20.0, "b", "b"),
        (("b", "a"), 2.0, 5.0, "ba", "ba"),
        (("b", "a"), 0.5, 5.0, "ba", "ba"),
        (("a", "b"), 2.0, 5.0, "a", "a"),
        (("a", "b"), math.nan, 5.0, "a", "a"),  # a failed check is not satisfied
        (None, math.nan, 5.0, "a", "ab"),
    ],
)
def test_checks_are_called_up_to_the_first_violated(
    order: tuple[str, ...] | None, a: float, b: float, called: str, found: str
) -> None:
    calls: list[str] = []

    def check(name: str, value: float) -> float:
        calls.append(name)
        return value

    checks = {"a": lambda: check("a", a), "b": lambda: check("b", b)}
    measured, costs, _ = evaluate(GOALS, checks, None, lambda: 0.0, lambda name: None, order=order)
    assert "".join(calls) == called
    assert "".join(measured) == found
    assert "".join(costs) == called


@pytest.mark.parametrize("given", [2.0, 0.5, math.nan])
def test_values_that_are_given_are_never_left_out(given: float) -> None:
    """They cost nothing, and so come first."""
    calls: list[str] = []
    checks = {"a": Constant(given), "b": lambda: calls.append("b") or 20.0}
    measured, *_ = evaluate(GOALS, checks, None, lambda: 0.0, lambda name: None, order=("b", "a"))
    assert calls == (["b"] if given == 0.5 else [])
    assert "a" in measured
    both = {"a": Constant(given), "b": Constant(20.0)}
    measured, *_ = evaluate(GOALS, both, None, lambda: 0.0, lambda name: None, order=("b", "a"))
    assert list(measured) == ["b", "a"]


def test_a_new_best_that_is_measured_again_ends_with_a_violation() -> None:
    class Noisy:
        measures_again = True

        def __init__(self, *values: float) -> None:
            self.values = list(values)

        def __call__(self) -> float:
            return self.values.pop(0)

    checks = {"a": Noisy(0.5, 3.0), "b": Noisy(5.0, 6.0)}
    measured, *_ = evaluate(
        GOALS, checks, None, lambda: 0.0, lambda name: None, best=True, order=("a", "b")
    )
    assert measured == {"a": Estimate(3.0), "b": Estimate(5.0)}
    assert checks["b"].values == [6.0]
