"""The best feasible checkpoint of an experiment: what ``get_best_result`` does not look for."""

from __future__ import annotations

import contextlib
import math
import posixpath
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ray import tune

from acetune.core.errors import BrokenModelError, GoalError, ReportError, StudyError
from acetune.core.goals import Estimate
from acetune.ray import _result_format as wire
from acetune.ray._experiment import STUDY_NAME, close_experiment
from acetune.study.best_checkpoints import valid_checkpoints
from acetune.study.reader import viewing
from acetune.trial.artifacts import (
    fault,
    is_name_in_experiment,
    load_model,
    name_in_experiment,
)


@dataclass(frozen=True, slots=True)
class BestResult:
    """A checkpoint that keeps every limit.

    ``constraints`` are the estimates of its checks by name, as everywhere.
    ``checkpoint`` is the model that ``report(model=...)`` was given at that step, or the checkpoint
    that was reported with it, as Ray hands them out; None if neither was kept. ``result`` is Ray's
    result of the trial: its metrics are those of the last step, not of this one.
    """

    config: Mapping[str, Any]
    step: int
    value: float
    constraints: Mapping[str, Estimate]
    checkpoint: tune.Checkpoint | None
    result: tune.Result = field(repr=False)
    model: wire.Model | None = field(default=None, repr=False)  # what was written of it

    @property
    def status(self) -> Literal["unconfirmed"]:
        """What may be claimed, in the words of ``StudyResult.status``: nobody looked at fresh data.

        Certificates are issued by :func:`acetune.tune` alone.
        """
        return "unconfirmed"

    def load(self) -> object:
        """The model that ``report(model=...)`` was given at that step."""
        if self.checkpoint is None:
            raise ReportError(
                f"no model was kept of step {self.step}: report it with trial.report(..., "
                "model=...), or train the configuration again for that many steps"
            )
        folder = Path(self.checkpoint.to_directory())
        wrong = None if self.model is None else fault(folder, self.model.digest, self.model.size)
        if wrong is not None:
            raise BrokenModelError(
                f"the model of step {self.step} cannot be loaded: {folder} {wrong}; train the "
                "configuration again for that many steps"
            )
        return load_model(folder)


def best_result(result_grid: tune.ResultGrid) -> BestResult | None:
    """The best checkpoint that was checked and found valid, over all trials and their attempts.

    None if nothing qualified: ``acetune show`` on the study file tells how near the nearest came.
    """
    if not isinstance(result_grid, tune.ResultGrid):
        raise GoalError(f"best_result takes what Tuner.fit() returned, got {result_grid!r}")
    close_experiment(result_grid.experiment_path)  # fit() is over, and Ray does not say so
    best: tuple[wire.Best, Mapping[str, Any], tune.Result] | None = None
    for result in result_grid:
        for row in _results(result):
            found = wire.best_in(row)
            if found is not None and found.feasible and (best is None or found.loss < best[0].loss):
                best = found, row, result
    _warn_of_forgotten(result_grid.experiment_path, None if best is None else best[0].loss)
    if best is None:
        return None
    found, row, result = best
    checkpoint = _checkpoint(result, found, wire.decode(row[wire.REPORT]).attempt.token)
    ours = checkpoint is not None and posixpath.basename(checkpoint.path) == found.model
    return BestResult(
        config=result.config or {},
        step=found.step,
        value=float(row[wire.BEST_VALUE]),
        constraints=found.constraints,
        checkpoint=checkpoint,
        result=result,
        model=wire.Model(found.model, found.size, found.digest) if ours and found.digest else None,
    )


def _warn_of_forgotten(folder: str, loss: float | None) -> None:
    """Say so if the study file knows something better than what Ray has kept of its results.

    Ray forgets what came after its last snapshot when a driver is killed.
    """
    path = Path(folder) / STUDY_NAME
    if not path.exists():  # on another disk, or named by the user
        return
    with contextlib.suppress(StudyError), viewing(path) as view:
        objective = view.goals.objective
        known = min((objective.loss(c.value) for c in valid_checkpoints(view, 1)), default=math.inf)
        if known < (math.inf if loss is None else loss):
            warnings.warn(
                f"{path} holds a better feasible checkpoint than the results that Ray has kept, "
                f"which forgets some when a driver is killed: see acetune.load({str(path)!r})",
                stacklevel=3,
            )


def _results(result: tune.Result) -> Iterator[Mapping[str, Any]]:
    """All results of a trial that tell of its best checkpoint."""
    frame = result.metrics_dataframe
    # a trial that was tried again may have been better before: its last result does not tell
    if frame is not None and wire.REPORT in frame:
        yield from frame[[wire.REPORT, wire.BEST_VALUE]].dropna().to_dict("records")
    if result.metrics:
        yield result.metrics


def _checkpoint(result: tune.Result, best: wire.Best, token: str) -> tune.Checkpoint | None:
    # the driver may have been killed before the result that names the model was written down
    name = best.model or name_in_experiment(token, best.step)
    if is_name_in_experiment(name, best.step):
        path = posixpath.join(result.path, name)
        with contextlib.suppress(OSError):
            if result.filesystem.get_file_info(path).type.name == "Directory":
                return tune.Checkpoint(path, result.filesystem)
    for checkpoint, metrics in result.best_checkpoints or ():
        if wire.REPORT in metrics:
            attempt, report, *_ = wire.decode(metrics[wire.REPORT])
            if report is not None and (attempt.token, report.step) == (token, best.step):
                return checkpoint
    return None
