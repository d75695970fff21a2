"""What a study found, read from its file: the answer, how far to trust it, and what it cost."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from acetune.artifacts import load_model
from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import Constraint, Estimate, Goals, Objective
from acetune.store import Store
from acetune.summary import summary_text

if TYPE_CHECKING:
    import pandas

Status = Literal["confirmed", "unconfirmed", "failed"]
_NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the confirmation data said of a checkpoint."""

    status: Status
    values: Mapping[str, Estimate]
    error: str | None = None

    def interval(self, name: str) -> tuple[float, float] | None:
        """The 95 % interval of a value that came with a standard error."""
        found = self.values.get(name)
        if found is None or found.stderr == 0:
            return None
        half = _NORMAL_95 * found.stderr
        return found.value - half, found.value + half


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A configuration at a step, with its values and its model.

    ``value`` is the objective in the search; ``constraints`` what the checks measured. ``status``
    says how far to trust them: confirmed on data that the search never saw, failed there, or not
    looked at (unconfirmed).
    """

    trial: int
    attempt: int
    step: int
    params: Mapping[str, Any]
    value: float
    constraints: Mapping[str, Estimate]
    violation: float
    checkpoint: Path | None
    confirmation: Confirmation | None = None

    @property
    def status(self) -> Status:
        """confirmed, unconfirmed or failed."""
        return "unconfirmed" if self.confirmation is None else self.confirmation.status

    def load(self) -> object:
        """The model that was kept: what ``report(model=...)``, or its snapshot, gave."""
        if self.checkpoint is None:
            raise ReportError(
                f"no model was kept of trial {self.trial} step {self.step}; report it "
                "with trial.report(..., model=...)"
            )
        return load_model(self.checkpoint)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where the time went, in seconds summed over all workers, and how much lies on disk."""

    training_s: float
    startup_s: float
    checks_s: float
    invalid_s: float  # training and checks of trials that were checked and never valid
    wall_s: float
    reports: int
    checks: int
    disk_bytes: int

    @property
    def check_share(self) -> float:
        """Share of the training and checking time that went into checks."""
        total = self.training_s + self.checks_s
        return self.checks_s / total if total else 0.0


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The best checkpoint under other limits, from what was recorded."""

    limits: Mapping[str, float]
    best: FoundCheckpoint | None
    unchecked_better: int

    def __str__(self) -> str:
        found = "nothing recorded qualifies"
        if self.best is not None:
            found = f"{self.best.value:.6g} (trial {self.best.trial}, step {self.best.step})"
        limits = ", ".join(f"{name} at {limit:g}" for name, limit in self.limits.items())
        bound = f"lower bound: {self.unchecked_better} better checkpoints unchecked"
        return (
            f"{limits}: {found}; {bound if self.unchecked_better else 'nothing better unchecked'}"
        )


@dataclass(frozen=True)
class StudyResult:
    """The outcome of a study. ``best`` is None when nothing qualified.

    Made by :func:`acetune.tune`, or from a study file by :func:`acetune.load`.
    """

    study: Path
    goals: Goals
    best: FoundCheckpoint | None
    nearest_miss: FoundCheckpoint | None
    candidates: list[FoundCheckpoint]  # the best valid checkpoint of each of the best trials
    ledger: Ledger
    counts: Mapping[str, int]  # trials by state
    strata: Mapping[str, int]  # reports by stratum
    reasons: Mapping[str, int]  # why trials were stopped or failed
    confirmation_uses: int
    info: Mapping[str, Any] = field(repr=False)  # the study row of the file

    @property
    def outcome(self) -> Literal["feasible", "none feasible"]:
        """Whether anything qualified."""
        return "none feasible" if self.best is None else "feasible"

    @property
    def trials(self) -> pandas.DataFrame:
        """One row a trial (its latest attempt): parameters, how it ended, its best values."""
        import pandas

        with reading(self.study) as store:
            rows = store.rows(_TRIALS_SQL[self.goals.objective.mode])
        for row in rows:
            row.update({f"param.{k}": v for k, v in json.loads(row.pop("params")).items()})
        frame = pandas.DataFrame(rows)
        return frame.set_index("trial") if rows else frame

    def what_if(self, **limits: float) -> WhatIf:
        """The best checkpoint under other limits, without training: ``what_if(eod=0.28)``.

        A lower bound: checkpoints that were skipped because they could not win under the study's
        own limits were never checked. A limit that is chosen after looking needs fresh data to
        confirm it.
        """
        known = {constraint.name: constraint for constraint in self.goals.constraints}
        for name, limit in limits.items():
            if name not in known:
                raise GoalError(f"no constraint {name!r} in this study; it has {list(known)}")
            if not isinstance(limit, (int, float)) or not math.isfinite(limit):
                raise GoalError(f"the limit of {name!r} must be a finite number, got {limit!r}")
            known[name] = known[name].with_limit(float(limit))
        goals = Goals(self.goals.objective, tuple(known.values()))
        with reading(self.study) as store:
            checked = checked_checkpoints(store, goals)
            valid = [found for found in checked if found.violation == 0]
            best = min(valid, key=lambda f: goals.objective.loss(f.value), default=None)
            unchecked = _unchecked_better(store, goals, None if best is None else best.value)
        return WhatIf(dict(limits), best, unchecked)

    def __str__(self) -> str:
        return summary_text(self)


def load(study: str | Path) -> StudyResult:
    """The result of a study, from its file; also while the study is running."""
    with reading(Path(study)) as store:
        return read_result(store)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Store]:
    """A study file opened for reading."""
    store = Store.read(path)
    try:
        yield store
    finally:
        store.close()


def read_result(store: Store) -> StudyResult:
    """Put the result together from an open study file."""
    info = store.study()
    goals = goals_from_json(info["objective"], info["constraints"])
    settings = json.loads(info["settings"])
    valid = _best_of_each_trial(store, goals, "valid")
    uses = store.rows("SELECT * FROM confirmations ORDER BY use")
    valid = [_with_confirmation(found, uses) for found in valid]
    misses = _best_of_each_trial(store, goals, "invalid")
    candidates = valid[: max(settings["confirm_top"], settings["keep_models"])]
    states = store.rows(f"SELECT state, count(*) AS n FROM ({_LATEST_SQL}) GROUP BY state")
    strata = store.rows(
        "SELECT stratum, count(*) AS n FROM reports WHERE kind = 'step' GROUP BY stratum"
    )
    reasons = store.rows(
        f"SELECT state, reason, count(*) AS n FROM ({_LATEST_SQL}) "
        "WHERE state IN ('stopped', 'failed', 'interrupted') GROUP BY state, reason ORDER BY n DESC"
    )
    return StudyResult(
        study=store.path,
        goals=goals,
        best=_answer(candidates),
        nearest_miss=misses[0] if misses else None,
        candidates=candidates,
        ledger=_ledger(store),
        counts={row["state"]: row["n"] for row in states},
        strata={row["stratum"]: row["n"] for row in strata},
        reasons=_reasons(reasons),
        confirmation_uses=len(uses),
        info=info,
    )


def _answer(candidates: list[FoundCheckpoint]) -> FoundCheckpoint | None:
    """The best confirmed candidate; else the best that confirmation has not turned down."""
    for wanted in ("confirmed", "unconfirmed", "failed"):
        for found in candidates:
            if found.status == wanted:
                return found
        if any(found.status == "failed" for found in candidates):
            # confirmation was tried and failed: an unconfirmed runner-up is no better an answer
            return candidates[0]
    return None


def _with_confirmation(found: FoundCheckpoint, uses: list[dict[str, Any]]) -> FoundCheckpoint:
    confirmation = None
    for use in uses:
        if (use["trial"], use["attempt"], use["step"]) == (found.trial, found.attempt, found.step):
            values = {k: Estimate(*v) for k, v in json.loads(use["metrics"]).items()}
            confirmation = Confirmation(use["status"], values, use["error"])
    if confirmation is None:
        return found
    return replace(found, confirmation=confirmation)


def _best_of_each_trial(store: Store, goals: Goals, stratum: str) -> list[FoundCheckpoint]:
    """Each trial's best checkpoint of a stratum, best first: by violation, then objective."""
    order = "checked_objective" + (" DESC" if goals.objective.mode == "max" else "")
    rows = store.rows(
        f"""SELECT * FROM (
            SELECT r.*, t.params, row_number() OVER (
                PARTITION BY r.trial ORDER BY violation, {order}, seq) AS place
            FROM reports r JOIN trials t USING (trial, attempt)
            WHERE stratum = ? AND checked_objective BETWEEN -1e308 AND 1e308)
        WHERE place = 1 ORDER BY violation, {order}, seq LIMIT 100""",
        (stratum,),
    )
    return [_found(store, row) for row in rows]


