"""Questions to a study file, answered in SQL."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from acetune.core.goals import Constraint, Estimate, Goals, Objective
from acetune.study.found import (
    Confirmation,
    ConstraintTime,
    FailureOfCheck,
    FoundCheckpoint,
    Ledger,
    judge_fresh,
)
from acetune.study.store import Store

Outcome = Literal["feasible", "rejected", "none feasible"]
_BEHIND = "behind the best feasible checkpoint"  # as ACE2 begins to say it
LATEST_ATTEMPTS = (
    "SELECT * FROM trials t "
    "WHERE attempt = (SELECT max(attempt) FROM trials u WHERE u.trial = t.trial)"
)

_TRIALS_TEMPLATE = (
    """
SELECT t.trial, t.attempt AS attempts, t.state, t.reason, t.total_steps, t.interval, t.cost_ratio,
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


def with_confirmation(
    found: FoundCheckpoint,
    uses: list[dict[str, Any]],
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> FoundCheckpoint:
    """The checkpoint with what its latest confirmation said, if it had one."""
    confirmation = None
    for use in uses:
        if (use["trial"], use["attempt"], use["step"]) == (found.trial, found.attempt, found.step):
            values = {k: Estimate(*v) for k, v in json.loads(use["metrics"]).items()}
            confirmation = Confirmation(use["status"], values, use["error"], ranges or {})
    if confirmation is None:
        return found
    return replace(found, confirmation=confirmation)


def read_ranges(settings: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """The least and the largest possible value of constraints, where the study knows them.

    >>> read_ranges({"ranges": {"gap": [0.0, 1.0], "ms": [0.0, None]}})
    {'gap': (0.0, 1.0), 'ms': (0.0, inf)}
    """
    return {
        name: (-math.inf if low is None else low, math.inf if high is None else high)
        for name, (low, high) in settings.get("ranges", {}).items()
    }


def choose_answer(candidates: Sequence[FoundCheckpoint]) -> FoundCheckpoint | None:
    """The best that was confirmed; else the best, unless fresh data rejected any of them.

    Where it did, there is no answer: one that nobody has judged, further down, is no better known
    than those were.
    """
    for found in candidates:
        if found.status == "confirmed":
            return found
    if best_rejected(candidates) is not None:
        return None
    return candidates[0] if candidates else None


def best_rejected(candidates: Sequence[FoundCheckpoint]) -> FoundCheckpoint | None:
    """The best of those that broke a limit on fresh data."""
    return next((found for found in candidates if found.status == "failed"), None)


def outcome_of(candidates: Sequence[FoundCheckpoint]) -> Outcome:
    """Whether anything qualified, and whether fresh data rejected what did."""
    if choose_answer(candidates) is not None:
        return "feasible"
    return "rejected" if candidates else "none feasible"


def judged_places(uses: Sequence[Mapping[str, Any]]) -> list[tuple[int, int, int]]:
    """Trial, attempt and step of all checkpoints that fresh data confirmed or rejected."""
    judged = [use for use in uses if use["status"] in ("confirmed", "failed")]
    return list(dict.fromkeys((use["trial"], use["attempt"], use["step"]) for use in judged))


def with_judged(
    best: Sequence[FoundCheckpoint], judged: Sequence[FoundCheckpoint], objective: Objective
) -> list[FoundCheckpoint]:
    """The best checkpoints and all that were judged, best first.

    A verdict stands although better ones may have come since, of its own trial or of others.
    """
    known = {(found.trial, found.attempt, found.step) for found in best}
    more = [f for f in judged if (f.trial, f.attempt, f.step) not in known]
    return sorted([*best, *more], key=lambda found: objective.loss(found.value))


def judged_by(
    goals: Goals,
    valid: Sequence[FoundCheckpoint],
    uses: list[dict[str, Any]],
    ranges: Mapping[str, tuple[float, float]],
) -> tuple[list[FoundCheckpoint], list[FoundCheckpoint]]:
    """Checkpoints that fresh data does not speak against under the limits of ``goals``; the others.

    The verdicts in the file are about the limits of the study.
    """
    looked_at = {(use["trial"], use["attempt"], use["step"]) for use in uses}
    kept: list[FoundCheckpoint] = []
    rejected: list[FoundCheckpoint] = []
    for found in valid:
        if (found.trial, found.attempt, found.step) in looked_at:
            found = with_confirmation(found, uses, ranges)
            said = found.confirmation
            assert said is not None
            status = judge_fresh(goals, said.values, said.error)
            found = replace(found, confirmation=replace(said, status=status))
        (rejected if found.status == "failed" else kept).append(found)
    return kept, rejected


def read_candidates(
    store: Store, goals: Goals, settings: Mapping[str, Any], uses: list[dict[str, Any]]
) -> list[FoundCheckpoint]:
    """The best valid checkpoint of each of the best trials, and all that were judged."""
    most = max(settings["confirm_top"], settings["keep_models"])
    best = best_of_each_trial(store, goals, "valid")[:most]
    judged = [_valid_at(store, *place) for place in judged_places(uses)]
    found = with_judged(best, [one for one in judged if one is not None], goals.objective)
    ranges = read_ranges(settings)
    return with_next_best([with_confirmation(one, uses, ranges) for one in found])


def _valid_at(store: Store, trial: int, attempt: int, step: int) -> FoundCheckpoint | None:
    """The checkpoint at a step, as the check saw it that found it valid."""
    rows = store.rows(
        "SELECT r.*, t.params, t.total_steps FROM reports r JOIN trials t USING (trial, attempt) "
        "WHERE trial = ? AND attempt = ? AND checked_step = ? AND stratum = 'valid' "
        "AND checked_objective BETWEEN -1e308 AND 1e308 ORDER BY seq LIMIT 1",
        (trial, attempt, step),
    )
    return _found(store, rows[0]) if rows else None


def with_next_best(candidates: Sequence[FoundCheckpoint]) -> list[FoundCheckpoint]:
    """The candidates, best first, each with the next one that could take its place."""
    linked: list[FoundCheckpoint] = []
    usable: FoundCheckpoint | None = None
    for found in reversed(candidates):
        found = replace(found, next_best=usable)
        linked.append(found)
        there = found.kept is not None and found.model_fault(full=False) is None
        if there and found.status != "failed":
            usable = found
    return linked[::-1]


def best_of_each_trial(store: Store, goals: Goals, stratum: str) -> list[FoundCheckpoint]:
    """Each trial's best checkpoint of a stratum, best first: by violation, then objective."""
    order = "checked_objective" + (" DESC" if goals.objective.mode == "max" else "")
    rows = store.rows(
        f"""SELECT * FROM (
            SELECT r.*, t.params, t.total_steps, row_number() OVER (
                PARTITION BY r.trial ORDER BY violation, {order}, seq) AS place
            FROM reports r JOIN trials t USING (trial, attempt)
            WHERE stratum = ? AND checked_objective BETWEEN -1e308 AND 1e308)
        WHERE place = 1 ORDER BY violation, {order}, seq LIMIT 100""",
        (stratum,),
    )
    return [_found(store, row) for row in rows]


def measured_of_trials(store: Store, goals: Goals) -> dict[int, dict[str, float | None]]:
    """What was measured of each trial's best valid checkpoint, or else of its nearest miss."""
    order = "checked_objective" + (" DESC" if goals.objective.mode == "max" else "")
    best = f"stratum = 'valid' DESC, violation, {order}, seq"
    rows = store.rows(
        f"""WITH found AS (SELECT trial, seq FROM (
            SELECT trial, seq, row_number() OVER (PARTITION BY trial ORDER BY {best}) AS place
            FROM reports
            WHERE stratum != 'unchecked' AND checked_objective BETWEEN -1e308 AND 1e308)
        WHERE place = 1)
        SELECT trial, "constraint" AS name, value, stderr FROM found JOIN checks USING (seq)"""
    )
    measured: dict[int, dict[str, float | None]] = {}
    for row in rows:
        of_trial = measured.setdefault(row["trial"], {})
        of_trial[f"constraint.{row['name']}"] = row["value"]
        of_trial[f"stderr.{row['name']}"] = row["stderr"]
    return measured


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
    kept = store.checkpoint(row["trial"], row["attempt"], row["checked_step"])
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
        wall_s=store.elapsed(),
        reports=int(number("SELECT count(*) FROM reports WHERE kind = 'step'")),
        checks=int(number("SELECT count(DISTINCT seq) FROM checks")),
        failed_checks=int(number("SELECT count(DISTINCT seq) FROM checks WHERE value IS NULL")),
        disk_bytes=int(number("SELECT sum(bytes) FROM checkpoints")),
        by_constraint=_by_constraint(store),
    )


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


def first_failed_check(store: Store) -> FailureOfCheck | None:
    """The first check that gave no number, not one that was left out because of another."""
    rows = store.rows(
        'SELECT trial, "constraint", error FROM checks JOIN reports USING (seq) '
        "WHERE value IS NULL ORDER BY seq, cost_s IS NULL LIMIT 1"
    )
    return FailureOfCheck(**rows[0]) if rows else None


def count_reasons(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Reasons without their numbers, so that they can be counted."""
    counts: dict[str, int] = {}
    for row in rows:
        reason = short_reason(row["state"], row["reason"])
        counts[reason] = counts.get(reason, 0) + row["n"]
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def short_reason(state: str, reason: str) -> str:
    """Why a trial ended, without the numbers of its last report.

    >>> short_reason("stopped", "step 3, rank 4 of 5 valid reports: in the worst 25%")
    'in the worst 25% of the valid reports at its step'
    >>> short_reason("stopped", "rank 2 of 3 at step 4 among the invalid, as last checked: cut")
    'cut of those at its step that were last found invalid'
    """
    if state != "stopped":
        return reason
    if reason.startswith(_BEHIND):
        return f"{_BEHIND}, and long without improving"
    where, _, what = reason.partition(": ")
    for stratum in ("unchecked", "invalid", "valid"):
        if f" {stratum} reports" in where:
            what += f" of the {stratum} reports at its step"
            break
        if f" among the {stratum}, as last checked" in where:
            what += f" of those at its step that were last found {stratum}"
            break
    return what or where


def goals_to_json(goals: Goals, on_config: Sequence[Constraint] = ()) -> tuple[str, str]:
    """Objective and all constraints as the study file keeps them."""
    objective = {"name": goals.objective.name, "mode": goals.objective.mode}
    constraints = [
        {
            "name": c.name,
            "upper" if c.lower is None else "lower": float(c.limit),
            "margin_se": float(c.margin_se),
            "scale": None if c.scale is None else float(c.scale),
            "on": c.on,
        }
        for c in (*goals.constraints, *on_config)
    ]
    return json.dumps(objective), json.dumps(constraints)


def goals_from_json(objective: str, constraints: str) -> Goals:
    """The inverse of :func:`goals_to_json`; the checks themselves are not in the file."""
    return Goals(
        Objective(**json.loads(objective)),
        tuple(Constraint(**c) for c in json.loads(constraints) if c["on"] == "model"),
    )
