"""Whether a study was made by this user of this machine: its file may come from anywhere.

The name of the source file that ``acetune resume`` runs again stands in the study file with a mark:
an HMAC under a key that only this user has. Nobody else can make one, so nobody else chooses what
is run without a question.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
from pathlib import Path

_KEY_BYTES = 32


def mark_of(source: str | None) -> str | None:
    """The mark of a source file; None where there is none, or no place for a key."""
    key = _key()
    if source is None or key is None:
        return None
    return hmac.digest(key, os.fsencode(source), "sha256").hex()


def is_from_here(source: str, mark: object) -> bool:
    """Whether this user, on this machine, has begun a study with that source file."""
    known = mark_of(source)
    return known is not None and isinstance(mark, str) and hmac.compare_digest(known, mark)


def _key() -> bytes | None:
    """The key of this user, made where there is none yet."""
    with contextlib.suppress(OSError, RuntimeError):  # no home, or none to write to
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(state, "acetune", "key")
        with contextlib.suppress(FileNotFoundError):
            return _whole(path.read_bytes())
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        building = path.with_name(f"key-{os.getpid()}")
        descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(building, path)
        finally:
            building.unlink()
        return _whole(path.read_bytes())
    return None


def _whole(key: bytes) -> bytes | None:
    return key if len(key) == _KEY_BYTES else None
