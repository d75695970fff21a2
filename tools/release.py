"""Builds the packages of a release, and tries them as a user would: the end of ``make release``.

It stops at the first thing that is not ready: something not committed, figures of speed that were
measured on older code, a version that the changelog does not date, a package that an index would
refuse, a wheel that does not run the demo in an environment with nothing else. It uploads nothing.
docs/releasing.md has the whole list.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools import make_speed_page

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"


class ProblemError(Exception):
    """What stands in the way of a release."""


def main() -> None:
    """Check, build, try."""
    version = the_version()
    refuse_if_not_committed()
    refuse_if_measured_on_older_code()
    refuse_if_not_dated((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    shutil.rmtree(DIST, ignore_errors=True)
    build()
    packages = sorted(DIST.iterdir())
    call([sys.executable, "-m", "twine", "check", "--strict", *packages])
    (wheel,) = DIST.glob("*.whl")
    try_the_demo(wheel, version)
    print(f"acetune {version} is ready:", *(f"  dist/{path.name}" for path in packages), sep="\n")
    print(f"Tag it (git tag -s v{version}) and upload both files with twine.")


def the_version() -> str:
    """What pyproject.toml says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def refuse_if_not_committed() -> None:
    """A release is made from a commit."""
    changed = call(["git", "status", "--porcelain"]).strip()
    if changed:
        raise ProblemError(f"these files are not committed:\n{changed}")


def refuse_if_measured_on_older_code() -> None:
    """The figures of speed in the documentation are of the code that is released."""
    make_speed_page.require_agreement()
    names = sorted({*make_speed_page.older(make_speed_page.results())} - make_speed_page.ELSEWHERE)
    if names:
        raise ProblemError(
            "these figures of speed are of older code; run, on two cores that nothing else uses:\n"
            f'make bench BENCHMARKS="{" ".join(names)}"'
        )


def refuse_if_not_dated(changelog: str, version: str) -> None:
    """The changelog's first entry must be this version, with its day."""
    first = next(line for line in changelog.splitlines() if line.startswith("## "))
    if not re.fullmatch(rf"## {re.escape(version)} \(\d{{4}}-\d{{2}}-\d{{2}}\)", first):
        raise ProblemError(
            f"CHANGELOG.md begins with {first!r}; write '## {version} (YEAR-MONTH-DAY)'"
        )


def build() -> None:
    """Build both packages from what is committed, with the README as an index can show it."""
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "source.tar"
        call(["git", "archive", "--output", packed, "HEAD"])
        source = Path(folder) / "source"
        with tarfile.open(packed) as archive:
            archive.extractall(source, filter="data")
        readme = source / "README.md"
        readme.write_text(readme_for_an_index(readme.read_text("utf-8")), encoding="utf-8")
        call([sys.executable, "-m", "build", "--outdir", DIST, source])


def readme_for_an_index(text: str) -> str:
    """As one reads it without the repository: no pictures and links into it, another install."""
    text = text.replace("In the source folder, with Python", "With Python")
    text = text.replace("pip install '.[", "pip install 'acetune[")
    text = re.sub(r"^!\[[^\]]*\]\((?!\w+://)[^)]*\)\n+", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!\w+://)[^)]*\)", r"\1", text)


def try_the_demo(wheel: Path, version: str) -> None:
    """Install the wheel into an empty environment, and run the demo there."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        command = Path(folder) / "bin" / "acetune"
        install = [Path(folder) / "bin" / "pip", "install", "--quiet", f"{wheel}[lightgbm]"]
        call([*install, "--disable-pip-version-check"])
        installed = call([command, "--version"], cwd=folder).strip()
        if version not in installed:
            raise ProblemError(f"the wheel says that it is {installed!r}, not {version}")
        said = call([command, "demo"], cwd=folder)
        if "certified" not in said:
            raise ProblemError(f"the demo from the wheel found no certified answer:\n{said}")


def call(command: Sequence[str | Path], cwd: str | Path = ROOT) -> str:
    """What a command prints; a problem if it fails."""
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=True)
    if done.returncode:
        shown = " ".join(str(part) for part in command)
        raise ProblemError(f"{shown} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    try:
        main()
    except (ProblemError, make_speed_page.ProblemError) as problem:
        sys.exit(f"not ready: {problem}")
