"""Whatever an objective function does hurts its own trial only.

Trials of Optuna share a process: what ends it ends all that it trains, and other processes go on.
"""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

import acetune.optuna
from optuna_pruner.kit import NEVER, made
from run.misbehaviour import MISBEHAVIOUR, STEPS, end_what_was_left_behind

NAMES = (
    "50 MB of text",
    "braces",
    "a circle of errors",
    "a deep stack",
    "a group",
    "StopIteration",
    "a thread goes on reporting",
    "threads report one step",
    "an error in a thread",
    "a model that cannot be pickled",
    "a value that raises",
    "a check that raises in silence",
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> optuna.Study:
    """All rows in one study, each followed by a trial as it should be."""
    path: Path = tmp_path_factory.mktemp("misbehaving") / "study.db"
    found = made(NEVER, storage=f"sqlite:///{path}")

    def objective(trial: optuna.Trial) -> float:
        ace = acetune.optuna.trial(trial, total_steps=STEPS)
        for step in ace.steps():
            ace.report(trial.number + 1 / step, model=0.1, constraints={"g": lambda m: m})
            if trial.number % 2 == 0 and step == 2:
                MISBEHAVIOUR[NAMES[trial.number // 2]].deed(ace)
        return ace.finish()

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        found.optimize(objective, n_trials=2 * len(NAMES), catch=(Exception,))
    finally:
        optuna.logging.set_verbosity(optuna.logging.INFO)
        end_what_was_left_behind()
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_deed_hurts_its_own_trial_only(name: str, study: optuna.Study) -> None:
    place = NAMES.index(name)
    bad, good = study.trials[2 * place : 2 * place + 2]
    reason = MISBEHAVIOUR[name].reason
    assert bad.state is (TrialState.COMPLETE if reason is None else TrialState.FAIL)
    assert good.state is TrialState.COMPLETE
    number = 2 * place + 1
    values = {step: number + 1 / step for step in range(1, STEPS + 1)}
    assert good.intermediate_values == pytest.approx(values)
    assert good.value == number + 1 / STEPS
