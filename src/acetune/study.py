"""The front door: ``tune()``."""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from acetune.coordinator import Coordinator
from acetune.core.errors import GoalError, SearchError, StudyChangedError
from acetune.core.goals import (
    Constraint,
    Estimate,
    FailedCheck,
    Goals,
    Mode,
    Objective,
    as_measurement,
    split_constraints,
)
from acetune.core.outcome import Outcome
from acetune.display import make_progress
from acetune.engines.local import LocalEngine, Settings, available_cores, default_threads
from acetune.engines.messages import Evaluate, Work
from acetune.listener import Listeners, StudyCallback, StudyStatus
from acetune.policies import ACE, Policy, parse_policy
from acetune.result import FoundCheckpoint, StudyResult, goals_to_json, read_result
from acetune.searchers import Searcher, make_searcher
from acetune.space import Dimension, Params, Scalar, Space
from acetune.stopper import Stopper
from acetune.store import Store
from acetune.study_trial import StudyTrial
from acetune.trial import Trial

_MAX_REJECTIONS = 1000


class CodeChangedWarning(UserWarning):
    """A study goes on with a training function that differs from the one it began with."""


def tune(
    train: Callable[[Trial], object],
    space: Mapping[str, Dimension | Scalar],
    *,
    objective: str,
    mode: Mode,
    constraints: Sequence[Constraint] = (),
    policy: Policy | str | None = None,
    searcher: str | Searcher = "tpe",
    points: Sequence[Mapping[str, Any]] = (),
    confirm: Callable[[Any], Mapping[str, Any]] | None = None,
    confirm_top: int = 1,
    keep_models: int = 3,
    time_budget_s: float | None = None,
    max_trials: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
    devices: Sequence[str | int] = (),
    retries: int = 0,
    report_timeout_s: float | None = None,
    stop_grace_s: float = 30.0,
    max_failures: int = 5,
    seed: int | None = None,
    study: str | Path | None = None,
    progress: bool = True,
    callbacks: Sequence[StudyCallback] = (),
) -> StudyResult:
    """Search for the best configuration that satisfies the constraints.

    Parameters
    ----------
    train:
        Called with a :class:`~acetune.Trial` in a worker process; trains ``trial.params`` and
        reports after each step.
    space:
        Dimensions by name; a plain value fixes a parameter.
    objective, mode:
        Name of the reported metric, and ``"min"`` or ``"max"``.
    constraints:
        Limits; those with ``on="config"`` are checked before any training.
    policy:
        When to check and whom to stop: an object, or a name such as ``"ace"`` or ``"asha+after"``.
    searcher:
        ``"tpe"``, ``"random"``, or a :class:`~acetune.Searcher`.
    points:
        Configurations to try first; left-out dimensions are sampled.
    confirm:
        Called with a kept model, returns objective and constraints on data that the search never
        saw. The best ``confirm_top`` checkpoints are judged, best first, until one holds.
    keep_models:
        Models of the best so many valid checkpoints stay on disk (at least ``confirm_top``).
    time_budget_s, max_trials:
        Totals over all sessions of the study; at least one of them.
    workers, threads, devices:
        Worker processes (one a core by default), threads for each, and devices shared out.
    retries:
        How often a failed trial is tried again.
    report_timeout_s:
        A trial that reports nothing for so long has failed.
    stop_grace_s:
        A trial that was told to stop and goes on for so long is ended with its worker.
    max_failures:
        So many failed trials one after another end the study.
    seed:
        Makes the searcher's suggestions repeatable.
    study:
        The study file. The same call again goes on where it was. A temporary file by default.
    progress, callbacks:
        Whether to show progress, and your own listeners.
    """
    on_model, on_config = split_constraints(constraints)
    goals = Goals(Objective(objective, mode), on_model)
    searched = Space(space)
    chosen = _policy(policy)
    _require_options(train, goals, chosen, confirm, confirm_top, keep_models)
    settings = _settings(
        workers,
        threads,
        devices,
        time_budget_s,
        max_trials,
        retries,
        report_timeout_s,
        stop_grace_s,
        max_failures,
    )
    path = _study_path(study)
    description = _describe(goals, on_config, chosen, searched, train)
    description["settings"] = json.dumps(
        {
            "time_budget_s": time_budget_s,
            "max_trials": max_trials,
            "workers": settings.workers,
            "searcher": searcher if isinstance(searcher, str) else type(searcher).__name__,
            "seed": seed,
            "confirm_top": confirm_top,
            "keep_models": keep_models,
            "source": _source_file(train),
        }
    )
    search = make_searcher(searcher, searched, points, seed)
    stopper = Stopper(
        objective=objective,
        mode=mode,
        constraints=on_model,
        policy=chosen,
        confirm_top=confirm_top,
    )
    work = Work(train, goals, chosen, confirm)
    store = _open_study(path, description)
    try:
        coordinator = Coordinator(store, stopper, keep_models)
        under_way = coordinator.load()
        director = _Director(coordinator, search, searched, on_config)
        director.remind(under_way)
        listeners = Listeners([*([make_progress()] if progress else []), *callbacks])
        engine = LocalEngine(
            coordinator, director.suggest, director.tell, work, settings, listeners
        )
        status = StudyStatus(coordinator, time_budget_s, max_trials, engine.elapsed)
        listeners.call("on_start", status)
        try:
            with engine.signals():
                engine.run(under_way)
                if chosen.checks_after_run and goals.constraints:
                    _check_after_run(engine, coordinator, confirm_top, settings.workers)
                if confirm is not None and not engine.interrupted:
                    _confirm(engine, coordinator, confirm_top)
        finally:
            engine.close()
            listeners.call("on_end")
        return read_result(store)
    finally:
        store.close()


