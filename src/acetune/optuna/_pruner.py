"""The pruner: any policy of acetune, as Optuna knows pruners."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import optuna
from optuna.pruners import BasePruner
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from acetune.core.errors import GoalError, StudyChangedError
from acetune.core.goals import Constraint, Goals, Mode, Objective, constraint_list
from acetune.core.numbers import require_whole
from acetune.core.say_once import SayOnce
from acetune.optuna._attributes import GOALS, read_goals, write_goals
from acetune.optuna._study_access import StudyAccess, place
from acetune.optuna._study_history import StudyHistory
from acetune.policies import Policy, make_policy

_notices: WeakKeyDictionary[BaseStorage, SayOnce] = WeakKeyDictionary()


class UncheckedTrialsWarning(UserWarning):
    """Trials of the study carry no constraint, and Optuna counts them as feasible."""


class AcePruner(BasePruner):
    """Stop trials by objective and constraint together.

    Trials report through :func:`acetune.optuna.trial`. Those that call ``trial.report`` and
    ``trial.should_prune`` themselves are ranked too, as trials that nobody checks.

    What it says depends only on what the study's storage holds, so that any number of processes
    may work on a study, each with a pruner of its own. Between questions it keeps a digest of what
    it has read, which is not pickled.

    Parameters
    ----------
    constraints:
        The limits. Those with a check need no ``report(constraints=...)``.
    policy:
        When to check and which trials to stop: a policy or its name; :class:`~acetune.Adaptive` by
        default. Not one that checks after the run: Optuna has no such moment.
    objective:
        The name of the objective, for ``report(auc=...)`` and for messages. Whether it is
        minimised or maximised is the study's own business.
    confirm_top:
        Checks are skipped for what cannot be among this many best valid trials.
    for_dashboard:
        Write constraints also as Optuna 4 did, a list without names: optuna-dashboard up to 0.21
        reads only that, and without it shows every trial as feasible. In ``trial.constraints`` each
        then stands twice, under its number too, which is the same to TPE and NSGA-II. It is not
        done under a ``GPSampler``, which would become more cautious.

    >>> from acetune import ACE
    >>> AcePruner([Constraint("eod", upper=0.25)], ACE(truncation=0.5))
    AcePruner([eod <= 0.25], ACE(truncation=0.5, interval='adaptive', gate=True, \
stopping='stratum', min_steps=0))
    """

    def __init__(
        self,
        constraints: Sequence[Constraint] = (),
        policy: Policy | str | None = None,
        *,
        objective: str = "value",
        confirm_top: int = 1,
        for_dashboard: bool = True,
    ) -> None:
        self.constraints = constraint_list(constraints)
        self.policy = make_policy(policy)
        self.objective = objective
        self.confirm_top = confirm_top
        self.for_dashboard = for_dashboard
        Goals(Objective(objective), self.constraints)  # complains now, not in the first trial
        if self.policy.checks_after_run:
            raise GoalError(
                f"{self.policy!r} checks constraints after the run, for which Optuna has no place; "
                f"use {type(self.policy).__name__}(constraints='callback') or acetune.ACE2()"
            )
        require_whole("confirm_top", confirm_top, least=1)
        for constraint in self.constraints:
            if constraint.timeout_s is not None:
                raise GoalError(
                    f"constraint {constraint.name!r} has timeout_s={constraint.timeout_s}, but "
                    "under Optuna checks run in your own process and cannot be cut off; leave it "
                    "out, and let the check give up by itself"
                )
        self._forget()

    def __repr__(self) -> str:
        limits = ", ".join(constraint.describe() for constraint in self.constraints)
        return f"{type(self).__name__}([{limits}], {self.policy!r})"

    def __getstate__(self) -> dict[str, Any]:
        """All but what was read: another process reads for itself."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether a trial should stop after its last report; Optuna asks this."""
        step = trial.last_step
        if step is None:
            return False
        digest = self.digest(study)
        with digest.lock:
            decision = digest.decide(StudyAccess(study), trial, step)
        notice_unchecked(study, digest.unconstrained)
        return decision.stop

    # -- what trials use -------------------------------------------------------------------------

    def digest(self, study: optuna.Study) -> StudyHistory:
        """What this process has read of a study."""
        if self._process != os.getpid():
            self._forget()
        storage, study_id = place(study)
        found = self._digests.get(storage, {}).get(study_id)
        if found is not None:
            return found
        goals = self.goals(study)
        self.require_same(study, goals)
        with self._lock:
            digests = self._digests.setdefault(storage, {})
            return digests.setdefault(study_id, StudyHistory(goals, self.policy, self.confirm_top))

    def goals(self, study: optuna.Study) -> Goals:
        """The objective as the study has it, with the constraints."""
        if len(study.directions) != 1:
            raise GoalError(
                f"study {study.study_name!r} has {len(study.directions)} objectives; acetune takes "
                "one, and limits on the rest: make them constraints"
            )
        return goals_in(study, self.constraints, self.objective)

    def require_same(self, study: optuna.Study, goals: Goals) -> bool:
        """Whether the study has limits; an error if they are others than these."""
        stored = StudyAccess(study).attribute(GOALS)
        if stored is None:
            return False
        limits = read_goals(stored)
        if limits != goals.constraints:
            then = ", ".join(limit.describe() for limit in limits) or "none"
            now = ", ".join(limit.describe() for limit in goals.constraints) or "none"
            raise StudyChangedError(
                f"study {study.study_name!r} began with the constraints {then}, now they are "
                f"{now}; give those it began with, or create another study"
            )
        return True

    def settle_goals(self, study: optuna.Study) -> None:
        """Write the limits to a study that has none yet."""
        digest = self.digest(study)
        if digest.settled:
            return
        if not self.require_same(study, digest.goals):
            StudyAccess(study).set_attribute(GOALS, write_goals(digest.goals))
        digest.settled = True

    # -- inside ----------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._process = os.getpid()  # a forked one must not wait for locks of its parent
        self._lock = threading.Lock()
        self._digests: WeakKeyDictionary[BaseStorage, dict[int, StudyHistory]] = WeakKeyDictionary()


def goals_in(
    study: optuna.Study, constraints: Sequence[Constraint] = (), objective: str = "value"
) -> Goals:
    """The constraints with the study's objective, of which Optuna does not know the name."""
    mode: Mode = "max" if study.direction == StudyDirection.MAXIMIZE else "min"
    return Goals(Objective(objective, mode), tuple(constraints))


def goals_of(study: optuna.Study) -> Goals | None:
    """The goals that trials of acetune are judged by; None where there are no such trials."""
    if isinstance(study.pruner, AcePruner):
        return study.pruner.goals(study)
    stored = StudyAccess(study).attribute(GOALS)
    return None if stored is None else goals_in(study, read_goals(stored))


def notice_unchecked(study: optuna.Study, count: int) -> None:
    """Completed trials without any constraint stand in a study that has limits."""
    if count == 0:
        return
    storage, study_id = place(study)
    notice = _notices.setdefault(storage, SayOnce(_warn))
    trials = "a completed trial" if count == 1 else f"{count} completed trials"
    notice(
        f"study {study.study_name!r} has {trials} without constraints, which did not "
        "return finish() of acetune.optuna.trial. Optuna counts such trials as feasible, so "
        "study.best_trial may be one of them; acetune does not: use acetune.optuna.best(study)",
        about=study_id,
    )


def _warn(text: str) -> None:
    warnings.warn(text, UncheckedTrialsWarning, stacklevel=5)  # where notice_unchecked is asked for
