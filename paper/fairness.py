"""Table 1 of the paper: LightGBM under a fairness limit, with random search and BlendSearch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from acetune.replay.curve_table import CurveTable
from acetune.replay.pictures import critical_difference, over_time
from acetune.replay.runs import Run
from acetune.replay.statistics import rank_policies
from paper.measuring import WORKERS, Case, Measured, Plan, difference
from paper.page import (
    ACE,
    Drawn,
    Page,
    difference_text,
    head_note,
    interval_text,
    mean_text,
    verdict,
)
from paper.published import CHEAP, EASY, HARD, TABLE_1, Row

# random search with the callback is not in the paper's table, but belongs into the picture
_MORE = [
    Row(limit, "random", label, policy)
    for limit in (HARD, EASY)
    for label, policy in (("no stopping, callback", "none"), ("ASHA, callback", "asha"))
]
_ORDER = ["none+after", "none", "asha+after", "asha", "ace"]


def rows() -> list[Row]:
    """The paper's rows and ours, in the paper's order."""
    return sorted(
        [*TABLE_1, *_MORE],
        key=lambda row: (row.limit, row.searcher, _ORDER.index(row.policy)),
    )


def cases() -> list[Case]:
    """What has to be measured."""
    return [_case(row) for row in rows()]


def report(
    table: CurveTable, measured: Mapping[Case, Measured], plan: Plan, folder: Path, suffix: str
) -> tuple[Page, Drawn]:
    """The page and its pictures."""
    page = Page("Table 1: fairness")
    page.text(head_note(ACE))
    page.text(
        f"Replayed on `{table.name}`, {len(table.configs)} recorded LightGBM runs: "
        f"{plan.budget_s:g} s of simulated time on each of {WORKERS} workers, a check costs "
        f"{CHEAP} mean steps, {plan.seeds} seeds. The paper's runs took one hour on 4 "
        "workers, with up to 21,000 rounds per trial, and three seeds. AUC in per cent, mean ± "
        "standard deviation over seeds that found something feasible; the interval is a bootstrap "
        f"over configurations ({plan.samples} tables drawn anew, {plan.seeds_a_sample} seeds each, "
        "their spread put around the mean on the table itself; over seeds alone for ASHA with "
        "BlendSearch, which takes too long for more). 'Callback': "
        "the constraint is checked during the run for the searcher's sake; without it, after the "
        "run, from the best objective down.",
        "A row without a figure of the paper is ours alone.",
    )
    drawn: Drawn = {}
    for limit in (HARD, EASY):
        page.heading(f"EOD ≤ {limit:g}")
        chosen = [row for row in rows() if row.limit == limit]
        header = ["searcher, policy", "paper AUC", "our AUC", "95 % interval", "failed"]
        header += ["paper trials", "our trials", "paper time to best", "ours (s)"]
        page.table(header, [_row(row, measured[_case(row)]) for row in chosen])
        page.text("ACE against the others, in points of AUC, paired by seed:")
        header = ["searcher, against", "paper", "ours (95 % interval)", "verdict"]
        page.table(header, [r for row in chosen if (r := _versus(row, measured)) is not None])
        runs = [run for row in chosen for run in measured[_case(row)].runs]
        path = folder / f"fairness-{limit:g}{suffix}"
        drawn[path] = over_time(runs, objective="AUC", policies=_ORDER)
        page.picture(path, f"Best feasible AUC over simulated time, EOD ≤ {limit:g}")
    path = folder / f"fairness-ranks{suffix}"
    drawn[path] = critical_difference(rank_policies(_all_runs(measured), over="cells"))
    page.heading("Ranks")
    page.text("Average rank of each policy over the four cells (two limits, two searchers).")
    page.picture(path, "Average ranks with the critical difference")
    return page, drawn


def _case(row: Row) -> Case:
    return Case(row.policy, row.limit, CHEAP, row.searcher)


def _all_runs(measured: Mapping[Case, Measured]) -> list[Run]:
    return [run for row in rows() for run in measured[_case(row)].runs]


def _row(row: Row, ours: Measured) -> list[str]:
    found = ours.summary
    return [
        f"{row.searcher}, {row.label}",
        "-" if row.auc is None else f"{row.auc:.2f} ± {row.sd:.2f}",
        mean_text(found),
        interval_text(ours.interval),
        str(found.failures or ""),
        "-" if row.trials is None else f"{row.trials:,.0f}",
        f"{found.trials:,.0f}",
        row.time_to_best,
        "-" if found.time_to_best_s is None else f"{found.time_to_best_s:.0f}",
    ]


def _versus(row: Row, measured: Mapping[Case, Measured]) -> list[str] | None:
    """ACE against a row of the same limit and searcher."""
    if row.policy == "ace":
        return None
    ace = next(
        r for r in TABLE_1 if (r.limit, r.searcher, r.policy) == (row.limit, row.searcher, "ace")
    )
    ours = difference(measured[_case(ace)], measured[_case(row)])
    paper = None if row.auc is None or ace.auc is None else ace.auc - row.auc
    return [
        f"{row.searcher}, {row.label}",
        "-" if paper is None else f"{paper:+.2f}",
        difference_text(ours),
        verdict(paper, ours),
    ]
