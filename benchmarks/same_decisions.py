"""Whether two checkouts decide alike, to the last digit.

    python benchmarks/same_decisions.py OTHER_CHECKOUT

Three comparisons, all with every policy that both have. Replays: of recorded tables, with several
seeds and prices of a check; all numbers of the runs have to be equal. Logs: the other checkout runs
live studies, on this machine and on Ray (each in two sessions) and in a Ray Tuner, and notes every
report with its costs and its decision; this checkout decides on the same reports again. Optuna: the
same study in both, with given costs; checks, stops, values and answers have to be equal.
All search at random; the Tuner tries a grid of random values.

Each part runs in a process of its own, which imports acetune from that checkout and nothing else.
Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

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


def train(trial: Any) -> None:
    """Some curves whose constraint moves as well; checked by :func:`gap`."""
    for step in trial.steps(STEPS):
        loss, model = checkpoint(trial.params, step)
        trial.report(loss=loss, model=model)


def checkpoint(params: dict[str, float], step: int) -> tuple[float, dict[str, float]]:
    """The loss and the model of a step."""
    x, y = params["x"], params["y"]
    loss = (x - 0.3) ** 2 + math.exp(-step * y) + 0.02 * math.sin(7.0 * step + 9.0 * x)
    return loss, {"gap": x * y + 0.05 * math.cos(3.0 * step), "x": x}


def gap(model: dict[str, float]) -> Any:
    """What is limited; now and then it cannot be measured."""
    import acetune

    return acetune.Estimate(float("nan") if model["x"] > 0.95 else model["gap"], 0.01)


def live_logs(policies: list[str]) -> dict[str, list[Any]]:
    """What happened in a live study with each policy, in order."""
    return {policy: _live_log(policy, "local") for policy in policies}


def ray_logs(policies: list[str]) -> dict[str, list[Any]]:
    """The same where the workers are Ray's."""
    with _ray():
        return {policy: _live_log(policy, "ray") for policy in policies}


def experiments(given: dict[str, Any]) -> None:
    """Experiments of Ray Tune, each in a folder of its policy's name."""
    with _ray():
        for policy in _during(given["policies"]):
            _experiment(policy, str(Path(given["folder"]) / policy))


def experiments_read(folder: str) -> dict[str, list[Any]]:
    """What happened in them, by their study files."""
    found = Path(folder).glob("*/experiment/acetune.db")
    return {path.parents[1].name: list(_read_log(path)) for path in sorted(found)}


def _during(policies: list[str]) -> list[str]:
    """Those that check during the run: others have no place for it later."""
    return [policy for policy in policies if not policy.endswith("+after")]


@contextlib.contextmanager
def _ray() -> Iterator[None]:
    import ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}},
    )
    try:
        yield
    finally:
        ray.shutdown()


def _live_log(policy: str, engine: Literal["local", "ray"]) -> list[Any]:
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
                engine=engine,
                progress=False,
                callbacks=[Note()],
            )
    return log


def _experiment(policy: str, folder: str) -> None:
    from ray import tune

    import acetune.ray
    from acetune.policies import parse_policy

    def trainable(params: dict[str, float]) -> None:
        with acetune.ray.trial(total_steps=STEPS, params=params) as trial:
            train(trial)

    limit = acetune.Constraint("gap", upper=0.25, check=gap)
    tune.Tuner(
        trainable,
        param_space={
            name: tune.grid_search([chance.random() for _ in range(4)])
            for name, chance in (("x", random.Random(1)), ("y", random.Random(2)))
        },
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            max_concurrent_trials=1,
            reuse_actors=True,
            scheduler=acetune.ray.AceScheduler([limit], parse_policy(policy)),
        ),
        run_config=tune.RunConfig(name="experiment", storage_path=folder, verbose=0),
    ).fit()


def _read_log(path: Path) -> Iterator[Any]:
    """The events of a study whose trials came one after the other."""
    from acetune.study.store import reading

    trial = None
    with reading(path) as store:
        for row, checks in store.reports():
            if row.trial != trial:
                if trial is not None:
                    yield ["end", trial, "ended"]
                trial = row.trial
                yield ["start", trial]
            measured, check_s = None, None
            for check in checks:
                measured = {"gap": None if check.value is None else [check.value, check.stderr]}
                check_s = {"gap": check.cost_s}
            checked = row.checked_step if measured else None
            costs = row.primary_cost_s, check_s, row.snapshot_cost_s
            said = [row.decision, row.stratum, row.rank, row.of, row.step]
            told = [row.step, row.objective, checked, measured, *costs]
            # a check at a trial's end comes with no decision
            yield ["report" if row.kind == "step" else "check", trial, told, said]