class _Director:
    """Stands between searcher and engine: suggests trials that respect the limits on the config."""

    def __init__(
        self,
        coordinator: Coordinator,
        searcher: Searcher,
        space: Space,
        limits: Sequence[Constraint],
    ) -> None:
        self._coordinator, self._searcher = coordinator, searcher
        self._space, self._limits = space, limits

    def suggest(self) -> StudyTrial:
        """The next trial; suggestions that break a limit are recorded and passed over."""
        for _ in range(_MAX_REJECTIONS):
            number = self._coordinator.next_number()
            params = self._space.complete(self._searcher.ask(number))
            broken, violation = self._broken(params)
            if not broken:
                return self._coordinator.add_trial(params)
            self._coordinator.reject(params, f"breaks {broken} before any training")
            self._searcher.tell(number, Outcome(None, violation))
        raise SearchError(
            f"the last {_MAX_REJECTIONS} suggestions all broke a limit on the configuration "
            f"({broken}); widen the space or the limit"
        )

    def tell(self, number: int) -> None:
        """A trial has ended for good."""
        self._searcher.tell(number, self._coordinator.outcome(number))

    def remind(self, under_way: Sequence[int]) -> None:
        """Tell the searcher of the trials of earlier sessions."""
        for row in self._coordinator.store.rows(
            "SELECT trial, params FROM trials WHERE attempt = 1 ORDER BY trial"
        ):
            number, params = row["trial"], json.loads(row["params"])
            if number in self._coordinator.trials:
                unfinished = number in under_way
                outcome = None if unfinished else self._coordinator.outcome(number)
            else:
                outcome = Outcome(None, self._broken(params)[1])
            self._searcher.add(number, params, outcome)

    def _broken(self, params: Params) -> tuple[str, float]:
        """The limits on the configuration that are broken, and by how much in all."""
        broken, violation = [], 0.0
        for limit in self._limits:
            assert limit.check is not None  # Constraint requires it
            measured = as_measurement(limit.check(params), f"constraint {limit.name!r}")
            if isinstance(measured, FailedCheck):
                raise GoalError(
                    f"{measured.error} for the configuration {params}; a limit on the "
                    "configuration must always give a number"
                )
            if not limit.holds(measured):
                broken.append(f"{limit.describe()} with {measured.value:g}")
                violation += limit.violation(measured)
        return ", ".join(broken), violation


def _check_after_run(
    engine: LocalEngine, coordinator: Coordinator, wanted: int, at_once: int
) -> None:
    """Check trials from the best objective down until enough are feasible."""
    waiting = coordinator.shelf.waiting_for_check()
    history = coordinator.stopper.history
    while waiting and waiting[0][0] < history.kth_best(wanted) and not engine.interrupted:
        wave, waiting = waiting[:at_once], waiting[at_once:]
        results = engine.evaluate([Evaluate(str(path), confirm=False) for *_, path in wave])
        with coordinator.store.transaction():
            for (_, trial, step, _), result in zip(wave, results, strict=True):
                measured = result.measured
                if result.error is not None:
                    failed = FailedCheck(result.error)
                    measured = {c.name: failed for c in coordinator.goals.constraints}
                coordinator.check_after_run(trial, step, measured, result.costs)


def _confirm(engine: LocalEngine, coordinator: Coordinator, top: int) -> None:
    """Judge kept checkpoints on fresh data, best first, until one holds. Each use is recorded."""
    for found in read_result(coordinator.store).candidates[:top]:
        if found.status == "confirmed":
            return
        if found.status == "failed" or found.checkpoint is None:
            continue
        if _confirm_one(engine, coordinator, found):
            return


def _confirm_one(engine: LocalEngine, coordinator: Coordinator, found: FoundCheckpoint) -> bool:
    goals = coordinator.goals
    result = engine.evaluate([Evaluate(str(found.checkpoint), confirm=True)])[0]
    if result.error == "interrupted":
        return False
    error = result.error
    values: dict[str, Estimate] = {}
    if error is None:
        for name, value in result.measured.items():
            measured = as_measurement(value, f"confirmed {name!r}")
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
            "confirmed" if holds else "failed",
            {name: (measured.value, measured.stderr) for name, measured in values.items()},
            error,
            time.time(),
        )
    return holds


# -- options --------------------------------------------------------------------------------------


