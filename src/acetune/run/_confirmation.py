"""What is done with kept models once the search is over: late checks, and confirmation."""

from __future__ import annotations

import difflib
import time
from collections.abc import Mapping, Sequence

from acetune.core.errors import ReportError
from acetune.core.goals import Estimate, FailedCheck, Goals, as_measurement
from acetune.run._driver import Driver
from acetune.run._messages import Evaluate, Evaluated
from acetune.run.study_callbacks import Listeners
from acetune.study.coordinator import StudyCoordinator
from acetune.study.findings import FoundCheckpoint, Status, judge_fresh
from acetune.study.result import read_result
from acetune.study.trust import no_recommendation
from acetune.trial.artifacts import Kept


def check_after_run(
    driver: Driver, coordinator: StudyCoordinator, wanted: int, at_once: int
) -> None:
    """Check trials from the best objective down until enough are feasible."""
    waiting = coordinator.kept_models.waiting_for_check()
    history = coordinator.stopper.history
    while waiting and waiting[0][0] < history.kth_best(wanted) and not driver.interrupted:
        wave, waiting = waiting[:at_once], waiting[at_once:]
        results = _check(driver, [kept for *_, kept in wave])
        with coordinator.store.transaction():
            for (_, trial, step, _), result in zip(wave, results, strict=True):
                if result is None:
                    continue
                measured = result.measured
                if result.error is not None:
                    failed = FailedCheck(result.error)
                    measured = {c.name: failed for c in coordinator.goals.constraints}
                coordinator.check_after_run(trial, step, measured, result.costs)
    with coordinator.store.transaction():
        coordinator.kept_models.prune_after_run()
    coordinator.kept_models.sweep()


def confirm_best(
    driver: Driver, coordinator: StudyCoordinator, top: int, listeners: Listeners
) -> None:
    """Judge kept checkpoints on fresh data, best first, until one holds. Each use is recorded.

    What was judged before is not judged again. It does not count as one of the ``top`` where its
    trial has found a better checkpoint since, which is judged in its place. One whose model is
    broken is no use of the fresh data: another one is judged in its place.
    """
    candidates = read_result(coordinator.store).candidates
    if candidates and all(found.kept is None for found in candidates[:top]):
        text = "nothing can be confirmed: no model was kept; give it as report(..., model=...)"
        listeners.notice(text)
    judged: set[int] = set()  # trials; each counts once
    for found in candidates:
        full = len(judged) == top and found.trial not in judged
        if full or found.status == "confirmed":
            return
        if found.status == "failed" or found.kept is None:
            judged.add(found.trial)
            continue
        fault = found.kept.fault()
        if fault is not None:  # fresh data is spared
            text = f"trial {found.trial} cannot be confirmed: its model {found.kept.folder} {fault}"
            listeners.notice(text)
            continue
        judged.add(found.trial)
        result = driver.evaluate([Evaluate(str(found.kept.folder), confirm=True)])[0]
        if result is None:
            continue
        wrong = (
            None if result.error is not None else wrong_names(coordinator.goals, result.measured)
        )
        if _record(coordinator, found, result, wrong) == "confirmed":
            return
        if wrong is not None:  # it would be with every other model: spare the fresh data
            listeners.notice(wrong)
            return


def say_rejected(coordinator: StudyCoordinator, listeners: Listeners) -> None:
    """Tell listeners, who know the best of the search alone, that fresh data rejected it."""
    result = read_result(coordinator.store)
    if result.rejected is not None:
        listeners.notice(no_recommendation(result))


def _check(driver: Driver, models: Sequence[Kept]) -> list[Evaluated | None]:
    """Check kept models, but those that are missing, empty or changed."""
    looked = [(kept.folder, kept.fault()) for kept in models]
    whole = [Evaluate(str(folder), confirm=False) for folder, fault in looked if fault is None]
    came = iter(driver.evaluate(whole))
    return [
        next(came) if fault is None else Evaluated({}, {}, f"its model {folder} {fault}")
        for folder, fault in looked
    ]


def wrong_names(goals: Goals, answer: Mapping[str, object]) -> str | None:
    """What is wrong with the names in an answer of ``confirm``, whatever the values.

    Every constraint must be there. The objective may be left out, and other metrics may come with
    it, but not instead of it: such a name is more likely a misspelt objective.

    >>> from acetune.core.goals import Constraint, Objective
    >>> goals = Goals(Objective("auc", "max"), (Constraint("eod", upper=0.25),))
    >>> wrong_names(goals, {"eod": 0.2}), wrong_names(goals, {"eod": 0.2, "auc": 0.8, "f1": 0.7})
    (None, None)
    """
    objective, constraints = goals.objective.name, [c.name for c in goals.constraints]
    unknown = [name for name in answer if name != objective and name not in constraints]
    missing = [name for name in constraints if name not in answer]
    rules = f"it must return every constraint ({', '.join(map(repr, constraints)) or 'none here'})"
    rules += f" and may return the objective ({objective!r})"
    if missing:
        instead = f", but {unknown[0]!r}" if unknown else ""
        return f"confirm returned no {missing[0]!r}{instead}; {rules}"
    if unknown and objective not in answer:
        near = difflib.get_close_matches(str(unknown[0]), [objective], n=1)
        hint = "did you mean the objective?" if near else "other metrics need the objective beside"
        return f"confirm returned the unknown {unknown[0]!r}, {hint}; {rules}"
    return None


def _record(
    coordinator: StudyCoordinator, found: FoundCheckpoint, result: Evaluated, wrong: str | None
) -> Status:
    """Write what ``confirm`` said of a checkpoint; returns the verdict."""
    goals, error = coordinator.goals, result.error or wrong
    values: dict[str, Estimate] = {}
    if result.error is None:
        for name, value in result.measured.items():
            try:
                measured = as_measurement(value, f"confirmed {name!r}")
            except ReportError as not_a_number:
                measured = FailedCheck(str(not_a_number))
            if isinstance(measured, FailedCheck):
                error = error or measured.error
            else:
                values[str(name)] = measured
    status = judge_fresh(goals, values, error)
    with coordinator.store.transaction():
        coordinator.store.add_confirmation(
            found.trial,
            found.attempt,
            found.step,
            status,
            values,
            error,
            time.time(),
        )
    return status
