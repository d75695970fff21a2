"""Studies that were run, as curve tables: what they hold, and what replays make of them."""

from __future__ import annotations

import math
import signal
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import acetune
from acetune import ACE, Constraint, StudyCallback, Trial
from acetune.core.errors import StudyFileError, TableError
from acetune.replay.curve_table import CurveTable
from acetune.replay.from_study import table_from_study
from acetune.replay.simulator import simulate
from acetune.replay.table_file import read_table, write_table
from run.helpers import SPACE, by_hand, g_of, states, tune

cloudpickle.register_pickle_by_value(sys.modules[__name__])

LIMIT = Constraint("g", upper=1.0, check=g_of)
EVERYTHING = ACE(truncation=0.0, interval=1, gate=False)
# (loss, g) at each step: the fourth is bad all along, and stopped where half are
CURVES = [
    [(0.5, 0.0), (0.4, 0.5), (0.3, 1.5)],
    [(0.6, 2.0), (0.5, 1.0)],
    [(0.4, 0.2), (0.45, 0.3), (0.2, 0.4), (0.1, 0.9)],
    [(0.9, 3.0), (0.8, 3.0), (0.7, 3.0)],
]


def holes(table: CurveTable, metric: str = "g") -> int:
    return int(np.isnan(table.metrics[metric]).sum())


# -- whole curves --------------------------------------------------------------------------------


def test_a_study_in_which_everything_was_checked(study: Path, tmp_path: Path) -> None:
    xs = (1.0, 2.0, 3.0, 4.0)
    tune(by_hand(CURVES), study, xs=xs, constraints=[LIMIT], policy=EVERYTHING)
    table = table_from_study(study)

    assert (table.name, table.objective.name, table.objective.mode) == ("study", "loss", "min")
    assert table.configs == tuple({"x": x} for x in xs)
    assert table.space == acetune.searchers.space.Space(SPACE).describe()
    assert table.made["study"] == "study.db" and table.made["policy"]["name"] == "ACE"
    (limit,) = table.constraints
    assert (limit.metric, limit.upper, limit.cost_s, limit.sparse) == ("g", 1.0, 0.5, False)
    for config, curve in enumerate(CURVES):
        assert table.complete(config)
        losses, gs = zip(*curve, strict=True)
        assert table.curve(config, "loss").tolist() == list(losses)
        assert table.curve(config, "g").tolist() == list(gs)
    assert set(table.cost_s.tolist()) == {2.0}

    write_table(tmp_path / "t.parquet", table)
    assert read_table(tmp_path / "t.parquet").made == table.made
    run = simulate(table, "none", workers=1)
    assert (run.trials, run.reports, run.unmeasured_checks) == (4, 12, 0)
    every = simulate(table, EVERYTHING)
    assert (every.constraint_evaluations, every.unmeasured_checks, every.best) == (12, 0, 0.1)


def test_a_lower_limit_and_no_constraint_at_all(study: Path, tmp_path: Path) -> None:
    lower = Constraint("g", lower=0.25, check=g_of)
    tune(by_hand(CURVES), study, xs=(1.0, 2.0), constraints=[lower], policy=EVERYTHING)
    assert table_from_study(study).constraints[0].lower == 0.25
    other = tmp_path / "plain.db"
    tune(by_hand(CURVES), other, xs=(1.0, 2.0))
    table = table_from_study(other)
    assert table.constraints == () and set(table.metrics) == {"loss"}
    assert simulate(table, "ace").best == 0.3


@pytest.mark.parametrize("policy", ["ace", "asha", "none", "none+after", "asha-lex"])
def test_unchecked_checkpoints_are_holes(study: Path, policy: str) -> None:
    tune(by_hand(CURVES), study, xs=(1.0, 2.0, 3.0, 4.0), constraints=[LIMIT], policy=policy)
    table = table_from_study(study)
    assert table.constraints[0].sparse and 0 < holes(table) < len(table.cost_s)
    for config, curve in enumerate(CURVES):
        known = table.curve(config, "g")
        expected = [g for _, g in curve[: len(known)]]
        np.testing.assert_array_equal(known[~np.isnan(known)], np.array(expected)[~np.isnan(known)])
    for replayed in ("none", "ace", "ace-beta1", "asha+after"):
        run = simulate(table, replayed, budget_s=1e6)
        assert run.reports <= len(table.cost_s)
        assert run.unmeasured_checks <= run.constraint_evaluations
    # all of them are asked for, and what is not known counts as failed
    every = simulate(table, EVERYTHING)
    assert every.constraint_evaluations == len(table.cost_s)
    assert every.unmeasured_checks == holes(table)


