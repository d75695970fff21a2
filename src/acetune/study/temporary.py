"""Studies that nobody has given a file: they are removed when the program ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_FOLDERS: set[Path] = set()


def temporary_study() -> Path:
    """A study file in a folder of its own, which goes when this process ends in good order."""
    folder = Path(tempfile.mkdtemp(prefix="acetune-")).resolve()
    _FOLDERS.add(folder)
    atexit.register(_remove, folder, os.getpid())
    return folder / "study.db"


def is_temporary(study: Path) -> bool:
    """Whether the study is removed when this program ends."""
    return study.parent in _FOLDERS


def same_call(study: Path) -> str:
    """The call that goes on with a study, in words: one that nobody named has to be named then."""
    if not is_temporary(study):
        return "the same call"
    return f"the same call with study={str(study)!r} (which goes when this program ends)"


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not a forked child that ends
        shutil.rmtree(folder, ignore_errors=True)
