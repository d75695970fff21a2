"""Options of ``tune()``: validated, with messages that name the value and the way out."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from acetune.core.errors import GoalError
from acetune.core.goals import Goals
from acetune.core.numbers import is_number, require_whole
from acetune.policies import Policy
from acetune.run._ray_cluster import RayCluster
from acetune.run.study_callbacks import StudyCallback
from acetune.trial.hardware import available_cores


@dataclass(frozen=True, slots=True)
class Settings:
    """How a study runs, apart from what it is about: workers, budgets and limits."""

    workers: int
    threads: int
    devices: Sequence[str] = ()
    time_budget_s: float | None = None
    max_trials: int | None = None
    target: float | None = None
    patience_trials: int | None = None
    patience_s: float | None = None
    retries: int = 0
    report_timeout_s: float | None = None
    stop_grace_s: float = 30.0
    max_failures: int = 5

    def __post_init__(self) -> None:
        if self.time_budget_s is None and self.max_trials is None:
            ends = (self.target, self.patience_trials, self.patience_s)
            raise GoalError(
                "give a budget: time_budget_s=600, max_trials=100, or both"
                + ", with target and patience, which may never be reached"
                * any(end is not None for end in ends)
            )
        if self.target is not None and not is_number(self.target):
            raise GoalError(f"target must be a value of the objective, got {self.target!r}")
        for name in ("time_budget_s", "report_timeout_s", "stop_grace_s", "patience_s"):
            number = getattr(self, name)
            if number is not None and not (is_number(number) and number > 0):
                raise GoalError(f"{name} must be a number of seconds > 0, got {number!r}")
        require_whole("retries", self.retries, least=0)
        for name in ("max_trials", "workers", "threads", "max_failures", "patience_trials"):
            if (value := getattr(self, name)) is not None:
                require_whole(name, value, least=1)


def require_flags(dry_run: object, progress: object, callbacks: object) -> None:
    """Refuse what is no yes or no, and what is no listener: each would be taken for one."""
    for name, value in (("dry_run", dry_run), ("progress", progress)):
        if not isinstance(value, bool):
            raise GoalError(f"{name} must be True or False, got {value!r}")
    if isinstance(callbacks, str) or not isinstance(callbacks, Sequence):
        raise GoalError(f"callbacks must be a list, such as [MyCallback()], got {callbacks!r}")
    for callback in callbacks:
        if not isinstance(callback, StudyCallback):
            called = " (a class; write it with parentheses)" if isinstance(callback, type) else ""
            raise GoalError(
                "callbacks must be objects of classes that derive from acetune.StudyCallback, got "
                f"{callback!r}{called}"
            )


def _require_takes_one(name: str, function: Callable[..., object], what: str) -> None:
    """Refuse a function that cannot be called as it will be, in hours or in every trial."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some that are built in have none
        return
    try:
        signature.bind(None)
    except TypeError as error:
        called = getattr(function, "__name__", type(function).__name__)
        raise GoalError(
            f"{name} is called with {what} and nothing else, which {called}{signature} does not "
            f"fit: {error}"
        ) from None


def require_options(
    train: object,
    goals: Goals,
    policy: Policy,
    confirm: object,
    confirm_top: int,
    confirm_data: object,
    keep_models: int,
) -> None:
    """Refuse options that make no sense, alone or together."""
    if not callable(train):
        raise GoalError(f"train must be a function that takes a trial, got {train!r}")
    if confirm is not None and not callable(confirm):
        raise GoalError(f"confirm must be a function that takes a model, got {confirm!r}")
    if confirm is None and confirm_data is not None:
        raise GoalError(
            "confirm_data= says which rows confirm= measures on, and no confirm= was given: give "
            "confirm=, or leave confirm_data= out"
        )
    _require_takes_one("train", train, "a trial")
    if confirm is not None:
        _require_takes_one("confirm", confirm, "a model")
    require_whole("confirm_top", confirm_top, least=1)
    require_whole("keep_models", keep_models, least=1)
    if policy.checks_after_run:
        for constraint in goals.constraints:
            if constraint.check is None:
                raise GoalError(
                    f"{policy!r} checks after the run, so constraint "
                    f"{constraint.name!r} needs a check of its own: "
                    f"Constraint({constraint.name!r}, check=...)"
                )


def shared_out(
    workers: int | None, threads: int | None, devices: Sequence[str | int]
) -> tuple[int, int, list[str]]:
    """Workers, threads of each, and devices: with the defaults of this machine."""
    for name, value in (("workers", workers), ("threads", threads)):
        if value is not None:
            require_whole(name, value, least=1)
    if isinstance(devices, (str, int)):
        raise GoalError(f"devices must be a list such as [0, 1], got {devices!r}")
    count = workers or len(devices) or available_cores()
    return count, threads or _default_threads(count), [str(device) for device in devices]


def _default_threads(workers: int) -> int:
    """What OMP_NUM_THREADS says, or else an equal share of the cores this process may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) else max(1, available_cores() // workers)


def make_cluster(
    engine: str,
    ray_address: str | None,
    resources: Mapping[str, float] | None,
    devices: Sequence[str | int],
) -> RayCluster | None:
    """The Ray cluster that the study runs on, not yet connected to; None: this machine."""
    if engine == "ray":
        if devices:
            raise GoalError(
                f"devices={devices!r} is for engine='local'; Ray gives out GPUs itself: ask for "
                'them with resources={"gpu": 1}, or a part of one with {"gpu": 0.5}'
            )
        return RayCluster(ray_address, resources)
    if engine != "local":
        raise GoalError(f"engine must be 'local' or 'ray', got {engine!r}")
    for name, value in (("ray_address", ray_address), ("resources", resources)):
        if value is not None:
            raise GoalError(f"{name}={value!r} needs engine='ray'")
    return None
