"""A study file read the slow, obvious way, in SQL: what the columns are compared with.

Nothing of the reader is used, only the raw rows of the store and the rules of the core.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from acetune.core.goals import Estimate, Goals, goals_from_json
from acetune.study.findings import (
    Bound,
    CheckpointKey,
    Confirmation,
    ConstraintTime,
    FailureOfCheck,
    FoundCheckpoint,
    Ledger,
    checkpoint_key,
    judge_fresh,
)
from acetune.study.result import StudyResult, WhatIf
from acetune.study.store import Store

LATEST_ATTEMPTS = (
    "SELECT * FROM trials t "
    "WHERE attempt = (SELECT max(attempt) FROM trials u WHERE u.trial = t.trial)"
)

_TRIALS_TEMPLATE = (
    """
SELECT t.trial, t.attempt AS attempts, t.state, t.reason, t.reason_numbers,
    t.total_steps, t.interval, t.cost_ratio,
    max(r.step) FILTER (WHERE r.attempt = t.attempt) AS last_step,
    count(r.seq) FILTER (WHERE r.kind = 'step' AND r.attempt = t.attempt) AS reports,
    count(c.seq) FILTER (WHERE r.attempt = t.attempt) AS checks,
    {best}(r.objective) FILTER (WHERE r.attempt = t.attempt) AS best_objective,
    {best}(r.checked_objective) FILTER (WHERE r.stratum = 'valid') AS best_valid_objective,
    min(r.violation) AS least_violation,
    sum(r.primary_cost_s) AS training_s,
    t.started, t.ended, t.params
FROM ("""
    + LATEST_ATTEMPTS
    + """) t LEFT JOIN reports r USING (trial)
LEFT JOIN (SELECT DISTINCT seq FROM checks) c ON c.seq = r.seq
GROUP BY t.trial ORDER BY t.trial
"""
)
TRIALS = {mode: _TRIALS_TEMPLATE.format(best=mode) for mode in ("min", "max")}


def judged_by(
    goals: Goals,
    valid: Sequence[FoundCheckpoint],
    uses: list[dict[str, Any]],
) -> tuple[list[FoundCheckpoint], list[FoundCheckpoint]]:
    """Checkpoints that fresh data does not speak against under the limits of ``goals``; the others.

    The verdicts in the file are about the limits of the study.
    """
    looked_at = {(use["trial"], use["attempt"], use["step"]) for use in uses}
    kept: list[FoundCheckpoint] = []
    rejected: list[FoundCheckpoint] = []
    for found in valid:
        if (found.trial, found.attempt, found.step) in looked_at:
            found = with_confirmation(found, uses)
            said = found.confirmation
            assert said is not None
            status = judge_fresh(goals, said.values, said.error)
            found = replace(found, confirmation=replace(said, status=status))
        (rejected if found.status == "broken" else kept).append(found)
    return kept, rejected


def read_candidates(
    store: Store, goals: Goals, settings: Mapping[str, Any], uses: list[dict[str, Any]]
) -> list[FoundCheckpoint]:
    """The best valid checkpoint of each of the best trials, and all that were judged.

    Where none is valid, the best that miss only a margin acetune has chosen.
    """
    found = best_of_each_trial(store, goals, VALID) or best_of_each_trial(store, goals, BOLD)
    found = found[: max(settings["confirm_top"], settings["keep_models"])]
    for use in uses:
        place = (use["trial"], use["attempt"], use["step"])
        known = [(one.trial, one.attempt, one.step) for one in found]
        if use["status"] in ("certified", "holds", "broken") and place not in known:
            one = _feasible_at(store, goals, place)
            found += [] if one is None else [one]
    found.sort(key=lambda one: goals.objective.loss(one.value))
    return [with_confirmation(one, uses) for one in found]


def with_confirmation(found: FoundCheckpoint, uses: list[dict[str, Any]]) -> FoundCheckpoint:
    """The checkpoint with what its latest confirmation said, if it had one."""
    place = (found.trial, found.attempt, found.step)
    its = [use for use in uses if (use["trial"], use["attempt"], use["step"]) == place]
    if not its:
        return found
    # where confirm went wrong, what was said before stands
    use = ([one for one in its if one["status"] != "unconfirmed"] or its[:1])[-1]
    values = {k: Estimate(*v) for k, v in json.loads(use["metrics"]).items()}
    bounds = {k: Bound(**v) for k, v in json.loads(use["bounds"]).items()}
    said = Confirmation(use["status"], values, use["error"], {}, bounds, use["look"])
    return replace(found, confirmation=said)


# what a check has found: valid; so but for a margin that acetune has chosen; a limit broken; or
# it gave no number
VALID, BOLD, MISS, FAILED = range(4)


class _Checked(NamedTuple):
    """A checkpoint that was checked, ordered as it ranks; the rest is never compared."""

    kind: int
    violation: float
    loss: float
    seq: int
    found: FoundCheckpoint


def _all_checked(store: Store, goals: Goals) -> list[_Checked]:
    """All checks of checkpoints with a usable objective, the best first."""
    rows = store.rows(
        "SELECT r.*, t.params, t.total_steps FROM reports r JOIN trials t USING (trial, attempt) "
        "WHERE stratum != 'unchecked' AND checked_objective BETWEEN -1e308 AND 1e308"
    )
    checked = []
    for row in rows:
        found = _found(store, row)
        kind = MISS
        if row["stratum"] == "valid":
            kind = VALID
        elif goals.keeps(found.constraints):
            kind, found = BOLD, replace(found, violation=0.0)
        elif math.isinf(found.violation):
            kind = FAILED
        loss = goals.objective.loss(found.value)
        checked.append(_Checked(kind, found.violation, loss, row["seq"], found))
    return sorted(checked, key=lambda one: one[:4])


def _feasible_at(store: Store, goals: Goals, place: CheckpointKey) -> FoundCheckpoint | None:
    """The checkpoint at a step, as the first check saw it that found it valid, or else bold."""
    its = [
        one
        for one in _all_checked(store, goals)
        if checkpoint_key(one.found) == place and one.kind in (VALID, BOLD)
    ]
    first = min(its, key=lambda one: (one.kind, one.seq), default=None)
    return None if first is None else first.found


def best_of_each_trial(store: Store, goals: Goals, *kinds: int) -> list[FoundCheckpoint]:
    """Each trial's best checkpoint of these kinds, best first."""
    best: dict[int, FoundCheckpoint] = {}
    for one in _all_checked(store, goals):
        if one.kind in kinds:
            best.setdefault(one.found.trial, one.found)
    return list(best.values())[:100]


