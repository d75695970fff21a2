"""Random tables, once through the simulator and once through a slow and plain one: no difference.

``ACETUNE_HYPOTHESIS_EXAMPLES=5000`` runs that many examples a test, drawn anew each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from acetune.core.goals import Constraint, Objective
from acetune.policies import ACE, ACE2, ASHA, POLICY_NAMES, NoStopping, Policy, parse_policy
from acetune.replay import judged_table
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.simulator import simulate
from acetune.replay.synthetic import synthetic_table
from benchmarks.budgets import simulate_budgets
from core.reference import AceRule, AshaRule, Limit, NoRule, OtherRule, Rule
from policies.plain import (
    AshaLexRule,
    AshaStratumRule,
    BanditRule,
    HyperbandRule,
    MedianRule,
    TruncationRule,
)
from properties import TIMEOUT_S, examples_or_more

from .slow_simulator import ByThePolicy, ByTheRules, CloseCall, Recorded, Row, SlowSimulation
from .watching import InOrder, replay

pytestmark = pytest.mark.timeout(TIMEOUT_S)


#: the names whose rules are written a second time; the others are judged by the policy itself
RULES: dict[str, Rule] = {
    "none": NoRule(),
    "asha": AshaRule(),
    "hyperband": HyperbandRule(),
    "median": MedianRule(),
    "bandit": BanditRule(),
    "truncation": TruncationRule(),
    "none+after": NoRule("after"),
    "asha+after": AshaRule(constraints="after"),
    "hyperband+after": HyperbandRule(constraints="after"),
    "median+after": MedianRule(constraints="after"),
    "bandit+after": BanditRule(constraints="after"),
    "truncation+after": TruncationRule(constraints="after"),
    "asha-stratum": AshaStratumRule(),
    "asha-stratum-adaptive": AshaStratumRule(interval="adaptive"),
    "asha-lex": AshaLexRule(),
    "ace": AceRule(),
    "ace-hard": AceRule(stopping="first-violation"),
    "ace-noskip": AceRule(gate=False),
    "ace-beta1": AceRule(interval=1),
    "ace-betaT": AceRule(interval="end"),
}


# -- what can be replayed ------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A table and how it is replayed."""

    mode: Any
    limits: tuple[Limit, ...]
    check_costs: tuple[float, ...]
    recorded: tuple[Recorded, ...]
    workers: int
    budget_s: float
    max_trials: int | None
    startup_s: float
    cost_ratio: float | None
    seed: int

    @property
    def constraints(self) -> list[Constraint]:
        return [Constraint(c.name, upper=c.upper, lower=c.lower) for c in self.limits]

    def table(self) -> CurveTable:
        limits = [
            TableConstraint(c.name, c.upper, c.lower, cost_s, sparse=True)
            for c, cost_s in zip(self.limits, self.check_costs, strict=True)
        ]
        names = [c.name for c in self.limits]
        curves = []
        for rows, total in self.recorded:
            metrics = {name: [row.measured[name] for row in rows] for name in names}
            metrics["value"] = [row.value for row in rows]
            curves.append(({}, metrics, [row.cost_s for row in rows], total or 0))
        return make_table("drawn", Objective("value", self.mode), limits, curves)

    def slow(self, judge: Any, order: Sequence[int], after: bool) -> SlowSimulation:
        costs = dict(zip((c.name for c in self.limits), self.check_costs, strict=True))
        if self.cost_ratio is not None:
            mean_s = float(np.mean([row.cost_s for rows, _ in self.recorded for row in rows]))
            costs = {name: self.cost_ratio * mean_s / len(costs) for name in costs}
        return SlowSimulation(
            self.recorded,
            judge,
            self.mode,
            order,
            costs,
            self.limits,
            self.workers,
            self.budget_s,
            self.max_trials,
            self.startup_s,
            after,
        )


NAMES = ("g0", "g1", "g2")
few = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
values = few | few | st.floats(-2, 2)
measured = few | few | st.floats(-1, 2) | st.just(math.nan)
seconds = st.sampled_from([1.0, 1.0, 1.0, 0.5, 2.0, 0.125, 0.0, 0.1, 0.3])


