"""What a study found, read from its file: the answer, how far to trust it, and what it cost."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acetune.core.errors import GoalError
from acetune.core.goals import Goals
from acetune.core.numbers import is_number
from acetune.core.words import count, number
from acetune.study import queries
from acetune.study.found import FailureOfCheck, FoundCheckpoint, Ledger
from acetune.study.store import INTERRUPTED, Store
from acetune.study.summary import step_of, summary_html, summary_text

if TYPE_CHECKING:
    import pandas

_MEASURED = ("constraint", "stderr")  # columns, for each constraint
_STEPS = ("total_steps", "interval", "last_step")  # columns of whole numbers, or nothing
_EXACT = 2**53  # floats hold whole numbers up to here


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The best checkpoint under other limits, from what was recorded.

    ``unchecked_better`` counts better ones that nobody has checked, or not under every limit;
    ``rejected_better`` those that were left out because their values on fresh data break these
    limits. Where ``best`` was judged, the status of its confirmation is about these limits too.
    """

    limits: Mapping[str, float]
    best: FoundCheckpoint | None
    unchecked_better: int
    rejected_better: int = 0

    def __str__(self) -> str:
        found = "nothing recorded qualifies"
        if self.best is not None:
            found = f"{number(self.best.value)} (trial {self.best.trial}, {step_of(self.best)})"
        limits = ", ".join(f"{name} at {number(limit, 6)}" for name, limit in self.limits.items())
        better = "" if self.best is None else "better "
        unchecked = "nothing better unchecked"
        if self.unchecked_better:
            # what nobody looked at might qualify, and then the answer would be better
            verb = "was" if self.unchecked_better == 1 else "were"
            many = count(self.unchecked_better, f"{better}checkpoint")
            unchecked = f"perhaps better: {many} {verb} never fully checked"
        left_out = ""
        if self.rejected_better:
            many = count(self.rejected_better, f"{better}checkpoint")
            verb = "breaks" if self.rejected_better == 1 else "break"
            left_out = f"; left out: {many} that {verb} a limit on fresh data"
            if self.best is not None and self.best.status == "unconfirmed":
                left_out += ", where this one was not judged"
        return f"{limits}: {found}{left_out}; {unchecked}"