def _policy(policy: Policy | str | None) -> Policy:
    if policy is None:
        return ACE()
    if isinstance(policy, str):
        return parse_policy(policy)
    if not isinstance(policy, Policy):
        raise GoalError(f"policy must be a policy or its name, got {policy!r}")
    return policy


def _require_options(
    train: object,
    goals: Goals,
    policy: Policy,
    confirm: object,
    confirm_top: int,
    keep_models: int,
) -> None:
    if not callable(train):
        raise GoalError(f"train must be a function that takes a trial, got {train!r}")
    if confirm is not None and not callable(confirm):
        raise GoalError(f"confirm must be a function that takes a model, got {confirm!r}")
    for name, number in (("confirm_top", confirm_top), ("keep_models", keep_models)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise GoalError(f"{name} must be a whole number >= 1, got {number!r}")
    if policy.checks_after_run:
        for constraint in goals.constraints:
            if constraint.check is None:
                raise GoalError(
                    f"{policy!r} checks after the run, so constraint "
                    f"{constraint.name!r} needs a check of its own: "
                    f"Constraint({constraint.name!r}, check=...)"
                )


def _settings(
    workers: int | None,
    threads: int | None,
    devices: Sequence[str | int],
    time_budget_s: float | None,
    max_trials: int | None,
    retries: int,
    report_timeout_s: float | None,
    stop_grace_s: float,
    max_failures: int,
) -> Settings:
    if time_budget_s is None and max_trials is None:
        raise GoalError("give a budget: time_budget_s=600, max_trials=100, or both")
    seconds = {"time_budget_s": time_budget_s, "report_timeout_s": report_timeout_s}
    seconds["stop_grace_s"] = stop_grace_s
    for name, number in seconds.items():
        if number is not None and not 0 < number < float("inf"):
            raise GoalError(f"{name} must be a number of seconds > 0, got {number!r}")
    whole = {"max_trials": (max_trials, 1), "workers": (workers, 1), "threads": (threads, 1)}
    whole |= {"retries": (retries, 0), "max_failures": (max_failures, 1)}
    for name, (value, least) in whole.items():
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < least
        ):
            raise GoalError(f"{name} must be a whole number >= {least}, got {value!r}")
    if isinstance(devices, (str, int)):
        raise GoalError(f"devices must be a list such as [0, 1], got {devices!r}")
    count = workers or (len(devices) if devices else available_cores())
    return Settings(
        workers=count,
        threads=threads or default_threads(count),
        devices=[str(device) for device in devices],
        time_budget_s=time_budget_s,
        max_trials=max_trials,
        retries=retries,
        report_timeout_s=report_timeout_s,
        stop_grace_s=stop_grace_s,
        max_failures=max_failures,
    )


# -- the study file -------------------------------------------------------------------------------


def _study_path(study: str | Path | None) -> Path:
    if study is None:
        return Path(tempfile.mkdtemp(prefix="acetune-")) / "study.db"
    path = Path(study)
    if path.is_dir():
        raise GoalError(
            f"study must be a file, and {str(path)!r} is a folder; give for example "
            f"{str(path / 'study.db')!r}"
        )
    return path


def _open_study(path: Path, description: Mapping[str, Any]) -> Store:
    if not path.exists():
        return Store.create(path, description)
    store = Store.open(path)
    try:
        known = store.study()
        for what in ("objective", "constraints", "policy", "space"):
            if known[what] != description[what]:
                raise StudyChangedError(
                    f"the {what} of this call differs from the one in {path}: there "
                    f"{known[what]}, here {description[what]}; use another study file, or the "
                    "study's own settings"
                )
        if known["code_hash"] != description["code_hash"]:
            warnings.warn(
                f"the training function has changed since {path} was begun; its earlier trials "
                "are compared with the new ones all the same",
                CodeChangedWarning,
                stacklevel=4,
            )
        with store.transaction():
            store.set_settings(description["settings"], description["code_hash"])
    except BaseException:
        store.close()
        raise
    return store


def _describe(
    goals: Goals,
    on_config: Sequence[Constraint],
    policy: Policy,
    space: Space,
    train: Callable[..., object],
) -> dict[str, Any]:
    objective, constraints = goals_to_json(goals)
    described: dict[str, Any] = {"space": space.describe()}
    if on_config:
        described["limits"] = [limit.describe() for limit in on_config]
    return {
        "objective": objective,
        "constraints": constraints,
        "policy": repr(policy),
        "space": json.dumps(described),
        "versions": json.dumps(_versions()),
        "code_hash": _code_hash(train),
        "created": time.time(),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("acetune", "optuna", "numpy"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # run from a source tree
            found[package] = "unknown"
    return found


def _code_hash(train: Callable[..., object]) -> str:
    """A hash of the training function's source, or of its byte code where there is none."""
    try:
        text = inspect.getsource(train)
    except (OSError, TypeError):
        code = getattr(train, "__code__", None)
        text = repr((code.co_code, code.co_names)) if code is not None else repr(type(train))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _source_file(train: Callable[..., object]) -> str | None:
    """The file that ``acetune resume`` loads again, where the study came from ``acetune run``."""
    return getattr(train, "__acetune_source__", None)
