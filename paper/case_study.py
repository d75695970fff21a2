"""Two trials, two policies: what ASHA stops wrongly, and what it trains in vain (figure 1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acetune.core.errors import TableError
from acetune.core.goals import Constraint
from acetune.policies import parse_policy
from acetune.replay.curve_table import CurveTable
from acetune.replay.judged_table import JudgedTable, judge
from acetune.replay.simulator import Simulation
from acetune.replay.table_searcher import RandomOrder
from paper.figures import TrialCurve, case_study, expected_cost
from paper.measuring import WORKERS, Plan
from paper.page import ACE, Drawn, Page, head_note, percent
from paper.published import CHEAP, HARD

_SEEDS = 100  # to look through
_IN_VAIN = 64  # steps: as long as in the paper's example


class Reached(NamedTuple):
    """How far a configuration came under a policy."""

    step: int
    stopped: bool


class Pair(NamedTuple):
    """The two configurations of the case study, and how far each policy took them."""

    seed: int
    wronged: int
    in_vain: int
    reached: dict[str, dict[int, Reached]]


def report(table: CurveTable, plan: Plan, folder: Path, suffix: str) -> tuple[Page, Drawn]:
    """The page of figures."""
    page = Page("Figures")
    page.text(head_note(ACE))
    page.heading("Expected cost of a trial")
    page.text(
        "What a trial is expected to cost by the paper's cost model (its Eq. 2), by the interval "
        "between checks, when half of the trials are stopped at each check. The cheapest interval "
        "is always 1 or T; Theorem 1 says which, by the cost ratio: the switch is marked."
    )
    cost = folder / f"expected-cost{suffix}"
    page.picture(cost, "Expected cost of a trial against the interval between checks")
    drawn: Drawn = {cost: expected_cost()}
    page.heading("Two trials, two policies")
    judged = judge(table, [Constraint("eod", upper=HARD)], CHEAP)
    pair = find_pair(judged, plan)
    path = folder / f"case-study{suffix}"
    page.text(_told(judged, pair))
    page.picture(path, "Two trials under ACE and ASHA")
    drawn[path] = _figure(judged, pair)
    return page, drawn


def find_pair(judged: JudgedTable, plan: Plan) -> Pair:
    """The first seed in which both kinds of trial occur, and its clearest examples.

    Wronged: ASHA stops it before its best feasible checkpoint, ACE trains it that far. In vain: it
    has no feasible checkpoint at all, ASHA trains it for long, ACE stops it earlier.
    """
    for seed in range(_SEEDS):
        reached = {policy: _reach(judged, policy, seed, plan) for policy in ("ace", "asha")}
        both = [config for config in reached["ace"] if config in reached["asha"]]
        wronged = [c for c in both if _is_wronged(judged, c, reached)]
        in_vain = [c for c in both if _is_in_vain(judged, c, reached)]
        if wronged and in_vain:
            best = max(wronged, key=lambda c: _best_feasible(judged, c)[0])
            longest = max(in_vain, key=lambda c: reached["asha"][c].step / reached["ace"][c].step)
            return Pair(seed, best, longest, reached)
    raise TableError(
        f"in none of {_SEEDS} seeds ASHA stops one trial wrongly and trains another in vain on "
        f"{judged.table.name!r}"
    )


def _reach(judged: JudgedTable, policy: str, seed: int, plan: Plan) -> dict[int, Reached]:
    picker = RandomOrder(len(judged.table.configs), seed)
    simulation = Simulation(judged, parse_policy(policy), picker, WORKERS, plan.budget_s, None, 0.0)
    simulation.run()
    trials = simulation.stopper.history.trials.values()
    return {
        simulation.configs[int(record.id) - 1]: Reached(
            record.progress.last_step, record.state == "stopped"
        )
        for record in trials
    }


def _best_feasible(judged: JudgedTable, config: int) -> tuple[float, int]:
    """Value and step of the best feasible checkpoint; minus infinity where there is none."""
    table = judged.table
    begin, end = table.starts[config], table.starts[config + 1]
    losses = np.where(judged.feasible[begin:end], judged.losses[begin:end], np.inf)
    step = int(np.argmin(losses))
    return -float(losses[step]), step + 1


def _is_wronged(judged: JudgedTable, config: int, reached: dict[str, dict[int, Reached]]) -> bool:
    value, step = _best_feasible(judged, config)
    ace, asha = reached["ace"][config], reached["asha"][config]
    return np.isfinite(value) and asha.stopped and asha.step < step <= ace.step and step > 4


def _is_in_vain(judged: JudgedTable, config: int, reached: dict[str, dict[int, Reached]]) -> bool:
    value, _ = _best_feasible(judged, config)
    ace, asha = reached["ace"][config], reached["asha"][config]
    return not np.isfinite(value) and ace.stopped and asha.step >= _IN_VAIN and ace.step < asha.step


def _told(judged: JudgedTable, pair: Pair) -> str:
    value, step = _best_feasible(judged, pair.wronged)
    ace, asha = pair.reached["ace"], pair.reached["asha"]
    return (
        f"Random search with seed {pair.seed}, EOD ≤ {HARD:g}. Trial 1 (configuration "
        f"{pair.wronged}) has its best feasible checkpoint (AUC {percent(value)} %) at step "
        f"{step}: ASHA {_how(asha[pair.wronged])}, ACE {_how(ace[pair.wronged])}. Trial 2 "
        f"(configuration {pair.in_vain}) is infeasible at every step: ASHA "
        f"{_how(asha[pair.in_vain])}, ACE {_how(ace[pair.in_vain])}. Dots are feasible "
        "checkpoints, plus signs infeasible ones."
    )


def _how(reached: Reached) -> str:
    if reached.stopped:
        return f"stops it at step {reached.step}"
    return f"has trained it to step {reached.step} and not stopped it when the budget ends"


def _figure(judged: JudgedTable, pair: Pair) -> Any:
    curves = []
    for label, config in (("trial 1", pair.wronged), ("trial 2", pair.in_vain)):
        reached = {name: by[config] for name, by in pair.reached.items()}
        shown = min(judged.table.steps(config), 2 * max(r.step for r in reached.values()))
        names = {"ace": "ACE", "asha": "ASHA"}
        curves.append(
            TrialCurve(
                label,
                range(1, shown + 1),
                judged.table.curve(config, "auc")[:shown].tolist(),
                judged.table.curve(config, "eod")[:shown].tolist(),
                HARD,
                {names[name]: r.step for name, r in reached.items() if r.stopped},
            )
        )
    return case_study(curves, objective="AUC", constraint="EOD", log_steps=True)
