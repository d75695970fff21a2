"""How long the default of tune() takes to reach the answer that a peer has when its time is up.

Every system replays the same tables on the same simulated clock: workers, prices of checks and
suggestions, budget. A peer's answer is the best feasible checkpoint that it knows at the end of its
budget; the time is that until the default of tune() knows one as good. Runs are paired by table,
limit, price of a check and seed. Each race of all of them is a line of the file ``--runs``: a
command that was broken off goes on from there, and what is there is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acetune.core.errors import AcetuneError
from acetune.policies import DEFAULT_POLICY
from acetune.replay.judged_table import judge, parse_limit
from acetune.replay.parallel import Lost, run_jobs
from acetune.replay.runs import Run
from acetune.replay.simulator import simulate
from acetune.searchers import DEFAULT_SEARCHER
from acetune.trial.hardware import available_cores
from benchmarks import grid_plan as plan
from benchmarks.common import Page, run_main, say
from benchmarks.grid_cells import budget_s
from benchmarks.grid_code import code_hash
from benchmarks.grid_tpe import faster_tpe
from benchmarks.population_runs import appending, read_lines
from benchmarks.population_tables import Source, choose, own_tables, read_folder, thin
from benchmarks.regret import regret_scale

PEERS = {  # policy and searcher of what people use instead
    "Optuna's TPE, median pruner": ("median", "tpe"),
    "Optuna's TPE, SuccessiveHalving": ("asha", "tpe"),
    "Optuna's TPE, Hyperband": ("hyperband", "tpe"),
    "FLAML's BlendSearch": ("none", "blendsearch"),
    "ASHA, random search (Ray Tune)": ("asha", "random"),
    "acetune's asha-lex, forest": ("asha-lex", "forest"),
}
RATIOS, CONFIGS, SEEDS = (2.0, 24.0), 50, 5


class Job(NamedTuple):
    """Runs of every system on one table, under one limit and price of a check."""

    source: Source
    limit: str
    ratio: float
    seed: int
    workers: int
    configs: int


class Raced(NamedTuple):
    """How one run of the default compares with one of a peer."""

    family: str
    peer: str
    regret: float
    peer_regret: float
    share: float  # of the budget until the peer's answer was reached; infinite if it was not
    peer_share: float  # of the budget until the peer had that answer


class RaceKey(NamedTuple):
    """What was run."""

    table: str
    digest: str  # of the table
    limit: str
    ratio: float
    seed: int
    workers: int
    configs: int


class Race(NamedTuple):
    """What came out, peer by peer."""

    raced: list[Raced]
    code: str  # which code made it


Races: TypeAlias = dict[RaceKey, Race]


def key_of(job: Job) -> RaceKey:
    """By what its race is found in the file."""
    return RaceKey(job.source.name, job.source.digest, *job[1:])


def race(job: Job) -> list[Raced]:
    """The default against each peer."""
    table = job.source.read()
    judged = judge(table, [parse_limit(job.limit)], job.ratio)
    scale, budget = regret_scale(judged), budget_s(table, job.configs, job.workers)

    def run(policy: str, searcher: str) -> Run:
        with faster_tpe() if searcher == "tpe" else contextlib.nullcontext():
            return simulate(
                judged,
                policy,
                searcher=searcher,
                seed=job.seed,
                workers=job.workers,
                budget_s=budget,
            )

    ours = run(DEFAULT_POLICY, DEFAULT_SEARCHER)
    found = []
    for name, (policy, searcher) in PEERS.items():
        theirs = run(policy, searcher)
        share = reached_s(ours, theirs) / budget
        had = theirs.incumbents[-1].time_s / budget if theirs.incumbents else math.inf
        regrets = scale.regret(ours.loss), scale.regret(theirs.loss)
        found.append(Raced(job.source.family, name, *regrets, share, had))
    return found


def reached_s(ours: Run, theirs: Run) -> float:
    """When a run knew an answer as good as another run's last: infinite for never.

    Where the other has none, anything is as good.
    """
    sign = 1.0 if ours.mode == "min" else -1.0
    goal = sign * theirs.incumbents[-1].value if theirs.incumbents else math.inf
    times = (known.time_s for known in ours.incumbents if sign * known.value <= goal)
    return next(times, math.inf)


def main(arguments: Sequence[str]) -> None:
    """Race, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="of curve tables and limits.json")
    parser.add_argument("--own", action="store_true", help="the tables of the grid, too")
    parser.add_argument("--table", action="append", default=[], help="a table or a family; repeat")
    parser.add_argument("--most", type=int, help="so many tables of each family at most")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=plan.WORKERS)
    parser.add_argument(
        "--configs", type=int, default=CONFIGS, help="the budget: so many are trained in it"
    )
    parser.add_argument("--ratio", action="append", type=float, help="of a check; repeat")
    parser.add_argument("--runs", type=Path, required=True, help="the file that races are added to")
    parser.add_argument("--processes", type=int, default=available_cores())
    parser.add_argument("--out", type=Path, help="folder for the page; default: print only")
    options = parser.parse_args(arguments)
    folders = options.folders or [Path(f) for f in [os.environ.get("ACETUNE_POPULATION")] if f]
    sources = [source for folder in folders for source in read_folder(folder)]
    sources = choose([*sources, *(own_tables() if options.own else [])], options.table)
    if options.most:
        sources = thin(sources, options.most)
    if not sources:
        parser.error("name a folder of tables, or take the grid's with --own")
    jobs = [
        Job(source, limit, ratio, seed, options.workers, options.configs)
        for source in sources
        for limit in source.limits.values()
        for ratio in options.ratio or RATIOS
        for seed in range(options.seeds)
    ]
    races = complete(jobs, options.runs, options.processes)
    raced = [each for job in jobs for each in races[key_of(job)].raced]
    hidden = {str(path) for path in (*options.folders, options.runs, options.out)}
    shown = ["FOLDER" if given in hidden else given for given in arguments]
    page = Page("How soon a peer's answer is reached", "peers", shown)
    write(page, raced, jobs, len(sources))
    page.write(options.out)


