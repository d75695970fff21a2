"""The whole page as data: what the report and the dashboard show."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from acetune.report.answer import answer
from acetune.report.breakpoints import breakpoints
from acetune.report.figures import page_figures
from acetune.report.plain_data import exact, finite
from acetune.report.trial_detail import trial_detail
from acetune.report.trial_table import trial_table
from acetune.study.result import StudyResult, result_of
from acetune.study.summary import STATES, duration, size
from acetune.study.view import StudyView

__all__ = ["FORMAT", "content", "trial_detail"]

FORMAT = 1


def content(view: StudyView, *, figures: bool = True) -> dict[str, Any]:
    """The page of a study as JSON-able data, without NaN and infinity.

    What each part holds is described where it is made: :func:`~acetune.report.answer.answer` and
    :func:`~acetune.report.plain_data.as_json` (a checkpoint, there and elsewhere),
    :func:`~acetune.report.breakpoints.breakpoints`, :func:`~acetune.report.trial_table.trial_table`.
    ``figures=False`` leaves the figures out, for those who want the numbers only.
    """
    result = result_of(view)
    found = answer(view, result)
    return {
        "format": FORMAT,
        "study": _study(view, result),
        "answer": found,
        "numbers": _numbers(view, result, found["unchecked_better"]),
        "figures": page_figures(view) if figures else [],
        "what_if": breakpoints(view),
        "confirmations": [_confirmation(use) for use in view.confirmations],
        "trials": trial_table(view),
    }


def _study(view: StudyView, result: StudyResult) -> dict[str, Any]:
    info, goals = view.info, view.goals
    settings, policy = info["settings"], dict(info["policy"])
    name = policy.pop("name")
    options = ", ".join(f"{option}={value}" for option, value in policy.items())
    engine = settings.get("engine")
    return {
        "name": view.path.name,
        "path": str(view.path),
        "objective": {"name": goals.objective.name, "mode": goals.objective.mode},
        "constraints": [
            {
                "name": constraint.name,
                "limit": constraint.limit,
                "sense": "<=" if constraint.lower is None else ">=",
                "margin_se": constraint.margin_se,
                "text": constraint.describe(),
            }
            for constraint in goals.constraints
        ],
        "config_limits": [_config_limit(c) for c in info["constraints"] if c["on"] == "config"],
        "policy": f"{name} ({options})" if options else name,
        "searcher": settings.get("searcher") or ("Ray's own" if engine == "ray tune" else ""),
        "engine": engine or "local",
        "workers": settings.get("workers"),
        "max_trials": settings.get("max_trials"),
        "time_budget_s": settings.get("time_budget_s"),
        "created": datetime.fromtimestamp(info["created"], UTC).isoformat(timespec="seconds"),
        "running": view.running,
        "ended": result.ended,
        "versions": {key: str(value) for key, value in info["versions"].items()},
        "seq": int(view.reports.seq[-1]) if len(view.reports) else 0,
        "elapsed_s": result.ledger.wall_s,
    }


def _config_limit(constraint: dict[str, Any]) -> str:
    sense = "<=" if "upper" in constraint else ">="
    return f"{constraint['name']} {sense} {constraint.get('upper', constraint.get('lower')):g}"


def _numbers(view: StudyView, result: StudyResult, unchecked: int) -> list[dict[str, str]]:
    """The few numbers that people look for."""
    ledger, counts, strata = result.ledger, result.counts, result.strata
    states = ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts.get(state))
    rows = [
        ("trials", f"{sum(counts.values()):,}", states),
        (
            "reports",
            f"{ledger.reports:,}",
            ", ".join(
                f"{strata[s]:,} {s}" for s in ("valid", "invalid", "unchecked") if s in strata
            ),
        ),
        ("wall clock", duration(ledger.wall_s), _sessions(len(view.sessions))),
        ("training", duration(ledger.training_s), "summed over all workers"),
    ]
    if view.goals.constraints:
        failed = f"{ledger.failed_checks:,} gave no number" if ledger.failed_checks else ""
        rows += [
            ("checks", f"{ledger.checks:,}", failed),
            (
                "time on checks",
                f"{ledger.check_share:.0%}",
                f"{duration(ledger.checks_s)} of the time on training and checks",
            ),
            (
                "never valid",
                duration(ledger.invalid_s),
                "went into trials that were checked and never valid",
            ),
            (
                "better, unchecked",
                f"{unchecked:,}",
                "checkpoints better than the answer that were never checked"
                if result.best is not None
                else "checkpoints were reported and never checked",
            ),
        ]
    if result.confirmation_uses:
        rows.append(("confirmations", f"{result.confirmation_uses:,}", "uses of the fresh data"))
    rows.append(("on disk", size(ledger.disk_bytes), "of models and checkpoints"))
    return [{"label": label, "value": value, "note": note} for label, value, note in rows]


def _sessions(count: int) -> str:
    return f"in {count} sessions" if count > 1 else ""


def _confirmation(use: dict[str, Any]) -> dict[str, Any]:
    return {
        "use": use["use"],
        "trial": use["trial"],
        "step": exact(use["step"]),
        "status": use["status"],
        "metrics": [
            {"name": name, "value": finite(value), "stderr": finite(stderr)}
            for name, (value, stderr) in use["metrics"].items()
        ],
        "error": use["error"],
        "time": datetime.fromtimestamp(use["time"], UTC).isoformat(timespec="seconds"),
    }
