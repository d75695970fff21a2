"""A study as one of Optuna's, with official constraints."""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from acetune.core.errors import AcetuneError, GoalError
from acetune.study.connections import has_table
from acetune.study.export._gathered import Gathered, gathering
from acetune.study.export._optuna_trials import fixed_part, frozen_trials
from acetune.study.export.destinations import is_study_file, without_password

Target: TypeAlias = str | os.PathLike[str] | BaseStorage | None

_SQLITE = "sqlite:///"
_KEPT = (
    "objective",
    "constraints",
    "policy",
    "settings",
    "versions",
    "confirmations",
    "looks",
    "outcome",
    "status",
    "answer",
)


def to_optuna(
    study: str | os.PathLike[str],
    output: Target = None,
    *,
    study_name: str | None = None,
    force: bool = False,
    for_dashboard: bool = True,
) -> optuna.Study:
    """Write a study as one of Optuna's; returns it.

    Parameters
    ----------
    study:
        The study file; the study may be running.
    output:
        ``None``: in memory. A name that ends in ``.log``: Optuna's journal. Any other name, or a
        URL such as ``sqlite:///optuna.db``: a database. Or a storage of Optuna. Studies that the
        storage has already stay as they are.
    study_name:
        In Optuna; the name of the study file without its ending by default.
    force:
        Replace a study of that name in the storage.
    for_dashboard:
        Write constraints a second time as Optuna 4 did: optuna-dashboard reads those only. A
        ``GPSampler`` that goes on with the study would count them twice.

    The best trial of the study is that of acetune's answer; how trials are translated is in the
    documentation of exports.
    """
    path = Path(study)
    name = path.stem if study_name is None else study_name
    if not name:
        raise GoalError(f"the name of a study must not be empty, got {name!r}")
    with gathering(path) as gathered, _translated(output):  # read before anything is written
        storage = _storage(output)
        _make_room(storage, name, output, force)
        made = _create(storage, name, gathered)
        trials = frozen_trials(gathered, for_dashboard=for_dashboard)
        try:
            made = _add(made, storage, trials)
        except BaseException:
            with contextlib.suppress(Exception):  # half a study is worse than none
                _delete(storage, name)
            raise
    return made


def _storage(output: Target) -> BaseStorage:
    if output is None:
        return optuna.storages.InMemoryStorage()
    if isinstance(output, BaseStorage):
        return output
    place = os.fspath(output)
    if "://" in place and not place.startswith(_SQLITE):
        return _database(place)
    path = Path(place.removeprefix(_SQLITE))
    if is_study_file(path):
        raise AcetuneError(f"{path} is a study file of acetune; an export does not write to one")
    if path.is_dir():
        raise AcetuneError(f"{path} is a folder; give the name of a file, such as optuna.db")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".log":
        _require_journal(path)
        return _OwnJournal(path)
    _require_database(path)
    return _database(f"{_SQLITE}{path}")


def _database(url: str) -> RDBStorage:
    import sqlalchemy.exc  # takes its time

    try:
        return RDBStorage(url)
    except (ImportError, RuntimeError, sqlalchemy.exc.SQLAlchemyError) as error:
        text = str(error).splitlines()[0]
        raise AcetuneError(f"cannot open {without_password(url)!r} for Optuna: {text}") from None


def _require_journal(path: Path) -> None:
    """A file that exists must be Optuna's: else it would be written on at its end."""
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            if b'"op_code"' not in file.readline():
                raise AcetuneError(f"{path} exists and is no journal of Optuna; give another name")


def _require_database(path: Path) -> None:
    """A file that exists must be Optuna's: else its tables would be put among others."""
    if not path.exists() or not path.stat().st_size:
        return
    if not has_table(path, "studies"):
        raise AcetuneError(f"{path} exists and is no database of Optuna; give another name")


def _make_room(storage: BaseStorage, name: str, output: Target, force: bool) -> None:
    if name not in optuna.get_all_study_names(storage):
        return
    if not force:
        raise AcetuneError(
            f"{_shown(output)} has a study {name!r} already; choose another place, or replace that "
            "study with --force"
        )
    _delete(storage, name)


def _add(made: optuna.Study, storage: BaseStorage, trials: Iterator[FrozenTrial]) -> optuna.Study:
    """The study with these trials."""
    if isinstance(storage, RDBStorage):
        from acetune.study.export import _optuna_database as rdb

        rdb.add_trials(storage, made.study_name, trials)
    elif isinstance(storage, _OwnJournal):
        with storage.file.at_once():
            made.add_trials(trials)
        # as everybody finds it, also if somebody else has written to the file meanwhile
        made = optuna.load_study(study_name=made.study_name, storage=JournalStorage(storage.file))
    else:
        made.add_trials(trials)
    return made


class _JournalFile(JournalFileBackend):
    """Optuna's journal, which may wait for the disk once for many trials, not for each."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._held: list[dict[str, Any]] | None = None
        self._before = 0  # what is held

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Write what is written in here at the end of it; nothing of it if something raises."""
        self._before = sum(1 for _ in super().read_logs(0))
        held = self._held = []
        try:
            yield
        finally:
            self._held = None
        super().append_logs(held)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        if self._held is None:
            super().append_logs(logs)
        else:
            self._held += logs

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        known = super().read_logs(log_number_from)
        if self._held is None:
            yield from known
            return
        missing = self._before - log_number_from
        if missing > 0:
            yield from itertools.islice(known, missing)
        yield from self._held[max(0, -missing) :]


class _OwnJournal(JournalStorage):
    """A storage whose file is known to be ours to hold back."""

    def __init__(self, path: Path) -> None:
        self.file = _JournalFile(str(path))
        super().__init__(self.file)


def _delete(storage: BaseStorage, name: str) -> None:
    if isinstance(storage, RDBStorage):
        from acetune.study.export import _optuna_database as rdb

        rdb.delete_study(storage, name)
    else:
        optuna.delete_study(study_name=name, storage=storage)


def _create(storage: BaseStorage, name: str, gathered: Gathered) -> optuna.Study:
    objective = gathered.goals.objective
    made = optuna.create_study(
        storage=storage,
        study_name=name,
        direction="maximize" if objective.mode == "max" else "minimize",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        made.set_metric_names([objective.name])
    for key in _KEPT:
        made.set_user_attr(key, gathered.info[key])
    if fixed := fixed_part(gathered.info["space"]):
        made.set_user_attr("fixed", fixed)
    return made


@contextlib.contextmanager
def _translated(output: Target) -> Iterator[None]:
    """Optuna without its remarks, and its errors in plain words."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    except (OSError, StorageInternalError) as error:
        raise AcetuneError(f"cannot write {_shown(output)}: {error}") from error
    finally:
        optuna.logging.set_verbosity(before)


def _shown(output: Target) -> str:
    return (
        without_password(os.fspath(output))
        if isinstance(output, str | os.PathLike)
        else "the storage"
    )
