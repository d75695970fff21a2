"""What all trackers share: the protocol that each speaks, the listener that tells them of a study.

They are told in a thread, so that a slow server holds up no trial.
"""

from __future__ import annotations

import json
import math
import queue
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import acetune
from acetune.core.decision import Decision
from acetune.core.errors import AcetuneError, GoalError
from acetune.core.formatting import cut, flattened
from acetune.core.goals import Estimate, FailedCheck
from acetune.core.numbers import is_number
from acetune.core.reason import FAILED
from acetune.policies.stopper import CheckedCheckpoint
from acetune.report.html import write_report
from acetune.run.study_callbacks import StudyCallback, StudyStatus
from acetune.study.claims import claim
from acetune.study.reader import viewing
from acetune.study.result import StudyResult, load
from acetune.trial.link import Report

Fact: TypeAlias = str | int | float | bool | None

_LOOK_EVERY_S = 0.1  # while the end is waited for: so that Ctrl-C is heard
_LONGEST = 300  # characters of an error of the tracker's


# -- what a tracker is told, and how ---------------------------------------------------------------


class Attempt(NamedTuple):
    """A run for an attempt at a trial; most trials have one."""

    trial: int
    number: int = 1

    @property
    def name(self) -> str:
        """What its run is called.

        >>> Attempt(3).name, Attempt(3, 2).name
        ('trial-00003', 'trial-00003-attempt-2')
        """
        return f"trial-{self.trial:05d}" + (f"-attempt-{self.number}" if self.number > 1 else "")


@dataclass(frozen=True, slots=True)
class Begun:
    """A study as it begins, or goes on."""

    key: str  # the same in all its sessions
    name: str
    params: Mapping[str, Fact]  # the same in all its sessions too
    facts: Mapping[str, Fact]


@dataclass(frozen=True, slots=True)
class Ended:
    """A study as it ended."""

    state: str  # finished, interrupted or failed
    status: str  # of the answer: certified, holds, unconfirmed; broken or none without one
    answer: Attempt | None  # the run that holds the answer
    facts: Mapping[str, Fact]
    values: Mapping[str, float]  # of the answer
    summary: str
    report: Path | None = None  # the page, as long as the tracker is waited for


@dataclass(frozen=True, slots=True)
class Values:
    """Numbers of a step."""

    step: int
    values: Mapping[str, float]
    time: float = field(compare=False)  # seconds since the epoch


class Service(Protocol):
    """A tracker. Called in one thread, in the order of the study; any error ends it.

    ``run`` is an attempt at a trial, or None for the study as a whole.
    """

    name: str

    def begin(self, study: Begun) -> None:
        """A session begins."""

    def begin_trial(self, run: Attempt, params: Mapping[str, Any]) -> None:
        """An attempt begins."""

    def log(self, run: Attempt | None, values: Values) -> None:
        """What was measured at a step."""

    def end_trial(self, run: Attempt, state: str, facts: Mapping[str, Fact]) -> None:
        """An attempt ended: finished, stopped, failed or interrupted."""

    def end(self, ended: Ended) -> None:
        """The session ended."""

    def flush(self) -> None:
        """Nothing else waits to be told: send what was held back to be sent together."""


# -- in a thread -----------------------------------------------------------------------------------


class TrackerError(AcetuneError):
    """A tracker cannot be reached, or does not take what it is told."""


class Sender:
    """Tells a service in the order of :meth:`send`, in a thread of its own.

    After an error nothing more is sent: :meth:`require_well` raises it, in the caller's thread.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: queue.SimpleQueue[Callable[[Service], None] | None] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._last_sent = time.monotonic()
        self._thread = threading.Thread(
            target=self._run, name=f"acetune-{service.name}", daemon=True
        )
        self._thread.start()

    def send(self, what: Callable[[Service], None]) -> None:
        """Tell the service soon; returns at once."""
        if self._error is None:
            self._waiting.put(what)

    def require_well(self) -> None:
        """Raise what the service has answered, if it was an error."""
        if self._error is not None:
            text = cut(" ".join(str(self._error).split()), _LONGEST, "...")
            raise TrackerError(
                f"{self._service.name} could not be told ({type(self._error).__name__}: {text}); "
                "the study goes on without it, and its file has everything"
            ) from self._error

    def close(self, wait_s: float) -> None:
        """Wait until all is sent; raises where it was not, or nothing went on for ``wait_s``."""
        self._waiting.put(None)
        self._last_sent = time.monotonic()
        while self._thread.is_alive():
            self._thread.join(_LOOK_EVERY_S)
            if time.monotonic() - self._last_sent > wait_s and self._thread.is_alive():
                raise TrackerError(
                    f"{self._service.name} has not answered for {wait_s:g} s, and was not told "
                    "everything; wait_s= waits longer, and the study's file has everything"
                )
        self.require_well()

    def _run(self) -> None:
        try:
            while (what := self._waiting.get()) is not None:
                what(self._service)
                self._last_sent = time.monotonic()
                if self._waiting.empty():  # until then what can be sent together is
                    self._service.flush()
            self._service.flush()
        except Exception as error:
            self._error = error


# -- the listener ----------------------------------------------------------------------------------


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
