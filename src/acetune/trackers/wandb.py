"""Weights & Biases: a listener that writes a study as a group of runs, one per trial.

Needs ``pip install 'acetune[wandb]'``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from acetune.core.errors import MissingExtraError
from acetune.trackers._tracker import Attempt, Begun, Ended, Fact, Tracker, Values

try:
    import wandb
except ImportError as error:
    raise MissingExtraError("wandb", "wandb") from error

__all__ = ["WandbTracker"]

_STEP = "step"  # the axis of all metrics: what was checked may be an earlier step than the last


class WandbTracker(Tracker):
    """Writes a study to Weights & Biases: a run for the study, and one in its group per trial.

    For ``tune(callbacks=[WandbTracker(project="loans")])``. Runs that you have begun with
    ``wandb.init`` are left alone.

    Parameters
    ----------
    project, entity:
        Where to write, as for ``wandb.init``.
    mode:
        ``"online"``, or ``"offline"``: into files below ``folder``, for ``wandb sync`` later. By
        default ``WANDB_MODE``, else online.
    folder:
        Where wandb keeps its files; its own setting by default.
    tags:
        Of all runs.
    report:
        Whether to keep the report page as an artifact.
    wait_s:
        At the end the study waits until all is sent, but no longer than this without an answer.

    >>> from acetune.trackers.wandb import WandbTracker
    >>> tracker = WandbTracker(project="loans", mode="offline")
    """

    def __init__(
        self,
        project: str = "acetune",
        *,
        entity: str | None = None,
        mode: Literal["online", "offline"] | None = None,
        folder: str | Path | None = None,
        tags: Sequence[str] = (),
        report: bool = True,
        wait_s: float = 60.0,
    ) -> None:
        options = {
            "project": project,
            "entity": entity,
            "mode": mode,
            "dir": None if folder is None else str(folder),
            "tags": list(tags),
        }
        super().__init__(_Wandb(options), report=report, wait_s=wait_s)


class _Wandb:
    """Weights & Biases, as it is told."""

    name = "Weights & Biases"

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._group = ""
        self._key = ""
        self._study: Any = None
        self._runs: dict[Attempt, Any] = {}

    def begin(self, study: Begun) -> None:
        self._key = re.sub(r"\W", "-", study.key)
        self._group = f"{study.name}-{self._key}"
        self._runs.clear()
        config = {**study.params, **study.facts}
        self._study = self._init("study", study.name, self._key, config)

    def begin_trial(self, run: Attempt, params: Mapping[str, Any]) -> None:
        config = {"trial": run.trial, "attempt": run.number, **params}
        self._runs[run] = self._init("trial", run.name, f"{self._key}-{run.name}", config)

    def log(self, run: Attempt | None, values: Values) -> None:
        found = self._study if run is None else self._runs[run]
        found.log({_STEP: values.step, **values.values})

    def end_trial(self, run: Attempt, state: str, facts: Mapping[str, Fact]) -> None:
        found = self._runs.pop(run)
        found.summary.update(facts)
        found.finish(exit_code=1 if state == "failed" else 0)

    def end(self, ended: Ended) -> None:
        study = self._study
        study.summary.update({"state": ended.state, **ended.facts})
        study.summary.update({f"answer.{name}": value for name, value in ended.values.items()})
        study.notes = ended.summary
        if ended.answer is not None:
            study.summary["answer.run"] = f"{self._key}-{ended.answer.name}"
        if ended.report is not None:
            page = wandb.Artifact(f"report-{self._key}", type="report")
            page.add_file(str(ended.report), name="report.html")
            study.log_artifact(page)
        study.finish(exit_code=1 if ended.state == "failed" else 0)

    def flush(self) -> None:
        """Weights & Biases sends by itself."""

    def _init(self, kind: str, name: str, run_id: str, config: Mapping[str, Any]) -> Any:
        run = wandb.init(
            **self._options,
            id=run_id,
            name=name,
            group=self._group,
            job_type=kind,
            config=dict(config),
            resume="allow",
            reinit="create_new",  # beside runs that are the user's own
            settings=wandb.Settings(silent=True, console="off", disable_git=True),
        )
        run.define_metric("*", step_metric=_STEP)
        return run
