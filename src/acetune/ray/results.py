"""The best feasible checkpoint of an experiment: what ``get_best_result`` does not look for."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from acetune.artifacts import load_model
from acetune.core.errors import ReportError
from acetune.ray import wire
from acetune.ray.desk import close_experiment


@dataclass(frozen=True, slots=True)
class BestResult:
    """A checkpoint that satisfies every constraint.

    ``checkpoint`` is the model that ``report(model=...)`` was given at that step, or the checkpoint
    that was reported with it, as Ray hands them out; None if neither was kept. ``result`` is Ray's
    result of the trial: its metrics are those of the last step, not of this one.
    """

    config: Mapping[str, Any]
    step: int
    value: float
    constraints: Mapping[str, float]
    checkpoint: tune.Checkpoint | None
    result: tune.Result

    def load(self) -> object:
        """The model that ``report(model=...)`` was given at that step."""
        if self.checkpoint is None:
            raise ReportError(
                f"no model was kept of step {self.step}: report it with trial.report(..., "
                "model=...), or train the configuration again for so many steps"
            )
        return load_model(Path(self.checkpoint.to_directory()))


def best_result(result_grid: tune.ResultGrid) -> BestResult | None:
    """The best checkpoint that was checked and found valid, over all trials and their attempts.

    None if nothing qualified: ``acetune show`` on the study file tells how near the nearest came.
    """
    close_experiment(result_grid.experiment_path)  # fit() is over, and Ray does not say so
    best: tuple[float, Mapping[str, Any], tune.Result] | None = None
    for result in result_grid:
        for row in _feasible(result):
            if best is None or row[wire.LOSS] < best[0]:
                best = row[wire.LOSS], row, result
    if best is None:
        return None
    _, row, result = best
    prefix = wire.BEST_CONSTRAINT
    return BestResult(
        config=result.config or {},
        step=int(row[wire.BEST_STEP]),
        value=float(row[wire.BEST_VALUE]),
        constraints={
            name.removeprefix(prefix): float(value)
            for name, value in row.items()
            if name.startswith(prefix)
        },
        checkpoint=_checkpoint(result, row),
        result=result,
    )


def _feasible(result: tune.Result) -> Iterator[Mapping[str, Any]]:
    """The results of a trial in which something valid is known."""
    frame = result.metrics_dataframe
    # a trial that was tried again may have been better before: its last result does not tell
    if frame is not None and wire.FEASIBLE in frame:
        yield from frame[frame[wire.FEASIBLE].fillna(False).astype(bool)].to_dict("records")
    if result.metrics and result.metrics.get(wire.FEASIBLE):
        yield result.metrics


def _checkpoint(result: tune.Result, row: Mapping[str, Any]) -> tune.Checkpoint | None:
    folder = row[wire.MODEL]
    if isinstance(folder, str) and folder:
        path = posixpath.join(result.path, folder)
        with contextlib.suppress(OSError):
            if result.filesystem.get_file_info(path).type.name == "Directory":
                return tune.Checkpoint(path, result.filesystem)
    for checkpoint, metrics in result.best_checkpoints or ():
        token = wire.decode(row[wire.REPORT]).attempt.token
        same = wire.REPORT in metrics and wire.decode(metrics[wire.REPORT]).attempt.token == token
        if same and metrics[wire.STEP] == row[wire.BEST_STEP]:
            return checkpoint
    return None
