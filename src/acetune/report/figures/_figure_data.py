"""What several figures need of a study, worked out once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acetune.core import formatting as words
from acetune.core.goals import Constraint, Goals
from acetune.study.answer import candidates_of, choose_answer
from acetune.study.best_checkpoints import best_rows, better_misses, losses, valid_row
from acetune.study.limits_kept import keeps_limits
from acetune.study.per_trial import Trials
from acetune.study.report_arrays import INVALID, STEP, UNCHECKED, VALID

if TYPE_CHECKING:
    from acetune.study.findings import FoundCheckpoint
    from acetune.study.reader import StudyView
    from acetune.study.table_rows import TrialRow

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]

STRATA_ORDER = ((INVALID, "invalid"), (UNCHECKED, "unchecked"), (VALID, "valid"))
_MOST_FOUND = 100
_UNSAID_S = 60.0  # seconds that a session may have run since it last said how long


class CheckpointRow(NamedTuple):
    """A checked checkpoint, and the row of its report in the columns."""

    row: int
    trial: int
    attempt: int
    step: int
    value: float


class Measured(NamedTuple):
    """Checkpoints whose checks did not fail: a row each, a column a constraint.

    A constraint that was left out, as another one was broken, is NaN.
    """

    rows: Whole
    loss: Floats
    values: Floats
    stderrs: Floats


class FigureData:
    """A study as the figures look at it: losses to minimise, elapsed time, the answer.

    Nothing is worked out before it is asked for, and nothing twice. It is of the moment: make a new
    one when the view has been refreshed.
    """

    def __init__(self, view: StudyView) -> None:
        self.view = view
        self.goals: Goals = view.goals
        self.sign = -1.0 if self.goals.objective.mode == "max" else 1.0
        self.constrained = bool(self.goals.constraints)

    # -- reports ---------------------------------------------------------------------------------

    @cached_property
    def loss(self) -> Floats:
        """The objective of each report, to be minimised; infinite where it is no number."""
        return losses(self.goals.objective, self.view.reports.objective)

    @cached_property
    def is_step(self) -> Mask:
        """Reports of training, not checks at or after the end of a trial."""
        return np.asarray(self.view.reports.kind == STEP)

    @cached_property
    def current(self) -> Mask:
        """Reports of training of the latest attempt of their trial."""
        return np.asarray(self.view.is_latest & self.is_step)

    @cached_property
    def late(self) -> Mask:
        """Checks at or after the end of a trial, of its latest attempt."""
        checked = self.view.reports.stratum != UNCHECKED
        return np.asarray(self.view.is_latest & ~self.is_step & checked)

    def checked_loss(self, rows: Whole) -> Floats:
        """The losses of the checkpoints that were checked."""
        return losses(self.goals.objective, self.view.reports.checked_objective[rows])

    # -- time ------------------------------------------------------------------------------------

    @cached_property
    def elapsed(self) -> Floats:
        """Seconds that the study had run when each report came; pauses between runs left out."""
        return np.asarray(np.maximum.accumulate(self.since_start(self.view.reports.time)))

    def since_start(self, times: Floats) -> Floats:
        """Moments in seconds of running."""
        times = np.asarray(times, float)
        sessions = self.view.sessions
        if not sessions:
            return np.asarray(times - (times.min() if len(times) else 0.0))
        started = np.array([session["started"] for session in sessions], float)
        lengths = np.array([session["seconds"] for session in sessions], float)
        before = np.concatenate([[0.0], np.cumsum(lengths)])[:-1]
        which = np.clip(np.searchsorted(started, times, side="right") - 1, 0, None)
        # the clock on the wall goes on while a machine sleeps, that of a session does not; one
        # that runs, or was killed, may have run a little longer than it last said
        known = np.array([session["ended"] is not None for session in sessions])
        most = np.where(known, lengths, 1.02 * lengths + _UNSAID_S)
        within = np.clip(times - started[which], 0.0, most[which])
        return np.asarray(before[which] + within)

    @cached_property
    def end(self) -> float:
        """How long the study has run."""
        beats = float(sum(session["seconds"] for session in self.view.sessions))
        return max(beats, float(self.elapsed.max()) if len(self.elapsed) else 0.0)

    # -- checks ----------------------------------------------------------------------------------

    @cached_property
    def measured(self) -> Measured:
        """Checkpoints with values of constraints and an objective that is a number."""
        checks = self.view.checks
        first = np.flatnonzero(np.diff(checks.row, prepend=-1))
        rows = checks.row[first]
        at = np.repeat(np.arange(len(first)), np.diff(first, append=len(checks.row)))
        values = np.full((len(rows), len(self.goals.constraints)), np.nan)
        stderrs = np.zeros_like(values)
        values[at, checks.constraint] = checks.value
        stderrs[at, checks.constraint] = checks.stderr
        loss = self.checked_loss(rows)
        whole = np.isfinite(loss) & np.isfinite(self.view.reports.violation[rows])
        whole &= np.isfinite(values).any(axis=1)
        return Measured(rows[whole], loss[whole], values[whole], np.nan_to_num(stderrs[whole]))

    def values(self, rows: Whole, constraint: int) -> Floats:
        """What the checks of some reports measured; NaN where nothing was, or one failed."""
        measured = self.measured
        found = np.full(len(rows), np.nan)
        if len(measured.rows):
            at = np.minimum(np.searchsorted(measured.rows, rows), len(measured.rows) - 1)
            there = measured.rows[at] == rows
            found[there] = measured.values[at[there], constraint]
        return found

    # -- trials ----------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> dict[int, TrialRow]:
        """The trials by number."""
        return {row.trial: row for row in self.view.trials}

    @cached_property
    def trials(self) -> Trials:
        """What the reports of each trial come to."""
        return Trials(self.view)

    @cached_property
    def keeps_limits(self) -> Mask:
        """Which reports have found a checkpoint feasible."""
        return np.asarray(keeps_limits(self.view))

    def is_of(self, trials: Iterable[int]) -> Mask:
        """Which reports are of some trials."""
        return np.isin(self.view.reports.trial, list(trials))

    # -- the answer ------------------------------------------------------------------------------

    @cached_property
    def candidates(self) -> list[CheckpointRow]:
        """What may be the answer, or is it, best first."""
        return [row for found in self.judged if (row := self._row_of(found)) is not None]

    @cached_property
    def nearest_misses(self) -> list[CheckpointRow]:
        """The checkpoint of each trial that came nearest to its limits, nearest first.

        Beside an answer those that are better than it.
        """
        if self.answer is not None:
            rows = better_misses(self.view, self.answer.value, _MOST_FOUND)
        else:
            rows = best_rows(self.view, INVALID)[:_MOST_FOUND].tolist()
        return [self.checkpoint(row) for row in rows]

    @cached_property
    def judged(self) -> list[FoundCheckpoint]:
        """The candidates of the answer with their verdicts, best first."""
        return candidates_of(self.view)

    @cached_property
    def answer(self) -> CheckpointRow | None:
        """The answer of the study; None where nothing qualified, or fresh data rejected it."""
        return self._row_of(choose_answer(self.judged))

    @cached_property
    def failed_on_fresh(self) -> list[CheckpointRow]:
        """All that fresh data rejected, whether or not there is an answer."""
        failed = [found for found in self.judged if found.status == "broken"]
        return [row for found in failed if (row := self._row_of(found)) is not None]

    @property
    def rejected(self) -> CheckpointRow | None:
        """The best that fresh data rejected, where there is no answer for that reason."""
        return self.failed_on_fresh[0] if self.failed_on_fresh and self.answer is None else None

    def _row_of(self, found: FoundCheckpoint | None) -> CheckpointRow | None:
        if found is None:
            return None
        row = valid_row(self.view, found.trial, found.attempt, found.step)
        return None if row is None else self.checkpoint(row)

    def checkpoint(self, row: int) -> CheckpointRow:
        """The checkpoint that was checked in a row."""
        reports = self.view.reports
        columns = (reports.trial, reports.attempt, reports.checked_step)
        trial, attempt, step = (int(column[row]) for column in columns)
        return CheckpointRow(row, trial, attempt, step, float(reports.checked_objective[row]))


def aims(goals: Goals) -> bool:
    """Whether the search keeps a margin from a limit that acetune has chosen."""
    return any(limit.margin and limit.margin_is_auto for limit in goals.constraints)


def limit_text(constraint: Constraint) -> str:
    """The limit with a sign as in print."""
    return words.limit(constraint.sense, constraint.limit, in_print=True)


def pareto_front(strictness: Floats, loss: Floats) -> Whole:
    """Places of what nothing beats in both, the strictest first.

    >>> pareto_front(np.array([3.0, 1.0, 2.0, 1.0]), np.array([1.0, 6.0, 7.0, 5.0])).tolist()
    [3, 0]
    """
    order = np.argsort(strictness)  # by one key: sorting by two takes ten times as long
    best = np.minimum.accumulate(loss[order])
    steps = order[np.append(True, best[1:] < best[:-1])[: len(best)]]
    # of equally strict ones only the best, which is the last of them
    reached = strictness[steps]
    last = np.append(reached[1:] > reached[:-1], True)[: len(reached)]
    return np.asarray(steps[last])


def spread(length: int, most: int) -> Whole:
    """At most so many places of ``length``, evenly spread, with both ends.

    >>> spread(3, most=5).tolist(), spread(9, most=3).tolist()
    ([0, 1, 2], [0, 4, 8])
    """
    return np.linspace(0, length - 1, min(length, most)).round().astype(np.int64)


def thinned(rows: Whole, most: int, keep: Sequence[int] | Whole = ()) -> Whole:
    """At most about ``most`` of the rows, evenly spread, in order, ``keep`` always among them.

    >>> thinned(np.arange(3), most=5).tolist(), thinned(np.arange(100), most=5, keep=[42]).tolist()
    ([0, 1, 2], [0, 25, 42, 50, 74, 99])
    """
    return np.union1d(rows[spread(len(rows), most)], np.asarray(keep, np.int64))
