"""One replay under several budgets, for the price of the largest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from acetune.core.errors import GoalError
from acetune.policies import Policy, parse_policy
from acetune.replay.judged_table import JudgedTable
from acetune.replay.runs import Run
from acetune.replay.simulator import Simulation
from acetune.replay.table_searcher import make_picker
from acetune.study.coordinator import no_garbage_collection


def simulate_budgets(
    judged: JudgedTable,
    policy: Policy | str,
    budgets_s: Sequence[float],
    *,
    searcher: str = "random",
    seed: int = 0,
    workers: int = 4,
    max_trials: int | None = None,
    startup_s: float = 0.0,
) -> list[Run]:
    """The runs of ``acetune.replay.simulate`` with each of these rising budgets.

    What happens within a budget does not depend on it: the longer run passes through the shorter.
    """
    if not budgets_s or any(a >= b for a, b in itertools.pairwise([0.0, *budgets_s])):
        raise GoalError(f"budgets must rise from one to the next, got {list(budgets_s)}")
    chosen = parse_policy(policy) if isinstance(policy, str) else policy
    if len(budgets_s) > 1 and chosen.checks_after_run:
        raise GoalError(f"{policy!r} checks after the run, so each budget needs a run of its own")
    picker = make_picker(judged.table, searcher, seed)
    simulation = Simulation(
        judged, chosen, picker, workers, budgets_s[-1], max_trials, startup_s, searcher
    )
    runs = []
    with no_garbage_collection():
        for budget_s in budgets_s:
            if budget_s == budgets_s[-1]:
                simulation.run()
            else:
                simulation.advance(budget_s)
            runs.append(simulation.result(policy, searcher, seed, budget_s))
    return runs
