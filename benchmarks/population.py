"""How far from the best feasible checkpoint policies end, over a population of tasks.

Regret is 0 for the best feasible checkpoint of a table, 1 for the best feasible checkpoint of its
median configuration (the median is taken over the configurations that have one), for everything
worse, and where nothing feasible was found; in between it is linear in the objective. Each run
is one line in the file of ``--runs``: a command that was broken off goes on from there, and what
is there is not measured again unless ``--again`` names it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acetune.core.errors import AcetuneError
from acetune.policies import parse_policy
from acetune.run.terminal import progress_bar
from acetune.trial.hardware import available_cores
from benchmarks import grid_plan as plan
from benchmarks.common import Page, run_main, say
from benchmarks.grid_cells import GridCell
from benchmarks.grid_code import code_hash
from benchmarks.population_page import write_page
from benchmarks.population_runs import (
    RunKey,
    Runs,
    SeedRunner,
    append_runs,
    appending,
    measure,
    read_runs,
)
from benchmarks.population_tables import Source, choose, own_tables, read_folder, thin

FOLDER = "ACETUNE_POPULATION"  # the variable that names a folder of tables
POLICIES = (
    "ace:truncation=0.5,interval=1",
    "asha-lex",
    "median",
    "hyperband",
    "backoff",
    "ace",
    "adaptive",
    "ace2",
    "ace-beta1",
    "none",
)
SEARCHERS = ("forest", "random", "tpe")
SEEDS = 20
SAY_S = 30.0
# what --extract leaves: under ten minutes on two cores with all policies and searchers
EXTRACT_TABLES, EXTRACT_RATIOS, EXTRACT_BUDGETS, EXTRACT_SEEDS = 3, (2.0, 24.0), (50,), 3


def main(arguments: Sequence[str]) -> None:
    """Measure what is missing, and say what all of it says."""
    options = parse(arguments)
    sources = population(options)
    wanted = [
        RunKey(cell, source.digest, policy, seed)
        for source in sources
        for cell in cells_of(source, options)
        for policy in options.policy
        for seed in range(options.seeds)
    ]
    runs = complete(wanted, sources, options)
    hidden = {str(path) for path in (*options.folders, options.runs, options.out)}
    shown = ["FOLDER" if given in hidden else given for given in arguments]
    page = Page("Regret over a population of tasks", "population", shown)
    write_page(page, runs, sources, options.policy, options.reference, options.seeds)
    page.write(options.out)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, with what --extract changes filled in."""
    parser = argparse.ArgumentParser(description=__doc__)
    several = "repeat it; default: "
    parser.add_argument(
        "folders", nargs="*", type=Path, help=f"of curve tables and limits.json; default: ${FOLDER}"
    )
    parser.add_argument("--own", action="store_true", help="the tables of the grid, too")
    parser.add_argument(
        "--table", action="append", default=[], help=several + "all; a table, or a family"
    )
    parser.add_argument("--policy", action="append", help=several + ", ".join(POLICIES))
    parser.add_argument("--searcher", action="append", help=several + ", ".join(SEARCHERS))
    parser.add_argument(
        "--ratio",
        action="append",
        type=float,
        help="what a check costs, in mean steps; "
        + several
        + ", ".join(f"{ratio:g}" for ratio in plan.RATIOS),
    )
    parser.add_argument(
        "--budget",
        action="append",
        type=int,
        help="in mean configurations; " + several + ", ".join(map(str, plan.BUDGETS)),
    )
    parser.add_argument("--seeds", type=int, help=f"default: {SEEDS}")
    parser.add_argument("--max-trials", type=int, help="of a run; default: no limit")
    parser.add_argument(
        "--extract",
        action="store_true",
        help=f"{EXTRACT_TABLES} tables of each family, and fewer ratios, budgets and seeds",
    )
    parser.add_argument("--runs", type=Path, required=True, help="the file that runs are added to")
    parser.add_argument(
        "--again",
        action="append",
        default=[],
        metavar="POLICY",
        help="measure anew: 'ace2' with all its options, or 'all'",
    )
    parser.add_argument("--reference", help=f"compared with; default: {plan.OURS}, or the last")
    parser.add_argument("--processes", type=int, default=available_cores(), help="one a core")
    parser.add_argument("--out", type=Path, help="folder for the page; default: print only")
    options = parser.parse_args(arguments)
    brief = options.extract
    options.policy = list(dict.fromkeys(options.policy or POLICIES))
    options.searcher = list(dict.fromkeys(options.searcher or SEARCHERS))
    options.ratio = sorted(set(options.ratio or (EXTRACT_RATIOS if brief else plan.RATIOS)))
    options.budget = sorted(set(options.budget or (EXTRACT_BUDGETS if brief else plan.BUDGETS)))
    if options.seeds is None:
        options.seeds = EXTRACT_SEEDS if brief else SEEDS
    if options.reference is None:
        options.reference = plan.OURS if plan.OURS in options.policy else options.policy[-1]
    if options.seeds < 1 or options.processes < 1 or min(options.budget) < 1:
        parser.error("--seeds, --processes and --budget must be at least 1")
    if options.reference not in options.policy:
        parser.error(f"--reference {options.reference!r} must be one of the policies")
    if not options.folders and os.environ.get(FOLDER):
        options.folders = [Path(os.environ[FOLDER])]
    if not options.folders and not options.own:
        parser.error(f"name a folder of tables, or set {FOLDER}, or take the grid's with --own")
    return options


