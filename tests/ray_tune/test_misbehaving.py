"""Whatever a trainable does hurts its own trial only, in a Tuner of one's own too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import acetune.ray
from acetune import ACE, Constraint
from acetune.ray import AceScheduler
from run.misbehaviour import MISBEHAVIOUR, STEPS

from .helpers import fit, rows

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

# few: after each a new actor is started
NAMES = (
    "os._exit(3)",
    "a thread goes on reporting",
    "a value that raises",
)


def misbehave(config: dict[str, Any]) -> None:
    """Trains one case: the odd ones do something after their second report."""
    number = config["case"]
    with acetune.ray.trial(total_steps=STEPS) as trial:
        for step in trial.steps():
            trial.report(number + 1 / step, model=float(step), constraints={"g": lambda m: m})
            if number % 2 and step == 2:
                MISBEHAVIOUR[NAMES[number // 2]].deed(trial)


@pytest.mark.usefixtures("local_ray")
def test_a_deed_hurts_its_own_trial_only(tmp_path: Path) -> None:
    limit, policy = Constraint("g", upper=10), ACE(truncation=0, interval=1, gate=False)
    cases = list(range(1, 2 * len(NAMES) + 1))
    scheduler = AceScheduler([limit], policy)
    grid = fit(
        misbehave, tmp_path, cases, scheduler=scheduler, metric="loss", mode="min", concurrent=2
    )

    assert len(grid) == len(cases)
    found = dict(zip(cases, _trials(tmp_path), strict=True))
    for place, name in enumerate(NAMES):
        bad, good, reason = found[2 * place + 1], found[2 * place + 2], MISBEHAVIOUR[name].reason
        assert bad["state"] == ("finished" if reason is None else "failed"), (name, bad)
        assert len(bad["reason"]) < 30_000, name
        if reason is not None and "exit" not in name and "fault" not in name:
            assert re.search(reason, bad["reason"], re.DOTALL), (name, bad["reason"])
        assert good["state"] == "finished", (name, good)
        assert good["values"] == [(s, 2 * place + 2 + 1 / s) for s in range(1, STEPS + 1)], name


def _trials(folder: Path) -> list[dict[str, Any]]:
    """A row for each case, in their order, with its reports."""
    trials = rows(folder, "SELECT * FROM trials JOIN names USING (trial) ORDER BY trial")
    reports = rows(folder, "SELECT * FROM reports WHERE kind = 'step' ORDER BY seq")
    for row in trials:
        its = [one for one in reports if one["trial"] == row["trial"]]
        row["values"] = [(one["step"], one["objective"]) for one in its]
    return sorted(trials, key=lambda row: row["values"][0][1])