def optuna_studies(policies: list[str]) -> dict[str, list[Any]]:
    """Checks, stops and the answer of the same study with each policy."""
    return {policy: _optuna_study(policy) for policy in policies}


def _optuna_study(policy: str) -> list[Any]:
    import optuna

    import acetune.optuna
    from acetune.policies import parse_policy

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")

    def objective(trial: optuna.Trial) -> float:
        params = {"x": trial.suggest_float("x", 0, 1), "y": trial.suggest_float("y", 0.05, 1)}
        ace = acetune.optuna.trial(trial, total_steps=STEPS)
        for step in ace.steps():
            loss, model = checkpoint(params, step)
            # with these, nobody looks at the clock
            ace.report(loss, model=model, primary_cost_s=1.0, constraint_cost_s=2.0)
        return float(ace.finish())

    limit = acetune.Constraint("gap", upper=0.25, check=gap)
    pruner = acetune.optuna.AcePruner([limit], parse_policy(policy), objective="loss")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3), pruner=pruner)
    study.optimize(objective, n_trials=3 * TRIALS)
    found: list[Any] = [
        [trial.state.name, trial.value, trial.last_step, sorted(_checked_steps(trial))]
        for trial in study.trials
    ]
    best = acetune.optuna.best(study)
    return [*found, None if best is None else [best.trial, best.step, best.value]]


def _checked_steps(trial: Any) -> Iterator[int]:
    attributes = {**trial.user_attrs, **trial.system_attrs}
    yield from (value["step"] for name, value in attributes.items() if name.startswith("ace:check"))


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
        elif what == "check":
            _, _, checked, measured, _, check_s, _ = told[0]
            named = {name: math.nan if of is None else acetune.Estimate(*of)
                     for name, of in measured.items()}  # fmt: skip
            trials[number].add_check(named, check_s, checked)
        elif trials[number].state == "running":
            trials[number].finish()


def _said(decision: Any) -> list[Any]:
    """What a decision comes to; words may have changed."""
    return [decision.action.value, decision.stratum, decision.rank, decision.of, decision.step]


_PARTS: tuple[Any, ...] = (
    names,
    replays,
    live_logs,
    ray_logs,
    experiments,
    experiments_read,
    optuna_studies,
    decided_again,
)
PARTS: dict[str, Callable[[Any], Any]] = {part.__name__: part for part in _PARTS}


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
    if unlike := theirs[0].keys() ^ ours[0].keys():
        print(f"not compared, since one of the two has it not: {', '.join(sorted(unlike))}")
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


def logs_of(other: Path, policies: list[str]) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Where the other checkout's studies ran, and what happened in them."""
    yield "this machine", ask(other, "live_logs", policies)
    yield "Ray", ask(other, "ray_logs", policies)
    with tempfile.TemporaryDirectory() as folder:
        ask(other, "experiments", {"policies": policies, "folder": folder})
        found = ask(HERE, "experiments_read", folder)
        if missing := set(_during(policies)) - found.keys():
            sys.exit(f"no study file of a Tuner with {', '.join(sorted(missing))}")
        yield "a Ray Tuner", found


def compare_logs(where: str, logs: dict[str, list[Any]]) -> int:
    """How many decisions of live studies differ, and checks that are due elsewhere."""
    again = ask(HERE, "decided_again", logs)
    differing = reports = 0
    for policy, log in logs.items():
        told = [event for event in log if event[0] == "report"]
        if not told:
            sys.exit(f"log of {policy}: no reports")
        for (_, trial, report, decision), (due, decided) in zip(told, again[policy], strict=True):
            reports += 1
            checked = None if report[3] is None else report[0] if report[2] is None else report[2]
            if decision != decided or checked != due:
                differing += 1
                if differing <= _SHOWN:
                    before, now = (checked, decision), (due, decided)
                    print(f"log of {policy}: trial {trial} step {report[0]}: {before}, now {now}")
    print(
        f"logs on {where}: {differing} of {reports:,} decisions differ, in {len(logs)} live studies"
    )
    return differing


def compare_optuna(other: Path, policies: list[str]) -> int:
    """How many trials or answers differ."""
    asked = _during(policies)
    before, now = (ask(checkout, "optuna_studies", asked) for checkout in (other, HERE))
    differing = trials = 0
    for policy in asked:
        for one, two in zip(before[policy], now[policy], strict=True):
            trials += 1
            differing += one != two
            if one != two and differing <= _SHOWN:
                print(f"Optuna with {policy}: {one}, now {two}")
    print(f"Optuna: {differing} of {trials} trials and answers differ, in {len(asked)} studies")
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
    differing += sum(compare_logs(*found) for found in logs_of(options.other, policies))
    differing += compare_optuna(options.other, policies)
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
