"""What the package shows to the world, and what it costs to import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import metadata

import pytest

import acetune
from acetune.core import errors


def test_what_is_offered_is_what_is_exported() -> None:
    """Which names these are is held by the list in the reference (test_public_api.py)."""
    assert sorted(dir(acetune)) == acetune.__all__


@pytest.mark.parametrize("name", acetune.__all__)
def test_every_name_can_be_imported_and_says_what_it_is(name: str) -> None:
    found = getattr(acetune, name)
    assert inspect.getdoc(found)


@pytest.mark.parametrize(
    "room",
    [
        "callbacks",
        "constraints",
        "distributed",
        "export",
        "optuna",
        "plot",
        "ray",
        "replay",
        "testing",
        "trackers",
    ],
)
def test_rooms_are_opened_on_use(room: str) -> None:
    code = f"import acetune; print(acetune.{room}.__name__, bool(acetune.{room}.__all__))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == f"acetune.{room} True\n"


def test_a_missing_ray_names_the_install_command() -> None:
    code = "import sys; sys.modules['ray'] = None\nimport acetune; acetune.ray.AceScheduler"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode != 0
    assert "MissingExtraError" in found.stderr
    assert "pip install 'acetune[ray]'" in found.stderr


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'acetune' has no attribute 'tun'"):
        acetune.tun  # noqa: B018


def test_the_version_is_that_of_the_package() -> None:
    assert acetune.__version__ == metadata.version("acetune")


HEAVY = ["optuna", "pandas", "rich", "numpy", "click", "sqlite3", "multiprocessing.pool"]


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("acetune", HEAVY),
        ("acetune.run._worker_main", [name for name in HEAVY if name != "multiprocessing.pool"]),
    ],
)
def test_importing_is_light(module: str, heavy: list[str]) -> None:
    """Every worker process pays for what is imported here."""
    code = f"import {module}, sys; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_the_help_of_the_command_imports_none_of_its_verbs() -> None:
    code = (
        "import sys; from acetune.cli import main; sys.argv = ['acetune', '--help']\n"
        "try: main()\n"
        "except SystemExit: print({'acetune.cli.show', 'rich', 'numpy'} & sys.modules.keys())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.endswith("\nset()\n")


def test_every_error_is_in_the_drawn_tree() -> None:
    drawn = inspect.getdoc(errors) or ""
    for name, error in vars(errors).items():
        if inspect.isclass(error) and issubclass(error, BaseException):
            assert name in drawn, name
            if issubclass(error, Warning):
                assert error.__bases__ == (UserWarning,), name
            elif name != "TrialStopped":
                assert issubclass(error, errors.AcetuneError), name
                # indented under its parent
                parent = error.__bases__[0].__name__
                if parent != "Exception":
                    assert drawn.index(parent) < drawn.index(name), name


def test_what_stops_a_trial_is_not_swallowed_by_except_exception() -> None:
    assert not issubclass(errors.TrialStopped, Exception)
    assert not issubclass(errors.TrialStopped, errors.AcetuneError)
