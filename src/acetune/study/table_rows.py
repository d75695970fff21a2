"""Rows of the study file, as those who write and read them have them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from acetune.core.goals import Estimate, FailedCheck
from acetune.core.reason import Reason
from acetune.core.report_values import from_columns
from acetune.core.trial_record import State
from acetune.study._formats import Reasons
from acetune.study._validation import json_object
from acetune.trial.artifacts import Kept


class TrialRow(NamedTuple):
    """One row of ``trials``: an attempt of a trial."""

    trial: int
    attempt: int
    params: dict[str, Any]
    total_steps: int | None
    interval: int | None
    cost_ratio: float | None
    resumed_from: int
    state: State | Literal["rejected"]
    startup_cost_s: float | None
    started: float
    ended: float | None
    reason: Reason  # why it ended
    schedule: Reason  # when it is checked

    @classmethod
    def read(cls, values: tuple[Any, ...], reasons: Reasons) -> TrialRow:
        """The row of what ``Store.trial_values`` gives."""
        params = json_object(values[2], "params")
        return cls._make(
            (
                *(values[0], values[1], params, *values[3:11]),
                *(reasons[values[11:13]], reasons[values[13:]]),
            )
        )


class ReportRow(NamedTuple):
    """One row of ``reports`` with its checks."""

    seq: int
    trial: int
    attempt: int
    kind: str
    step: int
    objective: float
    checked_step: int | None
    checked_objective: float | None
    violation: float | None
    stratum: str
    rank: int | None
    of: int | None
    decision: str
    primary_cost_s: float | None
    snapshot_cost_s: float
    time: float
    metrics: str | None


class CheckRow(NamedTuple):
    """One row of ``checks``."""

    constraint: str
    value: float | None
    stderr: float | None
    cost_s: float | None
    error: str | None
    margin_se: float = 0.0  # by which it was judged
    note: str | None = None  # JSON: what else the check has said of the model

    @property
    def measurement(self) -> Estimate | FailedCheck:
        """What was measured."""
        return from_columns(self.value, self.stderr, self.error)


class EarlierTrial(NamedTuple):
    """One row of ``earlier_trials``: a trial of another study that this one learns from."""

    params: str  # JSON, as are the next but two
    total_steps: int | None
    ended: int
    reports: str  # [step, loss] each; smaller is better
    checks: str  # [step, how far beyond each limit] each


class NewVerdict(NamedTuple):
    """What a report with a check comes to by other limits; one not judged counts as unchecked."""

    checked_step: int | None
    checked_objective: float | None
    violation: float | None
    stratum: str
    seq: int


class KeptRow(NamedTuple):
    """One row of ``checkpoints``, found to be where it has to be."""

    trial: int
    attempt: int
    step: int
    kind: str
    kept: Kept
