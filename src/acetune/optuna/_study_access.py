"""How a study is read: every private part of Optuna that the adapter uses, and what may be news.

A pruner has to read single trials (``Study`` offers all of them or none), and attributes that
belong to a library rather than to the user are the storage's business. Optuna's own pruners reach
for the same names.
"""

from __future__ import annotations

from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study._constrained_optimization import _CONSTRAINTS_KEY
from optuna.trial import FrozenTrial


class StudyAccess:
    """One study in its storage."""

    __slots__ = ("_storage", "_study_id")

    def __init__(self, study: optuna.Study) -> None:
        self._storage, self._study_id = study._storage, study._study_id

    def trial(self, trial_id: int) -> FrozenTrial:
        """One trial as it is now; KeyError if it is gone."""
        return self._storage.get_trial(trial_id)

    def id_of(self, number: int) -> int | None:
        """The id of the trial with this number, or None while there is none."""
        try:
            return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        except KeyError:
            return None

    def trials(self) -> list[FrozenTrial]:
        """All trials by number; not to be changed."""
        return self._storage.get_all_trials(self._study_id, deepcopy=False)

    def attribute(self, key: str) -> Any:
        """An attribute of the study, or None."""
        return self._storage.get_study_system_attrs(self._study_id).get(key)

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute of the study."""
        self._storage.set_study_system_attr(self._study_id, key, value)

    def set_trial_attribute(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of a trial."""
        self._storage.set_trial_system_attr(trial_id, key, value)


def place(study: optuna.Study) -> tuple[BaseStorage, int]:
    """What tells a study from any other, for as long as its storage object lives."""
    return study._storage, study._study_id


def trial_id(trial: optuna.Trial | FrozenTrial) -> int:
    """The id of a trial in its storage."""
    return trial._trial_id


def stored(trial: optuna.Trial) -> FrozenTrial:
    """A running trial as its storage holds it."""
    return trial.storage.get_trial(trial._trial_id)


def is_reported(trial: optuna.Trial, step: int) -> bool:
    """Whether this process has reported the step: Optuna keeps the first value, and says little."""
    return step in trial._cached_frozen_trial.intermediate_values


def retried(trial: FrozenTrial) -> list[int]:
    """The trials that this one is another try at, by Optuna's retry callback; oldest first."""
    history: list[int] = trial.system_attrs.get("retry_history", [])
    return history


def set_constraint(trial: optuna.Trial, name: str, value: float) -> None:
    """``trial.set_constraint``, also where a retried trial has inherited one.

    Optuna keeps the first value, which then is that of the trial that failed.
    """
    inherited = trial.constraints
    if name not in inherited:
        trial.set_constraint(name, value)
    elif inherited[name] != value:
        trial.storage.set_trial_system_attr(trial._trial_id, f"{_CONSTRAINTS_KEY}:{name}", value)


def set_constraint_list(trial: optuna.Trial, values: list[float]) -> None:
    """Constraints as Optuna 4 kept them, for what does not know those of Optuna 5 yet."""
    trial.storage.set_trial_system_attr(trial._trial_id, _CONSTRAINTS_KEY, values)


# Up to so many trials are read one by one. For a database each costs as much as all those that
# have not ended together, but reading these goes through every trial of the study.
_FEW = 4


class StaleError(Exception):
    """What was read before is no longer what the storage holds."""


class Poll:
    """Remembers how far a study was read."""

    __slots__ = ("_next", "_open")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # number and id of the trials that have not ended
        self._next = 0  # the first number that was not seen yet

    def news(self, study: StudyAccess, own: int | None) -> list[FrozenTrial]:
        """The trials that may have news. ``own`` is left out: the caller has it at hand."""
        unended = self._open
        others = len(unended) - (own in unended)
        if others > _FEW or (own is not None and own - self._next > _FEW):
            return [trial for trial in self.everything(study) if trial.number != own]
        found: list[FrozenTrial] = []
        try:
            if others:
                found = [study.trial(at) for number, at in unended.items() if number != own]
            while (new := study.id_of(self._next)) is not None:
                unended[self._next] = new
                if self._next != own:
                    found.append(study.trial(new))
                self._next += 1
        except KeyError:
            raise StaleError from None
        if found:
            self._close(found)
        return found

    def everything(self, study: StudyAccess) -> list[FrozenTrial]:
        """The same without leaving one out, read all at once."""
        trials = study.trials()
        found = []
        for number in self._open:
            if number >= len(trials) or trials[number].number != number:
                raise StaleError
            found.append(trials[number])
        for trial in trials[self._next :]:
            found.append(trial)
            self._open[trial.number] = trial_id(trial)
            self._next = trial.number + 1
        self._close(found)
        return found

    def _close(self, found: list[FrozenTrial]) -> None:
        for trial in found:
            if trial.state.is_finished():
                self._open.pop(trial.number, None)
