"""``python -m paper record TASK -o TABLE``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from acetune.cli.record import TABLE, Configs, Output, Seed, Workers, digest, record_task
from acetune.replay.recorder import require_new
from paper.tasks import TASK_NAMES, load_task
from paper.tasks.pretrained import DISTILBERT


def record(
    task: Annotated[str, typer.Argument(help=f"What to train: {', '.join(TASK_NAMES)}.")],
    output: Output = TABLE,
    configs: Configs = 100,
    seed: Seed = 0,
    workers: Workers = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The task's data: a file, or SST-2's folder (or 'hub') for robustness; made by "
            "code by default."
        ),
    ] = None,
    confirm_rows: Annotated[
        int, typer.Option(help="Rows to hold back for confirmation, where the task has none.")
    ] = 0,
    model: Annotated[
        str,
        typer.Option(help="For robustness: the folder of a pretrained model, or its hub name."),
    ] = "",
    suite: Annotated[
        Path | None, typer.Option(help="For robustness: the file of CheckList's sentiment suite.")
    ] = None,
) -> None:
    """Train configurations of TASK to the end and record every step's metrics and costs.

    Stop it with Ctrl-C and run it again: it goes on where it was.
    """
    require_new(output)
    chosen = load_task(task, data, confirm_rows=confirm_rows, model=model, suite=suite)
    source = _source(data, confirm_rows, model, suite)
    record_task(chosen, output, configs, seed, workers, source, command="python -m paper")


def _source(data: Path | None, confirm_rows: int, model: str, suite: Path | None) -> dict[str, Any]:
    """Which data: a recording goes on with the same only."""
    if data is None:
        return {}
    source: dict[str, Any] = {"data": data.name, "data_sha256": digest(data)}
    if suite is None:
        return {**source, "confirm_rows": confirm_rows}
    source |= {"model": Path(model).name or DISTILBERT, "suite_sha256": digest(suite)}
    return source | ({"model_sha256": digest(Path(model))} if Path(model).is_dir() else {})
