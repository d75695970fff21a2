"""The page of the grid: tables and pictures from the files that its parts have written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from acetune.replay.pictures import critical_difference
from acetune.replay.statistics import Ranks
from acetune.report.figure_files import write_figures
from benchmarks import grid_plan as plan
from benchmarks.common import say
from benchmarks.grid_cells import GridCell, Scores
from benchmarks.grid_results import HELD_OUT, MAIN, GridResults, chosen_settings, read_parts
from benchmarks.grid_summary import (
    HeldOut,
    PolicySummary,
    best_policy,
    mean_regret,
    rank_in_cells,
    scored_everywhere,
    summarise_policy,
    with_held_out,
)
from benchmarks.grid_wanted import add_wanted
from benchmarks.regret_lines import regret_by_ratio
from benchmarks.regret_strips import regret_strips
from paper.page import ACE2, Drawn, Page, head_note, percent

MARGIN = 0.02  # cells in which ours is further behind than this are listed
ENOUGH = 50  # seeds


def write_page(results: Path, folder: Path, parts: Sequence[str]) -> None:
    """Make ``grid.md`` and its pictures from the files in ``results``."""
    found = read_parts(results, parts)
    if found is None:
        say("no page: the part random has no cell with all policies yet")
        return
    page, drawn = Page("The grid: regret over tables, limits, costs and budgets"), Drawn()
    page.text(head_note(ACE2))
    add_head(page, found)
    add_wanted(page, found)
    add_pictures(page, drawn, found, folder)
    add_policies(page, found)
    add_by_table(page, found)
    add_by_condition(page, found)
    add_held_out(page, found)
    add_tpe(page, found)
    add_ablation(page, found)
    add_behind(page, found)
    write_figures(drawn)
    page.write(folder / "grid.md")
    say(f"written: {folder / 'grid.md'}")


# -- what was measured ----------------------------------------------------------------------------


def add_head(page: Page, found: GridResults) -> None:
    """What, how, with what."""
    planned = len(plan.cells("random", plan.TABLES))
    seeds = sorted({about["seeds"] for about in found.about.values()})
    codes = {
        (plan.named(policy, [plan.OURS]), code)
        for about in found.about.values()
        for policy, code in about["code"].items()
    }
    page.text(
        f"{len(found.scores)} cells with random search ({planned} make the whole grid), "
        f"{' and '.join(map(str, seeds))} seeds a policy and cell, {plan.WORKERS} simulated "
        "workers. Everything below, the verdicts included, is computed from the files "
        "`benchmarks/results/grid-*.json`. Recorded tables are the judgement; the synthetic ones "
        "are shown beside them.",
        *(
            [f"**Preliminary: fewer than {ENOUGH} seeds, or not all cells.**"]
            if seeds[0] < ENOUGH or len(found.scores) < planned
            else []
        ),
        *(
            ["**Not all results are of the same code: `--again all` measures them anew.**"]
            if len(codes) > len({ours for ours, _ in codes})
            else []
        ),
        "\n".join(f"    {command}" for command in commands(found)),
        "  \n".join(dict.fromkeys(about["versions"] for about in found.about.values())),
    )
    page.heading("Definitions")
    made = ", ".join(
        f"`{name}` (drift {drift:g}, noise {noise:g})"
        for name, (drift, noise) in plan.SYNTHETIC.items()
    )
    limits = "; ".join(
        f"`{table}` {by_kind['hard']} hard, {by_kind['easy']} easy"
        for table, by_kind in limits_of(found).items()
    )
    page.text(
        "- **Cells**: every table with a hard and an easy limit, a check that costs "
        f"{', '.join(f'{ratio:g}' for ratio in plan.RATIOS)} mean steps (r), and the time in which "
        f"{plan.WORKERS} workers train {' or '.join(map(str, plan.BUDGETS))} mean configurations "
        "to the end, checks not counted. The budget does not depend on r.\n"
        f"- **Tables**: the recorded ones of `tables/`, and {made}: 600 configurations of 20 to 80 "
        f"steps each. Limits: {limits}.\n"
        "- **Regret** of a run: (loss found - best) / (median - best), cut to [0, 1]. Best is the "
        "best feasible checkpoint of the table; median that of the best feasible checkpoints of "
        "the configurations that have one; 1 where nothing was found. A cell's regret is the mean "
        "over seeds, a policy's mean is over cells, its worst cell the largest cell mean.\n"
        "- **Rank**: by regret within a cell, 1 is best, ties share; then the mean over cells.\n"
        "- **First**: time to the first feasible checkpoint as a share of the budget; runs without "
        "one count as 1, and are counted under **nothing**.\n"
        "- **Checks**: their share in what training and checks cost. **False stops** of a run: "
        "stopped trials whose recorded curve holds a feasible checkpoint better than the run's "
        "answer. **Whole table**: runs that tried every configuration before the time was up; "
        "what such a policy would do with the rest of its time, a table cannot say.\n"
        f"- **Fixed policies**: all but `{plan.OURS}`. The best fixed policy, "
        f"`{found.best_fixed}`, is the one with the best mean over the recorded cells, chosen in "
        "hindsight, which favours it."
    )


def commands(found: GridResults) -> list[str]:
    """Those that made the files."""
    return list(dict.fromkeys(about["command"] for about in found.about.values()))


def limits_of(found: GridResults) -> dict[str, dict[str, str]]:
    """The limits by table and kind."""
    limits: dict[str, dict[str, str]] = {}
    for cell in found.scores:
        limits.setdefault(cell.table, {})[cell.kind] = cell.limit
    return limits


# -- tables ---------------------------------------------------------------------------------------


def add_policies(page: Page, found: GridResults) -> None:
    """Policies by what was measured of them, by group of tables."""
    for group, cells in found.groups.items():
        ranks = rank_in_cells(found.scores, MAIN, cells)
        page.heading(f"Policies, {group} tables: {len(cells)} cells")
        add_summaries(page, found.scores, MAIN, cells, ranks)


def add_summaries(
    page: Page, scores: Scores, policies: Sequence[str], cells: Sequence[GridCell], ranks: Ranks
) -> None:
    """A row a policy, best mean first, and what the tests say of the ranks."""
    rank = dict(zip(ranks.policies, ranks.average_ranks, strict=True))
    summaries = [summarise_policy(scores, policy, cells) for policy in policies]
    head = ["policy", "mean regret", "worst", "worst cell", "rank", "first", "nothing", "checks"]
    page.table(
        [*head, "false stops", "trials", "whole table"],
        [
            summary_row(summary, rank[summary.policy])
            for summary in sorted(summaries, key=lambda summary: summary.regret)
        ],
    )
    p = f"{ranks.friedman_p:.2g}" if ranks.friedman_p >= 1e-4 else "below 0.0001"
    page.text(
        f"Friedman test over {ranks.blocks} cells: p {p}. Average ranks less than "
        f"{ranks.critical_difference:.2f} apart are not told apart (Nemenyi, "
        f"{100 * ranks.alpha:g} % level). Cells of one table are not independent, so both tests "
        "promise too much."
    )


def summary_row(found: PolicySummary, rank: float) -> list[str]:
    """A row of the table of policies."""
    return [
        name(found.policy),
        f"{found.regret:.4f}",
        f"{found.worst:.3f}",
        found.worst_cell.describe(),
        f"{rank:.2f}",
        f"{percent(found.first, 1)} %",
        f"{percent(found.nothing, 1)} %",
        f"{percent(found.check_share, 1)} %",
        f"{found.false_stops:.1f}",
        f"{found.trials:.0f}",
        f"{percent(found.whole, 0)} %",
    ]


def name(policy: str) -> str:
    """A policy in a table; ours stands out."""
    return f"**`{policy}`**" if policy == plan.OURS else f"`{policy}`"


def by_column(
    scores: Scores,
    policies: Sequence[str],
    columns: dict[str, list[GridCell]],
) -> list[list[str]]:
    """Mean regret of policies over groups of cells; the best of each is bold."""
    means = {
        column: {policy: mean_regret(scores, policy, cells) for policy in policies}
        for column, cells in columns.items()
    }
    rows = []
    for policy in policies:
        row = [name(policy)]
        for by_policy in means.values():
            text = f"{by_policy[policy]:.3f}"
            row.append(f"**{text}**" if by_policy[policy] == min(by_policy.values()) else text)
        rows.append(row)
    return rows


def add_by_table(page: Page, found: GridResults) -> None:
    """Mean regret by table."""
    tables = list(dict.fromkeys(cell.table for cell in found.scores))
    columns = {table: [c for c in found.scores if c.table == table] for table in tables}
    page.heading("Mean regret by table")
    page.table(["policy", *columns], by_column(found.scores, MAIN, columns))


def add_by_condition(page: Page, found: GridResults) -> None:
    """Mean regret by cost ratio, limit and budget."""
    for group, cells in found.groups.items():
        if group == "all":
            continue
        columns = by_condition(cells)
        page.heading(f"Mean regret by cost ratio, limit and budget, {group} tables")
        page.table(["policy", *columns], by_column(found.scores, MAIN, columns))


def by_condition(cells: Sequence[GridCell]) -> dict[str, list[GridCell]]:
    """Cells by cost ratio, by limit and by budget."""
    conditions: dict[str, Callable[[GridCell], object]] = {
        "r = {:g}": lambda cell: cell.cost_ratio,
        "{} limit": lambda cell: cell.kind,
        "{} configurations": lambda cell: cell.configs,
    }
    columns: dict[str, list[GridCell]] = {}
    for text, value in conditions.items():
        for cell in cells:
            columns.setdefault(text.format(value(cell)), []).append(cell)
    return columns


def add_held_out(page: Page, found: GridResults) -> None:
    """Settings chosen on other tables beside fixed policies."""
    choices = chosen_settings(found, twins=False)
    if not choices:
        return
    page.heading("Held out: settings chosen on other tables")
    options = [f"`{setting.partition(':')[2]}`" for setting in plan.SETTINGS[1:]]
    page.text(
        f"{len(plan.SETTINGS)} settings of `{plan.OURS}`: as it is, and with "
        f"{', '.join(options)}. For each recorded "
        "table the one with the best mean over the cells of all other tables, recorded and "
        "synthetic, is taken. The best fixed policy is chosen on the very cells it is judged by."
    )
    page.table(
        ["left out", "chosen elsewhere", "mean elsewhere", "mean here", "worst cell here"],
        [row for choice in choices for row in choice_rows(found, choice)],
    )
    scores = with_held_out(found.scores, HELD_OUT, choices)
    cells = list(scores)
    best = best_policy(scores, plan.FIXED, cells)
    rows = {HELD_OUT: HELD_OUT, plan.OURS: f"`{plan.OURS}` as it is", "ace": "`ace`"}
    rows[best] = f"`{best}`, the best fixed policy here"
    ranks = rank_in_cells(scores, [*plan.FIXED, HELD_OUT], cells)
    rank = dict(zip(ranks.policies, ranks.average_ranks, strict=True))
    table = []
    for policy, text in rows.items():
        found_here = summarise_policy(scores, policy, cells)
        numbers = [f"{found_here.regret:.4f}", f"{found_here.worst:.3f}"]
        place = f"{rank[policy]:.2f}" if policy in rank else "-"
        table.append([text, *numbers, found_here.worst_cell.describe(), place])
    page.table(["over all recorded cells", "mean regret", "worst", "worst cell", "rank"], table)
    both = chosen_settings(found, twins=True)
    if both:
        apart = with_held_out(found.scores, HELD_OUT, both)
        summary = summarise_policy(apart, HELD_OUT, list(apart))
        settings = ", ".join(
            f"`{choice.setting}` for {', '.join(choice.tables)}" for choice in both
        )
        page.text(
            f"{' and '.join(plan.TWINS)} are one task recorded twice, so that leaving out one of "
            f"them leaves its twin in. With both left out together: {settings}; mean "
            f"{summary.regret:.4f}, worst cell {summary.worst:.3f}."
        )


def choice_rows(found: GridResults, choice: HeldOut) -> list[list[str]]:
    """What was chosen for tables, and how it does there."""
    rows = []
    for table in choice.tables:
        here = [cell for cell in found.scores if cell.table == table]
        summary = summarise_policy(found.scores, choice.setting, here)
        numbers = (choice.elsewhere, summary.regret, summary.worst)
        rows.append([table, f"`{choice.setting}`", *(f"{number:.4f}" for number in numbers)])
    return rows


def add_tpe(page: Page, found: GridResults) -> None:
    """Policies with TPE."""
    policies = list(dict.fromkeys(p for by_policy in found.tpe.values() for p in by_policy))
    cells = scored_everywhere(found.tpe, policies)
    if len(policies) < 2 or not cells:
        return
    text = (
        f"The same cells ({len(plan.cells('tpe', plan.TABLES))} make them all) with TPE, at most "
        f"{plan.TPE_TRIALS} trials a run, which binds where trials are cheap: then policies are "
        "compared by as many trials, and who stops early has time left over. `none` is constrained "
        "TPE without pruning. A suggestion is answered by the nearest recorded configuration not "
        "yet tried."
    )
    for group in found.groups:
        inside = found.of(group, cells)
        if group == "all" or not inside:
            continue
        page.heading(f"With TPE, {group} tables: {len(inside)} cells")
        page.text(*([text] if inside[0] == cells[0] else []))
        ranks = rank_in_cells(found.tpe, policies, inside)
        add_summaries(page, found.tpe, policies, inside, ranks)
        columns = by_condition(inside)
        page.text("Mean regret by cost ratio, limit and budget:")
        page.table(["policy", *columns], by_column(found.tpe, policies, columns))


def add_ablation(page: Page, found: GridResults) -> None:
    """Ours without each of its parts."""
    policies = [plan.OURS, *plan.ABLATIONS]
    cells = scored_everywhere(found.scores, policies)
    if not cells:
        return
    page.heading(f"What each part of {plan.OURS} gains: {len(cells)} cells")
    dear = [c for c in cells if c.table in plan.RECORDED and c.cost_ratio >= plan.DEAR]
    rows = []
    for policy in policies:
        row = [name(policy), plan.ABLATIONS.get(policy, "as it is")]
        for group in found.groups:
            inside = found.of(group, cells)
            summary = summarise_policy(found.scores, policy, inside) if inside else None
            row += [f"{summary.regret:.4f}", f"{summary.worst:.3f}"] if summary else ["-", "-"]
        checks = summarise_policy(found.scores, policy, dear).check_time if dear else None
        row.append("-" if checks is None else f"{percent(checks, 1)} %")
        rows.append(row)
    head = [f"{group}: {what}" for group in found.groups for what in ("mean", "worst")]
    head.append(f"time on checks where r >= {plan.DEAR:g}, recorded")
    page.table(["policy", "what is different", *head], rows)


def add_behind(page: Page, found: GridResults) -> None:
    """The cells in which ours loses to the best fixed policy."""
    best, scores = found.best_fixed, found.scores
    gaps = {cell: by[plan.OURS].regret - by[best].regret for cell, by in scores.items()}
    behind = [cell for cell, gap in gaps.items() if gap > MARGIN]
    ahead = sum(gap < -MARGIN for gap in gaps.values())
    page.heading(f"Where {plan.OURS} is behind the best fixed policy")
    page.text(
        f"`{plan.OURS}` is worse than `{best}` by more than {MARGIN:g} in {len(behind)} of "
        f"{len(gaps)} cells, and better by more than that in {ahead}. ± is the standard error of "
        "the mean over seeds."
    )
    if not behind:
        return
    seeds = found.about["random"]["seeds"]
    page.table(
        ["cell", f"`{plan.OURS}`", f"`{best}`", "behind by"],
        [
            [
                cell.describe(),
                *(
                    f"{score.regret:.3f} ± {score.regret_sd / seeds**0.5:.3f}"
                    for score in (scores[cell][plan.OURS], scores[cell][best])
                ),
                f"{gaps[cell]:.3f}",
            ]
            for cell in sorted(behind, key=lambda cell: -gaps[cell])
        ],
    )


# -- pictures -------------------------------------------------------------------------------------


def add_pictures(page: Page, drawn: Drawn, found: GridResults, folder: Path) -> None:
    """Regret by cost ratio, ranks, and regret in every cell."""
    page.heading("Pictures")
    scores, best = found.scores, found.best_fixed
    shown = dict.fromkeys([plan.OURS, best, "ace", "ace-beta1", "asha-lex", "asha", "none"])
    labels = {p: f"{plan.label(p)}, the best fixed" if p == best else plan.label(p) for p in shown}
    groups = {}
    for group in [group for group in found.groups if group != "all"]:
        for kind in plan.DIFFICULTIES:
            cells = [cell for cell in found.of(group) if cell.kind == kind]
            groups[f"{group} tables, {kind} limit"] = {
                p: {r: mean_regret(scores, p, at(cells, r)) for r in ratios(cells)} for p in shown
            }
    path = folder / "grid-regret.png"
    drawn[path] = regret_by_ratio(groups, labels=labels)
    page.picture(path, "Mean regret by cost ratio, hard and easy limits")

    cells = found.of("recorded") or list(scores)
    over = "recorded cells" if found.of("recorded") else "synthetic cells"
    path = folder / "grid-ranks.png"
    drawn[path] = critical_difference(
        labelled(rank_in_cells(scores, MAIN, cells)), title=f"Average ranks over {over}", width=960
    )
    page.picture(path, f"Average ranks over {over}")

    three = {p: labels[p] for p in dict.fromkeys(["ace", best, plan.OURS])}
    path = folder / "grid-cells.png"
    subtitle = (
        "Rows: limit, cost of a check in mean steps, budget in mean configurations"
        "<br>0 is the best feasible checkpoint of the table, 1 the median configuration's"
    )
    drawn[path] = regret_strips(scores, three, subtitle=subtitle)
    page.picture(path, f"Regret in every cell: {', '.join(three.values())}")


def ratios(cells: Sequence[GridCell]) -> list[float]:
    """The cost ratios of cells."""
    return sorted({cell.cost_ratio for cell in cells})


def at(cells: Sequence[GridCell], cost_ratio: float) -> list[GridCell]:
    """The cells of a cost ratio."""
    return [cell for cell in cells if cell.cost_ratio == cost_ratio]


def labelled(ranks: Ranks) -> Ranks:
    """With the names that pictures have room for."""
    return replace(
        ranks,
        policies=tuple(map(plan.label, ranks.policies)),
        cliques=tuple(tuple(map(plan.label, clique)) for clique in ranks.cliques),
    )
