"""One writer per study file: a lock beside it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from acetune.core.errors import StudyLockedError


def take_lock(path: Path) -> int:
    """An advisory lock that ends with the process, however it ends."""
    beside = _lock_file(path)
    # a link in its place would have some other file overwritten
    held = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_file_at(held, beside):  # whoever had it has deleted it since it was opened
            os.close(held)
            return take_lock(path)
        os.ftruncate(held, 0)
        os.pwrite(held, f"process {os.getpid()}".encode(), 0)
    except BlockingIOError:
        owner = os.read(held, 100).decode(errors="replace").strip() or "another process"
        os.close(held)
        raise StudyLockedError(
            f"{path} is being run by {owner}; wait for it to end, or look at it with: "
            f"acetune show {path}"
        ) from None
    except OSError:  # a full disk, say
        os.close(held)
        raise
    return held


def _lock_file(path: Path) -> Path:
    return path.with_name(path.name + "-lock")


def _is_file_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def release_lock(held: int, path: Path) -> None:
    """Delete the lock and let go of it.

    In this order: whoever has opened it meanwhile sees then that it is the lock no more.
    """
    with contextlib.suppress(OSError):
        _lock_file(path).unlink()
    with contextlib.suppress(OSError):
        os.close(held)
