"""Which test modules are slow, as their imports say: ``pytest --quick`` leaves those out.

A module is slow that imports something which starts processes, opens a browser or loads a
framework. It is enough that a helper of the tests which it imports does. The tests of the paper's
experiments and of the benchmarks are slow too: these are not in the package. Sources are read, not
imported: loading the frameworks is most of what a quick run saves.

A single test of another module is slow where it is marked so (``@pytest.mark.slow``). A test that
should be and is not fails in a quick run, with a message that says so (:class:`Guard`).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from documents import blocks

TESTS = Path(__file__).parent
FRAMEWORKS = frozenset(
    {
        "accelerate",
        "catboost",
        "fairlearn",
        "flaml",
        "keras",
        "lightgbm",
        "lightning",
        "mlflow",
        "ray",
        "sklearn",
        "torch",
        "transformers",
        "wandb",
        "xgboost",
    }
)
SLOW_IMPORTS = FRAMEWORKS | {
    "acetune.ray",
    "acetune.run.tuning",  # tune() starts workers
    "acetune.tune",
    "axe_playwright_python",
    "kaleido",
    "multiprocessing",
    "nbclient",
    "playwright",
    "subprocess",
}
NEEDS_TORCH = frozenset({"accelerate", "keras", "lightning", "torch", "transformers"})
SLOW_FOLDERS = frozenset({"grid_benchmark", "paper_experiments"})  # of what is not installed
SLOW_FIXTURES = frozenset({"browser", "local_ray"})
_STARTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"})


@functools.cache
def why_slow(path: Path) -> str | None:
    """What makes a module of the tests slow; None if nothing does."""
    folder = path.relative_to(TESTS).parts[0]
    if folder in SLOW_FOLDERS:
        return f"it is in {folder}/"
    return _why_slow(path, frozenset())


def _why_slow(path: Path, seen: frozenset[Path]) -> str | None:
    seen |= {path}
    for name in _names(path):
        parts = name.split(".")
        packages = {".".join(parts[: n + 1]) for n in range(len(parts))}
        if found := packages & SLOW_IMPORTS:
            return f"{path.name} imports {max(found)}"
        if name in SLOW_FIXTURES:
            return f"{path.name} uses the fixture {name}"
        for helper in (TESTS.joinpath(*parts), TESTS.joinpath(*parts[:-1])):
            source = helper.with_suffix(".py")
            if source.is_file() and source not in seen:
                if reason := _why_slow(source, seen):
                    return reason
                break
    return None


@functools.cache
def needs_torch(path: Path) -> bool:
    """Whether a module of tests, an example or a page of the documentation loads PyTorch.

    Of modules what they import at their top counts, and what their docstrings show.
    """
    if path.suffix == ".md":
        return any(_loads_torch(block.code) for block in blocks(path))
    text = path.read_text(encoding="utf-8")
    return ">>> import torch" in text or ">>> torch." in text or _loads_torch(text)


def _loads_torch(code: str) -> bool:
    names = (name for node in ast.parse(code).body for name in _loaded_by(node))
    return any(
        NEEDS_TORCH & set(name.removeprefix("acetune.callbacks.").split(".")[:1]) for name in names
    )


def _loaded_by(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        yield statement.module or ""
    elif isinstance(statement, (ast.Assign, ast.Expr)):
        call = statement.value
        if isinstance(call, ast.Call) and _is_importorskip(call):
            yield str(ast.literal_eval(call.args[0]))


@functools.cache
def _names(path: Path) -> list[str]:
    """What a module imports, at its top or later, and the slow fixtures that it uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return sorted({name for node in ast.walk(tree) for name in _names_of(node, path)})


def _names_of(node: ast.AST, path: Path) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = [node.module] if node.module else []
        if node.level:
            base = [*path.relative_to(TESTS).parts[: -node.level], *base]
        yield from (".".join([*base, alias.name]) for alias in node.names)
    elif isinstance(node, ast.Attribute) and _is_tune(node):
        yield "acetune.tune"
    elif isinstance(node, ast.arg) and node.arg in SLOW_FIXTURES:
        yield node.arg
    elif isinstance(node, ast.Call) and _is_importorskip(node):
        yield str(ast.literal_eval(node.args[0]))


def _is_tune(node: ast.Attribute) -> bool:
    return node.attr == "tune" and isinstance(node.value, ast.Name) and node.value.id == "acetune"


def _is_importorskip(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "importorskip"
        and isinstance(call.args[0], ast.Constant)
    )


class Guard:
    """Fails a quick test that starts a process or loads a framework after all."""

    def __init__(self) -> None:
        self.test: str | None = None  # that runs

    def notice(self, event: str, details: tuple[Any, ...]) -> None:
        """What Python is about to do: an audit hook."""
        if self.test is None:
            return
        if event == "import" and details[0].partition(".")[0] in FRAMEWORKS:
            self._refuse(f"loads {details[0]}")
        elif event in _STARTS:
            self._refuse(f"starts a process ({event})")

    def _refuse(self, deed: str) -> None:
        test, self.test = self.test, None  # reporting it may import
        raise RuntimeError(f"{test} {deed}: mark it with @pytest.mark.slow (tests/quick.py)")
