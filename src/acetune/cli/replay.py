"""``acetune replay TABLE``."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from acetune.cli.params import PATH
from acetune.core.errors import GoalError
from acetune.core.formatting import count as counted
from acetune.core.formatting import number
from acetune.core.goals import Constraint
from acetune.policies import DEFAULT_POLICY, POLICY_NAMES
from acetune.replay.compare import Setting, compare
from acetune.replay.curve_table import CurveTable
from acetune.replay.judged_table import judge, parse_limit
from acetune.replay.pictures import critical_difference, dots, over_time
from acetune.replay.runs import Cell, Run, Summary, summarise
from acetune.replay.statistics import paired_signs, rank_policies
from acetune.replay.table_file import read_table
from acetune.report.figure_files import IMAGES, write_figures
from acetune.run.terminal import progress_bar
from acetune.searchers import DEFAULT_SEARCHER, SEARCHER_NAMES
from acetune.study.atomic_write import replacing
from acetune.trial.hardware import available_cores

_TRAINED = 50  # configurations that no stopping trains in the default budget,
_SHARE = 0.25  # but no more than this share of the table
_NAME = 22  # of a policy: a longer one may be folded
_LARGE = 1e8  # from here on with an exponent
_CONFIRMED = ("confirmed", "limit\nbroken")
_Column: TypeAlias = tuple[str, list[str]]  # its header and its cells


@click.command()
@click.argument("table", type=PATH, help="A curve table (Parquet).")
@click.option(
    "--policy",
    multiple=True,
    help=f"Repeat for several: {', '.join(POLICY_NAMES)}; options as in ace:truncation=0.5. What "
    f"tune() uses by default, {DEFAULT_POLICY}.",
)
@click.option(
    "--constraint",
    multiple=True,
    help="A limit, 'eod<=0.25'; limits that hold together are joined by commas. Repeat it for "
    "several cells. The table's own by default.",
)
@click.option(
    "--cost-ratio",
    type=float,
    multiple=True,
    help="What a check costs, in mean training steps; as recorded by default. Repeat it for "
    "several cells.",
)
@click.option(
    "--budget-s",
    type=float,
    help=f"Simulated seconds; by default what {_TRAINED} whole curves take on the workers, or a "
    "quarter of the table if that is less.",
)
@click.option("--workers", default=4, help="Simulated workers.")
@click.option("--startup-s", default=0.0, help="Simulated start-up cost of a trial.")
@click.option("--seeds", default=20, help="How many repetitions.")
@click.option(
    "--searcher",
    help=f"Who picks configurations: {', '.join(SEARCHER_NAMES)}. What tune() uses by default, "
    f"{DEFAULT_SEARCHER}; random if the table does not say what was searched.",
)
@click.option(
    "--processes", type=int, help="Processes that share the work; one per core by default."
)
@click.option("--json", "json_file", type=PATH, help="Write all runs and the summary here.")
@click.option(
    "--plot",
    type=PATH,
    help="Draw best feasible over time to this file, and means and ranks next to it (.html, .png, "
    ".svg, .pdf).",
)
def replay(
    table: Path,
    policy: tuple[str, ...],
    constraint: tuple[str, ...],
    cost_ratio: tuple[float, ...],
    budget_s: float | None,
    workers: int,
    startup_s: float,
    seeds: int,
    searcher: str | None,
    processes: int | None,
    json_file: Path | None,
    plot: Path | None,
) -> None:
    """Replay tune() on the recorded curves of TABLE, on a simulated clock, or compare policies."""
    count = available_cores() if processes is None else processes
    for option, given in (("seeds", seeds), ("workers", workers), ("processes", count)):
        if given < 1:
            raise GoalError(f"--{option} must be at least 1, got {given}")
    if budget_s is not None and not (math.isfinite(budget_s) and budget_s > 0):
        raise GoalError(f"--budget-s must be a finite number above 0, got {budget_s}")
    if not (math.isfinite(startup_s) and startup_s >= 0):
        raise GoalError(f"--startup-s must be a finite number from 0 on, got {startup_s}")
    if plot is not None and plot.suffix.lower() not in (".html", *IMAGES):
        known = ", ".join((".html", *IMAGES))
        raise GoalError(f"--plot {plot}: the name must end in one of {known}")
    curves = read_table(table)
    policies = list(dict.fromkeys(policy or [DEFAULT_POLICY]))
    budget = default_budget(curves, workers) if budget_s is None else budget_s
    ratios: list[float | None] = [*dict.fromkeys(cost_ratio)]
    if searcher is None:
        searcher = "random" if curves.space is None else DEFAULT_SEARCHER
    cells = itertools.product(_cells(curves, constraint), ratios or [None])
    settings = [Setting(*cell, budget, workers, searcher, startup_s) for cell in cells]
    console = Console()
    with progress_bar() as progress:
        bar = progress.add_task("replay", total=len(policies) * len(settings) * seeds)
        runs = compare(
            curves,
            policies,
            settings,
            range(seeds),
            processes=count,
            on_run=lambda run: progress.advance(bar),
        )
    per_cell = len(policies) * seeds
    for cell, setting in enumerate(settings):
        its_runs = runs[cell * per_cell : (cell + 1) * per_cell]
        console.print(cell_table(console, curves, setting, its_runs))
        for line in seed_by_seed(policies, its_runs):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    _warn(console, curves, runs)
    if json_file is not None:
        text = json.dumps(to_json(str(table), runs), indent=1, allow_nan=False) + "\n"
        with replacing([json_file]) as (part,):
            part.write_text(text, encoding="utf-8")
    if plot is not None:
        figures = _figures(curves, runs, policies, plot)
        write_figures(figures)
        names = ", ".join(str(path) for path in figures)
        console.print(f"drawn: {names}", markup=False, highlight=False, soft_wrap=True)


def seed_by_seed(policies: Sequence[str], runs: Sequence[Run]) -> list[str]:
    """How often the last policy named did better than each other one, in a single cell."""
    lines = []
    last = policies[-1]
    for other in policies[:-1]:
        (signs,) = paired_signs(runs, last, other).values()
        ties = f", {counted(signs.tie, 'tie')}" if signs.tie else ""
        lines.append(f"seed by seed: {last} {signs.better}, {other} {signs.worse}{ties}")
    return [*lines, ""] if lines else lines


def default_budget(table: CurveTable, workers: int) -> float:
    """Seconds in which the workers train so many whole curves, in two digits."""
    mean_curve_s = float(table.cost_s.sum()) / len(table.configs)
    curves = min(_TRAINED, _SHARE * len(table.configs))
    return float(f"{curves * mean_curve_s / workers:.2g}") or 1.0


def _cells(table: CurveTable, given: Sequence[str]) -> list[tuple[Constraint, ...]]:
    if not given:
        return [tuple(limit.goal for limit in table.constraints)]
    cells = [tuple(parse_limit(part) for part in text.split(",")) for text in given]
    return list(dict.fromkeys(cells))  # each once


def limits_text(constraints: str) -> str:
    """``eod <= 0.25`` as it is given on the command line, ``eod<=0.25``."""
    for spaced in (" <= ", " >= ", ", "):
        constraints = constraints.replace(spaced, spaced.strip())
    return constraints


def to_json(table: str, runs: Sequence[Run]) -> dict[str, Any]:
    """All runs and their summary as plain data."""
    return {
        "table": table,
        "tune_default": {"policy": DEFAULT_POLICY, "searcher": DEFAULT_SEARCHER},
        "runs": [
            {
                "policy": run.policy,
                **_cell(run.cell),
                "seed": run.seed,
                "best": run.best,
                "trials": run.trials,
                "constraint_evaluations": run.constraint_evaluations,
                "constraint_cost_share": run.constraint_cost_share,
                "time_to_best_s": run.time_to_best_s,
                "time_to_first_feasible_s": run.time_to_first_s,
                "reports": run.reports,
                "unmeasured_checks": run.unmeasured_checks,
                "confirmed": run.confirmed,
                "confirmed_broken": run.broken,
            }
            for run in runs
        ],
        "summary": [
            {
                "policy": found.policy,
                **_cell(found.cell),
                "mean": found.mean,
                "sd": found.sd,
                "failures": found.failures,
                "trials": found.trials,
                "constraint_evaluations": found.constraint_evaluations,
                "constraint_cost_share": found.constraint_cost_share,
                "time_to_first_feasible_s": found.time_to_first_s,
                "time_to_best_s": found.time_to_best_s,
                "confirmed": found.confirmed,
                "confirmed_broken_share": found.broken,
            }
            for found in summarise(runs)
        ],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "constraint": limits_text(cell.constraint),
        "cost_ratio": cell.cost_ratio,
        "budget_s": cell.budget_s,
        "workers": cell.workers,
        "searcher": cell.searcher,
    }


def _warn(console: Console, curves: CurveTable, runs: Sequence[Run]) -> None:
    """Say where the table itself limits what can be concluded."""
    whole = dict.fromkeys(run.policy for run in runs if run.trials == len(curves.configs))
    if whole:
        console.print(
            f"note: {', '.join(whole)} tried all {len(curves.configs)} configurations of the "
            "table in some runs; a larger table or a smaller budget tells more about them",
            style="yellow",
        )
    unmeasured = sum(run.unmeasured_checks for run in runs)
    if unmeasured:
        console.print(
            f"note: {unmeasured} checks asked for values that the table does not have and counted "
            "as failed; record all steps with 'acetune record' to compare fairly",
            style="yellow",
        )


def _figures(
    curves: CurveTable, runs: Sequence[Run], policies: Sequence[str], path: Path
) -> dict[Path | str, Any]:
    drawn: dict[Path | str, Any] = {}
    drawn[path] = over_time(runs, objective=curves.objective.name, policies=policies)
    means = dots(summarise(runs), objective=curves.objective.name, policies=policies)
    drawn[path.with_stem(path.stem + "-means")] = means
    if len(policies) > 1:
        several = len({run.cell for run in runs}) > 1
        ranks = rank_policies(runs, over="cells" if several else "runs")
        over = "cells" if several else "seeds of one table, which are no independent evidence"
        title = f"Average ranks over {over}"
        drawn[path.with_stem(path.stem + "-ranks")] = critical_difference(ranks, title=title)
    return drawn


# -- the comparison in a terminal ------------------------------------------------------------------


def cell_table(
    console: Console, curves: CurveTable, setting: Setting, runs: Sequence[Run]
) -> RenderableType:
    """One cell: a table with a line above and a few below; two tables where one is too wide."""
    found = summarise(runs)
    columns = _columns(found)
    confirmed = [column for column in columns if column[0] in _CONFIRMED]
    others = [column for column in columns if column not in confirmed]
    layouts = [[columns], [others, confirmed]] if confirmed else [[columns]]
    for parts, gap in itertools.product(layouts, (2, 1)):
        if max(_width(found, part, gap) for part in parts) <= console.width:
            break
    tables = [_table(found, part, gap) for part in parts]
    cell = runs[0].cell.describe()
    title = f"{cell}, {counted(setting.workers, 'worker')}, {counted(found[0].runs, 'seed')}"
    legend = Text(_legend(curves, setting, found), style="dim")
    shown: list[RenderableType] = [Text(title, style="bold")]
    for table in tables:
        shown += [table, ""]
    return Group(*shown, legend, "")


def _columns(found: Sequence[Summary]) -> list[_Column]:
    """Headers and cells; what would be empty is left out."""
    decimals = _decimals([row.sd for row in found])
    columns = [("best\n± sd", [_value(row.mean, row.sd, decimals) for row in found])]
    if any(row.failures for row in found):
        columns.append(("failed", [str(row.failures or "") for row in found]))
    columns += [
        ("trials", [f"{row.trials:.0f}" for row in found]),
        ("checks", [f"{row.constraint_evaluations:.0f}" for row in found]),
        ("check\ntime", [f"{row.constraint_cost_share:.0%}" for row in found]),
        ("first\nat s", [_seconds(row.time_to_first_s) for row in found]),
        ("best\nat s", [_seconds(row.time_to_best_s) for row in found]),
    ]
    if any(row.confirmed is not None for row in found):
        broken = ["-" if row.broken is None else f"{row.broken:.0%}" for row in found]
        confirmed = [_value(row.confirmed, None, decimals) for row in found]
        columns += zip(_CONFIRMED, (confirmed, broken), strict=True)
    return columns


def _width(found: Sequence[Summary], columns: Sequence[_Column], gap: int) -> int:
    """How wide the table is at least."""
    widths = [max(map(len, [*header.split("\n"), *cells])) for header, cells in columns]
    return _name_width(found) + sum(gap + width for width in widths)


def _name_width(found: Sequence[Summary]) -> int:
    return min(_NAME, max(len("policy"), *(len(row.policy) for row in found)))


def _table(found: Sequence[Summary], columns: Sequence[_Column], gap: int) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, gap - 1), pad_edge=False, show_edge=False)
    shown.add_column("policy", overflow="fold", min_width=_name_width(found))
    for header, _ in columns:
        shown.add_column(header, justify="right", no_wrap=True)
    for row, summary in enumerate(found):
        shown.add_row(Text(summary.policy), *(cells[row] for _, cells in columns))
    return shown


def _legend(curves: CurveTable, setting: Setting, found: Sequence[Summary]) -> str:
    objective = curves.objective
    best = judge(curves, setting.constraints, setting.cost_ratio).best
    better = "higher" if objective.mode == "max" else "lower"
    known = "none is in the table" if best is None else f"the table's best is {number(best)}"
    lines = [f"best: feasible {objective.name}, {better} is better; {known}"]
    if any(row.failures for row in found):
        lines.append("failed: seeds that found nothing feasible; the means are of the others")
    lines.append("first, best at s: when they were found; check time: share of the workers' time")
    if any(row.confirmed is not None for row in found):
        lines.append("confirmed, limit broken: the answers on rows that the search does not see")
    return "\n".join(lines)


def _decimals(deviations: Sequence[float | None]) -> int | None:
    """Two digits of the smallest deviation; None where that is no matter of decimals."""
    some = [sd for sd in deviations if sd]
    decimals = 1 - math.floor(math.log10(min(some))) if some else 9
    return max(0, decimals) if decimals <= 5 else None


def _value(mean: float | None, sd: float | None, decimals: int | None) -> str:
    if mean is None:
        return "-"
    if decimals is None or abs(mean) >= _LARGE:
        return number(mean) + ("" if sd is None else f" ± {sd:.1g}")
    return f"{mean:,.{decimals}f}" + ("" if sd is None else f" ± {sd:.{decimals}f}")


def _seconds(value: float | None) -> str:
    return "-" if value is None else number(value, 3)
