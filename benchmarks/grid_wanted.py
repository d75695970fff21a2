"""What was wanted of ours and what came out, computed from the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import grid_plan as plan
from benchmarks.grid_cells import GridCell, Scores
from benchmarks.grid_results import HELD_OUT, GridResults, chosen_settings
from benchmarks.grid_summary import rank_in_cells, summarise_policy, with_held_out
from paper.page import Page, percent


class Demand(NamedTuple):
    """Something that was wanted of ours, and whether it came out so."""

    text: str
    reached: bool
    numbers: str

    @property
    def verdict(self) -> str:
        """In a word."""
        return "reached" if self.reached else "not reached"


def demands(scores: Scores, ours: str, cells: Sequence[GridCell]) -> dict[str, Demand]:
    """What was wanted, over these cells."""
    fixed = {policy: summarise_policy(scores, policy, cells) for policy in plan.FIXED}
    best = min(fixed.values(), key=lambda found: found.regret)
    firmest = min(fixed.values(), key=lambda found: found.worst)
    us, ace = summarise_policy(scores, ours, cells), fixed["ace"]
    ranks = rank_in_cells(scores, [*plan.FIXED, ours], cells)
    rank = dict(zip(ranks.policies, ranks.average_ranks, strict=True))
    second = min(rank[policy] for policy in plan.FIXED)
    dear = [cell for cell in cells if cell.cost_ratio >= plan.DEAR]
    checks = summarise_policy(scores, ours, dear).check_time
    every = summarise_policy(scores, "ace-beta1", dear).check_time
    return {
        "a, mean": Demand(
            "mean no worse than the best fixed policy's",
            us.regret <= best.regret,
            f"{us.regret:.4f}, `{best.policy}` {best.regret:.4f}",
        ),
        "a, worst": Demand(
            "worst cell no worse than the best fixed policy's",
            us.worst <= best.worst,
            f"{us.worst:.4f}, `{best.policy}` {best.worst:.4f}; least of all fixed policies: "
            f"`{firmest.policy}` {firmest.worst:.4f}",
        ),
        "b": Demand(
            "mean at most 0.4 of ACE's",
            us.regret <= 0.4 * ace.regret,
            f"{ratio(us.regret, ace.regret)} of {ace.regret:.4f}",
        ),
        "c": Demand(
            "first in average rank",
            rank[ours] <= second,
            f"{rank[ours]:.2f}, next best {second:.2f} of {len(rank)} policies",
        ),
        "d": Demand(
            f"time on checks at most half of ace-beta1's where r >= {plan.DEAR:g}",
            checks <= 0.5 * every,
            f"{ratio(checks, every)} of {percent(every, 1)} % of the time",
        ),
        "e": Demand(
            "aim: mean at most 0.8 of the best fixed policy's",
            us.regret <= 0.8 * best.regret,
            f"{ratio(us.regret, best.regret)} of {best.regret:.4f}",
        ),
    }


def ratio(ours: float, theirs: float) -> str:
    """One number in parts of another."""
    return f"{ours / theirs:.2f}" if theirs else ("1.00" if not ours else "more than any part")


def add_wanted(page: Page, found: GridResults) -> None:
    """What was wanted and what came out."""
    page.heading("What was wanted and what came out")
    columns: dict[str, dict[str, Demand]] = {}
    choices = chosen_settings(found, twins=False)
    if choices:
        scores = with_held_out(found.scores, HELD_OUT, choices)
        columns["recorded, held out"] = demands(scores, HELD_OUT, list(scores))
    for group, cells in found.groups.items():
        columns[f"{group}, as it is"] = demands(found.scores, plan.OURS, cells)
    judged = {"a, mean": "recorded, held out", "a, worst": "recorded, held out"}
    lines = []
    for key, demand in next(iter(columns.values())).items():
        where = judged.get(key, "recorded, as it is")
        if where not in columns:
            lines.append(f"- not measured: ({key}) {demand.text}, {where}")
            continue
        came = columns[where][key]
        lines.append(f"- {came.verdict}: ({key}) {came.text}, {where}: {came.numbers}")
    page.text(
        f"(a) is judged held out: for each recorded table the setting of `{plan.OURS}` that was "
        "best on all other tables. The others are judged on the recorded tables with "
        f"`{plan.OURS}` as it is, without an option. The best fixed policy of a column is chosen "
        "in hindsight on the same cells.",
        "\n".join(lines),
        "The same everywhere:",
    )
    page.table(
        ["", *columns],
        [
            [f"({key}) {demand.text}", *(column_text(column[key]) for column in columns.values())]
            for key, demand in next(iter(columns.values())).items()
        ],
    )


def column_text(demand: Demand) -> str:
    """Verdict and numbers, small enough for a table."""
    return f"{'yes' if demand.reached else '**no**'}: {demand.numbers}"
