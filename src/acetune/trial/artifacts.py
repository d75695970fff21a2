"""Models and checkpoints on disk: what their folders are called, how they are written and checked.

A folder is written to outlast a power cut: everything in it is on disk before it gets its name, and
its name is on disk before anybody is told of it. A checksum tells later whether it is still what
was written.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from acetune.core.errors import BrokenModelError, ReportError

_PIECE_BYTES = 1 << 20
_KINDS = ("model", "resume")
_OURS = re.compile(r"(model|resume)-\d{7,}(-partial)?")
_anchored: set[tuple[Path, int]] = set()  # folders, whose own names this process has put on disk
_IN_EXPERIMENT = re.compile(r"acetune-model-[0-9a-z]+-(\d{7,})")


# -- what folders are called ----------------------------------------------------------------------


class OutsideError(ValueError):
    """A path is not where, or not what, it has to be."""


def attempt_name(trial: int, attempt: int) -> str:
    """The folder of an attempt, in the folder of its study."""
    return f"trial-{trial:05d}/attempt-{attempt}"


def step_name(kind: str, step: int) -> str:
    """The folder of a model, or of what a trial can go on from, in that of its attempt."""
    return f"{kind}-{step:07d}"


def kept_name(trial: int, attempt: int, step: int, kind: str) -> str:
    """The folder of a model, or of what a trial can go on from, in the folder of its study.

    >>> kept_name(3, 1, 25, "model")
    'trial-00003/attempt-1/model-0000025'
    """
    return f"{attempt_name(trial, attempt)}/{step_name(kind, step)}"


def is_kept_name(name: str) -> bool:
    """Whether a folder of this name, in that of an attempt, is a model or a checkpoint of ours."""
    return _OURS.fullmatch(name) is not None


def name_in_experiment(token: str, step: int) -> str:
    """The folder of a model in the folder of a trial of Ray's; ``token`` is of its attempt."""
    return f"acetune-model-{token}-{step:07d}"


def is_name_in_experiment(name: str, step: int) -> bool:
    """Whether a folder of this name, in that of a trial of Ray's, is the model of that step."""
    found = _IN_EXPERIMENT.fullmatch(name)
    return found is not None and int(found[1]) == step


def is_in_experiment(path: str, step: int) -> bool:
    """Whether this is a model of that step in the folder of a Ray experiment.

    >>> is_in_experiment("train_1/acetune-model-5f0c-0000025", 25)
    True
    >>> is_in_experiment("../acetune-model-5f0c-0000025", 25)
    False
    """
    folder, _, name = path.partition("/")
    return folder not in ("", ".", "..") and is_name_in_experiment(name, step)


def require_kept_name(trial: int, attempt: int, step: int, kind: str, path: str) -> None:
    """Raise OutsideError unless this is the path that such a folder has."""
    if kind not in _KINDS:
        raise OutsideError(f"{kind!r} is neither a model nor a checkpoint")
    due = kept_name(trial, attempt, step, kind)
    if path != due:
        raise OutsideError(f"the {kind} of step {step} belongs in {due!r}, not in {path!r}")


def confined(root: Path, path: Path) -> Path:
    """The path with links followed; raises OutsideError unless it lies inside ``root``."""
    try:
        whole, within = root.resolve(), path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL in the name
        raise OutsideError(f"{str(path)!r} leads nowhere: {error}") from None
    if whole not in within.parents:
        raise OutsideError(f"{str(path)!r} is not inside {str(whole)!r}")
    return within


def delete_inside(root: Path, path: Path) -> None:
    """Delete a folder, if it is there; raises OutsideError unless it lies inside ``root``."""
    shutil.rmtree(confined(root, path), ignore_errors=True)


