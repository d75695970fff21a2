"""Whether two checkouts decide alike, to the last digit.

    python benchmarks/same_decisions.py OTHER_CHECKOUT

Two comparisons. Replays: every policy that both have, on recorded tables, with several seeds and
prices of a check; all numbers of the runs have to be equal. Logs: the other checkout runs live
studies with these policies, each in two sessions, and notes every report with its costs and its
decision; this checkout decides on the same reports again. Both search at random.

Each part runs in a process of its own, which imports acetune from that checkout and nothing else.
Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
TRIALS, STEPS = 12, 24
_SHOWN = 10  # differences


# -- in a process of one of the checkouts ----------------------------------------------------------


def names(_: Any) -> list[str]:
    """The policies that a checkout has."""
    from acetune.policies import POLICY_NAMES

    return list(POLICY_NAMES)


def replays(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The numbers of each run."""
    from acetune.replay import read_table, simulate

    tables: dict[str, Any] = {}
    found = []
    for job in jobs:
        if job["table"] not in tables:
            tables[job["table"]] = read_table(HERE / "tables" / f"{job['table']}.parquet")
        table = tables[job["table"]]
        budget_s = 20.0 * float(table.cost_s.mean()) * int(table.total_steps.max())
        run = simulate(
            table,
            job["policy"],
            seed=job["seed"],
            cost_ratio=job["cost_ratio"],
            budget_s=budget_s,
        )
        found.append(dataclasses.asdict(run))
    return found


def live_logs(policies: list[str]) -> dict[str, list[Any]]:
    """What happened in a live study with each policy, in order."""
    return {policy: _live_log(policy) for policy in policies}


