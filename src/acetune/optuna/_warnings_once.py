"""What users are told once a study, as Python warnings."""

from __future__ import annotations

import warnings
from weakref import WeakKeyDictionary

import optuna
from optuna.storages import BaseStorage

from acetune.core.say_once import SayOnce
from acetune.optuna._private_api import place


class UncheckedTrialsWarning(UserWarning):
    """Trials of the study carry no constraint, and Optuna counts them as feasible."""


_notices: WeakKeyDictionary[BaseStorage, SayOnce] = WeakKeyDictionary()


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
