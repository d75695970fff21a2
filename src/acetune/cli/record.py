"""``acetune record TASK -o TABLE``."""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from acetune.cli.exits import ExitCode
from acetune.cli.progress import progress_bar
from acetune.cli.run import load_file
from acetune.core.errors import GoalError
from acetune.core.goals import split_constraints
from acetune.engines.local import available_cores
from acetune.hardware import describe_hardware
from acetune.replay.from_study import table_from_study
from acetune.replay.partial import RecordedCurve, count_recorded
from acetune.replay.processes import Lost
from acetune.replay.recorder import partial_path, require_new
from acetune.replay.recorder import record as record_table
from acetune.replay.table import CurveTable, write_table
from acetune.tasks import TASK_NAMES, Task, load_task
from acetune.tasks.pretrained import DISTILBERT
from acetune.versions import installed_versions

_PACKAGES = ("acetune", "numpy", "lightgbm", "scikit-learn", "torch", "transformers")


def record(
    task: Annotated[
        str | None,
        typer.Argument(
            help=f"What to train: {', '.join(TASK_NAMES)}, or a Python file with train() and STUDY."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The table (Parquet).")] = Path(
        "curves.parquet"
    ),
    from_study: Annotated[
        Path | None, typer.Option("--from", help="Make the table from a study that was run.")
    ] = None,
    configs: Annotated[int, typer.Option(help="How many configurations, drawn at random.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the configurations.")] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes; one a core by default.")
    ] = None,
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
    console = Console(stderr=True)
    if (task is None) == (from_study is None):
        raise GoalError(
            f"name what to train ({', '.join(TASK_NAMES)}, or a Python file), or give --from "
            "STUDY, and not both"
        )
    if (data or confirm_rows or model or suite) and (task is None or task.endswith(".py")):
        raise GoalError(
            "--data, --confirm-rows, --model and --suite are for the tasks "
            f"{', '.join(TASK_NAMES)}; {task or from_study} has its own data"
        )
    require_new(output)
    if from_study is not None:
        table = table_from_study(from_study)
        write_table(output, table)
        _describe(console, table, output)
        return
    assert task is not None
    is_file = task.endswith(".py")
    if is_file:
        chosen, source = _file_task(Path(task)), {"file_sha256": _digest(Path(task))}
    else:
        chosen = load_task(task, data, confirm_rows=confirm_rows, model=model, suite=suite)
        source = _source(data, confirm_rows, model, suite)
    count = available_cores() if workers is None else workers
    with progress_bar() as progress:
        done = count_recorded(partial_path(output))
        bar = progress.add_task(chosen.name, total=configs, completed=done)
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
                chosen,
                output,
                configs=configs,
                seed=seed,
                workers=count,
                made=_made(chosen),
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
            raise typer.Exit(ExitCode.INTERRUPTED) from None
    _describe(console, table, output)


def _describe(console: Console, table: CurveTable, path: Path) -> None:
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
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


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


def _made(task: Task) -> dict[str, Any]:
    """How the table came to be: enough to make it again."""
    versions = installed_versions(_PACKAGES)
    arguments = shlex.join(_shown(argument) for argument in sys.argv[1:])
    return {
        "task": task.name,
        "command": f"acetune {arguments}",
        "versions": versions,
        "machine": describe_hardware(),
    }


def _source(data: Path | None, confirm_rows: int, model: str, suite: Path | None) -> dict[str, Any]:
    """Which data: a recording goes on with the same only."""
    if data is None:
        return {}
    source: dict[str, Any] = {"data": data.name, "data_sha256": _digest(data)}
    if suite is None:
        return {**source, "confirm_rows": confirm_rows}
    source |= {"model": Path(model).name or DISTILBERT, "suite_sha256": _digest(suite)}
    return source | ({"model_sha256": _digest(Path(model))} if Path(model).is_dir() else {})


def _digest(path: Path) -> str:
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
