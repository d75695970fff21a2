"""Files that are written whole or not at all: exports, the report's page, figures."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from acetune.core.errors import AcetuneError


@contextlib.contextmanager
def replacing(paths: list[Path]) -> Iterator[list[Path]]:
    """Other names to write to, which become ``paths`` once all is written."""
    parts = [path.with_name(f".{path.name}.part-{os.getpid()}") for path in paths]
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        yield parts
        for part, path in zip(parts, paths, strict=True):
            part.replace(path)
    except OSError as error:
        raise AcetuneError(f"cannot write {paths[0]}: {error.strerror or error}") from None
    finally:
        for part in parts:
            with contextlib.suppress(OSError):
                part.unlink()