def open_log(path: Path) -> int:
    """The descriptor of a log, to append to; a link in its place is deleted, not followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except OSError:
        if not path.is_symlink():
            raise
        path.unlink()
        return os.open(path, flags, 0o600)


class AttemptFolders:
    """Gives each attempt of a worker a folder with a log, and leaves no empty ones behind.

    A folder into which an attempt has written nothing becomes that of the next one: to make and to
    delete one for every attempt would take as long as many reports.
    """

    def __init__(self, files: Path) -> None:
        self._files = files
        self._folder: Path | None = None  # of the attempt under way
        self._given = False  # whether training code knows it: it may write there at any time
        self._unused: Path | None = None

    def make(self, trial: int, attempt: int) -> Path:
        """The folder of an attempt that begins."""
        self._folder, self._given = self._files / attempt_name(trial, attempt), False
        unused, self._unused = self._unused, None
        if unused is not None:
            if unused.name == self._folder.name:
                with contextlib.suppress(OSError):  # there is one already
                    unused.parent.rename(self._folder.parent)
                    return self._folder
            _remove_attempt(str(unused))
        try:
            self._folder.parent.mkdir(mode=0o700)
            self._folder.mkdir(mode=0o700)
        except OSError:  # what is there already may be a link that leads elsewhere
            confined(self._files, self._folder).mkdir(parents=True, exist_ok=True)
        return self._folder

    def given(self) -> Path:
        """The folder of the attempt under way, for its training code."""
        assert self._folder is not None  # there is one
        self._given = True
        return self._folder

    def done(self, folder: Path) -> None:
        """The attempt under way has ended, and its trial with it: no worker tries that again.

        Processes that the attempt has started and left may still write into its log.
        """
        if not self._given and _is_unused(folder) and not _has_children():
            self._unused = folder

    def close(self) -> None:
        """No more attempts begin."""
        if self._unused is not None:
            _remove_attempt(str(self._unused))


def _is_unused(folder: Path) -> bool:
    """Whether an attempt has left nothing but an empty log, and its trial no other attempt."""
    try:
        log = (folder / "log.txt").lstat()
        if not stat.S_ISREG(log.st_mode) or log.st_size or log.st_nlink > 1:
            return False
        if folder.is_symlink() or folder.parent.is_symlink():
            return False
        return _names(folder) == ["log.txt"] and _names(folder.parent) == [folder.name]
    except OSError:
        return False


def _has_children() -> bool:
    """Whether this process has others that it started, as far as the system tells."""
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def remove_empty(files: Path) -> None:
    """Delete empty logs in the folder of a study, and the folders in which nothing is left."""
    with contextlib.suppress(OSError):  # paths are plain text here: there may be many trials
        for trial in _folders(files, "trial-"):
            attempts = _folders(trial, "attempt-")
            for attempt in attempts:
                _remove_attempt(attempt)
            if not attempts:
                _remove_folder(trial)
        for log in files.glob("worker-*.log"):
            _remove_empty_log(log)
        files.rmdir()


def _remove_attempt(attempt: str) -> None:
    """Delete the folder of an attempt, and that of its trial, if nothing is in them."""
    with contextlib.suppress(OSError):
        _remove_empty_log(f"{attempt}/log.txt")
        os.rmdir(attempt)  # noqa: PTH106
        os.rmdir(os.path.dirname(attempt))  # noqa: PTH106, PTH120


def _folders(folder: str | Path, prefix: str) -> list[str]:
    """Those in a folder whose names begin so; links are left out."""
    with os.scandir(folder) as found:
        return [
            entry.path
            for entry in found
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False)
        ]


def _remove_folder(folder: str) -> None:
    with contextlib.suppress(OSError):  # there is something in it
        os.rmdir(folder)  # noqa: PTH106


def _remove_empty_log(log: str | Path) -> None:
    with contextlib.suppress(OSError):
        found = os.lstat(log)
        if stat.S_ISREG(found.st_mode) and found.st_size == 0:
            os.unlink(log)  # noqa: PTH108


# -- what was kept --------------------------------------------------------------------------------


class Written(NamedTuple):
    """What a folder held when it was written."""

    size: int
    digest: str  # SHA-256 of names, sizes and contents


class Kept(NamedTuple):
    """A model, or what a trial can go on from, as the study file knows it."""

    folder: Path
    size: int
    digest: str | None  # None: written by a version that took none

    def fault(self, *, full: bool = True) -> str | None:
        """What is wrong with it in words, or None; see :func:`fault`."""
        return fault(self.folder, self.digest if full else None, self.size)


def fault(folder: Path, digest: str | None, size: int) -> str | None:
    """What is wrong with a folder that was kept, in words that follow its name; None: nothing.

    Without ``digest`` only sizes are compared, and no file is read.
    """
    try:
        if not folder.is_dir():
            return "is missing"
        found = sum(path.stat().st_size for _, path in _contents(folder)[1])
        if found == 0 and size > 0:
            return "is empty"
        if found != size:
            return f"is not what was written: it has {found:,} bytes instead of {size:,}"
        if digest is not None and read_through(folder).digest != digest:
            return "is not what was written: its checksum is another one"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    return None


def _contents(folder: Path) -> tuple[list[str], list[tuple[str, Path]]]:
    """Names of the folders in it, and name and path of each file; links are followed.

    Names are relative, and in their order.
    """
    found: list[tuple[str, Path]] = []
    inside: list[str] = []
    for here, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        way = {os.path.realpath(here)}
        way.update(str(parent) for parent in Path(os.path.realpath(here)).parents)
        # a link to a folder on the way to it would never end
        folders[:] = [name for name in folders if os.path.realpath(f"{here}/{name}") not in way]
        inside += [os.path.relpath(f"{here}/{name}", folder) for name in folders]
        for name in names:
            path = Path(here) / name
            with contextlib.suppress(FileNotFoundError):  # a link that leads nowhere
                if stat.S_ISREG(path.stat().st_mode):
                    found.append((str(path.relative_to(folder)), path))
    return sorted(inside), sorted(found)


def _raise(error: OSError) -> None:
    raise error


def read_through(folder: Path, *, sync: bool = False) -> Written:
    """Size and checksum of what is in a folder; ``sync`` also waits until it is on disk."""
    import hashlib  # only where something is kept: a worker starts faster

    found, size = hashlib.sha256(), 0
    folders, files = _contents(folder)
    for name in folders:
        encoded = name.encode("utf-8", "surrogateescape")
        found.update(b"%d %b / " % (len(encoded), encoded))
    for name, path in files:
        with path.open("rb", buffering=0) as file:
            here = os.fstat(file.fileno()).st_size
            encoded = name.encode("utf-8", "surrogateescape")
            found.update(b"%d %b %d " % (len(encoded), encoded, here))
            while piece := file.read(_PIECE_BYTES):
                found.update(piece)
            if sync:
                os.fsync(file.fileno())
            size += here
    return Written(size, found.hexdigest())


# -- writing --------------------------------------------------------------------------------------


def write_folder(
    target: Path, write: Callable[[Path], object], root: Path, *, durable: bool = True
) -> Written:
    """Fill a folder under another name first: one that has its name is whole, and on disk.

    Nobody but its owner may read what is in it.

    Parameters
    ----------
    target, write:
        The folder, and who fills it.
    root:
        The folder of the study. The way down to it from there is put on disk too: whoever is
        told of the folder finds it after a power cut.
    durable:
        False does not wait for the disk: for a folder that is deleted soon.
    """
    partial = target.with_name(target.name + "-partial")
    delete_inside(root, partial)
    partial.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial.mkdir(mode=0o700)
    try:
        write(partial)
        _make_private(partial)
        written = read_through(partial, sync=durable)
        if durable:
            _sync_folders(partial)
        delete_inside(root, target)
        partial.rename(target)
        if durable:
            sync_way(target, root)
    finally:
        delete_inside(root, partial)
    return written


def _make_private(folder: Path) -> None:
    """Take all rights of others away; not of what links lead to, nor of hard links' other names."""
    for here, folders, names in os.walk(folder):
        for path in (Path(here, name) for name in (*folders, *names)):
            found = path.lstat()
            shared = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
            if not stat.S_ISLNK(found.st_mode) and not shared and found.st_mode & 0o077:
                path.chmod(stat.S_IMODE(found.st_mode) & 0o700)


