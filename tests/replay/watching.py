"""Replays whose every event is noted, and small tables to replay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from acetune.core.goals import Constraint, Objective
from acetune.core.outcome import Curves, Outcome
from acetune.policies import Policy, parse_policy
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.judged_table import JudgedTable, judge
from acetune.replay.runs import Run
from acetune.replay.simulator import Simulation
from acetune.replay.table_searcher import Picker

AUC = Objective("auc", "max")
EOD = TableConstraint("eod", upper=0.25, cost_s=0.5)


class Event(NamedTuple):
    """Something that happened in a replay.

    ``what`` is ``step 2``, ``check 2`` (of step 2) or ``end`` (the record ends before T), and after
    the run ``after 2``. ``came`` is the check that began, or stratum, rank and what followed if
    that is not going on: ``check 2``, ``unchecked 1/3``, ``invalid 2/2 stopped``, ``finished``.
    """

    time_s: float
    trial: int
    what: str
    came: str


class Reported(NamedTuple):
    """A report, or a check at a trial's own end or after the run, as the study file has it."""

    trial: int
    kind: str  # step, end or after
    step: int
    checked_step: int | None
    stratum: str
    rank: int | None
    of: int | None
    decision: str


class InOrder:
    """A picker without chance that remembers what it is told."""

    def __init__(self, configs: Sequence[int]) -> None:
        self._configs = iter(configs)
        self.told: list[tuple[int, Outcome]] = []

    def pick(self, trial: int) -> int | None:
        return next(self._configs, None)

    def tell(self, trial: int, outcome: Outcome) -> None:
        self.told.append((trial, outcome))

    def watch(self, curves: Curves) -> None: ...


class Watched(Simulation):
    """A simulation that writes a diary."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.events: list[Event] = []
        self.reports: list[Reported] = []

    def _checked_after_run(self, record: Any, check: Any) -> None:
        before = self.stopper.history.best
        super()._checked_after_run(record, check)
        number, step = record.id, check.step
        stratum = "invalid" if self.stopper.history.best is before else "valid"
        self._note(number, f"after {step}", stratum)
        self.reports.append(Reported(number, "after", step, step, stratum, None, None, "finish"))

    def _trained(self, worker: Any) -> float | None:
        step = worker.step
        at_once = None if self.stopper.goals.constraints else step  # nothing to be checked
        wait_s = super()._trained(worker)
        check = worker.check
        if step > worker.steps:
            what, came = "end", _state(worker)
        else:
            what, came = f"step {step}", "" if check else self._report(worker, at_once)
        self._note(worker.trial, what, f"check {check.step}" if check else came)
        return wait_s

    def _checked(self, worker: Any) -> float | None:
        check, at_end = worker.check, worker.step > worker.steps
        wait_s = super()._checked(worker)
        if at_end:
            found = worker.record.best_valid
            stratum = "valid" if found and found.step == check.step else "invalid"
            came, last = _state(worker), worker.steps
            self.reports.append(
                Reported(worker.trial, "end", last, check.step, stratum, None, None, "finish")
            )
        else:
            came = self._report(worker, check.step)
        self._note(worker.trial, f"check {check.step}", came)
        return wait_s

    def _note(self, trial: int, what: str, came: str) -> None:
        self.events.append(Event(self.time_s, trial, what, came))

    def _report(self, worker: Any, checked_step: int | None) -> str:
        """What became of the last report."""
        log, state = worker.record.log, _state(worker)
        stratum, rank, of = log.stratum_at(len(log) - 1), log.rank[-1] or None, log.of[-1] or None
        decision = "stop" if state == "stopped" else "continue"
        self.reports.append(
            Reported(worker.trial, "step", log.step[-1], checked_step, stratum, rank, of, decision)
        )
        return " ".join(filter(None, (stratum, f"{rank}/{of}" if rank else "", state)))

    @property
    def states(self) -> list[str]:
        """How each trial ended."""
        return [record.state for record in self.stopper.history.trials.values()]

    @property
    def intervals(self) -> list[int | None]:
        """How often each trial was due to be checked."""
        return [record.progress.interval for record in self.stopper.history.trials.values()]

    def summary(self) -> Run:
        return self.result("a policy", "in order", 0, math.inf)


def _state(worker: Any) -> str:
    state = str(worker.record.state)
    return "" if state == "running" else state


def replay(
    table: CurveTable | JudgedTable,
    policy: Policy | str,
    *,
    constraints: Sequence[Constraint] | None = None,
    cost_ratio: float | None = None,
    workers: int = 1,
    budget_s: float = math.inf,
    max_trials: int | None = None,
    startup_s: float = 0.0,
    picker: Picker | None = None,
) -> Watched:
    """Replay the configurations one after the other, or as the picker says."""
    if isinstance(table, CurveTable):
        table = judge(table, constraints, cost_ratio)
    chosen = parse_policy(policy) if isinstance(policy, str) else policy
    picker = InOrder(range(len(table.table.configs))) if picker is None else picker
    watched = Watched(table, chosen, picker, workers, budget_s, max_trials, startup_s)
    watched.run()
    return watched


def curve(
    auc: Sequence[float],
    eod: Sequence[float] | None = None,
    cost_s: float | Sequence[float] = 1.0,
    total: int | None = None,
    **metrics: Sequence[float],
) -> tuple[Mapping[str, Any], Mapping[str, Any], Sequence[float], int | None]:
    """A curve of as many steps as there are objectives; every step costs 1 s unless told so."""
    costs = [cost_s] * len(auc) if isinstance(cost_s, (int, float)) else cost_s
    columns = {"auc": auc, **metrics}
    if eod is not None:
        columns["eod"] = eod
    return {}, columns, costs, total


def table_of(
    *curves: Any, constraints: Sequence[TableConstraint] = (EOD,), objective: Objective = AUC
) -> CurveTable:
    """A table of these curves, under ``eod <= 0.25``, 0.5 s a check, unless told otherwise."""
    return make_table("by hand", objective, constraints, curves)
