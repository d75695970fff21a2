"""How a replay was brought to the scale of the live machine, as text and a table for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paper.live_plan import LivePlan
from paper.live_replay import REPLAYED_SEEDS, Beside
from paper.live_runs import LiveRun
from paper.live_speed import Slowdown
from paper.page import Page, percent

_DRIFT = 1.1  # between two seeds: less is nothing to speak of


def put_scale(page: Page, live: Sequence[LiveRun], plan: LivePlan, beside: Beside) -> None:
    """Where the replay's numbers come from."""
    found, slow = beside.calibration, beside.calibration.slowdown
    slower = f"{slow.whole.mean:.2f}"
    page.text(
        f"'Replay' is what the {beside.configs:,} recorded curves of `{beside.table}` say of the "
        f"same policies and workers, over {REPLAYED_SEEDS} seeds. Its clock is that of the machine "
        "that recorded them. What one machine needs for a second of the other cannot be read from "
        "mean steps, as every policy trains other configurations and other stretches of them. So "
        "the recorded costs were fitted (a cubic polynomial of the hyperparameters and the number "
        "of steps, for the logarithm of the seconds a step), and each live trial was compared with "
        "what the fit says of its own configuration and length. A budget is used up by sums, so it "
        f"is the sums over {slow.trials:,} trials of {slow.configs:,} configurations that are "
        "compared. A fit of logarithms is wrong about sums, and by how much was measured on "
        "recorded curves held out of it: with the lengths of the live trials they took "
        f"{slow.understated:.2f} times what it said, which is made good here."
        f"{_single_steps(live, plan)} The live machine took **{slower} s for a second of the "
        f"table's** (95 % interval {slow.whole.low:.2f} to {slow.whole.high:.2f}, a bootstrap over "
        "configurations, which knows nothing of a machine that changes). By policy and seed:"
    )
    seeds = [*plan.seeds, None]
    page.table(
        ["policy", *(f"seed {seed}" for seed in plan.seeds), "all seeds"],
        [
            ["all" if policy is None else policy, *(_value(slow, policy, seed) for seed in seeds)]
            for policy in (*plan.policies, None)
        ],
    )
    page.text(
        _drift(slow, plan),
        f"A second of live work is thus 1 / {slower} s of the table's in every row. The replay "
        "knows no waiting for driver and searcher and no start of workers, so its budget is the "
        f"part of the {plan.budget_s:g} s in which the live workers of the same policy were busy, "
        f"in the table's seconds: {plan.budget_s:g} times 'busy' / {slower}. A check costs "
        f"{1e3 * found.check_s:.3g} ms / {slower}, which is {found.cost_ratio:.2g} of the table's "
        f"mean step ({1e3 * found.table_step_s:.3g} ms), and the start of a trial what it cost the "
        "same policy live on average, scaled alike. With BlendSearch the replay takes the nearest "
        "recorded configuration not yet run. Where it tried every configuration of the table "
        "('all') a live search goes on: that is no comparison at an equal budget, and has no "
        "interval.",
    )


def _value(slow: Slowdown, policy: str | None, seed: int | None) -> str:
    return f"{slow.by[policy, seed]:.2f}" if (policy, seed) in slow.by else "-"


def _single_steps(live: Sequence[LiveRun], plan: LivePlan) -> str:
    """Policies whose trials are mostly a single step, which says little about a machine."""
    told = []
    for policy in plan.policies:
        trained = [trial for run in live if run.run.policy == policy for trial in run.trained]
        single = [trial for trial in trained if trial.steps == 1]
        if len(single) > len(trained) / 2:
            took = math.fsum(t.seconds for t in single) / math.fsum(t.seconds for t in trained)
            many = percent(len(single) / len(trained), 0)
            told.append(
                f" Most trials of `{policy}` are a single step: {many} % of them, with "
                f"{percent(took, 0)} % of its training time."
            )
    return "".join(told)


def _drift(slow: Slowdown, plan: LivePlan) -> str:
    """What the table says of a machine that changed while the experiment ran."""
    seeds = [(slow.by[None, seed], seed) for seed in plan.seeds if (None, seed) in slow.by]
    studies = [value for (policy, seed), value in slow.by.items() if policy and seed is not None]
    (low, fastest), (high, slowest) = min(seeds), max(seeds)
    spread = f"single studies lie between {min(studies):.2f} and {max(studies):.2f}"
    apart = max(
        max(values) / min(values)
        for number in plan.seeds
        if (values := [v for (policy, seed), v in slow.by.items() if policy and seed == number])
    )
    if high < _DRIFT * low:
        return (
            f"From seed to seed the machine was about equally fast ({low:.2f} to {high:.2f}); "
            f"{spread}."
        )
    return (
        f"**The machine drifted**: it took {high:.2f} s with seed {slowest} and {low:.2f} s with "
        f"seed {fastest}, {high / low:.1f} times as long for the same work; {spread}. Seeds were "
        "run one after another, so the same budget was worth more work in some of them than in "
        "others. Compare the policies of a seed, which ran next to each other, before the means "
        f"over seeds; even those are up to {apart:.1f} times apart, by the machine or by the "
        "chance of a few long trials. The replay has the one mean for all."
    )
