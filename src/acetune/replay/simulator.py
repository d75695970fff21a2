"""Policies on recorded curves: an event heap on a simulated clock.

Trials begin, are cut off and have their outcomes told by the coordinator that live studies use,
with a journal that keeps nothing. Their reports, checks and ends go to the stopper's trial itself
(``StopperTrial.take``), where those of a live study arrive too, once validated: the table was
validated as a whole, and a call in between takes 3 % of a replay. Training, checking and time are
looked up.

A step ends, and the policy is asked whether a check is due, with the f* of that moment; the result
of a check exists when the check ends; what ends after the budget does not count. Events at the same
time happen in the order in which they were scheduled.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Any

from acetune.core.errors import GoalError
from acetune.core.goals import Constraint, FailedCheck
from acetune.core.numbers import is_number, require_whole
from acetune.core.observation import CheckResult, unconstrained
from acetune.core.reason import BY_ITSELF
from acetune.core.trial_record import TrialRecord
from acetune.policies import Policy, parse_policy
from acetune.policies.policy import Due
from acetune.policies.stopper import Stopper, StopperTrial
from acetune.replay.curve_table import CurveTable
from acetune.replay.judged_table import JudgedTable, judge
from acetune.replay.runs import Cell, Incumbent, Run
from acetune.replay.table_searcher import Picker, make_picker
from acetune.study.coordinator import Coordinator, no_garbage_collection

_LOOKED_UP = 32  # steps of a curve, at first


def simulate(
    table: CurveTable | JudgedTable,
    policy: Policy | str,
    *,
    constraints: Sequence[Constraint] | None = None,
    searcher: str = "random",
    seed: int = 0,
    workers: int = 4,
    budget_s: float = math.inf,
    max_trials: int | None = None,
    cost_ratio: float | None = None,
    startup_s: float = 0.0,
    points: Sequence[Mapping[str, Any]] = (),
) -> Run:
    """Replay one study: the same arguments give the same run on any machine.

    Parameters
    ----------
    table:
        Recorded curves; or a judged table, which already has limits and check costs.
    policy:
        When to check and which trials to stop: an object or its name on the command line.
    constraints, cost_ratio:
        The limits (the table's own by default), and the cost of a check relative to the mean
        iteration (what was recorded by default).
    searcher, seed, points:
        Who picks among the recorded configurations, and what is tried first. A suggestion takes
        the time that :mod:`~acetune.replay.simulator` states.
    workers, budget_s, max_trials:
        Simulated workers, simulated seconds, and how many trials are begun at most.
    startup_s:
        What starting a trial costs.

    >>> from acetune.replay.synthetic import synthetic_table
    >>> made = synthetic_table(configs=50, seed=1)
    >>> run = simulate(made.table, "ace", budget_s=20.0, seed=1)
    >>> run.best <= made.best.value, run.trials > 4
    (True, True)
    """
    if isinstance(table, JudgedTable):
        if constraints is not None or cost_ratio is not None:
            raise GoalError("a judged table has its limits and cost ratio already")
        judged = table
    else:
        judged = judge(table, constraints, cost_ratio)
    chosen = parse_policy(policy) if isinstance(policy, str) else policy
    if not isinstance(chosen, Policy):
        raise GoalError(f"policy must be a policy or its name, got {policy!r}")
    require_whole("seed", seed, least=0)
    require_whole("workers", workers, least=1)
    if max_trials is not None:
        require_whole("max_trials", max_trials, least=1)
    if not (budget_s == math.inf or (is_number(budget_s) and budget_s > 0)):
        raise GoalError(f"budget_s must be a number of seconds > 0, got {budget_s!r}")
    if not (is_number(startup_s) and startup_s >= 0):
        raise GoalError(f"startup_s must be a finite number >= 0, got {startup_s!r}")
    picker = make_picker(judged.table, searcher, seed, points)
    simulation = Simulation(
        judged, chosen, picker, workers, budget_s, max_trials, startup_s, searcher
    )
    with no_garbage_collection():  # nothing in a replay is garbage before its end
        simulation.run()
    return simulation.result(policy, searcher, seed, budget_s)


class Simulation:
    """A study on a simulated clock."""

    def __init__(
        self,
        judged: JudgedTable,
        policy: Policy,
        picker: Picker,
        workers: int,
        budget_s: float,
        max_trials: int | None,
        startup_s: float,
        searcher: str = "random",
    ) -> None:
        goals = judged.goals
        self.stopper = Stopper(
            objective=goals.objective.name,
            mode=goals.objective.mode,
            constraints=goals.constraints,
            policy=policy,
        )
        self._coordinator = Coordinator(self.stopper)
        self.time_s = 0.0
        self.incumbents: list[Incumbent] = []
        self.configs: list[int] = []  # of trials 1, 2, ...
        self.unmeasured_checks = 0
        self._judged, self._picker, self._searcher = judged, picker, searcher
        picker.watch(self._coordinator.curves)
        self._workers, self._budget_s, self._startup_s = workers, budget_s, startup_s
        self._trials_left = math.inf if max_trials is None else max_trials
        self._check_cost_s = judged.check_cost_s
        self._check_s = math.fsum(self._check_cost_s.values())
        self._scheduled = 0
        self._events: list[tuple[float, int, _SimulatedWorker]] = []  # when, in which order, whose

    def run(self) -> None:
        """Until the budget is spent, or nothing is left to train; then all is ended."""
        self.advance(self._budget_s)
        for _, _, worker in sorted(self._events, key=lambda event: event[1]):
            trial = self._coordinator.trials[worker.trial]
            self._coordinator.interrupt(trial, "the budget is spent")
        if self.stopper.policy.checks_after_run and self._judged.constraints:
            self._check_after_run()

    def advance(self, budget_s: float) -> None:
        """Until so much time is spent, or nothing is left to train; it can go on from there."""
        if not self.configs:
            for _ in range(self._workers):
                self._start_trial()
        events = self._events
        trained, checked, replace = self._trained, self._checked, heapq.heapreplace
        while events:
            time_s, _, worker = events[0]
            if time_s > budget_s:
                self.time_s = budget_s
                break
            self.time_s = time_s
            wait_s = trained(worker) if worker.check is None else checked(worker)
            if wait_s is None:
                heapq.heappop(events)
                self._picker.tell(worker.trial, self._coordinator.outcome(worker.trial))
                self._start_trial()
            else:
                self._scheduled += 1
                replace(events, (time_s + wait_s, self._scheduled, worker))

    def _start_trial(self) -> None:
        """A free worker takes the next trial, if there is one."""
        if self._trials_left <= 0:
            return
        config = self._picker.pick(self._coordinator.next_number())
        if config is None:
            return
        self._trials_left -= 1
        self.configs.append(config)
        total_steps = int(self._judged.table.total_steps[config]) or None
        trial = self._coordinator.add_trial(self._judged.table.configs[config])
        plan = self._coordinator.begin(trial, total_steps, self._startup_s)
        worker = _SimulatedWorker(trial.number, trial.begun, config, self._judged, plan.order)
        self._scheduled += 1
        suggested_s = suggestion_s(self._searcher, trial.number - 1, self.stopper.history.reports)
        begins_s = self.time_s + suggested_s + self._startup_s
        heapq.heappush(self._events, (begins_s + worker.costs[1], self._scheduled, worker))

    # -- events: each returns how long it is until the worker's next one, None if its trial ended --

    def _trained(self, worker: _SimulatedWorker) -> float | None:
        """A step was trained: check it, or report it as it is."""
        step, handle = worker.step, worker.handle
        if step > worker.steps:
            return self._ran_out(worker)
        loss = worker.losses[step]
        check = None
        due = handle.due(step, loss)
        if due is not None:
            if due.open:
                return self._begin_check(worker, due)
            handle.skip(step)
        elif not self._check_cost_s:  # no constraint: every checkpoint qualifies
            check = unconstrained(step, loss)
        handle.take(step, loss, check, worker.costs[step], None)
        if check is not None:
            self._note_best()
        if worker.record.state != "running":
            return None
        step = worker.step = step + 1
        if step < len(worker.costs):  # nearly always
            return worker.costs[step]
        return worker.next_cost()

    def _begin_check(self, worker: _SimulatedWorker, due: Due) -> float:
        """A check begins; what it finds decides how long it takes where it may leave some out."""
        check = self._judged.check(worker.config, due.step, due.loss, worker.order)
        worker.check = check
        if worker.order is None:
            return self._check_s
        return math.fsum(self._costs_of(check).values())

    def _costs_of(self, check: CheckResult) -> dict[str, float]:
        return {name: cost for name, cost in self._check_cost_s.items() if name in check.measured}

    def _checked(self, worker: _SimulatedWorker) -> float | None:
        """A check has ended."""
        check, step = worker.check, worker.step
        assert check is not None
        worker.check = None
        self.unmeasured_checks += _has_failed(check)
        costs = self._check_cost_s if worker.order is None else self._costs_of(check)
        if step > worker.steps:  # the check of a curve that ends before its last step
            worker.handle.take_check(check, costs)
            worker.handle.restore("finished", BY_ITSELF)
        else:
            loss, cost = worker.losses[step], worker.costs[step]
            worker.handle.take(step, loss, check, cost, costs)
        self._note_best()
        if worker.record.state != "running":
            return None
        worker.step += 1
        return worker.next_cost()

    def _ran_out(self, worker: _SimulatedWorker) -> float | None:
        """The curve was recorded up to here only: the trial ends by itself."""
        due = worker.handle.ending_due()
        if due is not None and due.open:
            return self._begin_check(worker, due)
        worker.handle.finish()
        return None

    def _check_after_run(self) -> None:
        """Trials from the best objective down until one is feasible; the workers share the work."""
        records = self.stopper.history.trials.values()
        waiting = [r for r in records if r.progress.best_loss < math.inf]
        for record in sorted(waiting, key=lambda r: (r.progress.best_loss, r.order)):
            progress, config = record.progress, self.configs[int(record.id) - 1]
            check = self._judged.check(config, progress.best_step, progress.best_loss)
            self.unmeasured_checks += _has_failed(check)
            self.time_s += self._check_s / self._workers
            self._checked_after_run(record, check)
            self._note_best()
            if check.valid:
                return

    def _checked_after_run(self, record: TrialRecord, check: CheckResult) -> None:
        """A check of a trial that has ended."""
        StopperTrial(self.stopper, record).take_check(check, self._check_cost_s)

    def _note_best(self) -> None:
        """Keep when the best feasible checkpoint changed."""
        best = self.stopper.history.best
        if best is None:
            return
        value = self.stopper.goals.objective.value(best.loss)
        if not self.incumbents or value != self.incumbents[-1].value:
            config = self.configs[int(best.trial) - 1]
            self.incumbents.append(Incumbent(self.time_s, value, config, best.step))

    def result(self, policy: Policy | str, searcher: str, seed: int, budget_s: float) -> Run:
        """What came out: of the policy and the searcher that people have named."""
        history, judged = self.stopper.history, self._judged
        limits = ", ".join(constraint.describe() for constraint in judged.constraints)
        cell = Cell(judged.table.name, limits, judged.cost_ratio, budget_s, self._workers, searcher)
        answer = self.incumbents[-1] if self.incumbents else None
        confirmed = judged.confirmed(answer.config, answer.step) if answer else None
        return Run(
            policy if isinstance(policy, str) else repr(policy),
            cell,
            seed,
            judged.table.objective.mode,
            tuple(self.incumbents),
            trials=len(self.configs),
            reports=history.reports,
            constraint_evaluations=history.checks,
            unmeasured_checks=self.unmeasured_checks,
            primary_cost_s=history.costs.primary_s,
            constraint_cost_s=history.costs.total_check_s,
            time_s=self.time_s,
            confirmed=confirmed[0] if confirmed else None,
            broken=confirmed[1] if confirmed else None,
            checked_every_step=sum(
                record.progress.interval == 1 for record in history.trials.values()
            ),
            false_stops=self._false_stops(),
        )

    def _false_stops(self) -> int:
        """Stopped trials that hold something better than the answer, seen or not."""
        history, best_losses = self.stopper.history, self._judged.best_losses
        answer = math.inf if history.best is None else history.best.loss
        records = history.trials.values()
        stopped = [self.configs[int(r.id) - 1] for r in records if r.state == "stopped"]
        return int((best_losses[stopped] < answer).sum())


class _SimulatedWorker:
    """A simulated worker: the trial that it trains, and how far it is in the recorded curve."""

    __slots__ = (
        "_begin",
        "_judged",
        "check",
        "config",
        "costs",
        "handle",
        "losses",
        "order",
        "record",
        "step",
        "steps",
        "trial",
    )

    def __init__(
        self,
        trial: int,
        handle: StopperTrial,
        config: int,
        judged: JudgedTable,
        order: tuple[str, ...] | None,
    ) -> None:
        self.trial, self.config, self.order = trial, config, order
        self.handle, self.record = handle, handle.record
        self.steps = judged.table.steps(config)
        self.step = 1  # being trained, or reported
        self.check: CheckResult | None = None  # being made: what it will have found
        self.losses = [math.nan]  # by step, from 1
        self.costs = [math.nan]
        self._judged, self._begin = judged, int(judged.table.starts[config])
        self._look_up()

    def _look_up(self) -> None:
        """More of the curve: many a trial is stopped long before its end."""
        known = len(self.losses) - 1
        rows = slice(self._begin + known, self._begin + min(self.steps, 2 * known + _LOOKED_UP))
        self.losses += self._judged.losses[rows].tolist()
        self.costs += self._judged.table.cost_s[rows].tolist()

    def next_cost(self) -> float:
        """What the step costs, 0 at the end of the record."""
        if self.step > self.steps:
            return 0.0
        if self.step >= len(self.costs):
            self._look_up()
        return self.costs[self.step]


def _has_failed(check: CheckResult) -> bool:
    return any(isinstance(found, FailedCheck) for found in check.measured.values())


# -- what a suggestion costs -----------------------------------------------------------------------

# A model, so that replays are the same anywhere. Fitted to the CPU time of ``ask`` on one machine,
# at 10 to 5,000 trials of 20 reports in eight dimensions (``benchmarks/suggestion_cost.py``).
# Random search, below 0.3 ms, counts as free.
# ms: of any suggestion, more for each trial so far, more for each report that trials have made on
# average (the forest grows its trees anew when there are 15 % more reports)
_COSTS = {
    "forest": (2.0, 0.0, 0.1),
    "tpe": (1.5, 0.007, 0.0),
    "gp": (400.0, 3.2, 0.0),
    "cmaes": (0.5, 0.0, 0.0),
    "blendsearch": (0.5, 0.0, 0.0),
    "cfo": (0.5, 0.0, 0.0),
}
_FREE = (0.0, 0.0, 0.0)


def suggestion_s(searcher: str, trials: int, reports: int) -> float:
    """Seconds that a searcher takes for a suggestion after so many trials and reports.

    >>> suggestion_s("forest", trials=100, reports=5000), suggestion_s("random", 100, 5000)
    (0.007, 0.0)
    """
    any_ms, trial_ms, report_ms = _COSTS.get(searcher, _FREE)
    return (any_ms + trial_ms * trials + report_ms * reports / max(1, trials)) / 1000
