"""The rows of ``StudyResult.trials``."""

from __future__ import annotations

import math
from typing import Any

from acetune.study.per_trial import Trials
from acetune.study.report_arrays import UNCHECKED, Array
from acetune.study.view import StudyView


def trial_rows(view: StudyView) -> list[dict[str, Any]]:
    """A dict per trial, with the same keys: parameters, how it ended, its best values."""
    trials, value = Trials(view), view.goals.objective.value
    columns = [trials.last_step.tolist(), trials.reports.tolist(), trials.checks.tolist()]
    columns += [_or_none(column) for column in (trials.best_loss, trials.best_valid_loss)]
    columns += [trials.least_violation.tolist(), trials.stratum.tolist()]
    columns += [trials.training_s.tolist(), trials.costed.tolist()]
    rows = []
    for trial, *numbers in zip(view.trials, *columns, strict=True):
        last_step, reports, checks, best, best_valid, violation, stratum, training, costed = numbers
        found = trials.found(trial.trial)
        row = {
            "trial": trial.trial,
            "attempts": trial.attempt,
            "state": trial.state,
            "reason": str(trial.reason),
            "total_steps": trial.total_steps,
            "interval": trial.interval,
            "cost_ratio": trial.cost_ratio,
            "last_step": last_step or None,
            "reports": reports,
            "checks": checks,
            "best_objective": None if best is None else value(best),
            "best_valid_objective": None if best_valid is None else value(best_valid),
            "least_violation": violation if stratum > UNCHECKED else None,
            "training_s": training if costed else None,
            "started": trial.started,
            "ended": trial.ended,
        }
        for constraint in view.goals.constraints:
            measured = None if found is None else found.constraints.get(constraint.name)
            row[f"constraint.{constraint.name}"] = None if measured is None else measured.value
            row[f"stderr.{constraint.name}"] = None if measured is None else measured.stderr
        rows.append(row | {f"param.{name}": given for name, given in trial.params.items()})
    return rows


def _or_none(losses: Array) -> list[float | None]:
    return [None if math.isinf(loss) else loss for loss in losses.tolist()]
