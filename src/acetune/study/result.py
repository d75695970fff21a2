"""What a study found, read from its file: the answer, how far to trust it, and what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acetune.certification.account import Account
from acetune.core.errors import GoalError
from acetune.core.formatting import count, flattened, harmless, number
from acetune.core.goals import Goals
from acetune.core.numbers import is_number
from acetune.core.reason import INTERRUPTED, Reason
from acetune.policies.policy import checked_every_step
from acetune.study.answer import (
    Outcome,
    best_rejected,
    candidates_of,
    choose_answer,
    outcome_of,
    status_of,
)
from acetune.study.best_checkpoints import nearest_misses
from acetune.study.best_under_limits import best_under
from acetune.study.findings import FailureOfCheck, FoundCheckpoint, Ledger, Status
from acetune.study.per_trial import Trials
from acetune.study.reader import StudyView, as_path, viewing
from acetune.study.report_arrays import STEP, STRATA, UNCHECKED
from acetune.study.store import Store
from acetune.study.summary import step_of, summary_html, summary_text
from acetune.study.table_rows import TrialRow
from acetune.study.time_spent import failed_check, ledger_of

if TYPE_CHECKING:
    import pandas


def count_reasons(trials: Iterable[TrialRow]) -> list[tuple[str, Reason, int]]:
    """State, reason and how many trials: the most frequent first.

    Reasons of one code are counted together where they differ only in numbers that their short
    form does not name.
    """
    counts: Counter[tuple[object, ...]] = Counter()
    examples: dict[tuple[object, ...], tuple[str, Reason]] = {}
    for trial in trials:
        key = (trial.state, trial.reason.code, *trial.reason.shared.values())
        examples.setdefault(key, (trial.state, trial.reason))
        counts[key] += 1
    return [(*examples[key], n) for key, n in counts.most_common()]


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
        return f"{harmless(limits)}: {found}{left_out}; {unchecked}"


@dataclass(frozen=True, repr=False)
class StudyResult:
    """The outcome of a study. ``best`` is None when nothing qualified, or fresh data rejected it.

    ``status`` says what may be claimed about it. What was rejected is among the ``candidates``,
    with what ``confirm`` said of it.
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
    ended_code: str  # the same, for programs
    info: Mapping[str, Any]  # the study row of the file
    failed_check: FailureOfCheck | None = None  # the first that gave no number
    finite_reports: int = 0  # whose objective was a finite number; only such are worth a check
    due_at_every_step: bool = False  # whether a check was, in every trial
    confidence: float = 0.95  # of certificates
    # with which changed checks the study went on: how, what has changed, after which report
    check_changes: Sequence[Mapping[str, Any]] = ()
    # with which other limits it went on: what has changed, after which report, the earlier limits
    limit_changes: Sequence[Mapping[str, Any]] = ()
    looks: Sequence[Mapping[str, Any]] = ()  # at fresh data: what each tested, and at which level
    confirm_error: str | None = None  # of the last use of fresh data, where confirm went wrong

    @property
    def status(self) -> Status | None:
        """What may be claimed: ``"certified"``, ``"holds"``, ``"unconfirmed"`` or ``"broken"``.

        None where nothing qualified in the search.
        """
        return status_of(self.candidates)

    @property
    def account(self) -> Account:
        """How much of the probability of a false certificate was spent, and what is left."""
        return Account(self.confidence, len(self.looks))

    @property
    def outcome(self) -> Outcome:
        """Whether anything qualified, and whether fresh data rejected what did."""
        return outcome_of(self.candidates)

    @property
    def rejected(self) -> FoundCheckpoint | None:
        """The best that fresh data rejected, where there is no answer for that reason."""
        return None if self.best is not None else best_rejected(self.candidates)

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the last session; the same call again goes on."""
        return self.ended_code == INTERRUPTED.code

    @property
    def trials(self) -> pandas.DataFrame:
        """One row per trial: parameters, how it ended, its best values.

        ``constraint.NAME`` and ``stderr.NAME`` are of its checkpoint that counts: the answer in the
        answer's trial; in others the best valid one, else the best that misses only a margin which
        acetune has chosen, else the nearest miss. ``best_valid_objective`` is of valid ones alone.

        Steps, reports and the best objective are those of its latest attempt; what was found
        valid and what training cost are of all its attempts.
        """
        import pandas

        with viewing(self.study) as view:
            rows = _trial_rows(view)
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
        was broken the others may not have been measured. What was judged on fresh data must keep
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
        with viewing(self.study) as view:
            return WhatIf(dict(limits), *best_under(view, goals))

    def __str__(self) -> str:
        return summary_text(self)

    def _repr_html_(self) -> str:
        return summary_html(self)

    __repr__ = __str__  # in a notebook the summary says more than the fields


def _trial_rows(view: StudyView) -> list[dict[str, Any]]:
    """A dict per trial, with the same keys: parameters, how it ended, its best values."""
    trials = Trials(view)
    found = [trials.found(trial.trial) for trial in view.trials]
    violations = zip(trials.least_violation.tolist(), trials.stratum.tolist(), strict=True)
    costs = zip(trials.training_s.tolist(), trials.costed.tolist(), strict=True)
    columns = {
        **trials.described,
        "least_violation": [
            least if stratum > UNCHECKED else None for least, stratum in violations
        ],
        "training_s": [seconds if costed else None for seconds, costed in costs],
        "started": [trial.started for trial in view.trials],
        "ended": [trial.ended for trial in view.trials],
        **trials.measured(found),
    }
    return [
        dict(zip(columns, row, strict=True))
        | {f"param.{name}": given for name, given in flattened(trial.params).items()}
        for trial, row in zip(view.trials, zip(*columns.values(), strict=True), strict=True)
    ]


def load(study: str | Path) -> StudyResult:
    """The result of a study, from its file; also while the study is running."""
    # whole: the result reads the file again when it is asked, from wherever that may be
    with viewing(as_path(study).absolute()) as view:
        return result_of(view)


def read_result(store: Store) -> StudyResult:
    """The result of a study whose file is open already: it need not be looked through again."""
    with StudyView(store.path, whole=True) as view, store.understanding():
        return result_of(view)


def result_of(view: StudyView) -> StudyResult:
    """Put the result together from what was read of a study file."""
    ledger, candidates = ledger_of(view), candidates_of(view)
    reports, best = view.reports, choose_answer(candidates)
    # an answer may be closer to its limit than the search aimed for: it is no miss for that
    taken = None if best is None else (best.trial, best.step)
    misses = [miss for miss in nearest_misses(view, 2) if (miss.trial, miss.step) != taken]
    steps = reports.kind == STEP
    strata = np.bincount(reports.stratum[steps], minlength=len(STRATA)).tolist()
    reasons: Counter[str] = Counter()
    for state, reason, n in count_reasons(view.trials):
        if state in ("stopped", "failed", "interrupted"):
            reasons[reason.short] += n
    return StudyResult(
        study=view.path,
        goals=view.goals,
        best=best,
        nearest_miss=misses[0] if misses else None,
        candidates=candidates,
        ledger=ledger,
        counts=dict(Counter(trial.state for trial in view.trials)),
        strata={name: n for name, n in zip(STRATA, strata, strict=True) if n},
        reasons=dict(reasons.most_common()),
        confirmation_uses=len(view.confirmations),
        ended=None if view.ended is None else str(view.ended),
        ended_code="" if view.ended is None else view.ended.code,
        info=view.tables["study"][0],
        failed_check=failed_check(view) if ledger.failed_checks else None,
        finite_reports=int(np.count_nonzero(np.isfinite(reports.objective) & steps)),
        due_at_every_step=_due_at_every_step(view.trials),
        confidence=view.info["confidence"],
        check_changes=view.check_changes,
        limit_changes=view.limit_changes,
        looks=view.looks,
        confirm_error=_confirm_error(view),
    )


def _confirm_error(view: StudyView) -> str | None:
    last = view.confirmations[-1] if view.confirmations else None
    return last["error"] if last is not None and last["status"] == "unconfirmed" else None


def _due_at_every_step(trials: Iterable[TrialRow]) -> bool:
    plans = [trial.schedule for trial in trials if trial.schedule]
    return bool(plans) and all(map(checked_every_step, plans))