def measured_of_trials(store: Store, goals: Goals) -> dict[int, dict[str, float | None]]:
    """What was measured of the answer, and in other trials of the best that each has."""
    best = {one.trial: one for one in best_of_each_trial(store, goals, VALID, BOLD, MISS, FAILED)}
    answer = read_result(store).best
    if answer is not None:
        best[answer.trial] = answer
    return {
        trial: {
            **{f"constraint.{name}": one.value for name, one in found.constraints.items()},
            **{f"stderr.{name}": one.stderr for name, one in found.constraints.items()},
        }
        for trial, found in best.items()
    }


def checked_checkpoints(store: Store, goals: Goals) -> list[FoundCheckpoint]:
    """All checkpoints with a finite objective whose checks worked, judged by ``goals``."""
    rows = store.rows(
        "SELECT r.*, t.params, t.total_steps FROM reports r JOIN trials t USING (trial, attempt) "
        "WHERE stratum != 'unchecked' AND violation < 9e999 "
        "AND checked_objective BETWEEN -1e308 AND 1e308 ORDER BY seq"
    )
    checks: dict[int, dict[str, Estimate]] = {}
    for row in store.rows("SELECT * FROM checks WHERE value IS NOT NULL"):
        checks.setdefault(row["seq"], {})[row["constraint"]] = Estimate(row["value"], row["stderr"])
    found = []
    for row in rows:
        measured = checks.get(row["seq"], {})
        valid, violation = goals.judge(measured)
        row["violation"] = violation if not valid else 0.0
        if not valid and violation == 0:
            row["violation"] = math.ulp(0.0)
        found.append(_found(store, row, measured))
    return found


def _found(
    store: Store, row: Mapping[str, Any], measured: Mapping[str, Estimate] | None = None
) -> FoundCheckpoint:
    if measured is None:
        rows = store.rows("SELECT * FROM checks WHERE seq = ?", (row["seq"],))
        # a check that failed has no value, and is left out
        measured = {
            r["constraint"]: Estimate(r["value"], r["stderr"])
            for r in rows
            if r["value"] is not None
        }
    place = (row["trial"], row["attempt"], row["checked_step"])
    models = store.kept("WHERE (trial, attempt, step, kind) = (?, ?, ?, 'model')", place)
    kept = models[0].kept if models else None
    return FoundCheckpoint(
        trial=row["trial"],
        attempt=row["attempt"],
        step=row["checked_step"],
        params=json.loads(row["params"]),
        value=row["checked_objective"],
        constraints=measured,
        violation=row["violation"],
        checkpoint=None if kept is None else kept.folder,
        total_steps=row["total_steps"],
        kept=kept,
    )


