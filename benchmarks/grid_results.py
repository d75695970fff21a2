"""What the files of the grid hold, and the settings of ours that other tables would choose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import grid_plan as plan
from benchmarks.grid_cells import GridCell, Scores
from benchmarks.grid_file import read_scores
from benchmarks.grid_summary import (
    HeldOut,
    best_policy,
    choose_elsewhere,
    merged,
    scored_everywhere,
)

HELD_OUT = "ace2, chosen on other tables"
MAIN = (*plan.FIXED, plan.OURS)


class GridResults(NamedTuple):
    """What the result files of the grid hold."""

    about: dict[str, dict[str, Any]]  # how each part was made
    scores: Scores  # with random search, all parts together, where MAIN is complete
    tpe: Scores
    best_fixed: str  # of the fixed policies on the recorded tables; on all where there are none

    def of(self, group: str, cells: Sequence[GridCell] | None = None) -> list[GridCell]:
        """The cells of a group of tables."""
        chosen = list(self.scores) if cells is None else cells
        if group == "all":
            return list(chosen)
        tables = plan.RECORDED if group == "recorded" else plan.SYNTHETIC
        return [cell for cell in chosen if cell.table in tables]

    @property
    def groups(self) -> dict[str, list[GridCell]]:
        """Recorded, synthetic and, where there are both, all tables."""
        found = {group: self.of(group) for group in ("recorded", "synthetic")}
        found = {group: cells for group, cells in found.items() if cells}
        return found | {"all": self.of("all")} if len(found) > 1 else found


def read_parts(results: Path, parts: Sequence[str]) -> GridResults | None:
    """The files that exist; None without a cell in which all main policies were measured."""
    paths = {part: results / f"grid-{part}.json" for part in parts}
    read = {part: read_scores(path) for part, path in paths.items() if path.exists()}
    tpe = read["tpe"][1] if "tpe" in read else {}
    scores = merged(found for part, (_, found) in read.items() if part != "tpe")
    scores = {cell: scores[cell] for cell in scored_everywhere(scores, MAIN)}
    if not scores:
        return None
    recorded = [cell for cell in scores if cell.table in plan.RECORDED]
    best = best_policy(scores, plan.FIXED, recorded or list(scores))
    return GridResults({part: about for part, (about, _) in read.items()}, scores, tpe, best)


def chosen_settings(found: GridResults, twins: bool) -> list[HeldOut]:
    """The settings chosen on other tables; with ``twins`` both credit tables are left out at once.

    None where the settings are not measured everywhere, or nowhere else.
    """
    cells = scored_everywhere(found.scores, plan.SETTINGS)
    tables = list(dict.fromkeys(cell.table for cell in cells))
    recorded = [table for table in tables if table in plan.RECORDED]
    left_out = [(table,) for table in recorded if not (twins and table in plan.TWINS)]
    groups: list[tuple[str, ...]] = [*([plan.TWINS] if twins else []), *left_out]
    if len(cells) < len(found.scores) or len(tables) < 2 or not recorded:
        return []
    if twins and not set(plan.TWINS) < set(tables):
        return []
    return choose_elsewhere(found.scores, plan.SETTINGS, cells, groups)