def complete(jobs: Sequence[Job], path: Path, processes: int) -> Races:
    """All races; those that the file lacks are run and added to it."""
    known, code = read_races(path), code_hash(DEFAULT_POLICY)
    wanted = {key_of(job): job for job in jobs}
    missing = [
        job
        for key, job in wanted.items()
        if key not in known or [each.peer for each in known[key].raced] != list(PEERS)
    ]
    there = wanted.keys() - map(key_of, missing)
    if any(known[key].code != code for key in there):
        say(f"other code ran some of them; name another file than {path} to run all anew")
    say(f"{len(missing)} of {len(wanted)} races to run")
    if missing:
        with (
            appending(path) as file,
            contextlib.closing(run_jobs(race, missing, processes)) as results,
        ):
            for done, (index, came) in enumerate(results, start=1):
                if isinstance(came, Lost):
                    raise AcetuneError(f"{missing[index]} failed: {came.error}")
                key = key_of(missing[index])
                known[key] = Race(came, code)
                append_race(file, key, known[key])
                if done % 20 == 0:
                    say(f"{done} of {len(missing)}")
    return {key: known[key] for key in wanted}


def append_race(file: IO[str], key: RaceKey, run: Race) -> None:
    """One line a race."""
    line = {**key._asdict(), "raced": [each._asdict() for each in run.raced], "code": run.code}
    file.write(json.dumps(line) + "\n")
    file.flush()


def read_races(path: Path) -> Races:
    """What the file holds."""
    return read_lines(path, "race of peers", _parse)


def _parse(line: dict[str, Any]) -> tuple[RaceKey, Race]:
    key = RaceKey(*(line[name] for name in RaceKey._fields))
    return key, Race([Raced(**each) for each in line["raced"]], line["code"])


def write(page: Page, raced: Sequence[Raced], jobs: Sequence[Job], tables: int) -> None:
    """A table of times, and one of regrets."""
    families = [*dict.fromkeys(each.family for each in raced), "all"]
    ratios = " and ".join(f"{ratio:g}" for ratio in dict.fromkeys(job.ratio for job in jobs))
    seeds = len({job.seed for job in jobs})
    page.add(
        f"`{DEFAULT_POLICY}` with `{DEFAULT_SEARCHER}`, the default of `tune()`, on {tables} "
        f"tables, hard and easy limits, checks of {ratios} steps, the time of {jobs[0].configs} "
        f"configurations, workers: {jobs[0].workers}, seeds: {seeds}. Peers check the best "
        "checkpoint of each trial at its end, ASHA at its rungs too; suggestions of all take the "
        "time that acetune.replay.simulator states.",
        "",
        "Share of the budget after which the default knows an answer as good as the peer's at the "
        "end of it: median over runs; in brackets the share of runs in which it never does. Below "
        "0.33 is a third of the peer's time.",
        "",
    )
    rows = []
    for peer in PEERS:
        row = [peer]
        for family in families:
            shares = [r.share for r in raced if r.peer == peer and family in (r.family, "all")]
            never = statistics.fmean(math.isinf(share) for share in shares)
            median = statistics.median(shares)
            row.append(f"{'-' if math.isinf(median) else f'{median:.2f}'} ({100 * never:.0f} %)")
        rows.append(row)
    page.table(["peer", *families], rows)
    page.add("Mean regret at the end of the budget:", "")
    rows = []
    first = next(iter(PEERS))
    for name in ("default of tune()", *PEERS):
        row = [name]
        for family in families:
            row.append(f"{statistics.fmean(_regrets(raced, name, first, family)):.3f}")
        rows.append(row)
    page.table(["", *families], rows)


def _regrets(raced: Sequence[Raced], name: str, first: str, family: str) -> list[float]:
    of_family = [r for r in raced if family in (r.family, "all")]
    if name in PEERS:
        return [r.peer_regret for r in of_family if r.peer == name]
    return [r.regret for r in of_family if r.peer == first]  # once, not once for each peer


if __name__ == "__main__":
    run_main(main, "stopped")
