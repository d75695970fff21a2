"""Where the time went, and what stopping is likely to have saved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from acetune.core.formatting import count, timing
from acetune.report.figures._drawing import Bar, Drawing, SmallTable, lying_bars, nothing
from acetune.report.figures._figure_data import FigureData
from acetune.report.figures._look import ANSWER, BEST_OF_ALL, INVALID, NEUTRAL, VALID
from acetune.study.time_spent import ledger_of

_TITLE = "Time spent, and saved (an estimate)"


class SavedByStopping(NamedTuple):
    """An estimate of the training that stopping saved.

    Of each stopped trial whose last step T was known, the steps it did not take times the mean
    training cost of those it took.
    """

    seconds: float
    estimated: int  # stopped trials that the estimate is made from
    unknown: int  # stopped trials whose T, or cost, is not known


def saved_by_stopping(digest: FigureData) -> SavedByStopping:
    """Estimate what stopping saved."""
    reports = digest.view.reports
    spent, size = np.nan_to_num(reports.primary_cost_s), 1 + max(digest.rows, default=0)
    cost = np.bincount(reports.trial[digest.current], spent[digest.current], size)
    saved, estimated, unknown = 0.0, 0, 0
    for row, last in zip(digest.view.trials, digest.trials.last_step.tolist(), strict=True):
        if row.state != "stopped":
            continue
        steps = last - row.resumed_from
        if row.total_steps is None or steps <= 0 or not cost[row.trial] > 0:
            unknown += 1
            continue
        saved += max(0, row.total_steps - last) * float(cost[row.trial]) / steps
        estimated += 1
    return SavedByStopping(saved, estimated, unknown)


def time(digest: FigureData) -> Drawing:
    """Training, checks, start-up; what never became valid; what stopping saved, by estimate."""
    ledger, stopping = ledger_of(digest.view), saved_by_stopping(digest)
    spent = ledger.training_s + ledger.checks_s + ledger.startup_s
    if not spent:
        return nothing("time", _TITLE, "No costs have been recorded yet.")

    def share(value: float) -> str:
        return f"{timing(value)} ({value / spent:.0%})"

    bars = [
        Bar("training", ledger.training_s, share(ledger.training_s), BEST_OF_ALL),
        Bar("checks", ledger.checks_s, share(ledger.checks_s), VALID),
        Bar("start-up", ledger.startup_s, share(ledger.startup_s), NEUTRAL),
    ]
    if ledger.waiting_s >= 1:
        label = "waiting, so that checks were measured alone"
        bars.append(Bar(label, ledger.waiting_s, timing(ledger.waiting_s), NEUTRAL, "."))
    if digest.constrained:
        label = "of it, on trials that were never valid"
        bars.append(Bar(label, ledger.invalid_s, share(ledger.invalid_s), INVALID, "/"))
    saved = f"about {timing(stopping.seconds)}" if stopping.estimated else "unknown"
    bars.append(Bar("saved by stopping, an estimate", stopping.seconds, saved, ANSWER, "."))
    data, layout = lying_bars(bars)
    wall = f"{timing(digest.end)} on the clock"
    table = SmallTable(["what", "time"], [[bar.label, bar.text] for bar in bars])
    alt = (
        f"Training {share(ledger.training_s)}, checks {share(ledger.checks_s)}, start-up "
        f"{share(ledger.startup_s)}, summed over workers, in {wall}. "
    )
    if digest.constrained:
        alt += f"Of it {share(ledger.invalid_s)} on trials that were never valid. "
    alt += f"Saved by stopping: {saved}, an estimate from {count(stopping.estimated, 'trial')}."
    return Drawing("time", _TITLE, _caption(digest, stopping), alt, data, layout, table)


def _caption(digest: FigureData, stopping: SavedByStopping) -> str:
    text = "Seconds on workers, summed over all of them; waiting is not in the shares."
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
    if stopping.unknown:
        verb = "is" if stopping.unknown == 1 else "are"
        text += f" {count(stopping.unknown, 'stopped trial')} of unknown T or cost {verb} left out."
    return text
