"""Where the time went, and what stopping is likely to have saved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acetune.core.words import count
from acetune.report.figures.bars import Bar, lying_bars
from acetune.report.figures.digest import Digest
from acetune.report.figures.drawing import Drawing, SmallTable, nothing
from acetune.report.figures.look import ANSWER, BEST_OF_ALL, NEUTRAL
from acetune.report.figures.look import INVALID as INVALID_COLOUR
from acetune.report.figures.look import VALID as VALID_COLOUR
from acetune.report.figures.words import seconds
from acetune.study.columns import INVALID, VALID

_TITLE = "Time spent, and saved (an estimate)"


@dataclass(frozen=True, slots=True)
class TimeLedger:
    """Seconds summed over all workers and attempts.

    ``saved_s`` is an estimate: of each stopped trial whose last step T was known, the steps it did
    not take times the mean training cost of those it took.
    """

    training_s: float
    checks_s: float
    startup_s: float
    invalid_s: float  # of training and checks: on trials that were checked and never valid
    saved_s: float
    estimated: int  # stopped trials that the estimate is made from
    unknown: int  # stopped trials whose T, or cost, is not known

    @property
    def spent_s(self) -> float:
        """Training, checks and start-up."""
        return self.training_s + self.checks_s + self.startup_s


def time_ledger(digest: Digest) -> TimeLedger:
    """Add up what was recorded."""
    view = digest.view
    reports, checks = view.reports, view.checks
    trial, size = digest.trial, digest.size
    training = np.bincount(trial, np.nan_to_num(reports.primary_cost_s), size)
    snapshots = np.bincount(trial, reports.snapshot_cost_s, size)
    checking = np.bincount(trial[checks.row], np.nan_to_num(checks.cost_s), size)
    # of each trial, over all its attempts
    valid = np.bincount(trial[reports.stratum == VALID], minlength=size) > 0
    invalid = np.bincount(trial[reports.stratum == INVALID], minlength=size) > 0
    saved, estimated, unknown = _saved(digest)
    return TimeLedger(
        training_s=float(training.sum()),
        checks_s=float(checking.sum() + snapshots.sum()),
        startup_s=float(view.startup_s),
        invalid_s=float((training + snapshots + checking)[invalid & ~valid].sum()),
        saved_s=saved,
        estimated=estimated,
        unknown=unknown,
    )


def _saved(digest: Digest) -> tuple[float, int, int]:
    """The estimate, from how many stopped trials, and how many had to be left out."""
    reports, size = digest.view.reports, digest.size
    trial = digest.trial[digest.current]
    cost = np.bincount(trial, np.nan_to_num(reports.primary_cost_s[digest.current]), size)
    last = np.zeros(size, np.int64)
    np.maximum.at(last, trial, reports.step[digest.current].astype(np.int64))
    saved, estimated, unknown = 0.0, 0, 0
    for row in digest.view.trials:
        if row.state != "stopped":
            continue
        steps = int(last[row.trial]) - row.resumed_from
        if row.total_steps is None or steps <= 0 or not cost[row.trial] > 0:
            unknown += 1
            continue
        left = max(0, row.total_steps - int(last[row.trial]))
        saved += left * float(cost[row.trial]) / steps
        estimated += 1
    return saved, estimated, unknown


def time(digest: Digest) -> Drawing:
    """Training, checks, start-up; what never became valid; what stopping saved, by estimate."""
    ledger = time_ledger(digest)
    spent = ledger.spent_s
    if not spent:
        return nothing("time", _TITLE, "No costs have been recorded yet.")

    def share(value: float) -> str:
        return f"{seconds(value)} ({value / spent:.0%})"

    bars = [
        Bar("training", ledger.training_s, share(ledger.training_s), BEST_OF_ALL),
        Bar("checks", ledger.checks_s, share(ledger.checks_s), VALID_COLOUR),
        Bar("start-up", ledger.startup_s, share(ledger.startup_s), NEUTRAL),
    ]
    if digest.constrained:
        label = "of it, on trials that were never valid"
        bars.append(Bar(label, ledger.invalid_s, share(ledger.invalid_s), INVALID_COLOUR, "/"))
    saved = f"about {seconds(ledger.saved_s)}" if ledger.estimated else "unknown"
    bars.append(Bar("saved by stopping, an estimate", ledger.saved_s, saved, ANSWER, "."))
    data, layout = lying_bars(bars)
    wall = f"{seconds(digest.end)} on the clock"
    table = SmallTable(["what", "time"], [[bar.label, bar.text] for bar in bars])
    alt = (
        f"Training {share(ledger.training_s)}, checks {share(ledger.checks_s)}, start-up "
        f"{share(ledger.startup_s)}, summed over workers, in {wall}. "
    )
    if digest.constrained:
        alt += f"Of it {share(ledger.invalid_s)} on trials that were never valid. "
    alt += f"Saved by stopping: {saved}, an estimate from {count(ledger.estimated, 'trial')}."
    return Drawing("time", _TITLE, _caption(digest, ledger), alt, data, layout, table)


def _caption(digest: Digest, ledger: TimeLedger) -> str:
    text = "Seconds on workers, summed over all of them; waiting is not in it."
    if digest.constrained:
        text += (
            " The striped bar is a part of training and checks: what went into trials that were "
            "checked and never valid."
        )
    text += (
        " The dotted bar is an estimate, not a measurement: the steps that stopped trials did not "
        "take, up to their last step T, times the mean training time of the steps they took; "
        "checks they would have had are not counted."
    )
    if ledger.unknown:
        verb = "is" if ledger.unknown == 1 else "are"
        text += f" {count(ledger.unknown, 'stopped trial')} of unknown T or cost {verb} left out."
    return text
