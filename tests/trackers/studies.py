"""A study that the tests of the trackers share: three trials, of which one fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import acetune
from acetune import StudyResult
from run.helpers import tune

LIMIT = acetune.Constraint("gap (%)", upper=5.0, check=lambda model: acetune.Estimate(model, 0.5))


def train(trial: Any) -> None:
    for step in trial.steps(3):
        if trial.params["x"] == 2 and step == 2:
            raise ValueError("as it happens")
        trial.report(trial.params["x"] / step, lr=0.1 * step, model=trial.params["x"])


def confirm(model: float) -> dict[str, Any]:
    return {"loss": model / 3, "gap (%)": acetune.Estimate(model, 0.1)}


def run_study(study: Path, tracker: Any, *more: Any, **options: Any) -> StudyResult:
    """Trial 1 is the answer, 2 fails at its second step, 3 breaks the limit."""
    defaults: dict[str, Any] = {
        "xs": [1, 2, 30],
        "constraints": [LIMIT],
        "policy": acetune.ACE(truncation=0, interval=1, gate=False),
        "confirm": confirm,
    }
    return tune(train, study, callbacks=[tracker, *more], **(defaults | options))
