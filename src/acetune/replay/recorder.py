"""Recording: train configurations to the end and keep what every step measured and cost."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acetune.core.numbers import require_whole
from acetune.core.errors import TableError
from acetune.replay.partial import Partial, RecordedCurve
from acetune.replay.processes import Lost, run_jobs
from acetune.replay.table import CurveTable, TableConstraint, make_table, read_table, write_table
from acetune.replay.training import goals_of, require_name, train_curve
from acetune.space import Choice, Float, Space
from acetune.tasks.base import Task


def draw(space: Space, seed: int, config: int) -> dict[str, Any]:
    """Configuration number ``config``, whatever else is drawn: a recording can grow."""
    rng = np.random.default_rng((seed, config))
    drawn: dict[str, Any] = {}
    for name, dimension in space.dimensions.items():
        if isinstance(dimension, Choice):
            drawn[name] = dimension.options[int(rng.integers(len(dimension.options)))]
            continue
        whole = not isinstance(dimension, Float)
        low, high = (float(dimension.low), float(dimension.high))
        if whole:  # every whole number stands for the unit around it
            low, high = low - 0.5, high + 0.5
        if dimension.log:
            value = math.exp(rng.uniform(math.log(low), math.log(high)))
        else:
            value = rng.uniform(low, high)
        value = min(max(value, float(dimension.low)), float(dimension.high))
        drawn[name] = round(value) if whole else value
    return space.complete(drawn)


def record(
    task: Task,
    path: str | os.PathLike[str],
    *,
    configs: int,
    seed: int = 0,
    workers: int = 1,
    threads: int = 1,
    made: Mapping[str, Any] | None = None,
    source: Mapping[str, Any] | None = None,
    on_curve: Callable[[int, RecordedCurve | Lost], None] = lambda config, curve: None,
) -> CurveTable:
    """Train configurations drawn at random to their end and write the table of their curves.

    Stopped in the middle, it goes on from where it was when it is called again: finished curves are
    kept in a file beside the table until all are there. A configuration that cannot be trained is
    left out and named in ``made``. ``source`` says where the task's data come from; it goes into
    ``made`` too, and must be the same for a recording to go on.
    """
    path = Path(path)
    require_whole("configs", configs, least=1)
    require_whole("seed", seed, least=0)
    require_new(path)
    partial = Partial(partial_path(path), {**_describe(task), "seed": seed, **(source or {})})
    try:
        record_curves(
            task,
            partial,
            configs=configs,
            seed=seed,
            workers=workers,
            threads=threads,
            on_curve=on_curve,
        )
        table = assemble(task, partial, made={**(made or {}), **(source or {}), "seed": seed})
        write_table(path, table, task.digits)
        table = read_table(path)  # as it was rounded, before what it was made of is deleted
    finally:
        partial.close()
    partial.path.unlink()
    return table


def require_new(path: Path) -> None:
    """An error if the table exists: hours of training are not overwritten."""
    if path.exists():
        raise TableError(f"{path} exists; give another name, or delete it to record anew")


def _describe(task: Task) -> dict[str, Any]:
    """What must be the same for a recording to go on; what makes no sense is an error."""
    goals = goals_of(task)
    for name in (goals.objective.name, *(c.name for c in goals.constraints)):
        require_name(name)
    return {
        "task": task.name,
        "space": Space(task.space).describe(),
        "objective": [goals.objective.name, goals.objective.mode],
        "constraints": [constraint.describe() for constraint in goals.constraints],
    }


def partial_path(path: Path) -> Path:
    """Where the curves of a table are kept while it is being recorded."""
    return path.with_name(path.name + ".partial")


def assemble(task: Task, partial: Partial, made: Mapping[str, Any]) -> CurveTable:
    """The table of the curves recorded so far; of metrics that all of them have."""
    curves = list(partial.curves())
    failures = partial.failures()
    if not curves:
        reasons = "\n".join(sorted(set(failures.values()))[:3])
        raise TableError(
            f"none of {len(failures)} configurations could be trained; mend the cause, delete "
            f"{partial.path} and try again:\n{reasons}"
        )
    goals = goals_of(task)
    limits = [
        TableConstraint(
            constraint.name,
            constraint.upper,
            constraint.lower,
            _check_cost_s(curves, constraint.name),
            any(bool(np.isnan(c.metrics[constraint.name]).any()) for c in curves),
        )
        for constraint in goals.constraints
    ]
    named = {str(config): error.partition("\n")[0] for config, error in failures.items()}
    everywhere = set.intersection(*(set(curve.metrics) for curve in curves))
    return make_table(
        task.name,
        goals.objective,
        limits,
        ((c.params, _only(everywhere, c.metrics), c.cost_s, c.total_steps) for c in curves),
        space=Space(task.space).describe(),
        made={**made, **({"failed": named} if named else {})},
    )


def _only(names: set[str], metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: column for name, column in metrics.items() if name in names}


def _check_cost_s(curves: Sequence[RecordedCurve], constraint: str) -> float:
    """Mean cost of a check over all checkpoints, in three digits."""
    checked = [c for c in curves if constraint in c.check_cost_s]
    seconds = sum(c.check_cost_s[constraint] * len(c.cost_s) for c in checked)
    return float(f"{seconds / max(1, sum(len(c.cost_s) for c in checked)):.3g}")


def record_curves(
    task: Task,
    partial: Partial,
    *,
    configs: int,
    seed: int,
    workers: int,
    threads: int = 1,
    on_curve: Callable[[int, RecordedCurve | Lost], None] = lambda config, curve: None,
) -> None:
    """Train the configurations that ``partial`` does not hold yet; each counts once it is kept."""
    space = Space(task.space)
    done = partial.done()
    waiting = [config for config in range(configs) if config not in done]
    jobs = [(config, draw(space, seed, config)) for config in waiting]
    # the longest first, where the number of steps is a parameter, would leave fewer idle at the
    # end; but an interrupted recording should hold a random sample
    results = run_jobs(_Train(task, threads), jobs, workers, threads)
    with contextlib.closing(results):  # whatever happens, no worker is left behind
        for job, result in results:
            config, params = jobs[job]
            if isinstance(result, Lost):
                partial.add_failure(config, params, result.error)
            else:
                partial.add(config, result)
            on_curve(config, result)


class _Train:
    """Train one configuration; what worker processes are sent."""

    def __init__(self, task: Task, threads: int) -> None:
        self._task, self._threads = task, threads

    def __call__(self, job: tuple[int, Mapping[str, Any]]) -> RecordedCurve:
        config, params = job
        return train_curve(self._task, params, self._threads, number=config + 1)