def _live_log(policy: str) -> list[Any]:
    import acetune
    from acetune.policies import parse_policy

    log: list[Any] = []

    class Note(acetune.StudyCallback):
        def on_trial_start(self, trial: int, attempt: int, params: Any) -> None:
            log.append(["start", trial])

        def on_report(self, trial: int, report: Any, decision: Any) -> None:
            measured = None
            if report.measured is not None:
                measured = {
                    name: None if hasattr(found, "error") else [found.value, found.stderr]
                    for name, found in report.measured.items()
                }
            costs = report.primary_cost_s, report.check_cost_s, report.snapshot_cost_s
            told = [report.step, report.value, report.checked_step, measured, *costs]
            log.append(["report", trial, told, _said(decision)])

        def on_trial_end(self, trial: int, state: str, reason: Any) -> None:
            log.append(["end", trial, state])

    steps = STEPS  # what belongs to this module cannot be sent to a worker

    def train(trial: acetune.Trial) -> None:
        x, y = trial.params["x"], trial.params["y"]
        for step in trial.steps(steps):
            loss = (x - 0.3) ** 2 + math.exp(-step * y) + 0.02 * math.sin(7.0 * step + 9.0 * x)
            trial.report(loss=loss, model={"gap": x * y + 0.05 * math.cos(3.0 * step), "x": x})

    def gap(model: Any) -> acetune.Estimate:
        return acetune.Estimate(float("nan") if model["x"] > 0.95 else model["gap"], 0.01)

    with tempfile.TemporaryDirectory() as folder:
        for trials in (TRIALS // 2, TRIALS):  # the second session goes on
            acetune.tune(
                train,
                {"x": acetune.uniform(0.0, 1.0), "y": acetune.uniform(0.05, 1.0)},
                objective="loss",
                mode="min",
                constraints=[acetune.Constraint("gap", upper=0.25, check=gap)],
                policy=parse_policy(policy),
                searcher="random",
                max_trials=trials,
                workers=1,  # so that the log has the order in which trials begin
                seed=3,
                study=Path(folder) / "study.db",
                progress=False,
                callbacks=[Note()],
            )
    return log


def decided_again(logs: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """For each report of the logs which step was due, and the decision."""
    return {policy: list(_decided_again(policy, log)) for policy, log in logs.items()}


def _decided_again(policy: str, log: list[Any]) -> Iterator[Any]:
    import acetune
    from acetune.policies import parse_policy

    stopper = acetune.Stopper(
        objective="loss",
        mode="min",
        constraints=[acetune.Constraint("gap", upper=0.25)],
        policy=parse_policy(policy),
    )
    trials: dict[int, Any] = {}
    for what, number, *told in log:
        if what == "start":
            trials[number] = stopper.start(str(number), total_steps=STEPS)
        elif what == "report":
            step, value, checked, measured, training_s, check_s, snapshot_s = told[0]
            if measured is not None:
                measured = {
                    name: math.nan if found is None else acetune.Estimate(*found)
                    for name, found in measured.items()
                }
            due = trials[number].check_due(step, value, snapshot=False)
            decision = trials[number].observe(
                step,
                value,
                measured,
                training_s,
                check_s,
                checked_step=checked,
                snapshot_cost_s=snapshot_s,
            )
            yield [due, _said(decision)]
        elif trials[number].state == "running":
            trials[number].finish()


def _said(decision: Any) -> list[Any]:
    """What a decision comes to; words may have changed."""
    return [decision.action.value, decision.stratum, decision.rank, decision.of, decision.step]


PARTS = {part.__name__: part for part in (names, replays, live_logs, decided_again)}


# -- the comparison --------------------------------------------------------------------------------


def ask(checkout: Path, part: str, given: Any) -> Any:
    """What a part comes to in a checkout."""
    done = subprocess.run(
        [sys.executable, __file__, "--part", part],
        input=json.dumps(given),
        env=os.environ | {"PYTHONPATH": str(checkout / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def compare_replays(other: Path, policies: list[str], tables: list[str], seeds: int) -> int:
    """How many runs differ, in numbers that both checkouts have."""
    jobs = [
        {"table": table, "policy": policy, "seed": seed, "cost_ratio": cost_ratio}
        for table in tables
        for policy in policies
        for cost_ratio in (None, 2.0)
        for seed in range(seeds)
    ]
    theirs, ours = ask(other, "replays", jobs), ask(HERE, "replays", jobs)
    differing = 0
    for job, before, now in zip(jobs, theirs, ours, strict=True):
        differs = {
            name: (before[name], now[name])
            for name in before.keys() & now.keys() - {"incumbents"}
            if before[name] != now[name]
        }
        if before["incumbents"] != now["incumbents"]:
            differs["incumbents"] = before["incumbents"][-1:], now["incumbents"][-1:]
        differing += bool(differs)
        if differs and differing <= _SHOWN:
            print(f"replay {job}: {differs}")
    reports = sum(run["reports"] for run in ours)
    print(f"replays: {differing} of {len(jobs)} differ, {reports:,} reports in all")
    return differing


def compare_logs(other: Path, policies: list[str]) -> int:
    """How many decisions of live studies differ, and checks that are due elsewhere."""
    logs = ask(other, "live_logs", policies)
    again = ask(HERE, "decided_again", logs)
    differing = reports = 0
    for policy, log in logs.items():
        told = [event for event in log if event[0] == "report"]
        for (_, trial, report, decision), (due, decided) in zip(told, again[policy], strict=True):
            reports += 1
            checked = None if report[3] is None else report[0] if report[2] is None else report[2]
            if decision != decided or checked != due:
                differing += 1
                if differing <= _SHOWN:
                    before, now = (checked, decision), (due, decided)
                    print(f"log of {policy}: trial {trial} step {report[0]}: {before}, now {now}")
    print(f"logs: {differing} of {reports:,} decisions differ, in {len(logs)} live studies")
    return differing


def main() -> None:
    """Compare, or do a part in the checkout that acetune is imported from."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", nargs="?", type=Path, help="the other checkout")
    parser.add_argument("--tables", nargs="+", default=["credit-lightgbm", "law-mlp"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part](json.load(sys.stdin))))
        return
    if options.other is None:
        parser.error("name the other checkout")
    known = ask(options.other, "names", None)
    policies = [name for name in ask(HERE, "names", None) if name in known]
    print(f"{len(policies)} policies: {', '.join(policies)}")
    differing = compare_replays(options.other, policies, options.tables, options.seeds)
    differing += compare_logs(options.other, policies)
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
