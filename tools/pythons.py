"""The tests on every version of Python that acetune supports: ``make pythons``.

Each version has an environment of its own, ``.venv-3.x``. PyTorch is left out of them, and with it
the tests that need it: it is by far the largest package, and what acetune does with it does not
depend on the version of Python. ``make test`` runs those tests, on one version.

Give versions to try only these: ``python tools/pythons.py 3.12``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
PYTEST = ["-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]


def supported() -> list[str]:
    """The versions that the package's classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [found[1] for line in project["classifiers"] if (found := CLASSIFIER.fullmatch(line))]


def interpreter(version: str) -> Path | None:
    """An interpreter of this version: on the PATH, or one that pyenv installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    candidates = [Path(on_path)] if on_path else []
    return next((path for path in [*candidates, *reversed(installed)] if runs(path)), None)


def runs(path: Path) -> bool:
    """Whether this starts: a shim of pyenv may stand for a version that is not chosen."""
    return subprocess.run([path, "-c", ""], capture_output=True).returncode == 0


def environment(version: str, python: Path) -> Path:
    """The interpreter of an environment with what the tests need; made if it is missing or old."""
    folder = ROOT / f".venv-{version}"
    inside, ready = folder / "bin" / "python", folder / ".ready"
    needs = ROOT / "pyproject.toml"
    if not ready.exists() or ready.stat().st_mtime < needs.stat().st_mtime:
        pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([python, "-m", "venv", folder], check=True)
        subprocess.run([*pip, "--upgrade", "pip"], check=True)
        subprocess.run([*pip, "-e", f"{ROOT}[dev-without-torch]"], check=True)
        ready.touch()
    return inside


def main(versions: list[str]) -> int:
    """Try these versions, one after the other; how many failed or are missing."""
    results: dict[str, str] = {}
    for version in versions:
        python = interpreter(version)
        if python is None:
            results[version] = "not found; install it, for example with pyenv"
            continue
        print(f"Python {version}: {python}", flush=True)
        inside = environment(version, python)
        tried = subprocess.run([inside, *PYTEST, "--without-torch"], cwd=ROOT)
        results[version] = "" if tried.returncode == 0 else f"failed (pytest: {tried.returncode})"
    for version, trouble in results.items():
        print(f"Python {version}: {trouble or 'passed'}")
    return sum(bool(trouble) for trouble in results.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or supported()))
