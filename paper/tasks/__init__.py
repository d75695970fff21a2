"""Ready-made tasks: data, training, check and confirmation, by name.

Adding one is a file of its own and a line in the table below.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import NamedTuple

from acetune.core.errors import GoalError
from acetune.replay.training import Task

__all__ = ["TASK_NAMES", "Task", "load_task"]


class _Entry(NamedTuple):
    """Where a task is made, and what it takes beside its data."""

    module: str
    function: str
    options: tuple[str, ...]


# imported on use, because their packages are heavy
_TASKS = {
    "credit-lightgbm": _Entry("paper.tasks.credit", "credit_lightgbm", ("confirm_rows",)),
    "law-mlp": _Entry("paper.tasks.law", "law_mlp", ("confirm_rows",)),
    "robustness": _Entry("paper.tasks.sentiment", "robustness", ("model", "suite")),
}
TASK_NAMES = tuple(_TASKS)


def load_task(
    name: str,
    data: Path | None = None,
    *,
    confirm_rows: int = 0,
    model: str = "",
    suite: Path | None = None,
) -> Task:
    """A task by its name, on real data or on data made by code.

    Parameters
    ----------
    data:
        A file, or a folder for ``robustness``; None for data made by code.
    confirm_rows:
        So many rows are held back for confirmation, where the task has none by itself.
    model, suite:
        For ``robustness``: a folder with a pretrained model, or its name on the hub; and the file
        of CheckList's sentiment suite.
    """
    if name not in _TASKS:
        raise GoalError(f"unknown task {name!r}; choose from {', '.join(TASK_NAMES)}")
    entry = _TASKS[name]
    options = {"confirm_rows": confirm_rows, "model": model, "suite": suite}
    given = {option: value for option, value in options.items() if value}
    for option, value in given.items():
        if option not in entry.options:
            fitting = ", ".join(task for task, other in _TASKS.items() if option in other.options)
            raise GoalError(
                f"{option.replace('_', '-')} is for {fitting}, not for {name}; got {value!r}"
            )
    task = getattr(importlib.import_module(entry.module), entry.function)(data, **given)
    assert isinstance(task, Task)
    return task