def checked_checkpoints(store: Store, goals: Goals) -> list[FoundCheckpoint]:
    """All checkpoints with a finite objective whose checks worked, judged by ``goals``."""
    rows = store.rows(
        "SELECT r.*, t.params FROM reports r JOIN trials t USING (trial, attempt) "
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
        measured = {r["constraint"]: Estimate(_nan(r["value"]), r["stderr"] or 0.0) for r in rows}
    return FoundCheckpoint(
        trial=row["trial"],
        attempt=row["attempt"],
        step=row["checked_step"],
        params=json.loads(row["params"]),
        value=row["checked_objective"],
        constraints=measured,
        violation=row["violation"],
        checkpoint=store.checkpoint(row["trial"], row["attempt"], row["checked_step"]),
    )


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def _unchecked_better(store: Store, goals: Goals, value: float | None) -> int:
    """Reported checkpoints that are better than ``value`` and were never checked."""
    better = (
        "1" if value is None else f"objective {'>' if goals.objective.mode == 'max' else '<'} ?"
    )
    rows = store.rows(
        f"""SELECT count(*) AS n FROM reports r WHERE kind = 'step' AND objective IS NOT NULL
        AND abs(objective) < 9e999 AND {better} AND NOT EXISTS (
            SELECT 1 FROM reports c WHERE c.trial = r.trial AND c.attempt = r.attempt
            AND c.checked_step = r.step)""",
        () if value is None else (value,),
    )
    return int(rows[0]["n"])


def _ledger(store: Store) -> Ledger:
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
        disk_bytes=int(number("SELECT sum(bytes) FROM checkpoints")),
    )


