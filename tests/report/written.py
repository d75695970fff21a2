"""Studies of all shapes, written row by row: what hypothesis draws, as a study file."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, Margin, Mode, Objective
from acetune.core.reason import LAST_STEP, Reason, stated
from acetune.core.trial_record import Progress, TrialRecord
from acetune.policies import ACE, Policy
from acetune.policies._ranking import WORST
from acetune.study.opening import describe_study
from acetune.study.store import Store
from acetune.study.table_rows import CheckRow
from acetune.trial.artifacts import kept_name

# few numbers, so that many are equal
_NUMBERS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.1, 0.2, 0.3, 1.0, 2.0, 1e-9])
_OBJECTIVES = st.one_of(_NUMBERS, st.just(math.nan), st.just(math.inf))
Check = dict[str, Estimate | FailedCheck]


@dataclass
class Attempt:
    """Reports of an attempt: objective and check of each step, and a late check of one of them."""

    reports: list[tuple[float, Check | None]]
    late: tuple[str, int, Check] | None
    state: str
    resumed_from: int


@dataclass
class Written:
    """A study to be written."""

    goals: Goals
    trials: list[list[Attempt]]


def goals_of() -> st.SearchStrategy[Goals]:
    """An objective with up to three constraints."""

    @st.composite
    def draw_goals(draw: st.DrawFn) -> Goals:
        constraints = []
        for number in range(draw(st.integers(0, 3))):
            limit, is_upper = draw(_NUMBERS), draw(st.booleans())
            ends = (limit, None) if is_upper else (None, limit)
            margin = draw(st.sampled_from([0.0, 1.0, 2.5, Margin(2.5, "auto")]))
            # the order of names differs from that of the constraints
            name = f"g{9 - number}"
            constraints.append(Constraint(name, upper=ends[0], lower=ends[1], margin_se=margin))
        mode: Mode = "max" if draw(st.booleans()) else "min"
        return Goals(Objective("loss", mode), tuple(constraints))

    return draw_goals()


def _check(goals: Goals) -> st.SearchStrategy[Check]:
    one = st.builds(Estimate, _NUMBERS, st.sampled_from([0.0, 0.1, 0.25]))
    failed = st.just(FailedCheck("it <b>broke</b>"))
    return st.fixed_dictionaries(
        {c.name: st.one_of(one, one, one, failed) for c in goals.constraints}
    )


@st.composite
def studies(draw: st.DrawFn) -> Written:
    """A study: some trials of one or more attempts."""
    goals = draw(goals_of())
    maybe = st.one_of(st.none(), _check(goals)) if goals.constraints else st.none()
    trials = []
    for _ in range(draw(st.integers(0, 5))):
        attempts: list[Attempt] = []
        for number in range(draw(st.integers(1, 2))):
            reports = draw(st.lists(st.tuples(_OBJECTIVES, maybe), max_size=5))
            late = None
            if goals.constraints and reports and draw(st.booleans()):
                step = draw(st.integers(1, len(reports)))
                late = draw(st.sampled_from(["end", "after"])), step, draw(_check(goals))
            before = len(attempts[-1].reports) if attempts else 0
            resumed_from = draw(st.integers(0, before)) if number else 0
            state = draw(st.sampled_from(["running", "finished", "stopped", "failed"]))
            attempts.append(Attempt(reports, late, state, resumed_from))
        trials.append(attempts)
    return Written(goals, trials)


def write(study: Written, path: Path) -> Store:
    """Write the study; the store is left open, as by a driver that runs."""
    settings = {"confirm_top": 2, "keep_models": 3, "workers": 1, "searcher": "random"}
    store = Store.create(path, describe_study(study.goals, (), ACE(), {}, settings))
    with store.transaction():
        store.add_session(1e9, "here")
        # a report a second
        longest = max((len(a.reports) + a.resumed_from for t in study.trials for a in t), default=0)
        store.beat(1, max(12.0, longest), 10.0)
    for number, attempts in enumerate(study.trials, 1):
        for attempt_number, attempt in enumerate(attempts, 1):
            write_attempt(store, study.goals, number, attempt_number, attempt)
    return store


def planned(
    policy: Policy, total: int | None, interval: int | None, ratio: float | None
) -> tuple[int | None, int | None, float | None, Reason]:
    """The plan of an attempt, as the journal would write it."""
    record = TrialRecord("any", progress=Progress(total, interval), cost_ratio=ratio)
    return total, interval, ratio, policy.schedule(record)


def write_attempt(store: Store, goals: Goals, trial: int, number: int, attempt: Attempt) -> None:
    """Write an attempt as the coordinator would."""
    with store.transaction():
        store.add_trial(trial, number, {"x": trial / 7, "k<i>": "a"}, 1e9, attempt.resumed_from)
        store.set_plan(trial, number, *planned(ACE(), 10, 1, 0.5), startup_s=0.25)
        first = attempt.resumed_from + 1
        for step, (value, check) in enumerate(attempt.reports, first):
            stops = attempt.state == "stopped" and step == first + len(attempt.reports) - 1
            decision = "stop" if stops else "continue"
            write_report(store, goals, (trial, number, "step", step), value, step, value, check,
                         decision)  # fmt: skip
        if attempt.late is not None:
            kind, at, check = attempt.late
            last, value = attempt.reports[-1][0], attempt.reports[at - 1][0]
            where = trial, number, kind, first + len(attempt.reports) - 1
            write_report(store, goals, where, last, first + at - 1, value, check, "finish")
        if attempt.state != "running":
            reason = {
                "stopped": Reason(
                    WORST,
                    {"rank": 3, "of": 4, "stratum": "unchecked", "step": trial, "share": 0.25},
                ),
                "failed": stated("failed", "ValueError: <script>alert(1)</script>"),
            }.get(attempt.state, LAST_STEP)
            store.end_trial(trial, number, attempt.state, reason, 1e9 + 5)
            key = trial, number, first, "model"
            store.add_checkpoint(*key, kept_name(*key), 10)
            model = store.files / kept_name(*key)
            model.mkdir(parents=True)
            (model / "model.pkl").write_bytes(b"0123456789")


def write_report(
    store: Store,
    goals: Goals,
    where: tuple[int, int, str, int],
    value: float,
    checked_step: int,
    checked_value: float,
    check: Check | None,
    decision: str,
) -> None:
    """Write a report as the coordinator would."""
    checked: tuple[Any, ...] = (None, None, None, "unchecked")
    if check is not None or not goals.constraints:
        valid, violation = goals.judge(check or {})
        known = goals.objective.value(goals.objective.loss(checked_value))
        checked = (checked_step, known, violation, "valid" if valid else "invalid")
    margins = {limit.name: limit.margin for limit in goals.constraints}
    rows = [
        CheckRow(name, None, None, 0.5, found.error, margins[name])
        if isinstance(found, FailedCheck)
        else CheckRow(name, *found, 0.5, None, margins[name])
        for name, found in (check or {}).items()
    ]
    ranked = (2, 5, decision) if where[2] == "step" else (None, None, decision)
    cost = 2.0 if where[2] == "step" else None
    snapshot = 0.125 if where[3] % 2 else 0.0
    metrics = json.dumps({"other": 1.0}) if where[3] == 3 else None
    row = (*where, value, *checked, *ranked, cost, snapshot, 1e9 + where[3], metrics)
    store.add_report(row, rows)
