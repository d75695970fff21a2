"""Ready-made tasks: data, training, check and confirmation, by name.

Adding one is a file of its own and a line in the table below.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from acetune.core.errors import GoalError
from acetune.tasks.base import Task

__all__ = ["TASK_NAMES", "Task", "load_task"]

# name -> module and the function that makes it; imported on use, because their packages are heavy
_TASKS = {
    "credit-lightgbm": ("acetune.tasks.credit", "credit_lightgbm"),
    "law-mlp": ("acetune.tasks.law", "law_mlp"),
}
TASK_NAMES = tuple(_TASKS)


def load_task(name: str, data: Path | None = None, confirm_rows: int = 0) -> Task:
    """A task by its name, on a file of real data or on data made by code.

    ``confirm_rows`` holds so many rows back for confirmation where the task has none by itself.
    """
    if name not in _TASKS:
        raise GoalError(f"unknown task {name!r}; choose from {', '.join(TASK_NAMES)}")
    module, function = _TASKS[name]
    task = getattr(importlib.import_module(module), function)(data, confirm_rows)
    assert isinstance(task, Task)
    return task
