"""What the user should know while a study runs, said once."""

from __future__ import annotations

from acetune.core.decision import Decision
from acetune.core.goals import Goals
from acetune.core.say_once import SayOnce
from acetune.run._messages import Saved
from acetune.run.study_callbacks import Listeners
from acetune.study.study_trial import StudyTrial
from acetune.trial.checks import complaints
from acetune.trial.link import Report


class Notices:
    """Tells the listeners."""

    def __init__(self, listeners: Listeners, goals: Goals) -> None:
        self._listeners, self._goals = listeners, goals
        self.once = SayOnce(self.say)

    def say(self, text: str) -> None:
        """Say it now."""
        self._listeners.call("on_notice", text)

    def reported(self, trial: int, report: Report, decision: Decision) -> None:
        """A report was taken and decided on."""
        self._listeners.call("on_report", trial, report, decision)

    def not_kept(self, saved: Saved, error: str) -> None:
        """Say once why what workers send cannot be kept."""
        what = "model" if saved.kind == "model" else "checkpoint"
        text = f"a {what} that a worker sent cannot be kept: {error}"
        self.once(text, about=("parcel", error))

    def look_at_checks(self, trial: StudyTrial, report: Report) -> None:
        """Say once what is wrong with the check of a constraint."""
        where = f"trial {trial.number} at step {report.step}"
        for about, text in complaints(self._goals, report.measured, where):
            self.once(text, about)
