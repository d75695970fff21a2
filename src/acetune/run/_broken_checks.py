"""Checks that have never worked: a study that they keep from finding anything is ended."""

from __future__ import annotations

from acetune.core.formatting import parameters
from acetune.core.goals import FailedCheck
from acetune.run._trial_queue import EndedStudyError
from acetune.study.store import Store
from acetune.study.study_trial import StudyTrial
from acetune.study.summary import shown
from acetune.trial.checks import RaisedCheck
from acetune.trial.link import Report

_LONGEST = 60  # characters of the parameters of a trial that are shown


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
        raise EndedStudyError(
            f"the check of {name!r} failed in {where} that it was called in so far, and the study "
            "was ended",
            f"in trial {number}, with:\n{error}\n"
            + (f"The parameters were:  {listed}\n" if tried else "")
            + f"Mend the check and make the same call again, best after deleting this study "
            f"(rm -r {file}*): its trials were trained, but never checked. If it fails for such "
            f"configurations only, go on with max_failures={4 * self._most}. "
            f"Look closer:  acetune explain {file} {number}",
        )