def test_a_study_without_any_check_replays_with_nothing_found(study: Path) -> None:
    def no_check(trial: Trial) -> None:
        for step in trial.steps(5):
            if step == 3:
                raise ValueError("before the check at the end")
            trial.report(1 / step, model=step)

    tune(no_check, study, constraints=[Constraint("g", upper=1, check=abs)], policy="none")
    table = table_from_study(study)
    assert holes(table) == 2 and table.constraints[0].cost_s == 0.0
    run = simulate(table, "ace", cost_ratio=1.0)
    assert run.best is None and run.unmeasured_checks == run.constraint_evaluations == 1


def test_several_constraints_with_failed_checks(study: Path) -> None:
    def fails_at_two(model: tuple[int, int, float]) -> float:
        return math.nan if model[1] == 2 else 0.5

    constraints = [Constraint("f", upper=1, check=fails_at_two), LIMIT]
    tune(by_hand(CURVES[:1]), study, constraints=constraints, policy=EVERYTHING)
    table = table_from_study(study)
    np.testing.assert_array_equal(table.metrics["f"], [0.5, math.nan, 0.5])
    np.testing.assert_array_equal(table.metrics["g"], [0.0, math.nan, 1.5])
    assert [limit.sparse for limit in table.constraints] == [True, True]


# -- incomplete curves ---------------------------------------------------------------------------


def test_stopped_trials_are_incomplete(study: Path) -> None:
    policy = ACE(truncation=0.5, interval=1, gate=False)
    tune(by_hand(CURVES), study, xs=(1.0, 2.0, 3.0, 4.0), constraints=[LIMIT], policy=policy)
    assert states(study)[3] == "stopped"
    table = table_from_study(study)
    assert not table.complete(3) and table.total_steps[3] == 3
    assert [table.complete(config) for config in range(3)] == [
        state == "finished" for state in states(study)[:3]
    ]
    # a replay goes up to the end of each record and no further
    run = simulate(table, "none", workers=2)
    assert run.reports == len(table.cost_s)


