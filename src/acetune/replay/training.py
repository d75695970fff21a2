"""One configuration trained to its end, with everything noted.

The training function is the one that ``tune`` runs. Its trial has another engine at the other end:
one that lets every step be checked and never stops.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acetune.core.decision import Action, Decision
from acetune.core.errors import AcetuneError, GoalError, TrialStopped
from acetune.core.goals import Constraint, FailedCheck, Goals, Mode, Objective, as_measurement
from acetune.policies import ACE
from acetune.replay.curve_table import CONFIRM, RESERVED
from acetune.trial.checks import Missing
from acetune.trial.exclusive_link import ExclusiveLink
from acetune.trial.link import Link, Plan, Reply, Report
from acetune.trial.trial import Trial

_EVERYTHING = ACE(truncation=0.0, interval=1, gate=False)  # checks every step, stops nothing
_GO_ON = Decision(Action.CONTINUE, "everything is recorded", "unchecked")
_CUT = Decision(Action.STOP, "the objective is no finite number", "unchecked")


@dataclass(frozen=True)
class Task:
    """A training function with everything around it: what ``tune`` and ``record`` take."""

    name: str
    train: Callable[[Trial], object]
    space: Mapping[str, object]
    objective: str
    mode: Mode
    constraints: tuple[Constraint, ...]
    confirm: Callable[[Any], Mapping[str, object]] | None = None
    digits: Mapping[str, int] = field(default_factory=dict)  # decimals worth recording


class RecordedCurve(NamedTuple):
    """One configuration trained to its end, a value a step in each column."""

    params: Mapping[str, Any]
    metrics: Mapping[str, NDArray[np.float64]]
    cost_s: NDArray[np.float64]
    check_cost_s: Mapping[str, float]  # mean cost of one check, by constraint
    total_steps: int  # as planned; 0 if the curve was cut off and that was never said


def train_curve(
    task: Task, params: Mapping[str, Any], threads: int = 1, *, number: int = 1
) -> RecordedCurve:
    """The whole learning curve of one configuration, trained as the trial of that number."""
    goals = goals_of(task)
    recording = _RecordingLink(goals, task.confirm, lambda: trial.model)
    link = ExclusiveLink(recording)
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(
            link,
            goals,
            _EVERYTHING,
            number=number,
            params=params,
            folder=Path(folder),
            threads=threads,
        )
        try:
            with contextlib.suppress(TrialStopped):  # its curve was cut, and it went on
                task.train(trial)
            trial.close()
        finally:
            link.close()
    return recording.curve(params)


class _RecordingLink(Link):
    """The engine's side of a trial that is recorded."""

    def __init__(
        self,
        goals: Goals,
        confirm: Callable[[Any], Mapping[str, object]] | None,
        model: Callable[[], object],
    ) -> None:
        self._goals, self._confirm, self._model = goals, confirm, model
        self._columns: dict[str, list[float]] = {}
        self._cost_s: list[float] = []
        self._check_s: dict[str, list[float]] = {}
        self._total_steps: int | None = None
        self._cut = False  # at the first objective that is no finite number

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        self._total_steps = total_steps
        return Plan(1, math.inf, -math.inf)

    def declare(self, total_steps: int) -> None:
        self._total_steps = total_steps

    def fresh_gate(self, report: Report) -> float:
        return math.inf

    def checking(self, constraint: str | None) -> None:
        pass

    def report(self, report: Report) -> Reply:
        """The confirmation is not timed: the search never sees it."""
        if report.step <= len(self._cost_s):  # reported again: the first stands
            return Reply(_GO_ON, math.inf, -math.inf, False, False)
        if report.step != len(self._cost_s) + 1:
            raise AcetuneError(
                f"a curve needs every step: {report.step} was reported after "
                f"{len(self._cost_s)}; report each one"
            )
        self._cut = not math.isfinite(report.value)
        if not self._cut:
            self._take(report)
        decision = _CUT if self._cut else _GO_ON
        return Reply(decision, math.inf, -math.inf, self._cut, self._cut)

    def _take(self, report: Report) -> None:
        row: dict[str, float] = {self._goals.objective.name: report.value}
        for name, found in (report.measured or {}).items():
            row[name] = math.nan if isinstance(found, FailedCheck) else found.value
        for name, seconds in (report.check_cost_s or {}).items():
            self._check_s.setdefault(name, []).append(seconds)
        row.update(report.metrics or {})
        row.update(self._confirmed(row))
        if self._columns and row.keys() != self._columns.keys():
            raise AcetuneError(
                f"step {report.step} reported {sorted(row)}, the steps before it "
                f"{sorted(self._columns)}; a curve has the same metrics at every step"
            )
        for name, value in row.items():
            require_name(name)
            self._columns.setdefault(name, []).append(value)
        self._cost_s.append(report.primary_cost_s or 0.0)

    def _confirmed(self, known: Mapping[str, float]) -> dict[str, float]:
        """The metrics once more, on rows that the search does not see."""
        model = self._model()
        if self._confirm is None or isinstance(model, Missing):
            return {}
        found = {}
        for name, value in self._confirm(model).items():
            confirmed = as_measurement(value, f"confirmed {name!r}")
            if isinstance(confirmed, FailedCheck):
                raise AcetuneError(f"confirm gave no number: {confirmed.error}")
            if name in known:
                found[name + CONFIRM] = confirmed.value
        return found

    def finish(self, report: Report | None) -> None:
        pass

    def keep_model(self, step: int, model: object) -> None:
        pass

    def keep_checkpoint(self, step: int, source: Callable[[Path], object] | Path) -> None:
        pass

    def curve(self, params: Mapping[str, Any]) -> RecordedCurve:
        """What was recorded."""
        if not self._cost_s:
            raise AcetuneError("the first objective was no finite number: there is no curve")
        return RecordedCurve(
            params,
            {name: np.array(values) for name, values in self._columns.items()},
            np.array(self._cost_s),
            {name: sum(found) / len(found) for name, found in self._check_s.items()},
            # a trial that ended by itself before its upper bound is complete
            self._planned() if self._cut else len(self._cost_s),
        )

    def _planned(self) -> int:
        """T as the training function has said it, if that can be true."""
        total = self._total_steps or 0
        return total if total > len(self._cost_s) else 0


def goals_of(task: Task) -> Goals:
    """Objective and constraints of a task, those on the configuration alone aside."""
    on_model = tuple(c for c in task.constraints if c.on == "model")
    return Goals(Objective(task.objective, task.mode), on_model)


def require_name(metric: str) -> None:
    """An error if a column of a table cannot have that name."""
    if metric in RESERVED:
        raise GoalError(f"a metric of a curve table cannot be called {metric!r}; rename it")