def sync_written(folder: Path, root: Path) -> None:
    """Wait until a folder that somebody else has written is on disk, and the way down to it."""
    read_through(folder, sync=True)
    _sync_folders(folder)
    sync_way(folder, root)


def sync_way(folder: Path, root: Path) -> None:
    """Wait until the names on the way from ``root`` down to a folder are on disk, root's too.

    Above the folder's parent that is done once: each wait costs as much as a small model.
    """
    known = folder.parent, folder.parent.stat().st_ino
    for parent in folder.parents:
        sync_folder(parent)
        if known in _anchored or parent == root.parent:
            break
    _anchored.add(known)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folders(folder: Path) -> None:
    for here, _, _ in os.walk(folder, topdown=False):
        sync_folder(Path(here))


def write_model(folder: Path, model: object) -> None:
    """Pickle a model into a folder; a path is copied instead."""
    if isinstance(model, os.PathLike):
        path = Path(model)
        copy_into(path, folder / ("folder" if path.is_dir() else "file"))
        return
    import cloudpickle  # only where something is kept: whoever shows a study starts faster

    with (folder / "model.pkl").open("wb") as file:
        cloudpickle.dump(model, file)


def cannot_keep(error: Exception) -> str:
    """What to say about a model that could not be written."""
    return (
        f"the model cannot be kept ({type(error).__name__}: {error}); give report(..., "
        "snapshot=function) that returns a path, or something that can be pickled"
    )