def test_failed_trials_are_incomplete(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(4 if trial.number == 1 else None):
            if step == 3:
                raise ValueError("no luck")
            trial.report(1 / step, model=(1, step, 0.0))

    tune(train, study, xs=(1.0, 2.0), constraints=[LIMIT], policy=EVERYTHING)
    assert states(study) == ["failed", "failed"]
    table = table_from_study(study)
    assert [table.steps(0), table.steps(1)] == [2, 2]
    assert table.total_steps.tolist() == [4, 0]
    assert simulate(table, "ace").reports == 4


def test_interrupted_trials_are_incomplete(study: Path) -> None:
    def endless(trial: Trial) -> None:
        for step in trial.steps():
            trial.report(1 / step, model=(1, step, 0.0), primary_cost_s=0.1)

    class Enough(StudyCallback):
        def on_report(self, trial: int, report: object, decision: object) -> None:
            self.reports = getattr(self, "reports", 0) + 1
            if self.reports == 5:
                signal.raise_signal(signal.SIGINT)

    tune(endless, study, constraints=[LIMIT], callbacks=[Enough()])
    assert states(study) == ["interrupted"]
    table = table_from_study(study)
    assert table.total_steps.tolist() == [0] and table.steps(0) > 2
    assert simulate(table, "ace").reports == table.steps(0)


def test_a_trial_that_ended_by_itself_before_its_bound_is_complete(study: Path) -> None:
    def converges(trial: Trial) -> None:
        for step in trial.steps(100):
            trial.report(1 / step, model=(1, step, 0.0))
            if step == 3:
                break

    tune(converges, study, constraints=[LIMIT], policy=EVERYTHING)
    table = table_from_study(study)
    assert table.total_steps.tolist() == [3] and table.complete(0)


def test_an_objective_that_is_no_finite_number_cuts_the_curve(study: Path) -> None:
    losses = {1: [0.5, 0.4, math.nan, 0.2], 2: [0.5, math.inf], 3: [math.nan, 0.1], 4: [0.5, 0.4]}

    def train(trial: Trial) -> None:
        its = losses[trial.number]
        for step in trial.steps(len(its)):
            trial.report(its[step - 1], model=(1, step, 0.0))

    tune(train, study, xs=(1.0, 2.0, 3.0, 4.0), constraints=[LIMIT], policy=EVERYTHING)
    table = table_from_study(study)
    assert [params["x"] for params in table.configs] == [1.0, 2.0, 4.0]
    assert [table.curve(config, "loss").tolist() for config in range(3)] == [
        [0.5, 0.4],
        [0.5],
        [0.5, 0.4],
    ]
    assert table.total_steps.tolist() == [4, 2, 2]


def test_steps_after_a_gap_are_left_out(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.declare(6)
        first = 1 if trial.number == 1 else 2
        for step in (first, 2, 3, 6)[first - 1 :]:
            trial.report(1 / step, step=step, model=(1, step, 0.0))

    tune(train, study, xs=(1.0, 2.0), constraints=[LIMIT], policy=EVERYTHING)
    table = table_from_study(study)
    assert [params["x"] for params in table.configs] == [1.0]
    assert (table.steps(0), table.total_steps[0]) == (3, 6)


# -- attempts ------------------------------------------------------------------------------------


def resumable(trial: Trial) -> None:
    """Fails at step 5 twice; goes on from step 2, then from step 4."""
    for step in trial.steps(6):
        if step == 5 and trial.attempt < 3:
            raise ValueError("no luck")
        saving: Any = {}
        if step == 2 * trial.attempt:
            saving["checkpoint"] = lambda folder: (folder / "state").write_text("saved")
        # values tell the attempt that reported them
        trial.report(
            1 / step + trial.attempt,
            model=(1, step, float(trial.attempt)),
            primary_cost_s=float(trial.attempt),
            **saving,
        )


def test_attempts_that_went_on_give_one_whole_curve(study: Path) -> None:
    tune(resumable, study, constraints=[LIMIT], policy=EVERYTHING, retries=2)
    assert states(study) == ["failed", "failed", "finished"]
    table = table_from_study(study)
    assert len(table.configs) == 1 and table.complete(0) and table.steps(0) == 6
    assert table.metrics["g"].tolist() == [1, 1, 2, 2, 3, 3]
    assert table.cost_s.tolist() == [1, 1, 2, 2, 3, 3]
    np.testing.assert_allclose(table.metrics["loss"] - 1 / np.arange(1, 7), [1, 1, 2, 2, 3, 3])
    assert not table.constraints[0].sparse


def test_attempts_that_went_on_and_failed_are_incomplete(study: Path) -> None:
    tune(resumable, study, constraints=[LIMIT], policy=EVERYTHING, retries=1)
    assert states(study) == ["failed", "failed"]
    table = table_from_study(study)
    assert table.metrics["g"].tolist() == [1, 1, 2, 2]
    assert table.total_steps.tolist() == [6]


def test_an_attempt_from_the_start_replaces_the_one_before(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(3):
            if step == 3 and trial.attempt == 1:
                raise ValueError("no luck")
            trial.report(1 / step, model=(1, step, float(trial.attempt)))

    tune(train, study, constraints=[LIMIT], policy=EVERYTHING, retries=1)
    table = table_from_study(study)
    assert table.metrics["g"].tolist() == [2, 2, 2] and table.complete(0)


# -- nothing to take -----------------------------------------------------------------------------


def test_rejected_configurations_are_left_out(study: Path) -> None:
    small = Constraint("x", upper=2, on="config", check=lambda params: params["x"])
    constraints = [LIMIT, small]
    tune(
        by_hand([[(0.5, 0.0)]] * 4),
        study,
        xs=(1.0, 3.0, 2.0),
        max_trials=2,
        constraints=constraints,
    )
    assert sorted(states(study)) == ["finished", "finished", "rejected"]
    table = table_from_study(study)
    assert [params["x"] for params in table.configs] == [1.0, 2.0]
    assert [limit.metric for limit in table.constraints] == ["g"]


def test_a_study_without_reports(study: Path) -> None:
    def fails(trial: Trial) -> None:
        raise ValueError("at once")

    tune(fails, study, constraints=[LIMIT])
    with pytest.raises(TableError, match=r"study.db has no trial whose reports could be a curve"):
        table_from_study(study)


def test_a_study_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError, match="there is no study file"):
        table_from_study(tmp_path / "nothing.db")
    (tmp_path / "text.db").write_text("anything else")
    with pytest.raises(StudyFileError, match="not a study file"):
        table_from_study(tmp_path / "text.db")