def half_checked_better(
    checked: Sequence[FoundCheckpoint], goals: Goals, value: float | None
) -> int:
    """Those that are better than ``value`` and were measured under some limits only, and keep them.

    Under the study's own limits there are none: a constraint is left out where one is violated.
    """
    worst = math.inf if value is None else goals.objective.loss(value)
    half = {
        (found.trial, found.attempt, found.step)
        for found in checked
        if len(found.constraints) < len(goals.constraints)
        and goals.objective.loss(found.value) < worst
        and not goals.violated(found.constraints)
    }
    return len(half)


def unchecked_better(store: Store, goals: Goals, value: float | None) -> int:
    """Reported checkpoints that are better than ``value`` and were never checked."""
    better = (
        "1" if value is None else f"objective {'>' if goals.objective.mode == 'max' else '<'} ?"
    )
    rows = store.rows(
        f"""WITH checked AS (
            SELECT DISTINCT trial, attempt, checked_step AS step FROM reports
            WHERE checked_step IS NOT NULL)
        SELECT count(*) AS n FROM reports r JOIN ({LATEST_ATTEMPTS}) USING (trial, attempt)
        LEFT JOIN checked c USING (trial, attempt, step)
        WHERE kind = 'step' AND abs(objective) < 9e999 AND {better} AND c.trial IS NULL""",
        () if value is None else (value,),
    )
    return int(rows[0]["n"])


def read_ledger(store: Store) -> Ledger:
    """Where the time went."""

    def number(sql: str) -> float:
        return float(store.rows(f"SELECT coalesce(({sql}), 0) AS n")[0]["n"])

    never_valid = (
        "SELECT trial FROM reports GROUP BY trial "
        "HAVING sum(stratum = 'valid') = 0 AND sum(stratum = 'invalid') > 0"
    )
    checks = "SELECT sum(cost_s) FROM checks"
    snapshots = number("SELECT sum(snapshot_cost_s) FROM reports")
    invalid = number(
        "SELECT sum(primary_cost_s) + sum(snapshot_cost_s) FROM reports "
        f"WHERE trial IN ({never_valid})"
    ) + number(f"{checks} JOIN reports USING (seq) WHERE trial IN ({never_valid})")
    return Ledger(
        training_s=number("SELECT sum(primary_cost_s) FROM reports"),
        startup_s=number("SELECT sum(startup_cost_s) FROM trials"),
        checks_s=number(checks) + snapshots,
        invalid_s=invalid,
        wall_s=sum(session["seconds"] for session in store.rows("SELECT * FROM sessions")),
        reports=int(number("SELECT count(*) FROM reports WHERE kind = 'step'")),
        checks=int(number("SELECT count(DISTINCT seq) FROM checks")),
        failed_checks=int(number("SELECT count(DISTINCT seq) FROM checks WHERE value IS NULL")),
        disk_bytes=int(number("SELECT sum(bytes) FROM checkpoints")),
        by_constraint=_by_constraint(store),
        waiting_s=number("SELECT sum(seconds) FROM waits") if _has(store, "waits") else 0.0,
    )


