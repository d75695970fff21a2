"""What every callback must do: one that reports to a trial, and one that listens to a study.

The first is given a trial in this process, with an engine that notes everything and stops it where
it is told.
"""

from __future__ import annotations

import itertools
import math
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from acetune.core.decision import Action, Decision
from acetune.core.errors import TrialStopped
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, Objective
from acetune.core.trial_record import Progress
from acetune.policies import ACE
from acetune.policies.stopper import Stopper
from acetune.run.study_callbacks import StudyCallback, StudyStatus
from acetune.study.coordinator import Coordinator
from acetune.testing._require import require
from acetune.trial.artifacts import checkpoint_writer, load_model, write_folder, write_model
from acetune.trial.link import Link, Plan, Reply, Report
from acetune.trial.trial import Trial


class NotingLink(Link):
    """The engine's side. Models and checkpoints really go to disk."""

    def __init__(self, folder: Path, interval: Literal[1, "end"], stop_at: int | None) -> None:
        self.folder, self.interval, self._stop_at = folder, interval, stop_at
        self.declared: list[int | None] = []
        self.reports: list[Report] = []
        self.finished: list[Report | None] = []
        self.models: dict[int, Path] = {}
        self.checkpoints: dict[int, Path] = {}

    @property
    def values(self) -> dict[int, float]:
        """The objective as it was reported, by step."""
        return {report.step: report.value for report in self.reports}

    def measured(self) -> dict[int, float]:
        """What was measured of which step; a failed check is an error."""
        found: dict[int, float] = {}
        for report in [*self.reports, *self.finished]:
            if report is not None and report.measured is not None:
                (only,) = report.measured.values()
                if isinstance(only, FailedCheck):
                    raise AssertionError(f"the check failed at step {report.step}: {only.error}")
                found[report.checked_step or report.step] = only.value
        return found

    def load(self, step: int) -> Any:
        """The model that was kept of a step."""
        return load_model(self.models[step])

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        self.declared.append(total_steps)
        return Plan(1 if self.interval == 1 else total_steps, math.inf, math.inf)

    def declare(self, total_steps: int) -> None:
        self.declared.append(total_steps)

    def fresh_gate(self, report: Report) -> float:
        return math.inf

    def checking(self, constraint: str | None) -> None:
        """See Link."""

    def note_hardware(self, description: str) -> None:
        """See Link."""

    def report(self, report: Report) -> Reply:
        self.reports.append(report)
        stop = report.step == self._stop_at
        ended = stop or report.step == self.declared[-1]
        action = Action.STOP if stop else Action.CONTINUE
        return Reply(Decision(action, "as it was told"), math.inf, math.inf, stop, ended)

    def finish(self, report: Report | None) -> None:
        self.finished.append(report)

    def keep_model(self, step: int, model: object) -> None:
        self.models[step] = self.folder / f"model-{step}"
        write_folder(self.models[step], lambda into: write_model(into, model), self.folder)

    def keep_checkpoint(self, step: int, source: Callable[[Path], object] | Path) -> None:
        self.checkpoints[step] = self.folder / f"resume-{step}"
        write_folder(self.checkpoints[step], checkpoint_writer(source), self.folder)


def make_trial(
    folder: Path,
    check: Callable[..., Any],
    *,
    objective: str = "objective",
    mode: Literal["min", "max"] = "min",
    interval: Literal[1, "end"] = 1,
    stop_at: int | None = None,
    checkpoint: Path | None = None,
    last_step: int = 0,
    upper: float = 1e9,
) -> tuple[Trial, NotingLink]:
    """A trial of a study with one constraint, ``limit``, that holds unless a test says so."""
    link = NotingLink(folder, interval, stop_at)
    trial = Trial(
        link,
        Goals(Objective(objective, mode), (Constraint("limit", upper=upper, check=check),)),
        ACE(interval=interval),
        number=1,
        params={},
        folder=folder,
        checkpoint=checkpoint,
        progress=Progress(last_step=last_step),
    )
    return trial, link


# -- of a framework that owns the training loop ---------------------------------------------------


