"""Study files of any size, made in seconds: what a long run would have left, without the run.

The rows are plausible rather than replayed: curves rise to a plateau, a better objective tends to
break the limits, a checkpoint that cannot beat the best feasible one is not checked, the worst
quarter stops. Ranks are drawn such that they agree with the decision and its reason; resuming such
a study, or asking a policy for its decisions again, would give others.

>>> import tempfile, acetune
>>> with tempfile.TemporaryDirectory() as folder:
...     study = make_study(Path(folder) / "study.db", trials=20, reports=400)
...     result = acetune.load(study)
>>> sum(result.counts.values()), result.ledger.reports, result.outcome
(20, 400, 'feasible')
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np

from acetune.core.goals import Constraint, Goals, Mode, Objective
from acetune.policies import ACE
from acetune.study.opening import describe_study
from acetune.study.store import Store
from synthetic_rows import BEGAN, HOSTILE, TRUNCATION, WORKERS, Rows, params_of

__all__ = ["BEGAN", "HOSTILE", "append_reports", "make_study"]

_REPORT = "INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_CHECK = (
    'INSERT INTO checks (seq, "constraint", value, stderr, cost_s, error, margin_se) '
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)


def make_study(
    path: Path | str,
    *,
    trials: int = 5_000,
    reports: int = 500_000,
    seed: int = 0,
    mode: Mode = "max",
    constraints: int = 1,
    feasible: bool = True,
    running: int = 0,
    hostile: bool = False,
) -> Path:
    """Write a study file; ``path`` must not exist yet.

    Parameters
    ----------
    trials, reports:
        How many, in all; a few percent of the trials have two attempts, and one percent were
        rejected before training.
    mode, constraints:
        The objective is ``auc`` (max) or ``loss`` (min); 0 to 3 constraints: ``gap`` (an upper
        limit with a margin of one standard error), ``p95_ms`` and ``recall`` (a lower limit).
    feasible:
        False for limits that nothing satisfies.
    running:
        How many trials are under way: the last session then has no end. The file itself is not
        locked; ``Store.open(path)`` holds the lock that makes a study count as running.
    hostile:
        Names, values, reasons and errors hold markup, quotes, line breaks and 10,000 characters.
    """
    path = Path(path)
    rng = np.random.default_rng(seed)
    made = Rows(rng, trials, reports, mode, constraints, feasible, running, hostile)
    goals = made.goals
    settings = {
        "time_budget_s": None,
        "max_trials": trials,
        "workers": WORKERS,
        "engine": "local",
        "resources": None,
        "searcher": "tpe",
        "seed": seed,
        "confirm_top": 5,
        "keep_models": 3,
        "source": None,
    }
    study = describe_study(goals, (), ACE(truncation=TRUNCATION), made.space, settings)
    study["created"] = BEGAN
    Store.create(path, study).close()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("BEGIN")
    db.executemany(f"INSERT INTO trials VALUES ({', '.join('?' * 16)})", made.trial_rows())
    db.executemany(_REPORT, made.report_rows())
    db.executemany(_CHECK, made.check_rows())
    db.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", made.session_rows())
    db.executemany("INSERT INTO wordings VALUES (?, ?, ?)", made.wording_rows())
    found = made.best_found()
    models = made.model_rows(found)
    db.executemany("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", models)
    for *_, name, size, _ in models:
        model = Path(f"{path}.files") / name
        model.mkdir(parents=True, exist_ok=True)
        (model / "model.pkl").write_bytes(bytes(size))
    db.executemany(
        "INSERT INTO confirmations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", made.uses(found)
    )
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path


def append_reports(path: Path | str, n: int, *, seed: int = 1, best: float | None = None) -> int:
    """Commit ``n`` more reports in one transaction, as a running study would; the last ``seq``.

    They belong to a new trial, which is under way. With ``best`` the last of them is valid and
    has that objective: a new answer, if it is better than the old one. The lock is not taken:
    whoever plays the driver holds it.
    """
    rng = np.random.default_rng(seed)
    db = sqlite3.connect(path, timeout=10, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    objective, limits, space = db.execute(
        "SELECT objective, constraints, space FROM study"
    ).fetchone()
    goals = Goals(
        Objective(**json.loads(objective)), tuple(Constraint(**c) for c in json.loads(limits))
    )
    seq, time = db.execute("SELECT coalesce(max(seq), 0), max(time) FROM reports").fetchone()
    trial = db.execute("SELECT coalesce(max(trial), 0) + 1 FROM trials").fetchone()[0]
    time = BEGAN if time is None else time
    params = json.dumps(params_of(json.loads(space), rng))
    db.execute(
        "INSERT INTO trials (trial, attempt, params, total_steps, interval, cost_ratio, state, "
        "started) VALUES (?, 1, ?, ?, 1, 0.3, 'running', ?)",
        (trial, params, 4 * n, time),
    )
    level = 0.6 if goals.objective.mode == "max" else 0.7
    for step in range(1, n + 1):
        seq, time = seq + 1, time + 0.05
        value, valid = level + 0.01 * float(rng.standard_normal()), False
        if best is not None and step == n:
            value, valid = best, True
        checked = valid or bool(rng.random() < 0.1)
        values = {c.name: c.limit * (0.9 if valid == (c.lower is None) else 1.3) for c in
                  goals.constraints} if checked else {}  # fmt: skip
        violation = sum(
            max(0.0, v - c.limit if c.lower is None else c.limit - v) / abs(c.limit)
            for c, v in zip(goals.constraints, values.values(), strict=False)
        )
        stratum = "unchecked" if not checked else "valid" if violation == 0 else "invalid"
        db.execute(
            _REPORT,
            (seq, trial, 1, "step", step, value, step if checked else None,
             value if checked else None, violation if checked else None, stratum, 1, 2,
             "continue", 0.05, 0.0, time, None),
        )  # fmt: skip
        for name, measured in values.items():
            db.execute(_CHECK, (seq, name, measured, 0.0, 0.01, None, 0.0))
    db.execute("UPDATE sessions SET seconds = seconds + ?, ended = NULL "
               "WHERE session = (SELECT max(session) FROM sessions)", (n * 0.05,))  # fmt: skip
    db.execute("COMMIT")
    db.close()
    return int(seq)
