"""Live, with real training: the default of tune() beside what people use instead.

Two contenders run at the same time, each with one core and one thread, and change cores from seed
to seed. Every match is a line of the file ``--runs``: a command that was broken off goes on from
there, and what is there is not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acetune.core.errors import AcetuneError
from acetune.core.goals import Estimate
from acetune.policies import DEFAULT_POLICY
from acetune.replay.training import Task
from acetune.searchers import DEFAULT_SEARCHER
from benchmarks.common import Page, run_main, say
from benchmarks.grid_code import code_hash
from benchmarks.live_contenders import PEERS, Ran
from benchmarks.live_matches import (
    Match,
    Matches,
    MatchKey,
    Summary,
    append_match,
    play,
    read_matches,
    summarise,
)
from benchmarks.live_tasks import TASKS, xgboost
from benchmarks.population_runs import appending

FOLDER = "ACETUNE_DATA"  # the variable that names the folder of the data
SEEDS, SECONDS = 5, 120.0


def main(arguments: Sequence[str]) -> None:
    """Run what is missing, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        help=f"folder with credit/ and law/; default: {FOLDER}, or else rows made by code",
    )
    parser.add_argument("--task", action="append", choices=list(TASKS), help="default: all; repeat")
    parser.add_argument(
        "--peer", action="append", choices=list(PEERS), help="default: optuna-median; repeat"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--runs", type=Path, required=True, help="file of JSON lines")
    parser.add_argument("--page", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, help="folder for the page; default: print only")
    options = parser.parse_args(arguments)
    if options.data is None and os.environ.get(FOLDER):
        options.data = Path(os.environ[FOLDER])
    if options.seeds < 1 or options.seconds <= 0:
        parser.error("--seeds and --seconds must be positive")
    names, peers = options.task or list(TASKS), options.peer or ["optuna-median"]
    tasks = {name: TASKS[name].make(options.data) for name in names}
    wanted = wanted_matches(tasks, peers, options.seeds, options.seconds)
    matches = read_matches(options.runs)
    if not options.page:
        run_missing(wanted, tasks, matches, options.runs, options.data)
    matches = {key: matches[key] for key in wanted if key in matches}
    if not matches:
        raise AcetuneError(f"{options.runs} has none of these matches; leave out --page")
    hidden = {str(options.data): "FOLDER", str(options.out): "FOLDER", str(options.runs): "FILE"}
    shown = [hidden.get(given, given) for given in arguments]
    page = Page("Live: the default of tune() beside peers", "live", shown)
    write(page, matches, tasks)
    page.write(options.out)


def wanted_matches(
    tasks: Mapping[str, Task], peers: Sequence[str], seeds: int, seconds: float
) -> list[MatchKey]:
    """In the order in which they are run: what is broken off has some seeds of everything."""
    return [
        MatchKey(name, task.name, limits_of(task), peer, seed, seconds)
        for seed in range(seeds)
        for name, task in tasks.items()
        for peer in peers
    ]


def limits_of(task: Task) -> str:
    """In words."""
    return ", ".join(limit.describe() for limit in task.constraints)


def run_missing(
    wanted: Sequence[MatchKey],
    tasks: Mapping[str, Task],
    matches: Matches,
    path: Path,
    data: Path | None,
) -> None:
    """Run the matches that are not there yet, and write each one down."""
    missing = [key for key in wanted if key not in matches]
    code = code_hash(DEFAULT_POLICY)
    cores = two_cores() if missing else (0, 0)
    with appending(path) if missing else contextlib.nullcontext() as file:
        for done, key in enumerate(missing, start=1):
            ours, theirs = cores if key.seed % 2 == 0 else (cores[1], cores[0])
            ran = play(key.task, data, key.peer, key.seed, key.seconds, (ours, theirs))
            match = Match(tasks[key.task].mode, *ran, (ours, theirs), code)
            matches[key] = match
            assert file is not None
            append_match(file, key, match)
            say(
                f"{done} of {len(missing)}: {key.task}, seed {key.seed}: default "
                f"{_in_words(ran[0])}; {key.peer} {_in_words(ran[1])}"
            )


def two_cores() -> tuple[int, int]:
    """One for each contender."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise AcetuneError(f"two cores are needed, one for each contender; there is {cores}")
    return cores[0], cores[1]


def _in_words(ran: Ran) -> str:
    return (
        f"{_shown(ran.best)} ({ran.trials} trials, {ran.steps} steps, {ran.checks} checks, "
        f"first step after {ran.first_step_s or 0:.1f} s)"
    )


# -- the page --------------------------------------------------------------------------------------


def write(page: Page, matches: Matches, tasks: Mapping[str, Task]) -> None:
    """For each peer a table, a row a task."""
    seconds = ", ".join(sorted({f"{key.seconds:g}" for key in matches}))
    codes = {match.code for match in matches.values()}
    page.add(
        _packages(),
        "",
        f"`{DEFAULT_POLICY}` with `{DEFAULT_SEARCHER}`, the default of `tune()`, and a peer at the "
        f"same time, for {seconds} s, each with one core and one thread; they change cores from "
        "seed to seed. Both train and check with the same functions. Peers run in one process and "
        "keep nothing on disk; they report each step, and check the best checkpoint of each trial, "
        "pruned or not, at its end. The clock starts when everything is imported and the data are "
        "read; the worker process that `tune()` starts, and its imports, are in its time. What a "
        "peer's check finds in the trial that the end of the time cuts off counts; what the "
        "default finds after that time does not.",
        "",
        "Objective: the median over seeds of the best feasible one on the rows to select by; a "
        "contender that finds nothing feasible is worse than one that finds anything. A tie is the "
        "same with four decimals. Share: of the time after which the default knows an answer as "
        "good as the peer's at the end (median; in brackets in how many seeds it never does). No "
        "limit: the best objective that either saw, feasible or not.",
        "",
    )
    if len(codes) > 1:
        page.add(f"These matches were run by {len(codes)} versions of the code.", "")
    for peer in dict.fromkeys(key.peer for key in matches):
        page.add(f"## {PEERS[peer][0]}", "")
        its = [(key, match) for key, match in matches.items() if key.peer == peer]
        by_task = {
            name: [(key, match) for key, match in its if key.task == name]
            for name in dict.fromkeys(key.task for key, _ in its)
        }
        head = ["task", "seeds", "default", "peer", "won", "tied", "lost", "share", "no limit"]
        page.table(head, [_row(tasks[name], summarise(of)) for name, of in by_task.items()])
        page.add(
            "On rows that nothing was selected by: medians over the seeds with an answer, and in "
            "how many of these it breaks the limit there (a latency is measured once more, after "
            "the run).",
            "",
        )
        head = ["task", "default", "peer", "default breaks", "peer breaks"]
        page.table(head, [_held_row(tasks[name], of) for name, of in by_task.items()])
        page.add("What each did in the time: medians over seeds.", "")
        head = ["task", "trials", "peer's", "steps", "peer's", "checks", "peer's", "first step (s)"]
        page.table(head, [_work_row(tasks[name], of) for name, of in by_task.items()])


def _row(task: Task, found: Summary) -> list[str]:
    never = f" ({found.never})" if found.never else ""
    share = "never" if found.share == float("inf") else f"{found.share:.2f}"
    return [
        f"{task.name}, {limits_of(task)}",
        str(found.matches),
        _shown(found.median),
        _shown(found.peer_median),
        str(found.wins),
        str(found.ties),
        str(found.losses),
        f"{share}{never}",
        _shown(found.unlimited),
    ]


def _held_row(task: Task, matches: Sequence[tuple[MatchKey, Match]]) -> list[str]:
    medians, broken = [], []
    for runs in _sides(matches):
        held = [run.held_out for run in runs if run.held_out is not None]
        values = [one[task.objective] for one in held]
        medians.append(_shown(statistics.median(values) if values else None))
        breaks = [
            not all(limit.holds(Estimate(one[limit.name])) for limit in task.constraints)
            for one in held
        ]
        broken.append(f"{sum(breaks)} of {len(held)}")
    return [task.name, *medians, *broken]


def _work_row(task: Task, matches: Sequence[tuple[MatchKey, Match]]) -> list[str]:
    cells = [
        f"{statistics.median(getattr(run, what) for run in runs):,.0f}"
        for what in ("trials", "steps", "checks")
        for runs in _sides(matches)
    ]
    firsts = [m.ours.first_step_s for _, m in matches if m.ours.first_step_s is not None]
    return [task.name, *cells, f"{statistics.median(firsts):.1f}" if firsts else "-"]


def _sides(matches: Sequence[tuple[MatchKey, Match]]) -> tuple[list[Ran], list[Ran]]:
    return [match.ours for _, match in matches], [match.theirs for _, match in matches]


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def _packages() -> str:
    names = ("lightgbm", "scikit-learn", "flaml", "numpy")
    found = [f"{name} {metadata.version(name)}" for name in names]
    return ", ".join([*found, f"xgboost {xgboost()[0].__version__}"])  # has two distributions


if __name__ == "__main__":
    run_main(main, "stopped: the same command goes on")
