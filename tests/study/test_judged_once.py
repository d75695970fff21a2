"""A measurement is judged once, where it is decided on.

The process that makes it knows from calling the checks, one by one, whether their limits hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

import acetune.optuna
from acetune import ACE, ACE2, Constraint
from acetune.core.goals import Estimate, FailedCheck, Goals, Objective
from acetune.optuna import AcePruner
from acetune.policies import Policy
from acetune.policies.stopper import Stopper
from acetune.replay.curve_table import TableConstraint
from acetune.study.coordinator import StudyCoordinator
from acetune.study.opening import describe_study
from acetune.study.store import Store
from acetune.testing._callbacks import make_trial
from acetune.trial.checks import evaluate
from acetune.trial.link import Report
from replay.watching import EOD, curve, replay, table_of

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)
LIMITS = (Constraint("a", upper=1.0), Constraint("b", lower=4.0))
COLUMNS = "kind, step, checked_step, checked_objective, violation, stratum"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Estimate | FailedCheck]]:
    """What was judged, as it is."""
    seen: list[Mapping[str, Estimate | FailedCheck]] = []
    judge = Goals.judge_each  # which judge() asks too

    def noted(goals: Goals, measured: Mapping[str, Estimate | FailedCheck]) -> object:
        seen.append(measured)
        return judge(goals, measured)

    monkeypatch.setattr(Goals, "judge_each", noted)
    return seen


def opened(path: Path, policy: Policy, constraints: tuple[Constraint, ...]) -> StudyCoordinator:
    stopper = Stopper(objective="auc", mode="max", constraints=constraints, policy=policy)
    settings = {"confirm_top": 1, "keep_models": 3}
    description = describe_study(stopper.goals, (), policy, {}, settings)
    return StudyCoordinator(Store.create(path, description), stopper)


def test_what_the_stopper_found_is_what_is_written(study: Path, judged: list[object]) -> None:
    coordinator = opened(study, ACE2(truncation=0, invalid_truncation=0), LIMITS)
    with coordinator.store.transaction():
        trial = coordinator.add_trial({})
        coordinator.begin(trial, 9, 0.0)
        for report in (
            Report(1, 0.25, 1, {"a": Estimate(0.5), "b": Estimate(5.0)}),
            Report(2, 0.5),
            Report(3, 0.75, 3, {"a": Estimate(1.1)}),  # b was left out
            Report(4, 0.625, 3, {"a": Estimate(2.0), "b": Estimate(3.0)}),
            Report(5, 0.5, 5, {"a": FailedCheck("no data"), "b": FailedCheck("no data")}),
        ):
            coordinator.report(trial, report)
        end = Report(5, 0.5, 4, {"a": Estimate(0.5), "b": Estimate(4.0)})
        coordinator.finish(trial, end)
        coordinator.check_after_run(1, 2, {"a": Estimate(3.0), "b": Estimate(4.0)}, {})
    written = coordinator.store.rows(f"SELECT {COLUMNS} FROM reports ORDER BY seq")
    coordinator.store.close()
    assert len(judged) == 6
    assert [tuple(row.values()) for row in written] == [
        ("step", 1, 1, 0.25, 0.0, "valid"),
        ("step", 2, None, None, None, "unchecked"),
        ("step", 3, 3, 0.75, pytest.approx(0.1), "invalid"),  # by what was measured
        ("step", 4, 3, 0.75, 1.25, "invalid"),
        ("step", 5, 5, 0.5, float("inf"), "invalid"),
        ("end", 5, 4, 0.625, 0.0, "valid"),
        ("after", 2, 2, 0.5, 2.0, "invalid"),
    ]


def test_without_constraints_there_is_nothing_to_judge(study: Path, judged: list[object]) -> None:
    coordinator = opened(study, EVERY_STEP, ())
    with coordinator.store.transaction():
        trial = coordinator.add_trial({})
        coordinator.begin(trial, 2, 0.0)
        coordinator.report(trial, Report(1, 0.25))
    written = coordinator.store.rows(f"SELECT {COLUMNS} FROM reports")
    coordinator.store.close()
    assert judged == []
    assert [tuple(row.values()) for row in written] == [("step", 1, 1, 0.25, 0.0, "valid")]


@pytest.mark.parametrize("interval", [1, "end"])
def test_in_the_process_of_the_trial(
    interval: Literal[1, "end"], tmp_path: Path, judged: list[object]
) -> None:
    trial, link = make_trial(tmp_path, lambda model: model, interval=interval, upper=2.0)
    for step in trial.steps(4):
        trial.report(float(step), model=float(step), snapshot=float)
    trial.close()
    assert judged == []
    assert len(link.models) == 1  # by what the checks gave


NUMBERS = st.sampled_from([0.0, 1.0, 2.0, math.nan])


@given(
    st.lists(st.lists(NUMBERS, min_size=1, max_size=2), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_what_the_checks_gave_is_what_a_judge_would_say(
    given_values: list[list[float]], one_by_one: bool, best: bool
) -> None:
    goals = Goals(
        Objective("auc", "max"),
        tuple(Constraint(f"c{i}", upper=1.0) for i in range(len(given_values))),
    )
    names = [c.name for c in goals.constraints]
    checks = {name: Again(values) for name, values in zip(names, given_values, strict=True)}
    found = evaluate(
        goals,
        checks,
        None,
        lambda: 0.0,
        lambda name: None,
        best=best,
        order=names[::-1] if one_by_one else None,
    )
    assert found.valid == goals.judge(found.measured)[0]


class Again:
    """A check that gives one value after the other, and asks to be measured again."""

    measures_again = True

    def __init__(self, values: list[float]) -> None:
        self.values = iter([*values, values[-1]])

    def __call__(self, model: object) -> float:
        return next(self.values)


def test_in_a_study_of_optuna(judged: list[object]) -> None:
    """All of it is in one process here."""
    pruner = AcePruner(constraints=[Constraint("g", upper=2.0)], policy=EVERY_STEP)
    study = optuna.create_study(direction="minimize", pruner=pruner)

    def objective(trial: optuna.Trial) -> float:
        ace = acetune.optuna.trial(trial, 3)
        for step in ace.steps():
            ace.report(1 / step, constraints={"g": float(step)})
        return ace.finish()

    study.optimize(objective, n_trials=2)
    assert len(judged) == 6


@pytest.mark.parametrize("policy", ["ace:interval=1,gate=False,truncation=0", "none+after", "ace2"])
def test_in_a_replay(policy: str, judged: list[object]) -> None:
    """At a report, at the end of a record that breaks off, and after the run."""
    both = [EOD, TableConstraint("size", upper=1.0, cost_s=0.5)]
    curves = [
        curve([0.5, 0.6], [0.1 * n, 0.3], total=total, size=[0.5, 1.5])
        for n, total in ((1, 2), (3, 2), (2, 5))
    ]
    run = replay(table_of(*curves, constraints=both), policy).summary()
    assert len(judged) == run.constraint_evaluations > 0
