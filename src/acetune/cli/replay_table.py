"""The comparison of policies as people read it in a terminal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from acetune.replay.compare import Setting
from acetune.replay.curves import CurveTable
from acetune.replay.judged import judge
from acetune.replay.runs import Run, Summary, summarise

_Column: TypeAlias = tuple[str, list[str]]  # its header and its cells

_NAME = 22  # of a policy: a longer one may be folded
_LARGE = 1e8  # from here on with an exponent
_CONFIRMED = ("confirmed", "limit\nbroken")


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
    title = f"{cell}, {_count(setting.workers, 'worker')}, {_count(found[0].runs, 'seed')}"
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
    known = "none is in the table" if best is None else f"the table's best is {_number(best)}"
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
        return _number(mean) + ("" if sd is None else f" ± {sd:.1g}")
    return f"{mean:.{decimals}f}" + ("" if sd is None else f" ± {sd:.{decimals}f}")


def _number(value: float) -> str:
    return f"{value:.0f}" if 1e4 <= abs(value) < _LARGE else f"{value:.5g}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