def _reasons(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Reasons without their numbers, so that they can be counted."""
    counts: dict[str, int] = {}
    for row in rows:
        reason = row["reason"]
        if row["state"] == "stopped":
            where, _, what = reason.partition(": ")
            for stratum in ("unchecked", "invalid", "valid"):
                if f" {stratum} reports" in where:
                    what += f" of the {stratum} reports at its step"
                    break
            reason = what or where
        counts[reason] = counts.get(reason, 0) + row["n"]
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def goals_to_json(goals: Goals) -> tuple[str, str]:
    """Objective and constraints as the study file keeps them."""
    objective = {"name": goals.objective.name, "mode": goals.objective.mode}
    constraints = [
        {
            "name": c.name,
            **({"upper": c.upper} if c.lower is None else {"lower": c.lower}),
            "margin_se": c.margin_se,
            "scale": c.scale,
        }
        for c in goals.constraints
    ]
    return json.dumps(objective), json.dumps(constraints)


def goals_from_json(objective: str, constraints: str) -> Goals:
    """The inverse of :func:`goals_to_json`; the checks themselves are not in the file."""
    return Goals(
        Objective(**json.loads(objective)),
        tuple(Constraint(**fields) for fields in json.loads(constraints)),
    )


_LATEST_SQL = (
    "SELECT * FROM trials t "
    "WHERE attempt = (SELECT max(attempt) FROM trials u WHERE u.trial = t.trial)"
)

_TRIALS_TEMPLATE = (
    """
SELECT t.trial, t.attempt AS attempts, t.state, t.reason, t.total_steps, t.interval, t.cost_ratio,
    max(r.step) AS last_step,
    count(r.seq) FILTER (WHERE r.kind = 'step') AS reports,
    count(r.seq) FILTER (WHERE r.checked_step IS NOT NULL) AS checks,
    {best}(r.objective) AS best_objective,
    {best}(r.checked_objective) FILTER (WHERE r.stratum = 'valid') AS best_valid_objective,
    min(r.violation) AS least_violation,
    sum(r.primary_cost_s) AS training_s,
    t.started, t.ended, t.params
FROM ("""
    + _LATEST_SQL
    + """) t LEFT JOIN reports r USING (trial) GROUP BY t.trial ORDER BY t.trial
"""
)
_TRIALS_SQL = {mode: _TRIALS_TEMPLATE.format(best=mode) for mode in ("min", "max")}
