"""Which models and checkpoints of a study stay on disk."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TypeAlias

from acetune.stopper import Stopper
from acetune.store import Store
from acetune.study_trial import StudyTrial

_OURS = re.compile(r"(model|resume)-\d{7,}(-partial)?")


_ModelKey: TypeAlias = tuple[int, int, int]  # trial, attempt, step


class Shelf:
    """Keeps the models of the best valid checkpoints, and what trials can go on from.

    Workers write the files; the shelf decides which stay. A file is deleted only after the commit
    that forgot it, so that the study file never names one that is gone.
    """

    def __init__(self, store: Store, stopper: Stopper, keep: int) -> None:
        self._store, self._stopper = store, stopper
        self._keep = max(keep, stopper.history.keep)
        self._models: dict[_ModelKey, str] = {}  # paths
        self._unsettled: set[_ModelKey] = set()  # written, their report on the way
        self._arriving: dict[int, tuple[int, str, int]] = {}  # trial -> step, path, size
        self._doomed: list[str] = []

    @property
    def keep_below(self) -> float:
        """Models of valid checkpoints up to this loss are kept."""
        return self._stopper.history.kth_best(self._keep)

    def add_model(self, trial: StudyTrial, step: int, path: str, size: int) -> None:
        """A worker has written the model of a checkpoint."""
        self._store.add_checkpoint(trial.number, trial.attempt, step, "model", path, size)
        key = trial.number, trial.attempt, step
        self._models[key] = path
        self._unsettled.add(key)

    def add_checkpoint(self, trial: StudyTrial, step: int, path: str, size: int) -> None:
        """A worker has written what its trial could go on from; it counts from its report on."""
        self._arriving[trial.number] = (step, path, size)

    def settle_checkpoint(self, trial: StudyTrial, step: int) -> None:
        """The report at ``step`` was taken: go on from there; older checkpoints are not needed."""
        if trial.number not in self._arriving:
            return
        arrived, path, size = self._arriving[trial.number]
        if arrived != step or not trial.running:  # of a report that was refused, or of the last one
            self.forget_arriving(trial.number)
            return
        del self._arriving[trial.number]
        older = self._resumable(trial.number)
        self._store.add_checkpoint(trial.number, trial.attempt, step, "resume", path, size)
        for _, known in older:
            if known != path:
                self._delete(known)

    def forget_arriving(self, trial: int) -> None:
        """A checkpoint whose report never came, or that nobody will go on from, is of no use."""
        if trial in self._arriving:
            path = self._arriving.pop(trial)[1]
            if all(path != known for _, known in self._resumable(trial)):
                self._doomed.append(path)

    def drop_resumable(self, trial: int) -> None:
        """The trial has ended for good: there is nothing to go on from."""
        for _, path in self._resumable(trial):
            self._delete(path)

    def resume_point(self, trial: int) -> tuple[Path | None, int]:
        """The newest checkpoint a trial can go on from, and its step; (None, 0) without one."""
        found = self._resumable(trial)
        if not found:
            return None, 0
        step, path = found[-1]
        return self._store.files / path, step

    def _resumable(self, trial: int) -> list[tuple[int, str]]:
        rows = self._store.rows(
            "SELECT step, path FROM checkpoints WHERE trial = ? AND kind = 'resume' "
            "ORDER BY attempt, step",
            (trial,),
        )
        return [(row["step"], row["path"]) for row in rows]

    def waiting_for_check(self) -> list[tuple[float, int, int, Path]]:
        """Loss, trial, step and path of each model kept for a check after the run, best first."""
        return sorted(
            (loss, key[0], key[2], self._store.files / self._models[key])
            for key, loss in self._losses_unchecked().items()
        )

    def prune(self, reporting: int) -> None:
        """Keep the models of the best valid checkpoints and of running trials' best.

        ``reporting`` is the trial whose report was just taken: what it wrote is settled now.
        """
        self._unsettled = {key for key in self._unsettled if key[0] != reporting}
        if not self._stopper.policy.checks_after_run and len(self._models) > 1:
            self._keep_only(self._best_valid() | self._unsettled)

    def prune_after_run(self) -> None:
        """Keep the models of the best valid checkpoints, and unchecked ones that are better."""
        limit = self._stopper.history.gate  # what could still become the answer is better
        unchecked = {key for key, loss in self._losses_unchecked().items() if loss < limit}
        self._keep_only(self._best_valid() | unchecked)

    def _best_valid(self) -> set[_ModelKey]:
        """The best ``keep`` models of valid checkpoints, and those of running trials' best."""
        found: list[tuple[float, _ModelKey]] = []
        running = set()
        for key in self._models:
            record = self._stopper.history.trials[key[0]]
            best = record.best_valid
            if best is not None and (best.attempt, best.step) == key[1:]:
                found.append((best.loss, key))
                if record.state == "running":
                    running.add(key)
        found.sort(key=lambda item: item[0])  # stable: of equal ones the earlier stays
        return running | {key for _, key in found[: self._keep]}

    def _losses_unchecked(self) -> dict[_ModelKey, float]:
        """The losses of the models whose trials were never checked."""
        found = {}
        for key in self._models:
            record = self._stopper.history.trials[key[0]]
            index = record.log.find(key[2])
            if key[1] == record.attempt and index is not None and not record.progress.checks:
                found[key] = record.log.loss[index]
        return found

    def _keep_only(self, kept: set[_ModelKey]) -> None:
        for key, path in list(self._models.items()):
            if key not in kept:
                del self._models[key]
                self._delete(path)

    def _delete(self, path: str) -> None:
        self._store.drop_checkpoint(path)
        self._doomed.append(path)

    def sweep(self) -> None:
        """Delete what is no longer needed. To be called after the commit that forgot it."""
        for path in self._doomed:
            shutil.rmtree(self._store.files / path, ignore_errors=True)
        self._doomed.clear()

    def load(self) -> None:
        """Take over what an earlier session kept; delete what it had not acknowledged."""
        for row in self._store.rows("SELECT * FROM checkpoints WHERE kind = 'model'"):
            self._models[row["trial"], row["attempt"], row["step"]] = row["path"]
        known = {row["path"] for row in self._store.rows("SELECT path FROM checkpoints")}
        for found in self._store.files.glob("trial-*/attempt-*/*-*"):
            # the folder is the trial's own too: what training code has put there stays
            ours = _OURS.fullmatch(found.name) is not None
            if ours and str(found.relative_to(self._store.files)) not in known:
                shutil.rmtree(found, ignore_errors=True)
