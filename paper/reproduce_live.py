"""``python -m paper fairness --live``: the options, and what they start."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from acetune.cli.demo_credit import lightgbm
from acetune.cli.exits import ExitCode
from acetune.cli.params import PATH
from acetune.core.errors import GoalError
from acetune.replay.curve_table import CurveTable
from acetune.report.figure_files import write_figures
from acetune.run.terminal import progress_bar
from acetune.searchers import make_searcher
from acetune.searchers.space import Space
from acetune.study.result import StudyResult
from paper.live import run_pending
from paper.live_page import live_json, live_report
from paper.live_plan import LiveCase, LivePlan
from paper.live_replay import REPLAYED_SEEDS, Beside, by_row, replay_beside
from paper.live_runs import LiveRun, read_run
from paper.live_speed import require_space
from paper.live_studies import Studies, conditions_now
from paper.tasks.credit import paper_credit

_OPTIONS = (
    click.option("--live", is_flag=True, help="Train for real; goes on where it was."),
    click.option("--data", type=PATH, help="With --live: the UCI credit file (CSV)."),
    click.option("--limits", help="With --live: on EOD; 0.25,0.325 by default."),
    click.option(
        "--policies",
        help="With --live: as in none,asha+after,ace:truncation=0.5; those of the paper's table by "
        "default.",
    ),
    click.option("--searchers", help="With --live: random,blendsearch by default."),
    click.option("--engine", help="With --live: local (the default) or ray."),
    click.option(
        "--workers",
        type=int,
        help="With --live: concurrent trials, one thread each; 4 by default.",
    ),
    click.option(
        "--studies",
        type=PATH,
        help="With --live: folder for the study files; live-studies by default.",
    ),
    click.option(
        "--no-replay", is_flag=True, help="With --live: nothing from the table beside it."
    ),
)


def live_options(command: Callable[..., None]) -> Callable[..., None]:
    """Real training, and what is said of it."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def make_plan(
    limits: str | None,
    policies: str | None,
    searchers: str | None,
    seeds: str | None,
    budget_s: float | None,
    engine: str | None,
    workers: int | None,
) -> LivePlan:
    """The plan of the options; the paper's where they say nothing."""
    given: dict[str, Any] = {
        "limits": None if limits is None else _numbers("--limits", limits, float),
        "policies": None if policies is None else split_policies(policies),
        "searchers": None if searchers is None else tuple(searchers.split(",")),
        "seeds": None if seeds is None else _numbers("--seeds", seeds, int),
        "budget_s": budget_s,
        "engine": engine,
        "workers": workers,
    }
    return LivePlan(**{name: value for name, value in given.items() if value is not None})


def split_policies(text: str) -> tuple[str, ...]:
    """Names at commas; a comma before another option of the same policy is left.

    >>> split_policies("none,ace:truncation=0.5,gate=False,asha+after")
    ('none', 'ace:truncation=0.5,gate=False', 'asha+after')
    """
    return tuple(re.split(r",(?![^,:]*=)", text))


def _numbers(option: str, text: str, kind: type[int] | type[float]) -> tuple[float, ...]:
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        example = "20,21,22" if kind is int else "0.25,0.325"
        raise GoalError(
            f"{option} must be numbers with commas between them, as in {example}, got {text!r}"
        ) from None


def reproduce_live(
    plan: LivePlan,
    *,
    data: Path | None,
    folder: Path,
    table: CurveTable | None,
    processes: int,
    output: Path,
    suffix: str,
) -> None:
    """Run the studies that are not there yet, then write the page, its picture and the numbers."""
    studies = Studies(folder)
    pending = [case for case in plan.cases() if not studies.whole(case)]
    if pending:
        _train(plan, pending, data, studies, table)
    conditions, command = studies.conditions()
    for name in ("budget_s", "workers", "engine"):
        known, asked = getattr(conditions, name), getattr(plan, name)
        if known != asked:
            option = name.replace("_", "-")
            raise GoalError(f"the studies in {folder} had --{option} {known}, and not {asked}")
    live = [read_run(studies.path(case), case) for case in plan.cases()]
    beside = None if table is None else _replay(table, live, plan, processes)
    page, drawn = live_report(live, plan, conditions, beside, output, suffix)
    versions = ", ".join(f"{name} {version}" for name, version in conditions.versions.items())
    page.text(f"Trained by `{command}` with {versions}.")
    # the page first: should no browser be there to draw, the measurements are not lost
    page.write(output / "fairness-live.md")
    kept = json.dumps(live_json(live, plan, conditions, command, beside), indent=1, allow_nan=False)
    (output / "live-runs.json").write_text(kept + "\n", encoding="utf-8")
    write_figures(drawn)
    click.echo(output / "fairness-live.md")


def _train(
    plan: LivePlan,
    pending: Sequence[LiveCase],
    data: Path | None,
    studies: Studies,
    table: CurveTable | None,
) -> None:
    if data is None:
        raise GoalError(
            f"{len(pending)} of {len(plan.cases())} studies are not in {studies.folder} yet, the "
            f"first being {pending[0]}: give --data FILE to train on, the UCI file 'default of "
            "credit card clients' as CSV"
        )
    lightgbm()  # say at once if it is missing
    credit = paper_credit(data)
    space = Space(credit.space)
    if table is not None:  # before hours of training that could not be compared with it
        require_space(table, space.describe())
    for searcher in plan.searchers:  # and here, not when its turn comes
        make_searcher(searcher, space)
    now = conditions_now(data, plan.budget_s, plan.workers, plan.engine)
    studies.begin_under(now, shown_command(sys.argv[1:]))
    total = len(plan.cases())
    done = total - len(pending)
    with progress_bar() as progress:
        bar = progress.add_task("studies", total=total, completed=done)

        def on_study(case: LiveCase, result: StudyResult) -> None:
            progress.advance(bar)
            best = "nothing feasible" if result.best is None else f"AUC {result.best.value:.4f}"
            progress.console.print(f"{case}: {best}", markup=False, highlight=False, soft_wrap=True)

        try:
            ended = run_pending(plan, credit, studies, on_study)
        except KeyboardInterrupt:
            ended = False
        if not ended:
            progress.console.print(
                f"interrupted; the studies that are whole are in {studies.folder}: the same "
                "command goes on, and begins the interrupted one anew",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            raise click.exceptions.Exit(ExitCode.INTERRUPTED)


def _replay(table: CurveTable, live: Sequence[LiveRun], plan: LivePlan, processes: int) -> Beside:
    with progress_bar() as progress:
        bar = progress.add_task("replay", total=len(by_row(live)) * REPLAYED_SEEDS)
        return replay_beside(table, live, plan, processes, lambda run: progress.advance(bar))


def shown_command(arguments: Sequence[str]) -> str:
    """The command without the folders of this machine; those below the current one are left.

    >>> shown_command(["fairness", "--data=../me/credit.csv", "-o", "docs/results"])
    'python -m paper fairness --data=credit.csv -o docs/results'
    """
    shown = []
    for argument in arguments:
        given = re.match(r"--[\w-]+=|-\w(?=[/~.])|", argument)  # an option with its value behind it
        option = given[0] if given else ""
        value = argument.removeprefix(option)
        path = Path(value)
        elsewhere = path.is_absolute() or ".." in path.parts or value.startswith("~")
        shown.append(option + (path.name if elsewhere else value))
    return f"python -m paper {shlex.join(shown)}"