def check_callback(
    train: Callable[[Trial], object],
    measure: Callable[[Any], float],
    *,
    mode: Literal["min", "max"] = "min",
    objective: str = "objective",
    tolerance: float = 1e-6,
) -> None:
    """Raise AssertionError unless a callback of a framework reports to its trial as it should.

    The training is run three times: with a check at each step, with one at the end, and stopped
    after its first report. Checked is that steps rise and are told beforehand, that checks change
    nothing in training, that the best checkpoint is copied and kept as it was, and that training
    ends when the trial is stopped.

    Parameters
    ----------
    train:
        The training function: trains for two steps or more, with your callback. Seed it: all runs
        have to report the same.
    measure:
        A check: a number that changes while training goes on, of what checks are called with.
    mode, objective:
        As for ``tune``. The check of the copy says most where the best step is not the last.
    tolerance:
        By how much, relatively, equal runs may differ.
    """
    with tempfile.TemporaryDirectory(prefix="acetune-check-") as name:
        folder = Path(name)

        def run(which: str, interval: Literal[1, "end"], stop_at: int | None = None) -> NotingLink:
            (folder / which).mkdir()
            trial, link = make_trial(
                folder / which,
                measure,
                objective=objective,
                mode=mode,
                interval=interval,
                stop_at=stop_at,
            )
            try:
                train(trial)
                trial.close()
            except TrialStopped as error:
                raise AssertionError(
                    f"it went on after its trial was stopped ({error}); end training when "
                    "trial.should_stop is true"
                ) from error
            return link

        def same(a: float, b: float) -> bool:
            return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance) or a != a != b

        every = run("every", 1)
        _require_steps(every)
        seen = every.measured()
        finite = [step for step, value in every.values.items() if math.isfinite(value)]
        missing = [step for step in finite if step not in seen]
        require(not missing, f"steps {missing} were not checked, though checks were due")
        for step in every.models:
            kept = float(measure(every.load(step)))
            require(
                same(kept, seen[step]),
                f"the model that was kept of step {step} measures {kept}, and at that step it was "
                f"{seen[step]}; a kept model must not change when training goes on",
            )

        at_end = run("at-end", "end")
        require(
            list(at_end.values) == list(every.values)
            and all(same(at_end.values[step], every.values[step]) for step in every.values),
            f"the objective was {every.values} with a check at each step, and {at_end.values} "
            "without: seed the training, and let no check change it",
        )
        _require_best(at_end, seen, mode, same)

        first = next(iter(every.values))
        stopped = run("stopped", 1, stop_at=first)
        require(
            list(stopped.values) == [first],
            f"the trial was stopped at step {first}, and then reported {list(stopped.values)[1:]}",
        )


def _require_steps(link: NotingLink) -> None:
    steps = [report.step for report in link.reports]
    require(len(steps) >= 2, f"train for two steps or more; reported were {steps}")
    rising = all(a < b for a, b in itertools.pairwise(steps))
    require(rising, f"steps must rise, reported were {steps}")
    total = link.declared[-1]
    if total is not None:
        require(steps[-1] <= total, f"step {steps[-1]} lies beyond the declared last one, {total}")
        require(
            link.declared[0] is not None,
            f"the last step, {total}, was declared after the first report; declare it before",
        )


def _require_best(
    link: NotingLink,
    seen: dict[int, float],
    mode: Literal["min", "max"],
    same: Callable[[float, float], bool],
) -> None:
    """One check at the end, of the best checkpoint as it was."""
    found = link.measured()
    sign = -1.0 if mode == "max" else 1.0
    finite = {step: sign * value for step, value in link.values.items() if math.isfinite(value)}
    best = min(finite, key=lambda step: finite[step]) if finite else next(iter(link.values))
    require(
        list(found) == [best],
        f"at the end step {best}, the best, is to be checked, and {list(found)} was; give "
        "report(snapshot=...) a function that copies the model",
    )
    require(
        same(found[best], seen[best]),
        f"the copy of step {best} measures {found[best]} at the end, and at that step it was "
        f"{seen[best]}: training goes on in it",
    )


# -- in the driver ---------------------------------------------------------------------------------


def check_study_callback(callback: StudyCallback) -> None:
    """Raise AssertionError unless a callback for ``tune(callbacks=[...])`` can be used.

    Every method is called, in the order of a study, with three trials of which one fails; and all
    of it twice, as when a study goes on. Checked is that nothing is raised, for which a study
    would drop the callback, and that nothing in the study is changed.

    >>> check_study_callback(StudyCallback())
    """
    require(
        isinstance(callback, StudyCallback),
        f"{callback!r} does not inherit from acetune.StudyCallback",
    )
    stopper = Stopper(
        objective="loss",
        mode="min",
        constraints=[Constraint("size", upper=0.5)],
        policy=ACE(truncation=0, interval=1, gate=False),
    )
    coordinator = Coordinator(stopper)
    status = StudyStatus(coordinator, None, 6, lambda: 1.5)

    def call(method: str, *arguments: Any) -> None:
        before = pickle.dumps(stopper.history)
        try:
            getattr(callback, method)(*arguments)
        except Exception as error:
            raise AssertionError(
                f"{type(callback).__name__}.{method} raised {type(error).__name__}: {error}; a "
                "study would not call it again"
            ) from error
        require(
            pickle.dumps(stopper.history) == before,
            f"{type(callback).__name__}.{method} has changed the study",
        )

    for session in range(2):
        call("on_start", status)
        for number in range(3):
            trial = coordinator.add_trial({"rate": 0.1 * (number + 1), "kind": None})
            call("on_trial_start", trial.number, trial.attempt, trial.params)
            coordinator.begin(trial, 2, 0.0)
            for step in (1, 2):
                if number == 1 and step == 2:
                    coordinator.fail(trial, "ValueError: as it happens")
                    break
                size = Estimate(0.25 * (number + session), 0.01)
                value = math.nan if number == 2 and step == 1 else 1 / (step + number)
                report = Report(step, value, step, {"size": size}, 0.5, {"size": 0.1})
                call("on_report", trial.number, report, coordinator.report(trial, report).decision)
                call("on_tick")
            record = stopper.history.trials[trial.number]
            call("on_trial_end", trial.number, record.state, str(record.reason))
        call("on_notice", "something worth knowing")
        call("on_end")
