"""The studies of a live experiment on disk: which are whole, and under what conditions they ran.

A study that is under way lies in a folder of its own; one that has its place beside the others is
whole. The conditions lie with them, so that pages can be made on another machine, and so that
nobody compares wall-clock budgets of two machines, two versions or two data files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from acetune.core.errors import AcetuneError, StudyError, StudyFileError, StudyLockedError
from acetune.core.reason import INTERRUPTED
from acetune.study.connections import write_copy
from acetune.study.opening import installed_versions
from acetune.study.reader import StudyView, viewing
from acetune.study.store import Store
from acetune.trial.artifacts import delete_inside
from acetune.trial.hardware import available_cores, processor
from paper.live_plan import LiveCase

_CONDITIONS = "conditions.json"
_UNDER_WAY = "under-way"
_PACKAGES = ("acetune", "lightgbm", "numpy", "optuna", "flaml", "scikit-learn", "ray")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all studies of an experiment share: a comparison needs the same for all of them."""

    data_sha256: str
    budget_s: float
    workers: int
    engine: str
    cpu: str
    cores: int
    versions: dict[str, str]

    def require_same(self, other: Conditions, folder: Path) -> None:
        """An error that names what has changed since the studies in ``folder`` were begun."""
        for name, known in asdict(self).items():
            now = getattr(other, name)
            if now != known:
                raise StudyError(
                    f"the studies in {folder} were run with {name} {known!r}, and now it is "
                    f"{now!r}: they could not be compared; use another folder, --studies"
                )


def conditions_now(data: Path, budget_s: float, workers: int, engine: str) -> Conditions:
    """The conditions on this machine."""
    try:
        digest = hashlib.sha256(data.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise AcetuneError(f"cannot read {data}: {error.strerror}") from None
    return Conditions(
        digest,
        budget_s,
        workers,
        engine,
        processor(),
        available_cores(),
        installed_versions(_PACKAGES),
    )


class Studies:
    """A folder of studies, one a case.

    Parameters
    ----------
    folder:
        Where they lie; made when the first one is begun.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, case: LiveCase) -> Path:
        """Where the study of a case lies once it is whole."""
        policy = re.sub(r"[^\w.+=-]", "_", case.policy)
        return self.folder / f"eod-{case.limit!r}-{case.searcher}-{policy}-seed-{case.seed}.db"

    def whole(self, case: LiveCase) -> bool:
        """Whether the study has been run to its end."""
        return self.path(case).exists()

    def begin(self, case: LiveCase) -> Path:
        """The study file to write to; what an earlier try has left of it is deleted."""
        path = self._under_way(case)
        if path.exists():
            try:
                Store.open(path).close()
            except StudyLockedError:
                raise
            except StudyFileError:
                pass  # cut off in the middle of being written: deleted all the same
        _delete(path)
        return path

    def keep(self, case: LiveCase) -> bool:
        """Put a study in its place if it has been run to its end; False if it was interrupted."""
        path, place = self._under_way(case), self.path(case)
        with viewing(path) as view:
            if not _has_ended(view):
                return False
        copied = place.with_name(place.name + "-copied")
        copied.unlink(missing_ok=True)
        write_copy(path, copied)  # one file, whatever the log of the running study still holds
        copied.rename(place)
        _delete(path)
        with contextlib.suppress(OSError):  # another one is under way
            path.parent.rmdir()
        return True

    def _under_way(self, case: LiveCase) -> Path:
        return self.folder / _UNDER_WAY / self.path(case).name

    # -- conditions --------------------------------------------------------------------------------

    def conditions(self) -> tuple[Conditions, str]:
        """Under what conditions the studies were run, and the command that did it last."""
        path = self.folder / _CONDITIONS
        try:
            known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            command = known.pop("command")
            return Conditions(**known), str(command)
        except FileNotFoundError:
            raise AcetuneError(
                f"{self.folder} has no {_CONDITIONS}: it is no folder of live studies"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise AcetuneError(f"cannot read {path}: {error}") from None

    def begin_under(self, conditions: Conditions, command: str) -> None:
        """Note the conditions, or make sure that they are those of the studies already there."""
        path = self.folder / _CONDITIONS
        if path.exists():
            self.conditions()[0].require_same(conditions, self.folder)
        content = json.dumps({**asdict(conditions), "command": command}, indent=1)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(content + "\n", encoding="utf-8")
        except OSError as error:
            raise AcetuneError(f"cannot write {path}: {error.strerror}") from None


def _has_ended(view: StudyView) -> bool:
    """Whether the budget was spent and every late check made.

    A session notes its end before the late checks: should the user interrupt those, models that
    are better than the answer are left without one.
    """
    if view.ended is None or view.ended.code == INTERRUPTED.code:
        return False
    checked = set(view.reports.trial[view.reports.checked_step > 0].tolist())
    return all(trial in checked for trial, _, _ in view.models)


def _delete(path: Path) -> None:
    """A study file with everything beside it."""
    for suffix in ("", "-wal", "-shm", "-lock", "-new"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    for kept in list(path.parent.iterdir()) if path.parent.is_dir() else ():
        if kept.name.startswith(f"{path.name}.format-"):  # as an earlier version wrote it
            kept.unlink()
    delete_inside(path.parent, path.with_name(path.name + ".files"))
