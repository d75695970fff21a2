"""``python -m paper record TASK -o TABLE``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from acetune.cli.params import PATH, workers_option
from acetune.cli.record import configs_option, digest, output_option, record_task, seed_option
from acetune.replay.recorder import require_new
from paper.tasks import TASK_NAMES, load_task
from paper.tasks.pretrained import DISTILBERT


@click.command()
@click.argument("task", help=f"What to train: {', '.join(TASK_NAMES)}.")
@output_option
@configs_option
@seed_option
@workers_option
@click.option(
    "--data",
    type=PATH,
    help="The task's data: a file, or SST-2's folder (or 'hub') for robustness; made by code by "
    "default.",
)
@click.option(
    "--confirm-rows", default=0, help="Rows to hold back for confirmation, where the task has none."
)
@click.option(
    "--model",
    default="",
    help="For robustness: the folder of a pretrained model, or its hub name.",
)
@click.option("--suite", type=PATH, help="For robustness: the file of CheckList's sentiment suite.")
def record(
    task: str,
    output: Path,
    configs: int,
    seed: int,
    workers: int | None,
    data: Path | None,
    confirm_rows: int,
    model: str,
    suite: Path | None,
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
