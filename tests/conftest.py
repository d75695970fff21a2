"""What all tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from long_tests import LONG, is_long
from quick import SLOW_FOLDERS, TESTS, Guard, needs_torch, why_slow

# A call of Ray's in a process without Ray is an error. Ray itself would join whatever cluster it
# finds on this machine, or start one, and leave it running: only one_ray.py starts it here.
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"

GUARD = pytest.StashKey[Guard]()
# how long an example takes is the machine's affair, and says nothing of the code
settings.register_profile(
    "all", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("all")
settings.register_profile("half", settings.get_profile("all"), max_examples=50)
settings.register_profile("quick", settings.get_profile("all"), max_examples=10, derandomize=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="no processes, browsers or frameworks, and few examples of each property",
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="those of tests/long_tests.py, too, and all examples of each property, not half",
    )
    parser.addoption(
        "--without-torch",
        action="store_true",
        help="nothing that needs PyTorch: for environments that do not have it",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "slow: starts processes or loads a framework; not in a quick run"
    )
    if config.getoption("quick"):
        settings.load_profile("quick")
        config.stash[GUARD] = guard = Guard()
        sys.addaudithook(guard.notice)
    elif not config.getoption("all"):
        settings.load_profile("half")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    slow = config.getoption("quick") and _is_slow(collection_path)
    return (
        True
        if slow or (config.getoption("without_torch") and _needs_torch(collection_path))
        else None
    )


def _is_slow(path: Path) -> bool:
    if path.parent == TESTS and path.name in SLOW_FOLDERS:
        return True
    is_test = path.name.startswith("test_") and path.suffix == ".py" and TESTS in path.parents
    return is_test and why_slow(path) is not None


def _needs_torch(path: object) -> bool:
    return isinstance(path, Path) and path.suffix in {".py", ".md"} and needs_torch(path)


def _asks_for_torch(item: pytest.Item) -> bool:
    """Whether it runs an example or a page that needs PyTorch."""
    call = getattr(item, "callspec", None)
    return call is not None and any(_needs_torch(value) for value in call.params.values())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _is_slow(item.path):
            item.add_marker("slow")
    if config.getoption("quick"):
        config.hook.pytest_deselected(items=[item for item in items if _is_marked(item)])
        items[:] = [item for item in items if not _is_marked(item)]
    some = any(config.getoption(option) for option in ("quick", "without_torch"))
    if not some and not _is_named(config):
        gone = [test for test in LONG if not any(is_long(item.nodeid, (test,)) for item in items)]
        if gone:
            raise pytest.UsageError(f"tests/long_tests.py names what is no test: {gone}")
    if not config.getoption("all") and not _is_named(config):
        config.hook.pytest_deselected(items=[item for item in items if is_long(item.nodeid)])
        items[:] = [item for item in items if not is_long(item.nodeid)]
    if config.getoption("without_torch"):
        config.hook.pytest_deselected(items=[item for item in items if _asks_for_torch(item)])
        items[:] = [item for item in items if not _asks_for_torch(item)]
    # Processes take file after file. Those that take long come first, so that none of them is left
    # to one process at the end, while the other has nothing to do. The longest lie at the top: they
    # run the examples and the pages of the documentation.
    items.sort(key=lambda item: (not _is_slow(item.path), item.path.parent != TESTS))


def _is_named(config: pytest.Config) -> bool:
    """Whether tests were asked for by name: then none of them is left out."""
    return config.args_source is pytest.Config.ArgsSource.ARGS


def _is_marked(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    guard = item.config.stash.get(GUARD, None)
    if guard is None:
        return (yield)
    guard.test = item.nodeid
    try:
        return (yield)
    finally:
        guard.test = None


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Where a test may have its study file."""
    return tmp_path / "study.db"
