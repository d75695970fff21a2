"""Models and checkpoints on disk."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import cloudpickle

from acetune.core.errors import ReportError


def write_folder(target: Path, write: Callable[[Path], object]) -> None:
    """Fill a folder under another name first: one that has its name is whole."""
    partial = target.with_name(target.name + "-partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        write(partial)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_model(folder: Path, model: object) -> None:
    """Pickle a model into a folder; a path is copied instead."""
    if isinstance(model, os.PathLike):
        path = Path(model)
        copy_into(path, folder / ("folder" if path.is_dir() else "file"))
        return
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


def load_model(folder: Path) -> object:
    """What was kept of a checkpoint: the model, or the path of the files that were given."""
    if (folder / "folder").exists():
        return folder / "folder"
    if (folder / "file").exists():
        return next((folder / "file").iterdir())
    with (folder / "model.pkl").open("rb") as file:
        return pickle.load(file)