@st.composite
def rows(draw: st.DrawFn, constraints: int) -> Recorded:
    found = draw(
        st.lists(
            st.tuples(values, st.tuples(*[measured] * constraints), seconds),
            min_size=1,
            max_size=draw(st.sampled_from([1, 2, 4, 6])),
        )
    )
    curve = [Row(v, dict(zip(NAMES, gs, strict=False)), s) for v, gs, s in found]
    more = draw(st.sampled_from([0, 0, 0, 0, 1, 3, None]))
    return Recorded(curve, None if more is None else len(curve) + more)


@st.composite
def settings_to_replay(draw: st.DrawFn) -> Setting:
    names = NAMES[: draw(st.sampled_from([1, 1, 1, 2, 3, 0]))]
    taus = st.sampled_from([0.0, 0.25, 0.5, 0.75])
    limits = []
    for name in names:
        upper, tau = draw(st.booleans()), draw(taus)
        limits.append(Limit(name, tau if upper else None, None if upper else tau))
    return Setting(
        mode=draw(st.sampled_from(["min", "max"])),
        limits=tuple(limits),
        check_costs=tuple(draw(seconds) for _ in names),
        recorded=tuple(draw(st.lists(rows(len(names)), min_size=1, max_size=9))),
        workers=draw(st.sampled_from([1, 1, 2, 3, 4])),
        budget_s=draw(st.sampled_from([math.inf, math.inf, 0.5, 2.0, 4.0, 7.5, 12.0])),
        max_trials=draw(st.sampled_from([None, None, None, 1, 3, 20])),
        startup_s=draw(st.sampled_from([0.0, 0.0, 0.5, 0.1])),
        cost_ratio=draw(st.sampled_from([None, None, 0.0, 0.25, 1.0, 24.0])),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def false_stops(
    setting: Setting, configs: Sequence[int], states: Sequence[str], answer: float | None
) -> int:
    """Counted row by row."""
    count = 0
    for config, state in zip(configs, states, strict=True):
        better = False
        for row in setting.recorded[config].rows:
            holds = all(
                not math.isnan(row.measured[limit.name])
                and limit.beyond(row.measured[limit.name]) <= 0
                for limit in setting.limits
            )
            if answer is None:
                better |= holds
            else:
                better |= holds and (
                    row.value > answer if setting.mode == "max" else row.value < answer
                )
        count += better and state == "stopped"
    return count


# -- both sides ----------------------------------------------------------------------------------


def compare(setting: Setting, policy: Policy, rule: Rule | None) -> None:
    table = setting.table()
    order = np.random.default_rng(setting.seed).permutation(len(table.configs)).tolist()
    judge: ByTheRules | ByThePolicy
    if rule is None:
        judge = ByThePolicy(setting.mode, setting.constraints, policy)
    else:
        judge = ByTheRules(setting.mode, setting.limits, rule)
    expected = setting.slow(judge, order, policy.checks_after_run)
    try:
        expected.run()
    except CloseCall:
        reject()

    options: dict[str, Any] = {
        "workers": setting.workers,
        "budget_s": setting.budget_s,
        "max_trials": setting.max_trials,
        "startup_s": setting.startup_s,
        "cost_ratio": setting.cost_ratio,
    }
    picker = InOrder(order)
    watched = replay(table, policy, picker=picker, **options)
    assert watched.events == expected.events
    assert [(trial, *told) for trial, told in picker.told] == expected.told
    assert watched.configs == expected.configs
    intervals = [judge.interval(number + 1) for number in range(len(expected.configs))]
    assert watched.intervals == intervals

    run = simulate(table, policy, seed=setting.seed, **options)
    assert list(run.incumbents) == expected.incumbents
    assert run.best == (expected.incumbents[-1][1] if expected.incumbents else None)
    assert run.trials == len(expected.configs)
    assert run.reports == len(expected.primary_s)
    assert run.constraint_evaluations == len(expected.check_s)
    assert run.unmeasured_checks == expected.unmeasured
    assert run.primary_cost_s == pytest.approx(math.fsum(expected.primary_s), rel=1e-12)
    assert run.constraint_cost_s == pytest.approx(math.fsum(expected.check_s), rel=1e-12)
    assert run.time_s == expected.now
    assert run.checked_every_step == intervals.count(1)
    assert run.false_stops == false_stops(setting, watched.configs, watched.states, run.best)
    assert (run.mode, run.seed, run.policy) == (setting.mode, setting.seed, repr(policy))

    # a longer run passes through the shorter one
    if not policy.checks_after_run and math.isfinite(setting.budget_s):
        longer = [setting.budget_s, 1.5 * setting.budget_s, math.inf]
        several = {**options, "seed": setting.seed}
        del several["budget_s"]
        judged = judged_table.judge(table, cost_ratio=several.pop("cost_ratio"))
        found = simulate_budgets(judged, policy, longer, **several)
        assert found[0] == run
        assert found == [simulate(judged, policy, budget_s=b, **several) for b in longer]


@pytest.mark.parametrize("name", RULES)
@examples_or_more(18)
@given(setting=settings_to_replay())
def test_by_the_rules(name: str, setting: Setting) -> None:
    compare(setting, parse_policy(name), RULES[name])


@pytest.mark.parametrize("name", POLICY_NAMES)
@examples_or_more(10)
@given(setting=settings_to_replay())
def test_by_the_policy_through_the_stopper(name: str, setting: Setting) -> None:
    compare(setting, parse_policy(name), None)


@examples_or_more(60)
@given(setting=settings_to_replay().filter(lambda setting: len(setting.limits) > 1))
def test_several_constraints_one_by_one(setting: Setting) -> None:
    """Trials that go on, so that there is much to leave out."""
    policy = ACE2(truncation=0.0, invalid_truncation=0.0, patience=1.0, spacing=0.0)
    compare(setting, policy, None)


ace_rules = st.builds(
    AceRule,
    truncation=st.sampled_from([0.25, 0.5, 0.75, 1.0, 0.0, 0.1]),
    interval=st.sampled_from(["adaptive", "adaptive", 1, "end"]),
    gate=st.booleans(),
    stopping=st.sampled_from(["stratum", "stratum", "first-violation"]),
    min_steps=st.sampled_from([0, 0, 2, 3]),
)
asha_rules = st.builds(
    AshaRule,
    reduction_factor=st.sampled_from([2, 3, 4]),
    min_steps=st.sampled_from([1, 1, 2]),
    constraints=st.sampled_from(["callback", "after"]),
)
stratum_rules = st.builds(
    AshaStratumRule,
    reduction_factor=st.sampled_from([2, 3]),
    min_steps=st.sampled_from([1, 2]),
    interval=st.sampled_from([1, "adaptive"]),
    truncation=st.sampled_from([0.25, 0.5]),
)


@examples_or_more(150)
@given(setting=settings_to_replay(), rule=ace_rules | ace_rules | asha_rules | stratum_rules)
def test_with_other_options(setting: Setting, rule: Rule) -> None:
    if isinstance(rule, OtherRule):
        policy = rule.policy()
    else:
        kinds: dict[type, Any] = {AceRule: ACE, AshaRule: ASHA, NoRule: NoStopping}
        policy = kinds[type(rule)](**vars(rule))
    compare(setting, policy, rule)


# -- a table of some size ------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_larger_table(name: str) -> None:
    """Enough trials for every policy to stop some of them, and curves longer than a glance."""
    table = synthetic_table(
        configs=60, seed=3, max_steps=90, difficulty=0.8, drift=0.2, noise=0.02
    ).table
    constraint = table.constraints[0]
    recorded = tuple(
        Recorded(
            [
                Row(value, {"gap": gap}, cost_s)
                for value, gap, cost_s in zip(
                    table.curve(config, "score").tolist(),
                    table.curve(config, "gap").tolist(),
                    table.cost_s[table.starts[config] : table.starts[config + 1]].tolist(),
                    strict=True,
                )
            ],
            int(table.total_steps[config]),
        )
        for config in range(len(table.configs))
    )
    setting = Setting(
        "max",
        (Limit("gap", upper=constraint.upper),),
        (constraint.cost_s,),
        recorded,
        workers=4,
        budget_s=20.0,
        max_trials=None,
        startup_s=0.05,
        cost_ratio=None,
        seed=11,
    )
    compare(setting, parse_policy(name), None)
