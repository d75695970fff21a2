"""ACE over a study's storage, a second time: slow, plain, from the frozen trials alone."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import optuna
from optuna.trial import FrozenTrial, TrialState


class Row(NamedTuple):
    """A report: where it is ranked and by what."""

    trial: int
    step: int
    stratum: str
    key: tuple[float, ...]
    stop: bool  # at most: its own last step is never stopped


def should_stop(study: optuna.Study, number: int, truncation: float, limit: float) -> bool:
    """Whether a trial's last report is among the worst of its group."""
    rows = [row for trial in study.get_trials() for row in reports(trial, limit)]
    retried = {
        old
        for trial in study.get_trials()
        if trial.state is not TrialState.WAITING and has_begun(trial)
        for old in trial.system_attrs.get("retry_history", [])
    }
    last = study.get_trials()[number].last_step
    mine = [row for row in rows if row.trial == number and row.step == last]
    if not mine or not mine[0].stop:
        return False
    group = [
        row
        for row in rows
        if (row.step, row.stratum) == (mine[0].step, mine[0].stratum)
        and (row.trial not in retried or row.trial == number)
    ]
    better = sum(row.key < mine[0].key for row in group)
    return better >= len(group) - math.floor(truncation * len(group) + 1e-9)


def has_begun(trial: FrozenTrial) -> bool:
    """False for a retried trial that has only inherited attributes."""
    start = trial.system_attrs.get("ace:start")
    return start is None or start["trial"] == trial.number or trial.state.is_finished()


def reports(trial: FrozenTrial, limit: float) -> list[Row]:
    """What a trial reported, with the checks that are its own."""
    if trial.state is TrialState.WAITING or not has_begun(trial):
        return []
    rows = []
    start: dict[str, Any] = trial.system_attrs.get("ace:start", {})
    total = start.get("total_steps") if start.get("trial") == trial.number else None
    for step, value in trial.intermediate_values.items():
        check = trial.system_attrs.get(f"ace:check:{step}")
        loss = value if math.isfinite(value) else math.inf
        stratum, key = "unchecked", (loss,)
        if check is not None and check["trial"] == trial.number:
            beyond = check["measured"]["g"][0] - limit
            stratum, key = ("invalid", (beyond / limit, loss)) if beyond > 0 else ("valid", (loss,))
        rows.append(Row(trial.number, step, stratum, key, step != total))
    return rows
