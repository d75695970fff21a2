"""The whole page as data: what the report and the dashboard show."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import numpy as np

from acetune.core.formatting import count, duration, size
from acetune.report._answer_section import in_print, page_headline
from acetune.report._breakpoints import breakpoints
from acetune.report._json_values import as_json, exact, finite
from acetune.report._trials import trial_table
from acetune.report.figures import page_figures
from acetune.study import best_checkpoints as checkpoints
from acetune.study.claims import (
    OF_EARLIER_CHECK,
    account_words,
    after_failed_confirmation,
    claim,
    towards_a_certificate,
    trust_in_best,
)
from acetune.study.findings import RAY_TUNE, FoundCheckpoint
from acetune.study.reader import StudyView
from acetune.study.report_arrays import UNCHECKED, VALID
from acetune.study.result import StudyResult, result_of
from acetune.study.summary import STATES

FORMAT = 1
_SHOWN = 5  # candidates, and nearest misses


def content(view: StudyView, *, figures: bool = True) -> dict[str, Any]:
    """The page of a study as JSON-able data, without NaN and infinity.

    Some parts are described where they are made: :func:`~acetune.report._json_values.as_json` (a
    checkpoint), :func:`~acetune.report._breakpoints.breakpoints` (``what_if``) and
    :func:`~acetune.report._trials.trial_table`.
    ``figures=False`` leaves the figures out, for those who want the numbers only.
    """
    result = result_of(view)
    found = _answer(view, result)
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


def _answer(view: StudyView, result: StudyResult) -> dict[str, Any]:
    """The answer as plain data: what was found, how far to trust it, what came near.

    ``recommended`` is false where nothing qualified and where fresh data rejected all that was
    judged: then ``rejected`` is the best of those, and ``next`` says what may help. ``later``
    counts the later checkpoints of the answer's attempt that were checked, and those of them that
    qualify. ``nearest_misses`` are, beside an answer, those that are better and break a limit;
    without one the nearest of all. ``status`` is what fresh data lets one claim, ``claim`` says it
    in words, ``account`` how much of the error probability was spent.
    ``load`` is how Python gets the kept model, or that of the next candidate if it is lost;
    ``instead`` then says which that is.
    """
    best, of_all = result.best, checkpoints.best_of_all(view)
    missing = checkpoints.unchecked_better(view, None if best is None else best.value)
    if best is None:
        misses = checkpoints.nearest_misses(view, _SHOWN)
    else:
        rows = checkpoints.better_misses(view, best.value, _SHOWN)
        misses = [checkpoints.checkpoint(view, row) for row in rows]
    shown = as_json(view, best)
    lost = best is not None and shown is not None and shown["model_fault"] is not None
    load = None
    if best is not None and best.checkpoint is not None:
        load = ".load()"
        if lost:
            load = None if best.next_best is None else ".next_best.load()"
    name = json.dumps(view.path.name, ensure_ascii=False)
    return {
        "outcome": result.outcome,
        "recommended": best is not None,
        "best": shown,
        "rejected": as_json(view, result.rejected),
        "later": _later_checks(view, best),
        "load": None if load is None else f"acetune.load({name}).best{load}",
        "instead": best.instead() if best is not None and lost else None,
        "status": result.status,
        "approximate": best is not None and best.certified_approximately,
        "confidence": 100 * result.confidence,
        "trust": in_print(trust_in_best(result)),
        "claim": in_print(claim(result)) if result.status and view.goals.constraints else None,
        "account": account_words(result) if result.looks and view.goals.constraints else None,
        "next": _next(result),
        "best_of_all": of_all and {**(as_json(view, of_all[0]) or {}), "stratum": of_all[1]},
        "candidates": [as_json(view, found) for found in result.candidates[:_SHOWN]],
        "nearest_misses": [{**(as_json(view, found) or {}), "status": None} for found in misses],
        "unchecked_better": missing,
        "words": in_print(page_headline(result, of_all, missing, running=view.running)),
    }


def _next(result: StudyResult) -> str | None:
    """What to do where fresh data gave no certificate."""
    text = towards_a_certificate(result)
    if result.rejected is not None:
        text = after_failed_confirmation(result)
    return None if text is None else f"{text}."


def _later_checks(view: StudyView, best: FoundCheckpoint | None) -> dict[str, int] | None:
    """How many later checkpoints of the same attempt were checked, and how many qualify."""
    if best is None:
        return None
    reports = view.reports
    later = (reports.trial == best.trial) & (reports.attempt == best.attempt)
    later &= (reports.checked_step > best.step) & (reports.stratum != UNCHECKED)
    valid = int(np.count_nonzero(reports.stratum[later] == VALID))
    return {"checked": int(np.count_nonzero(later)), "valid": valid}


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
                "sense": constraint.sense,
                "margin_se": constraint.margin,
                "text": constraint.describe(),
            }
            for constraint in goals.constraints
        ],
        "config_limits": [_config_limit(c) for c in info["constraints"] if c["on"] == "config"],
        "policy": f"{name} ({options})" if options else name,
        "searcher": settings.get("searcher") or ("Ray's own" if engine == RAY_TUNE else ""),
        "engine": engine or "local",
        "workers": settings.get("workers"),
        "max_trials": settings.get("max_trials"),
        "time_budget_s": settings.get("time_budget_s"),
        "created": _moment(info["created"]),
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
    kinds = [f"{strata[s]:,} {s}" for s in ("valid", "invalid", "unchecked") if s in strata]
    sessions = f"in {len(view.sessions)} sessions" if len(view.sessions) > 1 else ""
    rows = [
        ("trials", f"{sum(counts.values()):,}", states),
        ("reports", f"{ledger.reports:,}", ", ".join(kinds)),
        ("wall clock", duration(ledger.wall_s), sessions),
        ("training", duration(ledger.training_s), "summed over all workers"),
    ]
    if view.goals.constraints:
        failed = f"{ledger.failed_checks:,} gave no number" if ledger.failed_checks else ""
        share = f"{duration(ledger.checks_s)} of the time on training and checks"
        wasted = "went into trials that were checked and never valid"
        better = "checkpoints were reported and never checked"
        if result.best is not None:
            better = "checkpoints better than the answer that were never checked"
        rows += [
            ("checks", f"{ledger.checks:,}", failed),
            ("time on checks", f"{ledger.check_share:.0%}", share),
            ("never valid", duration(ledger.invalid_s), wasted),
            ("better, unchecked", f"{unchecked:,}", better),
        ]
    if ledger.waiting_s >= 1:
        note = "of workers, so that checks could be measured alone"
        rows.append(("waiting", duration(ledger.waiting_s), note))
    if result.confirmation_uses:
        looks = f"times that confirm was asked, in {count(len(result.looks), 'look')} at fresh data"
        rows.append(("confirmations", f"{result.confirmation_uses:,}", looks))
    what = "of models and checkpoints"
    if ledger.code_bytes:
        what += f"; {size(ledger.code_bytes)} of it code and data for the workers, until it ends"
    rows.append(("on disk", size(ledger.disk_bytes), what))
    return [{"label": label, "value": value, "note": note} for label, value, note in rows]


def _confirmation(use: dict[str, Any]) -> dict[str, Any]:
    return {
        "use": use["use"],
        "trial": use["trial"],
        "step": exact(use["step"]),
        "look": use["look"],
        "status": use["status"],
        "bounds": [
            {
                "name": name,
                "value": finite(bound["value"]),
                "level": bound["level"],
                "p_value": bound["p_value"],
                "how": bound["how"],
                "approximate": bound["approximate"],
                "refused": bound["refused"],
            }
            for name, bound in use["bounds"].items()
        ],
        "metrics": [
            {"name": name, "value": finite(value), "stderr": finite(stderr)}
            for name, (value, stderr) in use["metrics"].items()
        ],
        "error": OF_EARLIER_CHECK if use.get("of_earlier_check") else use["error"],
        "time": _moment(use["time"]),
    }


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")
