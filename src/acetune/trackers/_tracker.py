"""The listener that all trackers share: what they are told of a study, and when."""

from __future__ import annotations

import json
import math
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import acetune
from acetune.core.decision import Decision
from acetune.core.errors import GoalError
from acetune.core.formatting import flattened
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.numbers import is_number
from acetune.core.reason import FAILED
from acetune.policies.stopper import CheckedCheckpoint
from acetune.report.html import write_report
from acetune.run.study_callbacks import StudyCallback, StudyStatus
from acetune.study.result import StudyResult, load
from acetune.study.trust import claim
from acetune.study.view import viewing
from acetune.trackers._sender import Sender
from acetune.trackers._service import Attempt, Begun, Ended, Fact, Service, Values
from acetune.trial.link import Report


class Tracker(StudyCallback):
    """Tells a service what happens in a study, in a thread of its own.

    Parameters
    ----------
    service:
        Whom to tell.
    report:
        Whether to write the report page at the end, for the service to keep.
    wait_s:
        How long to wait for an answer of the service when the study has ended.
    """

    def __init__(self, service: Service, *, report: bool, wait_s: float) -> None:
        if not is_number(wait_s) or wait_s < 0:
            raise GoalError(f"wait_s must be a number of seconds, got {wait_s!r}")
        self._service, self._report, self._wait_s = service, report, wait_s
        self._sender: Sender | None = None
        self._status: StudyStatus | None = None
        self._attempts: dict[int, Attempt] = {}  # that run now
        self._best: CheckedCheckpoint | None = None

    def on_start(self, status: StudyStatus) -> None:
        """The study begins or goes on."""
        self._status, self._attempts, self._best = status, {}, None
        begun = _begun(status)
        self._sender = Sender(self._service)
        self._sender.send(lambda service: service.begin(begun))

    def on_trial_start(self, trial: int, attempt: int, params: Mapping[str, Any]) -> None:
        """An attempt begins: a run."""
        run = self._attempts[trial] = Attempt(trial, attempt)
        known = dict(flattened(params))
        self._require_sender().send(lambda service: service.begin_trial(run, known))

    def on_report(self, trial: int, report: Report, decision: Decision) -> None:
        """A report: metrics of its step, and what was measured of the step that was checked."""
        status, run = self._require_status(), self._attempts[trial]
        self._log(run, report.step, {status.goals.objective.name: report.value})
        self._log(run, report.step, dict(report.metrics or {}))
        if report.measured is not None:
            found = _numbers(report.measured) | {"feasible": float(decision.stratum == "valid")}
            self._log(run, report.checked_step or report.step, found)
        best = status.best
        if best is not None and best != self._best:
            self._best = best
            values = {f"best.{name}": value for name, value in self._values(best).items()}
            self._log(None, sum(status.strata.values()), values)

    def on_trial_end(self, trial: int, state: str, reason: str) -> None:
        """The end of a run, with the best that was found in it."""
        status, run = self._require_status(), self._attempts.pop(trial)
        facts: dict[str, Fact] = {"state": state, "reason": reason}
        found, feasible = status.found_in(trial)
        facts["stratum"] = "unchecked" if found is None else "valid" if feasible else "invalid"
        if found is not None:
            facts["best.step"] = found.step
            facts |= {f"best.{name}": value for name, value in self._values(found).items()}
            errors = [m.error for m in found.constraints.values() if isinstance(m, FailedCheck)]
            facts["failed_check"] = errors[0] if errors else None
        self._require_sender().send(lambda service: service.end_trial(run, state, facts))

    def on_tick(self) -> None:
        """Whether the service is well: an error of it is raised here, which the study tells."""
        self._require_sender().require_well()

    def on_end(self) -> None:
        """The answer and the page; waits until the service has it all."""
        sender, path = self._require_sender(), self._require_status().study
        sender.require_well()
        with tempfile.TemporaryDirectory(prefix="acetune-") as folder:
            try:
                if path is not None:
                    page = Path(folder) / "report.html"
                    ended = _ended(load(path), write_report(path, page) if self._report else None)
                    sender.send(lambda service: service.end(ended))
            finally:
                sender.close(self._wait_s)

    def _log(self, run: Attempt | None, step: int, values: Mapping[str, float]) -> None:
        if values:
            told = Values(step, values, time.time())
            self._require_sender().send(lambda service: service.log(run, told))

    def _values(self, found: CheckedCheckpoint) -> dict[str, float]:
        objective = self._require_status().goals.objective.name
        return {objective: found.value} | _numbers(found.constraints)

    def _require_sender(self) -> Sender:
        assert self._sender is not None  # on_start comes first
        return self._sender

    def _require_status(self) -> StudyStatus:
        assert self._status is not None  # on_start comes first
        return self._status


