"""A trial of Optuna, as acetune's training functions know trials."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

from acetune.core.errors import GoalError
from acetune.core.goals import Goals
from acetune.core.trial_record import Progress
from acetune.optuna._optuna_link import KeepModel, OptunaLink
from acetune.optuna._pruner import AcePruner
from acetune.optuna._study_access import retried, stored
from acetune.policies import Policy
from acetune.trial.exclusive_link import ExclusiveLink
from acetune.trial.trial import Trial


class OptunaTrial(Trial):
    """A trial that reports to Optuna. Made by :func:`trial`."""

    _objective_named_by = "AcePruner(objective={})"

    def __init__(self, link: OptunaLink, goals: Goals, policy: Policy, **made: Any) -> None:
        super().__init__(ExclusiveLink(link), goals, policy, **made)
        self._optuna = link
        self._finished: tuple[float | None, str] | None = None

    def should_prune(self) -> bool:
        """Whether the trial was told to stop: leave the training loop then, and finish."""
        return self.should_stop

    def finish(self) -> float:
        """What the objective returns: the value of one checkpoint, with its constraints set.

        Makes the check that is still due when training ended before its last step. Raises
        ``optuna.TrialPruned`` where Optuna is to count the trial as pruned: it was stopped without
        a valid checkpoint, or nothing of it was ever checked.
        """
        if self._finished is None:
            if self._optuna.reported or not self._progress.last_step:
                self.close()
            else:  # all of it is inherited: there is no model to check
                self.declare(None)
                self._link.close()
            outcome = self._optuna.conclude()
            why = f"{self.stop_reason}; {outcome.why}" if self.should_stop else outcome.why
            self._finished = outcome.value, why
        value, why = self._finished
        if value is None:
            raise optuna.TrialPruned(why)
        return value


def trial(
    trial: optuna.Trial,
    total_steps: int | None,
    *,
    keep_model: KeepModel | None = None,
    folder: Path | str | None = None,
    clock: Callable[[], float] | None = None,
) -> OptunaTrial:
    """The trial to report to, inside an objective function.

    Parameters
    ----------
    trial:
        Optuna's.
    total_steps:
        The last step, or an upper bound. None where it is declared later, by ``steps(T)`` or
        ``declare(T)``, or not at all: then ``steps()`` goes on until you leave its loop.
    keep_model:
        Called with a step and the model that was reported, when that checkpoint was found valid,
        is the best of its trial and no worse than the best of all. Optuna keeps no models: without
        this nothing is written.
    folder:
        For whatever the trial writes; ``<study>.files/trial-<number>`` by default. Made when the
        trial is asked for it.
    clock:
        Seconds, to time training and checks by.
    """
    if not isinstance(trial, optuna.Trial):
        raise GoalError(
            "acetune.optuna.trial takes the trial that Optuna gives to an objective function, got "
            f"a {type(trial).__name__}"
        )
    study, pruner = trial.study, trial.study.pruner
    if not isinstance(pruner, AcePruner):
        raise GoalError(
            f"the pruner of study {study.study_name!r} is {type(pruner).__name__}; create or load "
            "the study with pruner=acetune.optuna.AcePruner(constraints=[...])"
        )
    goals = pruner.digest(study).goals
    before = stored(trial)
    progress = Progress()
    for step, value in sorted(before.intermediate_values.items()):  # of the try before this one
        progress.advance(step, goals.objective.loss(value), None)
    if folder is None:
        name = re.sub(r"[^\w.-]+", "-", study.study_name)
        folder = Path(f"{name}.files") / f"trial-{trial.number}"
    own = Path(folder)

    def make_folder() -> Path:
        own.mkdir(parents=True, exist_ok=True)
        return own

    made = OptunaTrial(
        OptunaLink(trial, before, pruner, keep_model),
        goals,
        pruner.policy,
        number=trial.number,
        attempt=len(retried(before)) + 1,
        params=trial.params,
        folder=make_folder,
        progress=progress,
        clock=clock,
    )
    if total_steps is not None:
        made.declare(total_steps)
    return made