def _has(store: Store, table: str) -> bool:
    return bool(store.rows("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)))


def _by_constraint(store: Store) -> dict[str, ConstraintTime]:
    """Of each constraint that was measured, in the order of the study."""
    rows = store.rows(
        'SELECT "constraint" AS name, count(*) AS n, coalesce(sum(cost_s), 0.0) AS seconds '
        "FROM checks WHERE value IS NOT NULL OR cost_s IS NOT NULL GROUP BY name"
    )
    found = {row["name"]: ConstraintTime(row["n"], row["seconds"]) for row in rows}
    info = store.study()
    goals = goals_from_json(info["objective"], info["constraints"])
    return {c.name: found[c.name] for c in goals.constraints if c.name in found}


def _answer(candidates: Sequence[FoundCheckpoint]) -> FoundCheckpoint | None:
    statuses = [found.status for found in candidates]
    for status in ("certified", "holds"):
        if status in statuses:
            return candidates[statuses.index(status)]
    return None if "broken" in statuses or not candidates else candidates[0]


def read_result(store: Store) -> StudyResult:
    """The result of a study."""
    info = store.study()
    goals = goals_from_json(info["objective"], info["constraints"])
    uses = store.rows("SELECT * FROM confirmations ORDER BY use")
    misses = best_of_each_trial(store, goals, MISS)
    candidates = read_candidates(store, goals, json.loads(info["settings"]), uses)
    best = _answer(candidates)
    if best is not None:  # what is recommended is no miss, whatever another check of it said
        misses = [found for found in misses if (found.trial, found.step) != (best.trial, best.step)]
    states = store.rows(f"SELECT state, reason, reason_numbers FROM ({LATEST_ATTEMPTS})")
    why = [
        in_words(store, row["reason"], row["reason_numbers"], short=True)
        for row in states
        if row["state"] in ("stopped", "failed", "interrupted")
    ]
    steps = store.rows("SELECT stratum, objective FROM reports WHERE kind = 'step'")
    failed = store.rows(
        'SELECT trial, "constraint", error FROM checks JOIN reports USING (seq) '
        "WHERE value IS NULL ORDER BY seq, cost_s IS NULL LIMIT 1"
    )
    sessions = store.rows("SELECT ended, ended_numbers FROM sessions ORDER BY session")
    ended = sessions[-1]["ended"] if sessions else None
    objectives = [row["objective"] for row in steps if row["objective"] is not None]
    return StudyResult(
        study=store.path,
        goals=goals,
        best=best,
        nearest_miss=misses[0] if misses else None,
        candidates=candidates,
        ledger=read_ledger(store),
        counts=_counted(row["state"] for row in states),
        strata=_counted(row["stratum"] for row in steps),
        reasons=_counted(why),
        confirmation_uses=len(uses),
        ended=None if ended is None else in_words(store, *sessions[-1].values()),
        ended_code=ended or "",
        info=info,
        failed_check=FailureOfCheck(**failed[0]) if failed else None,
        finite_reports=sum(map(math.isfinite, objectives)),
        due_at_every_step=_due_at_every_step(store),
        confidence=info["confidence"],
        limit_changes=store.limit_changes(),
        check_changes=[
            row | {"what": json.loads(row["what"])}
            for row in store.rows("SELECT * FROM check_changes ORDER BY change")
        ],
        looks=store.looks(),
        confirm_error=uses[-1]["error"] if uses and uses[-1]["status"] == "unconfirmed" else None,
    )


def _due_at_every_step(store: Store) -> bool:
    rows = store.rows(f"SELECT schedule FROM ({LATEST_ATTEMPTS}) WHERE schedule != ''")
    codes = ("checked_every_step", "checked_every_step_by_cost",
             "checked_every_step_as_length_unknown")  # fmt: skip
    return bool(rows) and all(row["schedule"] in codes for row in rows)


def in_words(store: Store, code: str, numbers: str, *, short: bool = False) -> str:
    """A code with its numbers as a sentence."""
    if not code:
        return ""
    row = store.rows("SELECT * FROM wordings WHERE code = ?", (code,))[0]
    words: str = (short and row["short"]) or row["sentence"]
    return words.format(**json.loads(numbers))


def _counted(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words))


def what_if(store: Store, limits: Mapping[str, float]) -> WhatIf:
    """The best checkpoint under other limits."""
    info = store.study()
    goals = goals_from_json(info["objective"], info["constraints"])
    others = tuple(c.with_limit(limits.get(c.name, c.limit)) for c in goals.constraints)
    goals = Goals(goals.objective, others).conditions
    checked = checked_checkpoints(store, goals)
    uses = store.rows("SELECT * FROM confirmations ORDER BY use")
    valid, rejected = judged_by(goals, [one for one in checked if one.violation == 0], uses)
    best = min(valid, key=lambda found: goals.objective.loss(found.value), default=None)
    value = None if best is None else best.value
    unchecked = unchecked_better(store, goals, value) + half_checked_better(checked, goals, value)
    worst = math.inf if best is None else goals.objective.loss(best.value)
    left_out = {
        (found.trial, found.attempt, found.step)
        for found in rejected
        if goals.objective.loss(found.value) < worst
    }
    return WhatIf(dict(limits), best, unchecked, len(left_out))