def population(options: argparse.Namespace) -> list[Source]:
    """The tables that are asked for."""
    sources = [source for folder in options.folders for source in read_folder(folder)]
    if options.own:
        sources += own_tables()
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise AcetuneError(f"two tables are called {name!r}; rename one, or leave out a folder")
    sources = choose(sources, options.table)
    return thin(sources, EXTRACT_TABLES) if options.extract else sources


def cells_of(source: Source, options: argparse.Namespace) -> list[GridCell]:
    """The cells of a table, those that share a limit and a ratio beside each other."""
    return [
        GridCell(source.name, kind, limit, ratio, budget, searcher, options.max_trials)
        for kind, limit in source.limits.items()
        for ratio in options.ratio
        for searcher in options.searcher
        for budget in options.budget
    ]


def complete(
    wanted: Sequence[RunKey], sources: Sequence[Source], options: argparse.Namespace
) -> Runs:
    """All runs that are wanted; those that the file lacks are made and added to it."""
    for policy in options.policy:
        parse_policy(policy)  # say at once what is wrong, and not from a worker
    known = read_runs(options.runs)
    missing = [key for key in wanted if key not in known or plan.named(key.policy, options.again)]
    codes = {policy: code_hash(policy) for policy in options.policy}
    again = set(missing)
    old = {
        key.policy for key in wanted if key not in again and known[key].code != codes[key.policy]
    }
    if old:
        say(f"other code measured {', '.join(sorted(old))}; --again measures them anew")
    say(f"{len(missing)} of {len(wanted)} runs to make")
    if missing:
        runner = SeedRunner({s.name: s.read for s in sources}, options.seeds, plan.WORKERS)
        began = said = time.monotonic()
        done = 0
        with appending(options.runs) as file, progress_bar() as progress:
            bar = progress.add_task("runs", total=len(missing))
            for came in measure(runner, missing, options.processes):
                append_runs(file, came)
                known.update(came)
                done += len(came)
                progress.advance(bar, len(came))
                if progress.disable and time.monotonic() - said >= SAY_S:  # no terminal, no bar
                    said = time.monotonic()
                    say(f"{done} of {len(missing)}")
        took = time.monotonic() - began
        say(f"{len(missing)} runs in {took:.0f} s, {took / len(missing):.3f} s each")
    return {key: known[key] for key in wanted}


if __name__ == "__main__":
    run_main(main, "stopped; the same command goes on from here")
