"""The page of a live experiment: what was found, beside the replay and the paper."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from acetune.replay.pictures import over_time
from acetune.replay.runs import Run, summarise
from paper.intervals import bootstrap_mean
from paper.live_plan import LivePlan
from paper.live_replay import Beside, Row, busy_share, by_row
from paper.live_runs import LiveRun, mean_costs
from paper.live_scale_page import put_scale
from paper.live_studies import Conditions
from paper.page import ACE, Drawn, Page, difference_text, head_note, mean_text, percent
from paper.published import CHEAP, TABLE_1

_SEEDS_FOR_BANDS = 10  # a bootstrap over fewer runs is too narrow


def live_report(
    live: Sequence[LiveRun],
    plan: LivePlan,
    conditions: Conditions,
    beside: Beside | None,
    folder: Path,
    suffix: str,
) -> tuple[Page, Drawn]:
    """The page and its picture."""
    rows = by_row(live)
    page = Page("Fairness, live")
    page.text(head_note(ACE))
    page.text(*_how(live, plan, conditions))
    if beside is not None:
        put_scale(page, live, plan, beside)
    for limit in plan.limits:
        for searcher in plan.searchers:
            page.heading(f"EOD ≤ {limit:g}, {searcher}")
            chosen = [(limit, searcher, policy) for policy in plan.policies]
            page.table(_header(beside), [_line(row, rows[row], beside) for row in chosen])
            others = [row for row in chosen if row[2] != "ace"]
            if len(others) < len(chosen) and others:
                ace = (limit, searcher, "ace")
                header = ["ACE ahead of", "live: seed by seed", "mean"]
                header += ["replay (95 % interval over seeds)"] if beside is not None else []
                page.text("ACE against the others, in points of AUC, paired by seed:")
                against = [_against(ace, other, rows, beside) for other in others]
                page.table([*header, "paper"], against)
    path = folder / f"fairness-live{suffix}"
    figure = over_time(
        [run.run for run in live],
        objective="AUC",
        policies=plan.policies,
        bands=len(plan.seeds) >= _SEEDS_FOR_BANDS,
    )
    page.picture(path, "Best feasible AUC over wall-clock time")
    return page, {path: _on_a_real_clock(figure)}


def live_json(
    live: Sequence[LiveRun],
    plan: LivePlan,
    conditions: Conditions,
    command: str,
    beside: Beside | None,
) -> dict[str, Any]:
    """Everything the page is made of, as plain data."""
    found: dict[str, Any] = {
        "command": command,
        "conditions": asdict(conditions),
        "plan": asdict(plan),
        "runs": [run.to_json() for run in live],
    }
    if beside is not None:
        found["replay"] = {
            "table": beside.table,
            **beside.calibration.to_json(),
            "rows": [
                {
                    **dict(zip(("limit", "searcher", "policy"), row, strict=True)),
                    "budget_s": runs[0].cell.budget_s if runs else None,
                    "seeds": [run.seed for run in runs],
                    "best": [run.best for run in runs],
                    "trials": [run.trials for run in runs],
                }
                for row, runs in beside.runs.items()
            ],
        }
    return found


def _how(live: Sequence[LiveRun], plan: LivePlan, conditions: Conditions) -> list[str]:
    seeds = ", ".join(str(seed) for seed in plan.seeds)
    cores = f"{conditions.cores} core{'s' if conditions.cores > 1 else ''}"
    shared = ""
    if plan.engine == "local" and conditions.cores < plan.workers:
        shared = f" **{plan.workers} workers shared {cores}**: steps took longer than they need."
    costs, means = "", mean_costs(live)
    if means is not None:
        step_s, check_s = means
        costs = (
            f" A step took {1e3 * step_s:.3g} ms and a check {1e3 * check_s:.3g} ms, over all "
            f"studies: a cost ratio of {check_s / step_s:.2g} (the paper's, with a slower check: "
            f"{CHEAP})."
        )
    return [
        "Real training on the paper's fairness task: LightGBM on the UCI credit data, at most "
        f"3,000 rounds a trial. Every study had {plan.budget_s:g} s of wall-clock time, start of "
        "the workers included, and the steps that were under way when it was up were still taken; "
        f"{plan.workers} workers with one thread each; engine {plan.engine}; seeds {seeds}. "
        "The studies ran one after another, seeds outermost, policies in rotating order. "
        "With random search all policies of a seed meet the same configurations in the same order. "
        f"Machine: {conditions.cpu}, {cores}.{shared}{costs}",
        "AUC in per cent on the rows that the search selects by, mean ± standard deviation over "
        "seeds that found something feasible. `+after` policies check the constraint after the "
        "run, from the best objective down, and these checks do not count against the budget: "
        "their time to best lies behind it. 'Checks' is the share of training and checking time "
        "that went into checks; 'busy' the share of the workers' time that went into starting, "
        "training and checking trials, the rest being the start of the workers and waiting for "
        "the driver and the searcher; 'starting' the part of it in which data were binned and "
        "memory for the trees was got. The paper's runs took an hour, with up to 21,000 rounds.",
    ]


def _header(beside: Beside | None) -> list[str]:
    header = ["policy", "AUC", "failed", "EOD of the best", "trials (finished, stopped)"]
    header += [
        "constraint evaluations",
        "checks (%)",
        "time to best (s)",
        "busy (%)",
        "starting (%)",
    ]
    if beside is not None:
        header += ["replay: budget (s)", "AUC", "failed", "trials"]
    return [*header, "paper: AUC", "trials"]


def _line(row: Row, runs: Sequence[LiveRun], beside: Beside | None) -> list[str]:
    (found,) = summarise(run.run for run in runs)
    eods = [run.eod for run in runs if run.eod is not None]
    ended = [
        statistics.fmean(run.states.get(state, 0) for run in runs)
        for state in ("finished", "stopped")
    ]
    line = [
        row[2],
        mean_text(found),
        str(found.failures or ""),
        f"{statistics.fmean(eods):.3f}" if eods else "-",
        f"{found.trials:,.0f} ({ended[0]:,.0f}, {ended[1]:,.0f})",
        f"{found.constraint_evaluations:,.0f}",
        percent(found.constraint_cost_share, 1),
        "-" if found.time_to_best_s is None else f"{found.time_to_best_s:.0f}",
        percent(busy_share(runs), 0),
        percent(statistics.fmean(run.starting for run in runs), 0),
    ]
    if beside is not None:
        line += _replayed(row, beside)
    paper = _paper(row)
    auc = "-" if paper is None else f"{paper[0]:.2f} ± {paper[1]:.2f}"
    return [*line, auc, "-" if paper is None else f"{paper[2]:,.0f}"]


def _replayed(row: Row, beside: Beside) -> list[str]:
    """Budget, AUC, failures and trials of the replay."""
    if not beside.runs[row]:
        return ["-"] * 4
    (found,) = summarise(beside.runs[row])
    trials, exhausted = f"{found.trials:,.0f}", beside.exhausted(row)
    if exhausted == found.runs:
        trials = f"all {trials}"
    elif exhausted:
        trials = f"{trials} (all in {exhausted} of {found.runs})"
    return [f"{found.cell.budget_s:.1f}", mean_text(found), str(found.failures or ""), trials]


def _paper(row: Row) -> tuple[float, float, float] | None:
    """AUC, its standard deviation and trials in the paper, None where it has no such row."""
    for known in TABLE_1:
        if (known.limit, known.searcher, known.policy) == row:
            assert known.auc is not None and known.sd is not None and known.trials is not None
            return known.auc, known.sd, known.trials
    return None


def _against(
    ace: Row, other: Row, rows: Mapping[Row, Sequence[LiveRun]], beside: Beside | None
) -> list[str]:
    """By how much ACE was ahead of another policy."""
    by_seed = _ahead([run.run for run in rows[ace]], [run.run for run in rows[other]])
    found = [value for value in by_seed if value is not None]
    line = [
        other[2],
        ", ".join("-" if value is None else f"{100 * value:+.2f}" for value in by_seed),
        f"{100 * statistics.fmean(found):+.2f}" if found else "-",
    ]
    if beside is not None:
        line.append(_ahead_in_replay(ace, other, beside))
    ours, theirs = _paper(ace), _paper(other)
    if ours is None or theirs is None:
        return [*line, "-"]
    return [*line, f"{ours[0] - theirs[0]:+.2f}"]


def _ahead_in_replay(ace: Row, other: Row, beside: Beside) -> str:
    if not (beside.runs[ace] and beside.runs[other]):
        return "-"
    by_seed = _ahead(beside.runs[ace], beside.runs[other])
    found = [value for value in by_seed if value is not None]
    if found and (beside.exhausted(ace) or beside.exhausted(other)):
        mean = 100 * statistics.fmean(found)
        return f"{mean:+.2f} (table exhausted: not at equal budget)"
    return difference_text(bootstrap_mean(found) if found else None)


def _ahead(first: Sequence[Run], second: Sequence[Run]) -> list[float | None]:
    """A difference a seed, in rising order; None where one of both found nothing."""
    others = {run.seed: run.best for run in second}
    found: list[float | None] = []
    for run in sorted(first, key=lambda run: run.seed):
        best, other = run.best, others[run.seed]
        found.append(None if best is None or other is None else best - other)
    return found


def _on_a_real_clock(figure: go.Figure) -> go.Figure:
    """The figure for replays, without the words that are true of a replay alone."""
    figure.for_each_xaxis(
        lambda axis: axis.update(title_text="Wall-clock time (s)"),
        selector=lambda axis: bool(axis.title.text),
    )
    figure.for_each_annotation(
        lambda note: note.update(text=note.text.replace("costs as recorded, ", ""))
    )
    return figure