def _numbers(measured: Mapping[str, Estimate | FailedCheck]) -> dict[str, float]:
    """What was measured, with standard errors where there are any; NaN of a failed check."""
    found = {}
    for name, value in measured.items():
        if isinstance(value, FailedCheck):
            found[name] = math.nan
            continue
        found[name] = value.value
        if value.stderr:
            found[f"{name}.stderr"] = value.stderr
    return found


def _begun(status: StudyStatus) -> Begun:
    """What is known of a study as it begins."""
    goals = status.goals
    objective = {"objective": goals.objective.name, "mode": goals.objective.mode}
    facts: dict[str, Fact] = {"acetune": acetune.__version__}
    if status.study is None:  # one that has no file, of those who try a listener
        return Begun(uuid.uuid4().hex, "study", objective, facts)
    with viewing(status.study) as view:
        info, limits = view.info, view.goals.constraints
    settings, policy = info["settings"], info["policy"]
    facts |= {"study": str(status.study), "policy": json.dumps(policy)}
    facts |= {f"limit.{limit.name}": limit.describe() for limit in limits}
    facts |= {f"setting.{name}": _fact(value) for name, value in settings.items()}
    params = objective | {"policy": policy["name"], "searcher": settings["searcher"]}
    params |= {f"space.{name}": _fact(dimension) for name, dimension in info["space"].items()}
    # the time it was created, to the microsecond: the file may be moved and renamed
    return Begun(f"{info['created']:.6f}", status.study.stem, params, facts)


def _ended(result: StudyResult, report: Path | None) -> Ended:
    """What a study came to."""
    best = result.best
    facts: dict[str, Fact] = {
        "ended": result.ended,
        "status": result.status or "none",
        **{f"trials.{state}": n for state, n in result.counts.items()},
        **{f"reports.{stratum}": n for stratum, n in result.strata.items()},
        "checks": result.ledger.checks,
        "check_share": result.ledger.check_share,
    }
    values: dict[str, float] = {}
    if best is not None:
        values = {result.goals.objective.name: best.value} | _numbers(best.constraints)
        if best.confirmation is not None:
            fresh = _numbers(best.confirmation.values)
            values |= {f"fresh.{name}": value for name, value in fresh.items()}
        facts |= {"answer.trial": best.trial, "answer.step": best.step}
        facts |= {f"answer.{name}": _fact(v) for name, v in flattened(best.params).items()}
        if best.checkpoint is not None:
            facts["answer.model"] = str(best.checkpoint)
    if result.goals.constraints and (best is not None or result.rejected is not None):
        facts["you_may_say"] = claim(result)
    failed = result.ended is None or result.ended_code == FAILED
    return Ended(
        state="interrupted" if result.interrupted else "failed" if failed else "finished",
        status=result.status or "none",
        answer=None if best is None else Attempt(best.trial, best.attempt),
        facts=facts,
        values=values,
        summary=str(result),
        report=report,
    )


def _fact(value: object) -> Fact:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, default=str)
