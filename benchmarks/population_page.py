"""What a population says, as a page."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from acetune.replay.statistics import Interval
from benchmarks.common import Page
from benchmarks.grid_cells import GridCell, Scores
from benchmarks.grid_summary import choose_elsewhere, with_held_out
from benchmarks.population_runs import Runs
from benchmarks.population_summary import (
    Families,
    interval_over_tasks,
    scores_of,
    with_best,
)
from benchmarks.population_tables import Source

BEST = "best of these, cell by cell"
CHOSEN = "chosen on the other {}"


def write_page(
    page: Page,
    runs: Runs,
    sources: Sequence[Source],
    policies: Sequence[str],
    reference: str,
    seeds: int,
) -> None:
    """A section a searcher, from runs of every policy in every cell with every seed."""
    families = Families(sources)
    everything = scores_of(runs, seeds)
    searchers = list(dict.fromkeys(cell.searcher for cell in everything))
    counts = ", ".join(f"{name} {len(families.tables(name))}" for name in families.names)
    page.add(
        f"{len(sources)} tables ({counts}), {len(everything)} cells, {seeds} seeds. Regret is 0 "
        "for the best feasible checkpoint of a table, 1 for the median configuration's, for "
        "everything worse, and where nothing was found. Each task counts once in its family "
        "and each family once in the mean. In brackets: 95 % intervals, by drawing "
        "tasks within families with replacement.",
        "",
    )
    for searcher in searchers:
        scores = {cell: by for cell, by in everything.items() if cell.searcher == searcher}
        page.add(f"## Searcher: {searcher}", "")
        _add_regrets(page, scores, families, policies)
        _add_differences(page, scores, families, policies, reference)
        _add_aspects(page, scores, families, policies)
    if len(searchers) > 1:
        page.add("## Searchers side by side", "")
        rows = []
        for policy in policies:
            row = [f"`{policy}`"]
            for searcher in searchers:
                cells = [cell for cell in everything if cell.searcher == searcher]
                row.append(f"{families.mean_regret(everything, policy, cells):.3f}")
            rows.append(row)
        page.table(["policy", *searchers], rows)


def _add_regrets(page: Page, scores: Scores, families: Families, policies: Sequence[str]) -> None:
    """Mean regret, by family, and what else came out."""
    cells = list(scores)
    rows = []
    for policy in sorted(policies, key=lambda p: families.mean_regret(scores, p, cells)):
        found = [scores[cell][policy] for cell in cells]
        others = [
            statistics.fmean(score.nothing for score in found),
            statistics.fmean(score.check_time for score in found),
            statistics.fmean(score.whole for score in found),
        ]
        row = _regrets(scores, families, policy)
        rows.append([*row, *(f"{100 * share:.0f} %" for share in others)])
    blank = ["", "", ""]
    if len(policies) > 1:
        rows.append([*_regrets(with_best(scores, BEST, policies), families, BEST), *blank])
    chosen_note: list[str] = []
    for what, left_out in left_out_of(families).items() if len(policies) > 1 else ():
        if len(left_out) > 1:
            name = CHOSEN.format(what)
            mean = families.mean_regret
            choices = choose_elsewhere(scores, policies, cells, left_out.values(), mean)
            held_out = with_held_out(scores, name, choices)
            rows.append([*_regrets(held_out, families, name), *blank])
            chosen = {choice.setting: list[str]() for choice in choices}
            for left, choice in zip(left_out, choices, strict=True):
                chosen[choice.setting].append(left)
            each = (f"`{setting}` for {', '.join(lefts)}" for setting, lefts in chosen.items())
            chosen_note += [f"{name.capitalize()}: {'; '.join(each)}.", ""]
    head = ["policy", "mean of families", *families.names, "nothing found", "time on checks"]
    page.table([*head, "whole table tried"], rows)
    page.add(
        f"{BEST.capitalize()}: in hindsight, on the same seeds, so a little too good. A run that "
        "tried the whole table could not have gone on: where there are such runs, policies differ "
        "by less than they would.",
        "",
        *chosen_note,
    )


def left_out_of(families: Families) -> dict[str, dict[str, list[str]]]:
    """The tables that are left out together, by what is chosen on the others."""
    return {
        "families": {family: families.tables(family) for family in families.names},
        "tasks": families.tasks,
    }


def _regrets(scores: Scores, families: Families, policy: str) -> list[str]:
    by_task = families.by_task({cell: by[policy].regret for cell, by in scores.items()})
    found = [interval_over_tasks(by_task)]
    found += [interval_over_tasks({name: by_task[name]}) for name in families.names]
    return [policy if " " in policy else f"`{policy}`", *map(_interval, found)]


def _add_differences(
    page: Page, scores: Scores, families: Families, policies: Sequence[str], reference: str
) -> None:
    """Paired by cell: what the others have more or less than one of them."""
    rows = []
    for policy in policies:
        if policy != reference:
            by_task = families.by_task(
                {cell: by[policy].regret - by[reference].regret for cell, by in scores.items()}
            )
            found = [interval_over_tasks(by_task)]
            found += [interval_over_tasks({name: by_task[name]}) for name in families.names]
            rows.append([f"`{policy}`", *(_interval(interval, "+") for interval in found)])
    if rows:
        page.add(f"Regret less that of `{reference}`, cell by cell:", "")
        page.table(["policy", "mean of families", *families.names], rows)


def _add_aspects(page: Page, scores: Scores, families: Families, policies: Sequence[str]) -> None:
    """Means over families by limit, price of a check and budget; and whole tables by budget."""
    aspects: dict[str, Callable[[GridCell], str]] = {
        "limit": lambda cell: cell.kind,
        "check": lambda cell: f"{cell.cost_ratio:g} steps",
        "budget": lambda cell: f"{cell.configs} configurations",
    }
    columns: dict[str, list[GridCell]] = {}
    for aspect in aspects.values():
        for cell in scores:
            columns.setdefault(aspect(cell), []).append(cell)
    rows = [
        [
            f"`{policy}`",
            *(f"{families.mean_regret(scores, policy, cells):.3f}" for cells in columns.values()),
        ]
        for policy in policies
    ]
    page.add("Mean regret over families, by limit, price of a check and budget:", "")
    page.table(["policy", *columns], rows)
    budgets = {name: cells for name, cells in columns.items() if name.endswith("configurations")}
    if any(score.whole for by in scores.values() for score in by.values()):
        page.add("Share of the runs that tried the whole table, by budget and family:", "")
        groups = {
            f"{family}, {name}": [cell for cell in cells if families.family(cell) == family]
            for name, cells in budgets.items()
            for family in families.names
        }
        page.table(
            ["policy", *groups],
            [
                [f"`{p}`", *(_whole(scores, p, cells) for cells in groups.values())]
                for p in policies
            ],
        )


def _whole(scores: Scores, policy: str, cells: Iterable[GridCell]) -> str:
    return f"{100 * statistics.fmean(scores[cell][policy].whole for cell in cells):.0f} %"


def _interval(interval: Interval, sign: str = "") -> str:
    mean, low, high = (f"{number:{sign}.3f}" for number in interval)
    return f"{mean} ({low} to {high})"
