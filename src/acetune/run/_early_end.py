"""What ends a study before its budget is spent: enough was found, or its checks cannot work."""

from __future__ import annotations

from collections.abc import Callable

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
from acetune.trial.checks import RaisedCheck
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
    """Ends a study in which no check has given a number yet and those of many trials raised.

    A checkpoint whose check fails counts as invalid, and one bad configuration may well break a
    check. But where the checks of ``most`` trials have raised and in the whole study, earlier
    sessions included, no report has all its constraints measured, the check itself is most likely
    wrong: training on would find nothing. Checks that return NaN or infinity do not count, because
    a poor model may earn them; nor do timeouts, which fail their trials.
    """

    def __init__(self, store: Store, most: int, constraints: int) -> None:
        self._path, self._most = store.path, most
        self._constraints = constraints
        self._worked = store.has_measured(constraints)
        self._raised: dict[int, tuple[str, str, str]] = {}  # the first of each trial

    def look(self, trial: StudyTrial, report: Report) -> None:
        """Take note of what a report measured."""
        if self._worked or not report.measured:
            return
        failed = [(n, f) for n, f in report.measured.items() if isinstance(f, FailedCheck)]
        if not failed:  # what another one spared was not tried
            self._worked = len(report.measured) == self._constraints
            return
        name, first = failed[0]  # the others were not evaluated
        if isinstance(first, RaisedCheck):
            params = parameters(trial.params)
            self._raised.setdefault(trial.number, (name, first.error, params))
        if len(self._raised) < self._most:
            return
        number, (name, error, _) = next(iter(self._raised.items()))
        many, file = len(self._raised), shown(self._path)
        where = "the one trial" if many == 1 else f"all {many} trials"
        tried = {n: params for n, (*_, params) in self._raised.items() if len(params) <= _LONGEST}
        listed = "; ".join(f"trial {n}: {params}" for n, params in tried.items())
        delete = f", best after deleting this study (rm -r {file}*): its trials were trained, but "
        delete, closer = f"{delete}never checked", f"Look closer:  acetune explain {file} {number}"
        if is_temporary(self._path):
            delete, closer = "", "This study is removed when the program ends: give study= to "
            closer += "look closer"
        raise EndedStudyError(
            f"the check of {name!r} failed in {where} that it was called in so far, and the study "
            "was ended",
            f"in trial {number}, with:\n{error}\n"
            + (f"The parameters were:  {listed}\n" if tried else "")
            + f"Fix the check and make the same call again{delete}. If it fails for such "
            f"configurations only, go on with max_failures={4 * self._most}. {closer}",
        )


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
