"""Without its framework a callback's module says what to install; nothing else needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def last_line(code: str, home: Path, **environment: str) -> str:
    env = {k: v for k, v in os.environ.items() if k != "KERAS_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        env={**env, "HOME": str(home), **environment},
    )
    return done.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize("module", ["lightning", "transformers", "keras"])
def test_the_error_names_the_install(module: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; import acetune.callbacks.{module}"
    error = last_line(code, tmp_path)
    assert error.startswith("acetune.core.errors.MissingExtraError")
    assert f"pip install 'acetune[{module}]'" in error


def test_keras_without_its_backend(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; import acetune.callbacks.keras"
    error = last_line(code, tmp_path, KERAS_BACKEND="torch")
    assert "Keras found no backend" in error
    assert "KERAS_BACKEND" in error


def test_acetune_alone_imports_none_of_them(tmp_path: Path) -> None:
    code = """
import sys, acetune, acetune.callbacks
print(sorted({"torch", "lightning", "transformers", "keras"} & set(sys.modules)), file=sys.stderr)
"""
    assert last_line(code, tmp_path) == "[]"
