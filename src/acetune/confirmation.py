"""What is done with kept models once the search is over: late checks, and confirmation."""

from __future__ import annotations

import time

from acetune.coordinator import Coordinator
from acetune.core.errors import ReportError
from acetune.core.goals import Constraint, Estimate, FailedCheck, as_measurement
from acetune.engines.driver import Engine
from acetune.engines.messages import Evaluate
from acetune.found import FoundCheckpoint
from acetune.listener import Listeners
from acetune.result import read_result


def check_after_run(engine: Engine, coordinator: Coordinator, wanted: int, at_once: int) -> None:
    """Check trials from the best objective down until enough are feasible."""
    waiting = coordinator.shelf.waiting_for_check()
    history = coordinator.stopper.history
    while waiting and waiting[0][0] < history.kth_best(wanted) and not engine.interrupted:
        wave, waiting = waiting[:at_once], waiting[at_once:]
        results = engine.evaluate([Evaluate(str(path), confirm=False) for *_, path in wave])
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
        coordinator.shelf.prune_after_run()
    coordinator.shelf.sweep()


def confirm_best(engine: Engine, coordinator: Coordinator, top: int, listeners: Listeners) -> None:
    """Judge kept checkpoints on fresh data, best first, until one holds. Each use is recorded."""
    candidates = read_result(coordinator.store).candidates[:top]
    if candidates and all(found.checkpoint is None for found in candidates):
        text = "nothing can be confirmed: no model was kept; give it as report(..., model=...)"
        listeners.call("on_notice", text)
    for found in candidates:
        if found.status == "confirmed":
            return
        if found.status == "failed" or found.checkpoint is None:
            continue
        if _confirm_one(engine, coordinator, found):
            return


def _confirm_one(engine: Engine, coordinator: Coordinator, found: FoundCheckpoint) -> bool:
    goals = coordinator.goals
    result = engine.evaluate([Evaluate(str(found.checkpoint), confirm=True)])[0]
    if result is None:
        return False
    error = result.error
    values: dict[str, Estimate] = {}
    if error is None:
        for name, value in result.measured.items():
            try:
                measured = as_measurement(value, f"confirmed {name!r}")
            except ReportError as wrong:
                measured = FailedCheck(str(wrong))
            if isinstance(measured, FailedCheck):
                error = measured.error
            else:
                values[name] = measured
        missing = [c.name for c in goals.constraints if c.name not in values]
        if missing and error is None:
            error = f"confirm returned no {missing[0]!r}; it must return every constraint"
    # the limit itself, without the search's margin: fresh data owes nothing to the search
    holds = error is None and all(
        Constraint(c.name, upper=c.upper, lower=c.lower).holds(values[c.name])
        for c in goals.constraints
    )
    with coordinator.store.transaction():
        coordinator.store.add_confirmation(
            found.trial,
            found.attempt,
            found.step,
            "unconfirmed" if error is not None else "confirmed" if holds else "failed",
            {name: (measured.value, measured.stderr) for name, measured in values.items()},
            error,
            time.time(),
        )
    return holds
