"""``acetune record FILE -o TABLE``."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from acetune.cli.exits import ExitCode
from acetune.cli.params import PATH, workers_option
from acetune.cli.run import load_file
from acetune.core.errors import GoalError
from acetune.core.goals import split_constraints
from acetune.replay.curve_table import CurveTable
from acetune.replay.from_study import table_from_study
from acetune.replay.parallel import Lost
from acetune.replay.recorder import count_recorded, partial_path, require_new
from acetune.replay.recorder import record as record_table
from acetune.replay.table_file import write_table
from acetune.replay.training import RecordedCurve, Task
from acetune.run.terminal import progress_bar
from acetune.study.opening import installed_versions
from acetune.trial.hardware import available_cores, describe_hardware

_PACKAGES = ("acetune", "numpy", "lightgbm", "scikit-learn", "torch", "transformers")

output_option = click.option(
    "--output", "-o", type=PATH, default="curves.parquet", help="The table (Parquet)."
)
configs_option = click.option(
    "--configs", default=100, help="How many configurations, drawn at random."
)
seed_option = click.option("--seed", default=0, help="Of the configurations.")


@click.command()
@click.argument(
    "file", type=PATH, required=False, help="What to train: a Python file with train() and STUDY."
)
@output_option
@click.option("--from", "from_study", type=PATH, help="Make the table from a study that was run.")
@configs_option
@seed_option
@workers_option
def record(
    file: Path | None,
    output: Path,
    from_study: Path | None,
    configs: int,
    seed: int,
    workers: int | None,
) -> None:
    """Train configurations of FILE to the end and record every step's metrics and costs.

    Stop it with Ctrl-C and run it again: it goes on where it was.
    """
    if (file is None) == (from_study is None):
        raise GoalError(
            "name what to train, a Python file with train() and STUDY, or give --from STUDY, and "
            "not both"
        )
    require_new(output)
    if from_study is not None:
        table = table_from_study(from_study)
        write_table(output, table)
        _describe(table, output)
        return
    assert file is not None
    task, source = _file_task(file), {"file_sha256": digest(file)}
    record_task(task, output, configs, seed, workers, source, command="acetune")


def record_task(
    task: Task,
    output: Path,
    configs: int,
    seed: int,
    workers: int | None,
    source: Mapping[str, Any],
    *,
    command: str,
) -> None:
    """Record a task under a progress bar, and say what came out.

    ``source`` is which data: a recording goes on with the same only. ``command`` is how this
    program is called; its arguments are kept in the table.
    """
    count = available_cores() if workers is None else workers
    with progress_bar() as progress:
        done = count_recorded(partial_path(output))
        bar = progress.add_task(task.name, total=configs, completed=done)
        failures: list[str] = []

        def on_curve(config: int, curve: RecordedCurve | Lost) -> None:
            progress.advance(bar)
            if isinstance(curve, Lost):
                failures.append(curve.error)
                if len(failures) <= 3:
                    progress.console.print(
                        f"configuration {config} failed: {curve.error}", markup=False
                    )

        try:
            table = record_table(
                task,
                output,
                configs=configs,
                seed=seed,
                workers=count,
                made=_made(task, command),
                source=source,
                on_curve=on_curve,
            )
        except KeyboardInterrupt:
            kept = partial_path(output)
            progress.console.print(
                f"interrupted; what was recorded is in {kept}: the same command goes on",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    _describe(table, output)


def _describe(table: CurveTable, path: Path) -> None:
    """Say what was recorded, what is missing, and what can be done with it."""
    cut = sum(not table.complete(config) for config in range(len(table.configs)))
    lines = [
        f"{path}: {len(table.configs)} configurations, {len(table.cost_s)} steps, mean "
        f"{1e3 * table.mean_cost_s:.3g} ms a step, {1e3 * table.mean_check_cost_s:.3g} ms a check"
    ]
    failed = table.made.get("failed", {})
    if failed:
        lines.append(f"configurations that failed and are left out: {', '.join(failed)}")
    if cut:
        lines.append(f"incomplete curves: {cut}; a replay ends them where the record does")
    for constraint in table.constraints:
        if constraint.sparse:
            lines.append(
                f"{constraint.metric} is not known at every step: a check there counts as failed"
            )
    lines.append(f"compare policies on it: acetune replay {path}")
    # not wrapped: the last line is there to be copied
    Console(stderr=True).print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _file_task(path: Path) -> Task:
    """The task of a file as ``acetune run`` takes it."""
    train, study = load_file(path)
    on_model, _ = split_constraints(study.get("constraints", ()))
    return Task(
        path.stem,
        train,
        study["space"],
        study["objective"],
        study["mode"],
        on_model,
        study.get("confirm"),
    )


def _made(task: Task, command: str) -> dict[str, Any]:
    """How the table came to be: enough to make it again."""
    versions = installed_versions(_PACKAGES)
    arguments = shlex.join(_shown(argument) for argument in sys.argv[1:])
    return {
        "task": task.name,
        "command": f"{command} {arguments}",
        "versions": versions,
        "machine": describe_hardware(),
    }


def digest(path: Path) -> str:
    """Of a file, or of the files in a folder; of nothing where there is none, as on a hub."""
    found = hashlib.sha256()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _shown(argument: str) -> str:
    """An argument without the folders of this machine, as in ``--data=/home/me/law.csv``."""
    option, equals, value = argument.rpartition("=")
    if value.count("/") == 1 and not Path(value).exists():
        return argument  # a model on the hub, as in org/name
    return option + equals + Path(value).name
