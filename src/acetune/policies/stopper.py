"""Ask and tell: the thinnest layer over the core, for loops of one's own.

It validates what comes in, asks the policy and appends to the history; it does no I/O and reads no
clock. The coordinator of a study stands on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, Mode, Objective
from acetune.core.history import History
from acetune.core.numbers import require_whole
from acetune.core.observation import TrialId
from acetune.core.report_values import require_step, require_total_steps
from acetune.core.trial_record import Checkpoint, Progress
from acetune.policies import ACE2, Policy
from acetune.policies.policy import check_order
from acetune.policies.stopper_trial import StopperTrial


class RepeatedReportWarning(UserWarning):
    """A step was reported again with other values; the first report stands."""


class CheckedCheckpoint(NamedTuple):
    """A checkpoint and what was measured of it, in the user's own units."""

    trial: TrialId
    attempt: int
    step: int
    value: float  # of the objective
    constraints: Mapping[str, Estimate | FailedCheck]


class Stopper:
    """Decides, report by report, which trials go on.

    Parameters
    ----------
    objective, mode:
        Name of the metric to optimise, and ``"min"`` or ``"max"``.
    constraints:
        The limits a checkpoint must satisfy to be valid.
    policy:
        When to check and whom to stop; :class:`~acetune.ACE2` by default.
    confirm_top:
        The gate compares with this many-th best valid trial, so that runners-up exist when the
        first fails its confirmation.

    >>> stopper = Stopper(objective="auc", mode="max", constraints=[Constraint("eod", upper=0.25)])
    >>> trial = stopper.start("trial-1", total_steps=1)
    >>> trial.check_due(step=1, value=0.81)
    1
    >>> trial.observe(step=1, value=0.81, constraints={"eod": 0.2}).stratum
    'valid'
    >>> stopper.best.step, stopper.best.value
    (1, 0.81)
    """

    def __init__(
        self,
        *,
        objective: str,
        mode: Mode,
        constraints: Sequence[Constraint] = (),
        policy: Policy | None = None,
        confirm_top: int = 1,
    ) -> None:
        require_whole("confirm_top", confirm_top, least=1)
        if policy is not None and not isinstance(policy, Policy):
            raise GoalError(f"policy must be a policy such as acetune.ACE2(), got {policy!r}")
        self.goals = Goals(Objective(objective, mode), tuple(constraints))
        self.policy = ACE2() if policy is None else policy
        self.on_repeat: Callable[[str], None] = _warn_repeated
        self.history = History(keep=confirm_top)

    @property
    def best(self) -> CheckedCheckpoint | None:
        """The best feasible checkpoint so far, in your own units, or None."""
        return self._shown(self.history.best)

    @property
    def nearest_miss(self) -> CheckedCheckpoint | None:
        """The least violating of the checkpoints that were found invalid, or None."""
        return self._shown(self.history.nearest)

    def _shown(self, found: Checkpoint | None) -> CheckedCheckpoint | None:
        if found is None:
            return None
        value = self.goals.objective.value(found.loss)
        return CheckedCheckpoint(
            found.trial, found.attempt, found.step, value, dict(found.measured)
        )

    def start(
        self, trial: TrialId, total_steps: int | None = None, *, resumed_from: int = 0
    ) -> StopperTrial:
        """Start a trial, or a new attempt of one that is running or failed.

        ``total_steps`` is the trial's last step, or an upper bound; None if not known yet.
        ``resumed_from`` is the step of the checkpoint a new attempt goes on from.
        """
        known = self.history.trials.get(trial)
        if known is not None and known.state in ("finished", "stopped"):
            raise ReportError(f"trial {trial!r} has {known.state} and cannot start again")
        total_steps = require_total_steps(total_steps)
        resumed_from = require_step(resumed_from, "resumed_from", least=0)
        interval = self.policy.first_check(total_steps, self.history.costs)
        return self.restart(trial, total_steps, interval, self.history.costs.ratio, resumed_from)

    def restart(
        self,
        trial: TrialId,
        total_steps: int | None,
        interval: int | None,
        cost_ratio: float | None,
        resumed_from: int = 0,
    ) -> StopperTrial:
        """Start with an interval that was chosen before: what a resumed study does."""
        progress = Progress(total_steps=total_steps, interval=interval)
        record = self.history.start(trial, progress, cost_ratio, resumed_from)
        return StopperTrial(self, record)

    @property
    def order(self) -> tuple[str, ...] | None:
        """In which order to measure the constraints of a trial that starts now.

        The rest may be left out once one of them is violated. None: measure all of them.
        """
        return check_order(self.policy, self.goals, self.history.costs)


def _warn_repeated(message: str) -> None:
    warnings.warn(message, RepeatedReportWarning, stacklevel=4)
