"""What ends a study before its budget is spent: enough was found, or it cannot go well."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from acetune.core.errors import StudyError
from acetune.core.formatting import parameters
from acetune.core.goals import FailedCheck
from acetune.core.reason import NO_BETTER_S, NO_BETTER_TRIALS, TARGET_REACHED, Reason, Value
from acetune.run._options import Settings
from acetune.study.coordinator import StudyCoordinator
from acetune.study.session import StudyTrial
from acetune.study.store import Store
from acetune.study.summary import shown
from acetune.study.temporary import is_temporary
from acetune.trial.checks import RaisedCheck, RefusedModel
from acetune.trial.link import Report

_LONGEST = 60  # characters of the parameters of a trial that are shown
_WAYS_ON = {
    TARGET_REACHED.code: "give a better target=, or none",
    NO_BETTER_TRIALS.code: "raise patience_trials=",
    NO_BETTER_S.code: "raise patience_s=",
}


class EndedStudyError(StudyError):
    """A study that cannot go well was ended: ``why`` in a line, and the details of an example."""

    def __init__(self, why: str, details: str = "") -> None:
        super().__init__(f"{why}; {details}" if details else why)
        self.why = why


class BrokenChecks:
    """Ends a study in which no check has given a number yet and those of many trials failed.

    A checkpoint whose check fails counts as invalid, and one bad configuration may well break a
    check. But where the checks of ``most`` trials have failed and in the whole study, earlier
    sessions included, no report has all its constraints measured, the check itself is most likely
    wrong: training on would find nothing. A check that gave NaN, infinity or an impossible value
    may do better as training goes on: such trials count once they have ended, and half of ``most``
    must have finished, as one that was stopped early had no chance to. Models that a check refuses
    do not count, nor do timeouts, which fail their trials.
    """

    def __init__(self, store: Store, most: int, constraints: int) -> None:
        self._path, self._most = store.path, most
        self._constraints = constraints
        self._worked = store.has_measured(constraints)
        self._failed: dict[int, tuple[StudyTrial, str, FailedCheck]] = {}  # the first of each trial

    def look(self, trial: StudyTrial, report: Report) -> None:
        """Take note of what a report measured."""
        if self._worked or not report.measured:
            return
        failed = [(n, f) for n, f in report.measured.items() if isinstance(f, FailedCheck)]
        if not failed:  # what another one spared was not tried
            self._worked = len(report.measured) == self._constraints
            return
        name, first = failed[0]  # the others were not evaluated
        if not isinstance(first, RefusedModel):
            self._failed.setdefault(trial.number, (trial, name, first))
        raised = sum(isinstance(first, RaisedCheck) for *_, first in self._failed.values())
        others = [t for t, _, first in self._failed.values() if not isinstance(first, RaisedCheck)]
        if raised < self._most and not _enough_ended(others, self._most - raised):
            return
        number, (_, name, first) = next(iter(self._failed.items()))
        many, file = len(self._failed), shown(self._path)
        where = "the one trial" if many == 1 else f"all {many} trials"
        delete = f", best after deleting this study (rm -r {file}*): its trials were trained, but "
        delete = "" if is_temporary(self._path) else f"{delete}never checked"
        raise EndedStudyError(
            f"the check of {name!r} failed in {where} that it was called in so far, and the study "
            "was ended",
            f"in trial {number}, with:\n{first.error}\n{_tried(self._failed)}"
            f"Fix the check and make the same call again{delete}. "
            + _ways_on("it fails", self._most, self._path, number),
        )


class BrokenObjective:
    """Ends a study whose objective has never been a finite number, once many trials have ended.

    Such a report ranks last and is never the best. A diverging configuration earns it; where all
    reports of ``most`` trials are such, half of which finished, training or metric is most likely
    wrong.
    """

    def __init__(self, coordinator: StudyCoordinator, most: int) -> None:
        self._path, self._most = coordinator.store.path, most
        self._name = coordinator.goals.objective.name
        trials = coordinator.stopper.history.trials.values()
        self._worked = any(math.isfinite(trial.progress.best_loss) for trial in trials)
        self._bad: dict[int, tuple[StudyTrial, Report]] = {}  # the first of each trial

    def look(self, trial: StudyTrial, report: Report) -> None:
        """Take note of a report."""
        if self._worked:
            return
        if math.isfinite(report.value):
            self._worked = True
            return
        self._bad.setdefault(trial.number, (trial, report))
        if not _enough_ended([trial for trial, _ in self._bad.values()], self._most):
            return
        number, (_, first) = next(iter(self._bad.items()))
        many = len(self._bad)
        where = "of the one trial" if many == 1 else f"of all {many} trials"
        raise EndedStudyError(
            f"the objective {self._name!r} was NaN or infinite in every report {where} so far, and "
            "the study was ended",
            f"trial {number} reported {first.value} at step {first.step}.\n{_tried(self._bad)}"
            "Such a report is never the best. Look at what train reports, and make the same call "
            "again. " + _ways_on("that is so", self._most, self._path, number),
        )


def _enough_ended(trials: Sequence[StudyTrial], most: int) -> bool:
    """Whether so many have ended that hardly any other one will do better."""
    ended = sum(not trial.running for trial in trials)
    return ended >= most and 2 * sum(trial.finished for trial in trials) >= most


def _tried(trials: Mapping[int, tuple[StudyTrial, *tuple[object, ...]]]) -> str:
    """A line on the parameters of trials, where there are some that are short enough to show."""
    tried = {number: parameters(trial.params) for number, (trial, *_) in trials.items()}
    listed = "; ".join(f"trial {n}: {text}" for n, text in tried.items() if len(text) <= _LONGEST)
    return f"The parameters were:  {listed}\n" if listed else ""


def _ways_on(so: str, most: int, path: Path, number: int) -> str:
    """What to do where only some configurations are bad, and where to look closer."""
    closer = f"Look closer:  acetune explain {shown(path)} {number}"
    if is_temporary(path):
        closer = "This study is removed when the program ends: give study= to look closer"
    return f"If {so} for these configurations only, go on with max_failures={4 * most}. {closer}"


class EarlyEnd:
    """When a study ends before its budget is spent: the target is reached, or nothing gets better.

    It looks at the best feasible checkpoint; patience is counted from the first one on.

    Parameters
    ----------
    coordinator, settings:
        What was found, in earlier sessions too, and what was asked for.
    ended, elapsed:
        How many trials have ended in this session, and the seconds that the study has searched.
    """

    def __init__(
        self,
        coordinator: StudyCoordinator,
        settings: Settings,
        ended: Callable[[], int],
        elapsed: Callable[[], float],
    ) -> None:
        self._history, self._goals = coordinator.stopper.history, coordinator.goals
        self._settings, self._ended, self._elapsed = settings, ended, elapsed
        ends = (settings.target, settings.patience_trials, settings.patience_s)
        self._asked = any(end is not None for end in ends)
        self._loss: float | None = None  # of the best
        self._since = 0, 0.0  # trials ended and seconds searched when it was found
        best = coordinator.stopper.best
        if best is not None:
            self._loss = self._goals.objective.loss(best.value)
            trials, seconds = coordinator.store.since(int(best.trial), best.step)
            self._since = ended() - trials, elapsed() - seconds

    def look(self) -> Reason | None:
        """Why the study has found enough, if it has."""
        settings, best = self._settings, self._history.best
        if best is None or not self._asked:
            return None
        if self._loss is None or best.loss < self._loss:
            self._since = self._ended(), self._elapsed()
        self._loss = best.loss
        objective = self._goals.objective
        if settings.target is not None and best.loss <= objective.loss(settings.target):
            value = objective.value(best.loss)
            numbers: dict[str, Value] = {
                "objective": objective.name,
                "value": value,
                "target": settings.target,
            }
            return Reason(TARGET_REACHED, numbers)
        trials, seconds = self._since
        if settings.patience_trials is not None:
            without = self._ended() - trials
            if without >= settings.patience_trials:
                return Reason(NO_BETTER_TRIALS, {"trials": without})
        if settings.patience_s is not None:
            waited = self._elapsed() - seconds
            if waited >= settings.patience_s:
                return Reason(NO_BETTER_S, {"seconds": waited})
        return None

    @staticmethod
    def way_on(reason: Reason) -> str:
        """How the study goes on all the same."""
        return _WAYS_ON[reason.code]
