"""What a quick run leaves out, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from documents import DOCS, ROOT
from long_tests import LONG, is_long
from properties import examples
from quick import TESTS, Guard, needs_torch, why_slow


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("core/test_cost.py", None),
        ("policies/test_conformance.py", None),
        ("report/test_what_if.py", None),
        ("callbacks/test_keras.py", "test_keras.py imports keras"),
        ("constraints/test_transformer.py", "test_transformer.py imports torch"),
        ("optuna_pruner/test_processes.py", "test_processes.py imports multiprocessing"),
        ("paper_experiments/test_reproduce.py", "it is in paper_experiments/"),
        ("report/test_still.py", "test_still.py uses the fixture browser"),
        ("study/test_result.py", "helpers.py imports acetune.tune"),  # run/helpers.py
        ("test_documentation_frameworks.py", "documents.py imports subprocess"),
    ],
)
def test_imports_say_what_is_slow(name: str, reason: str | None) -> None:
    assert why_slow(TESTS / name) == reason


@pytest.mark.parametrize(
    ("path", "needs"),
    [
        (TESTS / "callbacks" / "test_lightgbm.py", False),
        (TESTS / "callbacks" / "test_lightning.py", True),
        (TESTS / "constraints" / "test_transformer.py", True),  # by importorskip
        (TESTS / "constraints" / "test_size.py", False),  # in two of its tests, which skip
        (ROOT / "examples" / "two_constraints_pytorch.py", True),
        (ROOT / "examples" / "quickstart.py", False),
        (DOCS / "howto" / "lightning.md", True),
        (DOCS / "callbacks.md", False),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_what_needs_torch(path: Path, needs: bool) -> None:
    assert needs_torch(path) is needs


@pytest.mark.parametrize(
    ("event", "detail", "deed"),
    [
        ("import", "torch.nn", "loads torch.nn"),
        ("subprocess.Popen", "python", r"starts a process \(subprocess.Popen\)"),
    ],
)
def test_a_slow_test_that_is_not_marked_fails(event: str, detail: str, deed: str) -> None:
    guard = Guard()
    guard.notice(event, (detail, None))  # between tests
    guard.test = "test_x.py::test_y"
    guard.notice("import", ("torchless", None))
    guard.notice("open", ("torch", "r"))
    with pytest.raises(RuntimeError, match=f"test_x.py::test_y {deed}: mark it with"):
        guard.notice(event, (detail, None))


@pytest.mark.parametrize(
    ("event", "details"), [("os.fork", ()), ("os.posix_spawn", ("python", [], {}))]
)
def test_every_way_to_start_a_process_is_known(event: str, details: tuple[Any, ...]) -> None:
    guard = Guard()
    guard.test = "test_x.py::test_y"
    with pytest.raises(RuntimeError, match="starts a process"):
        guard.notice(event, details)


def test_how_many_examples_are_tried() -> None:
    profile = settings.get_current_profile_name()
    assert examples(60).max_examples == {"quick": 10, "half": 30, "all": 60}[profile]
    assert examples(5).max_examples == {"quick": 5, "half": 3, "all": 5}[profile]


@pytest.mark.parametrize("test", LONG)
def test_what_takes_long_is_there(test: str) -> None:
    name, *inside = test.split("::")
    code = (ROOT / name).read_text()
    assert all(f"\ndef {function.partition('[')[0]}(" in code for function in inside)
    assert is_long(test) and not is_long(f"{test}_too")
