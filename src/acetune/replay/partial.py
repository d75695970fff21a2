"""The curves recorded so far: a file beside the table, so that recording can stop and go on."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import TableError
from acetune.study import database


class RecordedCurve(NamedTuple):
    """One configuration trained to its end, a value a step in each column."""

    params: Mapping[str, Any]
    metrics: Mapping[str, NDArray[np.float64]]
    cost_s: NDArray[np.float64]
    check_cost_s: Mapping[str, float]  # mean cost of one check, by constraint
    total_steps: int  # as planned; 0 if the curve was cut off and that was never said


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
                f"{path} is not a recording that can go on ({error}); delete it to start anew"
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
                    f"it is {description.get(what)!r}. Delete it to start anew, or give the table "
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
