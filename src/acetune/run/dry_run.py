"""A dry run: one configuration, two steps, every check and ``confirm`` once; nothing is kept."""

from __future__ import annotations

import contextlib
import copy
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from acetune.core.decision import Action, Decision
from acetune.core.errors import ReportError, StudyError
from acetune.core.formatting import count, parameters, timing
from acetune.core.goals import Constraint, FailedCheck, Goals, as_measurement
from acetune.core.history import History
from acetune.core.measured_costs import Costs
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Wording
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies import Policy
from acetune.policies.stopper import stopper_of
from acetune.run import _messages as m
from acetune.run._confirmation import wrong_names
from acetune.run._driver import Driver
from acetune.run._options import Settings
from acetune.run._pool import Pool, Site
from acetune.run._suggestions import Suggester
from acetune.run._trial_queue import TrialQueue
from acetune.run.study_callbacks import Listeners
from acetune.searchers import Searcher
from acetune.searchers.space import Space
from acetune.study.answer import testable
from acetune.study.coordinator import StudyCoordinator
from acetune.study.opening import describe_study
from acetune.study.reader import StudyView
from acetune.study.report_arrays import STEP
from acetune.study.store import Store
from acetune.study.time_spent import failed_check

_STEPS = 2
_ENOUGH = Wording("dry_run", "two steps are enough for a dry run")
_ON = Wording("dry_run_goes_on", "a dry run takes two steps")


@dataclass(frozen=True)
class DryRun:
    """What a dry run took, and what the whole would. No value of a metric is in it.

    Parameters
    ----------
    params:
        The configuration that was tried.
    total_steps:
        Of a trial, if it says so.
    startup_s, step_s, checks_s, confirm_s:
        Until the first step; the last of the two steps; each check once; ``confirm`` once with
        loading the model, None where there is none.
    trial_s:
        A trial to its last step with one check of each limit, None if its length is unknown.
    whole_s:
        All trials of ``max_trials`` like that, on all workers; None without ``max_trials``. Without
        starting the workers, waiting for checks that are measured alone, and ``confirm``, which is
        most of the time where trials are short.
    trials:
        How many trials like that fit into ``time_budget_s``; None without one.
    workers:
        How many of them there will be.
    """

    params: Mapping[str, Any]
    total_steps: int | None
    startup_s: float
    step_s: float
    checks_s: Mapping[str, float]
    confirm_s: float | None
    trial_s: float | None
    whole_s: float | None
    trials: int | None
    workers: int

    def __str__(self) -> str:
        of = "an unknown number" if self.total_steps is None else str(self.total_steps)
        checks = [f"check {name}: {timing(s)}" for name, s in self.checks_s.items()]
        lines = [
            f"dry run: no error with {parameters(self.params)}",
            f"start-up {timing(self.startup_s)}; a step {timing(self.step_s)}, of {of}",
            *checks,
        ]
        if self.confirm_s is not None:
            lines.append(f"confirm: {timing(self.confirm_s)}; its values were thrown away")
        if self.trial_s is not None:
            lines.append(f"a trial to its end, checked once: about {timing(self.trial_s)}")
            on = f"on {count(self.workers, 'worker')}, if none were stopped early"
            on += ", without starting workers, waiting and confirm"
            if self.whole_s is not None:
                lines.append(f"all trials: about {timing(self.whole_s)} {on}")
            if self.trials is not None:
                lines.append(f"the time budget: about {count(self.trials, 'trial')} {on}")
        return "\n".join(lines)


