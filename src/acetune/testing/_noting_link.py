"""A trial in this process, with an engine that notes everything and stops it where it is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from acetune.core.decision import Action, Decision
from acetune.core.goals import Constraint, FailedCheck, Goals, Objective
from acetune.core.trial_record import Progress
from acetune.policies import ACE
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