def copy_into(source: Path, folder: Path) -> None:
    """Copy a file, or what is in a folder, into ``folder``."""
    if source.is_dir():
        shutil.copytree(source, folder, dirs_exist_ok=True)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, folder)


def checkpoint_writer(source: Callable[[Path], object] | Path) -> Callable[[Path], object]:
    """What ``report(checkpoint=...)`` was given, as a function that fills a folder."""
    if isinstance(source, os.PathLike):
        path = Path(source)
        if not path.exists():
            raise ReportError(f"checkpoint {str(path)!r} does not exist")
        return lambda folder: copy_into(path, folder)
    if not callable(source):
        raise ReportError(f"checkpoint must be a path or a function, got {source!r}")
    return source


class _PlainData(pickle.Unpickler):
    """Unpickles what needs no class and no function: so nothing can run."""

    def find_class(self, module: str, name: str, /) -> Any:
        raise ReportError(
            f"the model is a pickle with {module}.{name} in it, and to load it runs code that the "
            "maker of its study has chosen; if you trust them: load(trusted=True). A model that is "
            "kept as a file runs none: report(..., snapshot=function) with one that writes it in a "
            "format of its framework, such as safetensors or LightGBM's text, and returns the path"
        )


def load_model(folder: Path, *, trusted: bool = True) -> object:
    """What was kept of a checkpoint: the model, or the path of the files that were given.

    Unless it is ``trusted``, nothing of it is run: a model with code is a ReportError.
    """
    if (folder / "folder").exists():
        return folder / "folder"
    if (folder / "file").exists():
        return next((folder / "file").iterdir())
    with (folder / "model.pkl").open("rb") as file:
        if trusted:
            return pickle.load(file)
        try:
            return _PlainData(file).load()
        except ReportError:
            raise
        except Exception as error:  # whatever a damaged pickle raises
            raise BrokenModelError(f"{file.name} is no pickle of plain data: {error}") from None