@dataclass(frozen=True, repr=False)
class StudyResult:
    """The outcome of a study. ``best`` is None when nothing qualified, or fresh data rejected it.

    What was rejected is among the ``candidates``, with what ``confirm`` said of it.
    Made by :func:`acetune.tune`, or from a study file by :func:`acetune.load`.
    """

    study: Path
    goals: Goals
    best: FoundCheckpoint | None
    nearest_miss: FoundCheckpoint | None
    # the best valid checkpoint of each of the best trials, and all that were judged; best first
    candidates: list[FoundCheckpoint]
    ledger: Ledger
    counts: Mapping[str, int]  # trials by state
    strata: Mapping[str, int]  # reports by stratum
    reasons: Mapping[str, int]  # why trials were stopped or failed
    confirmation_uses: int
    ended: str | None  # why the last session ended; None while it runs, or if it was killed
    info: Mapping[str, Any]  # the study row of the file
    failed_check: FailureOfCheck | None = None  # the first that gave no number

    @property
    def outcome(self) -> queries.Outcome:
        """Whether anything qualified, and whether fresh data rejected what did."""
        return queries.outcome_of(self.candidates)

    @property
    def rejected(self) -> FoundCheckpoint | None:
        """The best that fresh data rejected, where there is no answer for that reason."""
        return None if self.best is not None else queries.best_rejected(self.candidates)

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the last session; the same call again goes on."""
        return self.ended == INTERRUPTED

    @property
    def finite_reports(self) -> int:
        """Reports whose objective was a finite number; only such are worth a check."""
        with reading(self.study) as store:
            rows = store.rows(
                "SELECT count(*) AS n FROM reports WHERE kind = 'step' AND abs(objective) < 9e999"
            )
        return int(rows[0]["n"])

    @property
    def trials(self) -> pandas.DataFrame:
        """One row a trial: parameters, how it ended, its best values.

        ``constraint.NAME`` and ``stderr.NAME`` are of its best valid checkpoint, or of its nearest
        miss if it has none.

        Steps, reports and the best objective are those of its latest attempt; what was found
        valid and what training cost are of all its attempts.
        """
        import pandas

        with reading(self.study) as store:
            rows = store.rows(queries.TRIALS[self.goals.objective.mode])
            measured = queries.measured_of_trials(store, self.goals)
            names = [f"{what}.{c.name}" for c in self.goals.constraints for what in _MEASURED]
            for row in rows:
                row.update(dict.fromkeys(names) | measured.get(row["trial"], {}))
                row.update({f"param.{k}": v for k, v in json.loads(row.pop("params")).items()})
        frame = pandas.DataFrame(rows)
        for name in _STEPS:
            column = [row[name] for row in rows]
            if None in column and max(step or 0 for step in column) > _EXACT:
                frame[name] = pandas.array(column, dtype="Int64")  # with gaps it is one of floats
        return frame.set_index("trial") if rows else frame

    def what_if(self, **limits: float) -> WhatIf:
        """The best checkpoint under other limits, without training: ``what_if(eod=0.28)``.

        The true answer is at least this good: checkpoints that were skipped because they could not
        win under the study's own limits were never checked, and where one of several constraints
        was violated the others may not have been measured. What was judged on fresh data must keep
        these limits there as well, or is left out. A limit that is chosen after looking needs
        other fresh data to confirm it.
        """
        known = {constraint.name: constraint for constraint in self.goals.constraints}
        for name, limit in limits.items():
            if name not in known:
                raise GoalError(f"no constraint {name!r} in this study; it has {list(known)}")
            if not is_number(limit):
                raise GoalError(f"the limit of {name!r} must be a finite number, got {limit!r}")
            known[name] = known[name].with_limit(float(limit))
        goals = Goals(self.goals.objective, tuple(known.values()))
        with reading(self.study) as store:
            checked = queries.checked_checkpoints(store, goals)
            valid = [found for found in checked if found.violation == 0]
            uses = store.rows("SELECT * FROM confirmations ORDER BY use")
            ranges = queries.read_ranges(json.loads(self.info["settings"]))
            valid, rejected = queries.judged_by(goals, valid, uses, ranges)
            best = min(valid, key=lambda f: goals.objective.loss(f.value), default=None)
            value = None if best is None else best.value
            unchecked = queries.unchecked_better(store, goals, value)
        unchecked += queries.half_checked_better(checked, goals, value)
        worst = math.inf if best is None else goals.objective.loss(best.value)
        left_out = {
            (found.trial, found.attempt, found.step)
            for found in rejected
            if goals.objective.loss(found.value) < worst
        }
        return WhatIf(dict(limits), best, unchecked, len(left_out))

    def __str__(self) -> str:
        return summary_text(self)

    def _repr_html_(self) -> str:
        return summary_html(self)

    __repr__ = __str__  # in a notebook the summary says more than the fields


def load(study: str | Path) -> StudyResult:
    """The result of a study, from its file; also while the study is running."""
    with reading(Path(study)) as store:
        return read_result(store)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Store]:
    """A study file opened for reading."""
    store = Store.read(path)
    try:
        with store.understanding():
            yield store
    finally:
        store.close()


def read_result(store: Store) -> StudyResult:
    """Put the result together from an open study file."""
    info = store.study()
    goals = queries.goals_from_json(info["objective"], info["constraints"])
    settings = json.loads(info["settings"])
    uses = store.rows("SELECT * FROM confirmations ORDER BY use")
    sessions = store.rows("SELECT ended FROM sessions ORDER BY session")
    # where the check failed nobody knows how near it was
    misses = [
        found
        for found in queries.best_of_each_trial(store, goals, "invalid")
        if math.isfinite(found.violation)
    ]
    candidates = queries.read_candidates(store, goals, settings, uses)
    latest = f"({queries.LATEST_ATTEMPTS})"
    states = store.rows(f"SELECT state, count(*) AS n FROM {latest} GROUP BY state")
    strata = store.rows(
        "SELECT stratum, count(*) AS n FROM reports WHERE kind = 'step' GROUP BY stratum"
    )
    reasons = store.rows(
        f"SELECT state, reason, count(*) AS n FROM {latest} "
        "WHERE state IN ('stopped', 'failed', 'interrupted') GROUP BY state, reason ORDER BY n DESC"
    )
    ledger = queries.read_ledger(store)
    return StudyResult(
        study=store.path,
        goals=goals,
        best=queries.choose_answer(candidates),
        nearest_miss=misses[0] if misses else None,
        candidates=candidates,
        ledger=ledger,
        counts={row["state"]: row["n"] for row in states},
        strata={row["stratum"]: row["n"] for row in strata},
        reasons=queries.count_reasons(reasons),
        confirmation_uses=len(uses),
        ended=sessions[-1]["ended"] if sessions else None,
        info=info,
        failed_check=queries.first_failed_check(store) if ledger.failed_checks else None,
    )
