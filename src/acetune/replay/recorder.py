"""Recording: train configurations to the end and keep what every step measured and cost.

Finished curves lie in a file beside the table until all are there, so that it can stop and go on.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acetune.core.errors import TableError
from acetune.core.numbers import require_whole
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.parallel import Lost, run_jobs
from acetune.replay.table_file import read_table, require_parquet, write_table
from acetune.replay.training import RecordedCurve, Task, goals_of, require_name, train_curve
from acetune.searchers.dimensions import Choice, edges
from acetune.searchers.space import Space
from acetune.study import connections as database


def draw(space: Space, seed: int, config: int) -> dict[str, Any]:
    """Configuration number ``config``, whatever else is drawn: a recording can grow."""
    rng = np.random.default_rng((seed, config))
    drawn: dict[str, Any] = {}
    for name, dimension in space.dimensions.items():
        if isinstance(dimension, Choice):
            drawn[name] = dimension.options[int(rng.integers(len(dimension.options)))]
            continue
        value = rng.uniform(*edges(dimension))
        drawn[name] = dimension.snap(math.exp(value) if dimension.log else value)
    return space.complete(space.active(drawn))


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
        space, done = Space(task.space), partial.done()
        # the longest first, where the number of steps is a parameter, would leave fewer idle at the
        # end; but an interrupted recording should hold a random sample
        jobs = [(c, draw(space, seed, c)) for c in range(configs) if c not in done]
        results = run_jobs(functools.partial(_train, task, threads), jobs, workers, threads)
        with contextlib.closing(results):  # whatever happens, no worker is left behind
            for job, result in results:
                config, params = jobs[job]
                if isinstance(result, Lost):
                    partial.add_failure(config, params, result.error)
                else:
                    partial.add(config, result)
                on_curve(config, result)
        table = assemble(task, partial, made={**(made or {}), **(source or {}), "seed": seed})
        write_table(path, table, task.digits)
        table = read_table(path)  # as it was rounded, before what it was made of is deleted
    finally:
        partial.close()
    partial.path.unlink()
    return table


def require_new(path: Path) -> None:
    """An error if the table exists, or cannot be written: hours of training are not lost."""
    if path.exists():
        raise TableError(f"{path} exists; give another name, or delete it to record again")
    require_parquet()


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
            f"none of {len(failures)} configurations could be trained; fix the cause, delete "
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


def _train(task: Task, threads: int, job: tuple[int, Mapping[str, Any]]) -> RecordedCurve:
    """Train one configuration; what worker processes are sent."""
    config, params = job
    return train_curve(task, params, threads, number=config + 1)


# -- the file beside the table ---------------------------------------------------------------------


class Partial:
    """A recording under way: each finished curve is committed before the next one counts."""

    def __init__(self, path: Path, description: Mapping[str, Any]) -> None:
        self.path = path
        if not path.parent.is_dir():
            raise TableError(f"cannot write {path}: there is no folder {str(path.parent)!r}")
        try:
            self._db = database.connect(path)
        except database.Fault as error:
            raise TableError(f"cannot write {path}: {error}") from None
        try:
            self._begin(json.loads(json.dumps(description, sort_keys=True)))
        except (database.Fault, ValueError) as error:
            self._db.close()
            if isinstance(error, TableError):
                raise
            raise TableError(
                f"{path} is not a recording that can go on ({error}); delete it to start again"
            ) from None

    def _begin(self, description: dict[str, Any]) -> None:
        """Say what is recorded; what was begun as something else is an error."""
        self._db.execute("CREATE TABLE IF NOT EXISTS recording (description TEXT NOT NULL)")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS curves (config INTEGER PRIMARY KEY, params TEXT, "
            "total_steps INTEGER, check_cost_s TEXT, columns BLOB, error TEXT)"
        )
        row = self._db.execute("SELECT description FROM recording").fetchone()
        if row is None:
            with self._db:
                text = json.dumps(description)
                self._db.execute("INSERT INTO recording VALUES (?)", (text,))
            return
        for what, was in json.loads(row[0]).items():
            if description.get(what) != was:
                raise TableError(
                    f"{self.path} holds a recording of something else: its {what} is {was!r}, now "
                    f"it is {description.get(what)!r}. Delete it to start again, or give the table "
                    "another name"
                )

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def done(self) -> set[int]:
        """The configurations that need no more training."""
        return {row[0] for row in self._db.execute("SELECT config FROM curves")}

    def add(self, config: int, curve: RecordedCurve) -> None:
        """Keep a curve."""
        columns = io.BytesIO()
        arrays: dict[str, Any] = {"cost_s": curve.cost_s, **curve.metrics}
        np.savez_compressed(columns, **arrays)
        row = (
            config,
            json.dumps(dict(curve.params)),
            curve.total_steps,
            json.dumps(dict(curve.check_cost_s)),
            columns.getvalue(),
            None,
        )
        self._insert(row)

    def add_failure(self, config: int, params: Mapping[str, Any], error: str) -> None:
        """Keep that a configuration could not be trained."""
        self._insert((config, json.dumps(dict(params)), None, "{}", None, error))

    def _insert(self, row: tuple[Any, ...]) -> None:
        try:
            with self._db:
                self._db.execute("INSERT INTO curves VALUES (?, ?, ?, ?, ?, ?)", row)
        except database.Clash:
            raise TableError(
                f"another process records to {self.path} too: it has added configuration {row[0]}"
            ) from None
        except database.Fault as error:
            raise TableError(f"cannot write {self.path}: {error}") from None

    def failures(self) -> dict[int, str]:
        """Configurations that could not be trained, and why."""
        rows = self._db.execute("SELECT config, error FROM curves WHERE error IS NOT NULL")
        return dict(rows.fetchall())

    def curves(self) -> Iterator[RecordedCurve]:
        """The curves, by configuration."""
        for params, total, costs, blob in self._db.execute(
            "SELECT params, total_steps, check_cost_s, columns FROM curves WHERE error IS NULL "
            "ORDER BY config"
        ):
            with np.load(io.BytesIO(blob)) as columns:
                metrics = {name: columns[name] for name in columns.files if name != "cost_s"}
                cost_s = columns["cost_s"]
            yield RecordedCurve(json.loads(params), metrics, cost_s, json.loads(costs), total or 0)


def count_recorded(path: Path) -> int:
    """How many configurations a recording under way has done, 0 if there is none."""
    if not path.exists():
        return 0
    with contextlib.closing(database.connect(path)) as db, contextlib.suppress(database.Fault):
        return int(db.execute("SELECT count(*) FROM curves").fetchone()[0])
    return 0