@dataclass(frozen=True)
class TwoSteps(Policy):
    """Check at both steps, then stop."""

    def first_check(self, total_steps: int | None, costs: Costs) -> int | None:
        """At once."""
        return 1

    def due(self, trial: Progress, step: int, loss: float) -> int | None:
        """Every step."""
        return step

    def due_at_end(self, trial: Progress) -> int | None:
        """Nothing: every step was checked."""
        return None

    def may_check_best(self, trial: Progress) -> bool:
        """Never: every step is checked when it is reported."""
        return False

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop at the second step."""
        done = report.step >= _STEPS
        action, why = (Action.STOP, _ENOUGH) if done else (Action.CONTINUE, _ON)
        return Decision(action, why, report.stratum, None, None, report.step, {})


def without_limits(goals: Goals) -> Goals:
    """The same checks, with limits that everything holds: so that a model is kept, and confirmed.

    Not by ``replace``: a check may refuse a limit that makes no sense.
    """
    loose = []
    for limit in goals.constraints:
        one = copy.copy(limit)
        side, far = ("upper", 1e308) if limit.lower is None else ("lower", -1e308)
        object.__setattr__(one, side, far)
        object.__setattr__(one, "margin_se", 0.0)
        loose.append(one)
    return Goals(goals.objective, tuple(loose))


def rehearse(
    goals: Goals,
    on_config: Sequence[Constraint],
    space: Space,
    search: Searcher,
    settings: Settings,
    make_site: Callable[[Path], Site],
    *,
    confirms: bool,
) -> DryRun:
    """Run one trial in a study of its own, in a folder that is deleted.

    ``goals`` are those of :func:`without_limits`, and the workers' policy is :class:`TwoSteps`.
    """
    with tempfile.TemporaryDirectory(prefix="acetune-dry-run-") as folder:
        policy = TwoSteps()
        one = {"confirm_top": 1, "keep_models": 1}
        description = describe_study(goals, on_config, policy, space.describe(), one)
        store = Store.create(Path(folder) / "study.db", description)
        try:
            coordinator = StudyCoordinator(store, stopper_of(goals, policy, 1), 1)
            suggester = Suggester(coordinator, search, space, on_config)
            listeners = Listeners([])
            pool = Pool(make_site(store.files), 1)
            once = replace(settings, max_trials=1, time_budget_s=None, retries=0)
            queue = TrialQueue(coordinator, suggester.suggest, suggester.tell, once, listeners)
            driver = Driver(coordinator, queue, pool, once, listeners)
            with driver.signals():
                try:
                    driver.run()
                    if driver.interrupted:
                        raise StudyError("the dry run was interrupted")
                    with _view(store) as view:
                        _require_sound(view)
                    confirm_s = _confirm(driver, coordinator) if confirms else None
                finally:
                    driver.close()
            with _view(store) as view:
                return _measured(view, settings, confirm_s)
        finally:
            store.close()


@contextlib.contextmanager
def _view(store: Store) -> Iterator[StudyView]:
    """The study as its readers see it."""
    with StudyView(store.path, whole=True) as view, store.understanding():
        yield view


def _require_sound(view: StudyView) -> None:
    """An error if the trial or a check went wrong, or nothing was reported."""
    if view.trials:
        last = view.trials[-1]
        with view.open() as store:
            traceback = store.traceback(last.trial, last.attempt)
        if traceback:
            raise StudyError(f"dry run: the trial failed with:\n{traceback}")
    if not len(view.reports.seq):
        raise StudyError("dry run: the trial ended without a report")
    if (failed := failed_check(view)) is not None:
        raise StudyError(f"dry run: the check of {failed.constraint!r} failed: {failed.error}")


def _confirm(driver: Driver, coordinator: StudyCoordinator) -> float:
    """Call ``confirm`` once with the kept model, as after a search; its values go nowhere."""
    with _view(coordinator.store) as view:
        kept = [found.kept for found in testable(view) if found.kept is not None]
    if not kept:
        raise StudyError(
            "dry run: nothing can be confirmed: no model was kept; give it as "
            "report(..., model=...), and it must be possible to pickle it"
        )
    began = time.monotonic()
    result = driver.evaluate([m.Evaluate(str(kept[0].folder), confirm=True)])[0]
    seconds = time.monotonic() - began
    if result is None:
        raise StudyError("the dry run was interrupted")
    if result.error is not None:
        raise StudyError(f"dry run: confirm failed: {result.error}")
    wrong = wrong_names(coordinator.goals, result.measured)
    for name, value in result.measured.items():
        try:
            measured = as_measurement(value, f"confirmed {name!r}")
        except ReportError as not_a_number:
            wrong = wrong or str(not_a_number)
        else:
            wrong = wrong or (measured.error if isinstance(measured, FailedCheck) else None)
    if wrong is not None:
        raise StudyError(f"dry run: {wrong}")
    return seconds


def _measured(view: StudyView, settings: Settings, confirm_s: float | None) -> DryRun:
    """The times in the study file, and what follows from them."""
    trial, reports, checks = view.trials[-1], view.reports, view.checks
    step_s = float(np.nan_to_num(reports.primary_cost_s[reports.kind == STEP][-1]))
    names = [constraint.name for constraint in view.goals.constraints]
    costs = zip(checks.constraint.tolist(), np.nan_to_num(checks.cost_s).tolist(), strict=True)
    checks_s = {names[place]: cost for place, cost in costs}
    startup_s, total = trial.startup_cost_s or 0.0, trial.total_steps
    trial_s = whole_s = trials = None
    if total is not None:
        trial_s = startup_s + total * step_s + sum(checks_s.values())
        if settings.max_trials is not None:
            whole_s = trial_s * max(1.0, settings.max_trials / settings.workers)
        if settings.time_budget_s is not None and trial_s > 0:
            trials = int(settings.time_budget_s * settings.workers / trial_s)
    return DryRun(
        trial.params,
        total,
        startup_s,
        step_s,
        checks_s,
        confirm_s,
        trial_s,
        whole_s,
        trials,
        settings.workers,
    )
