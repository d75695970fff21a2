"""Which models and checkpoints of a study stay on disk."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from acetune.certification.candidates import Position, choose
from acetune.core.errors import ReportError
from acetune.core.observation import CheckResult
from acetune.policies.stopper import Stopper
from acetune.study.session import StudyTrial
from acetune.study.store import Store
from acetune.study.table_rows import KeptRow
from acetune.trial.artifacts import Kept, OutsideError, delete_inside, is_kept_name

_SAFE_ENOUGH = 1.0  # standard errors beyond the margin: more makes a certificate no likelier

_ModelKey: TypeAlias = tuple[int, int, int]  # trial, attempt, step


class _Arriving(NamedTuple):
    """A checkpoint whose report is on the way."""

    step: int
    path: str
    kept: Kept


class KeptModels:
    """Keeps the models of the best valid checkpoints, and what trials can go on from.

    Workers write the files; this decides which stay. A file is deleted only after the commit
    that forgot it is on disk, so that the study file never names one that is gone.
    """

    def __init__(self, store: Store, stopper: Stopper, keep: int) -> None:
        self._store, self._stopper = store, stopper
        self._keep = max(keep, stopper.history.keep)
        self._models: dict[_ModelKey, Kept] = {}
        self._unsettled: set[_ModelKey] = set()  # written, their report on the way
        self._arriving: dict[int, _Arriving] = {}  # by trial
        self._doomed: list[Path] = []
        # checkpoints that hold but for a margin of acetune's own: they may be certified too
        self._bold: dict[_ModelKey, Position] = {}
        # what looks at fresh data have listed: a verdict is worth little without its model
        self._listed: set[_ModelKey] = set()
        margins = [c.margin for c in stopper.goals.constraints if c.margin_is_auto]
        self._aims, self._enough = bool(margins), max(margins, default=0.0) + _SAFE_ENOUGH

    @property
    def keep_below(self) -> float:
        """Models of valid checkpoints up to this loss are kept."""
        return self._stopper.history.kth_best(self._keep)

    def require_own(self, trial: StudyTrial, step: int, kind: str, path: str) -> Path:
        """Where a worker has written something; ReportError if that is not its own place."""
        try:
            return self._store.kept_folder(trial.number, trial.attempt, step, kind, path)
        except (OutsideError, TypeError, ValueError) as error:
            raise ReportError(
                f"trial {trial.number} has written to a place that is not its own: {error}"
            ) from None

    def add_model(
        self, trial: StudyTrial, step: int, path: str, size: int, digest: str | None = None
    ) -> None:
        """A worker has written the model of a checkpoint."""
        folder = self.require_own(trial, step, "model", path)
        key = trial.number, trial.attempt, step
        self._store.add_checkpoint(*key, "model", path, size, digest)
        self._models[key] = Kept(folder, size, digest)
        self._unsettled.add(key)

    def add_checkpoint(
        self, trial: StudyTrial, step: int, path: str, size: int, digest: str | None = None
    ) -> None:
        """A worker has written what its trial could go on from; it counts from its report on."""
        folder = self.require_own(trial, step, "resume", path)
        kept = Kept(folder, size, digest)
        self._arriving[trial.number] = _Arriving(step, path, kept)

    def settle_checkpoint(self, trial: StudyTrial, step: int) -> None:
        """The report at ``step`` was taken: go on from there; older checkpoints are not needed."""
        if trial.number not in self._arriving:
            return
        arrived = self._arriving[trial.number]
        # of a report that was refused, or of the last one
        if arrived.step != step or trial.begun.state not in ("running", "stopped"):
            self.forget_arriving(trial.number)
            return
        del self._arriving[trial.number]
        older = self._resumable(trial.number)
        self._store.add_checkpoint(
            trial.number,
            trial.attempt,
            step,
            "resume",
            arrived.path,
            arrived.kept.size,
            arrived.kept.digest,
        )
        for row in older:
            if row.kept.folder != arrived.kept.folder:
                self._delete(row)

    def forget_arriving(self, trial: int) -> None:
        """A checkpoint whose report never came, or that nobody will go on from, is of no use."""
        if trial in self._arriving:
            folder = self._arriving.pop(trial).kept.folder
            if all(folder != row.kept.folder for row in self._resumable(trial)):
                self._doomed.append(folder)

    def drop_resumable(self, trial: int) -> None:
        """The trial has come to its end: there is nothing to go on to."""
        for row in self._resumable(trial):
            self._delete(row)

    def choose_resumable(self, trial: int) -> None:
        """The trial was stopped: under other limits it may be worth going on with.

        Kept is what so many of the stopped trials could go on from, as many as there are models of
        the best: those that no other beats in both objective and distance to the limits, spread
        from safe to bold, and then the next best. What was never checked is stopped whatever the
        limits.
        """
        if not self._resumable(trial):
            return
        stopped: list[KeptRow] = []
        positions: list[Position] = []
        for row in self._store.kept("WHERE kind = 'resume'"):
            record = self._stopper.history.trials[row.trial]
            if record.state != "stopped":
                continue
            if record.last_excess is None:
                self._delete(row)
                continue
            stopped.append(row)
            positions.append(Position(record.progress.best_loss, -record.last_excess[1]))
        kept = choose(positions, self._keep)
        for place, row in enumerate(stopped):
            if place not in kept:
                self._delete(row)

    def resume_point(self, trial: int) -> tuple[Path | None, int, list[str]]:
        """The newest checkpoint a trial can go on from, its step, and what is wrong with newer.

        (None, 0) without one. One that is not what was written is forgotten.
        """
        broken: list[str] = []
        for row in reversed(self._resumable(trial)):
            fault = row.kept.fault()
            if fault is None:
                return row.kept.folder, row.step, broken
            broken.append(f"its checkpoint of step {row.step}, {row.kept.folder}, {fault}")
            self._delete(row)
        return None, 0, broken

    def _resumable(self, trial: int) -> list[KeptRow]:
        return self._store.kept("WHERE trial = ? AND kind = 'resume'", (trial,))

    def waiting_for_check(self) -> list[tuple[float, int, int, Kept]]:
        """Loss, trial, step and model of each one kept for a check after the run, best first."""
        return sorted(
            (
                (loss, key[0], key[2], self._models[key])
                for key, loss in self._losses_unchecked().items()
            ),
            key=lambda waiting: waiting[:3],
        )

    def waiting_to_be_measured_again(self) -> tuple[list[tuple[float, int, int, Kept]], int]:
        """Loss, trial, step and model of each one without a check, best first.

        And how many there are of attempts that another one has replaced.
        """
        checked, found, lost = self._store.checked(), [], 0
        for key, kept in self._models.items():
            if key in checked:
                continue
            record = self._stopper.history.trials.get(key[0])
            index = None if record is None else record.log.find(key[2])
            if record is None or index is None or key[1] != record.attempt:
                lost += 1
            else:
                found.append((record.log.loss[index], key[0], key[2], kept))
        return sorted(found, key=lambda waiting: waiting[:3]), lost

    def note(self, trial: int, attempt: int, check: CheckResult | None) -> None:
        """A checkpoint was checked: remember where it stands if it may be certified."""
        goals = self._stopper.goals
        if self._aims and check is not None and not check.valid and goals.keeps(check.measured):
            position = Position(check.loss, goals.safety(check.measured))
            self._bold[trial, attempt, check.step] = position

    def prune(self, reporting: int) -> None:
        """Keep the models of the best valid checkpoints and of running trials' best.

        ``reporting`` is the trial whose report was just taken: what it wrote is settled now.
        """
        self._unsettled = {key for key in self._unsettled if key[0] != reporting}
        if not self._stopper.policy.checks_after_run and len(self._models) > 1:
            self._keep_only(self.best() | self._listed | self._unsettled)

    def prune_after_run(self) -> None:
        """Keep the models of the best valid checkpoints, and unchecked ones that are better."""
        limit = self._stopper.history.gate  # what could still become the answer is better
        unchecked = {key for key, loss in self._losses_unchecked().items() if loss < limit}
        self._keep_only(self.best() | self._listed | unchecked)

    def best(self) -> set[_ModelKey]:
        """What is kept for the search's own sake: which looks there were does not matter."""
        return self._best_valid() | self._best_bold()

    def _best_valid(self) -> set[_ModelKey]:
        """The best ``keep`` models of valid checkpoints, and those of running trials' best.

        Where a certificate is aimed for, as many again that are worse and safer than these: should
        the best ones not pass, they may.
        """
        found: list[tuple[float, _ModelKey]] = []
        running, safe = set(), {}
        for key in self._models:
            record = self._stopper.history.trials[key[0]]
            best = record.best_valid
            if best is not None and (best.attempt, best.step) == key[1:]:
                found.append((best.loss, key))
                if self._aims:
                    safe[key] = Position(best.loss, self._stopper.goals.safety(best.measured))
                if record.state == "running":
                    running.add(key)
        found.sort(key=lambda item: item[0])  # stable: of equal ones the earlier stays
        chosen = running | {key for _, key in found[: self._keep]}
        return chosen | _spread(safe, self._keep, self._enough) if safe else chosen

    def _best_bold(self) -> set[_ModelKey]:
        """As many bold ones, spread from safe to best, that are better than every safe one."""
        if not self._bold:
            return set()
        valid = self._stopper.history.best
        better = math.inf if valid is None else valid.loss
        bold = {key: self._bold[key] for key in self._models if key in self._bold}
        return _spread({key: at for key, at in bold.items() if at.loss < better}, self._keep)

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
        for key, model in list(self._models.items()):
            if key not in kept:
                del self._models[key]
                self._delete(KeptRow(*key, "model", model))

    def _delete(self, row: KeptRow) -> None:
        self._store.drop_checkpoint(row.trial, row.attempt, row.step, row.kind)
        self._doomed.append(row.kept.folder)

    def sweep(self) -> None:
        """Delete what is no longer needed. To be called after the commit that forgot it."""
        if not self._doomed:
            return
        # else a power cut could take back the commit and not the deletion
        self._store.put_on_disk()
        for folder in self._doomed:
            with contextlib.suppress(OutsideError):  # changed since it was looked at: left alone
                delete_inside(self._store.root_of(folder), folder)
        self._doomed.clear()

    def load(self) -> None:
        """Take over what an earlier session kept; delete what it had not acknowledged."""
        files, rows = self._store.files, self._store.kept()
        # all of them, whatever fresh data said: so what is kept tells nothing of it
        self._listed = {place for look in self._store.looks() for place in look["candidates"]}
        for row in rows:
            if row.kind == "model":
                self._models[row.trial, row.attempt, row.step] = row.kept
        known = {row.kept.folder for row in rows}
        for found in files.glob("trial-*/attempt-*/*-*"):
            # the folder is the trial's own too: what training code has put there stays
            if is_kept_name(found.name) and found not in known:
                with contextlib.suppress(OutsideError):  # a link that leads elsewhere
                    delete_inside(files, found)


def _spread(
    positions: Mapping[_ModelKey, Position], most: int, enough: float = math.inf
) -> set[_ModelKey]:
    """So many of the models, from the safest to the best."""
    keys = list(positions)
    return {keys[place] for place in choose(list(positions.values()), most, enough)}
