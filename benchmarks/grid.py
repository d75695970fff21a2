"""How far from the best feasible checkpoint policies end: every table, limit, cost ratio, budget.

Each part writes the means of its cells to ``grid-<part>.json`` as it goes; a run that was broken
off goes on from there. Policies whose results are there are not measured again unless ``--again``
names them. The page and its pictures are made from the files, at the end or alone with ``--page``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acetune.core.errors import AcetuneError
from acetune.policies import parse_policy
from acetune.run.terminal import progress_bar
from acetune.trial.hardware import available_cores
from benchmarks import grid_plan as plan
from benchmarks.common import run_main, say, versions
from benchmarks.grid_cells import CellRunner, Pair, Scores, score_all
from benchmarks.grid_code import code_hash
from benchmarks.grid_file import read_scores, write_scores
from benchmarks.grid_page import write_page
from benchmarks.grid_summary import best_policy, scored_everywhere
from benchmarks.grid_tpe import TpeRunner

PARTS = ("random", "ablation", "held-out", "tpe")  # tpe asks random for the best fixed policy
RESULTS = plan.ROOT / "benchmarks" / "results"
PAGES = plan.ROOT / "docs" / "results"
SAVE_S = 30.0  # so much work is lost at most
MIXED = "several"


def main(arguments: Sequence[str]) -> None:
    """Measure what is asked for, and write files and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--processes", type=int, default=available_cores(), help="one a core")
    parser.add_argument("--part", action="append", choices=PARTS, help="repeat it; default: all")
    parser.add_argument(
        "--table", action="append", choices=plan.TABLES, help="repeat it; default: all"
    )
    parser.add_argument(
        "--again",
        action="append",
        default=[],
        metavar="POLICY",
        help="measure anew though there are results: 'ace2' with all its options, or 'all'",
    )
    parser.add_argument("--page", action="store_true", help="only make the page from the files")
    parser.add_argument("--out", type=Path, help="folder for files, page and pictures")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or options.processes < 1:
        parser.error("--seeds and --processes must be at least 1")
    folder = options.out or RESULTS
    if not options.page:
        shown = ["FOLDER" if given == str(options.out) else given for given in arguments]
        command = " ".join(["python benchmarks/grid.py", *shown])
        for part in PARTS:
            if part in (options.part or PARTS):
                measure(part, options, folder, command)
    write_page(folder, options.out or PAGES, PARTS)


def measure(part: str, options: argparse.Namespace, folder: Path, command: str) -> None:
    """Add to the file of a part what it lacks."""
    path = folder / f"grid-{part}.json"
    tables = [table for table in plan.TABLES if table in (options.table or plan.TABLES)]
    policies = tpe_policies(folder) if part == "tpe" else plan.PARTS[part]
    for policy in policies:
        parse_policy(policy)  # say at once what is wrong, and not from a worker
    wanted = [(cell, policy) for cell in plan.cells(part, tables) for policy in policies]
    everything = {(c, p) for c in plan.cells(part, plan.TABLES) for p in policies}
    about, known = resume(path, options.seeds)
    there = {(cell, policy) for cell, by_policy in known.items() for policy in by_policy}
    missing = [pair for pair in wanted if pair not in there or plan.named(pair[1], options.again)]
    kept = (there & everything) - set(missing)
    code, codes = {p: code_hash(p) for p in policies}, dict(about.get("code", {}))
    old = sorted({policy for _, policy in kept if codes.get(policy) != code[policy]})
    if old:
        say(f"{part}: other code measured {', '.join(old)}; --again measures them anew")
    if not missing:
        say(f"{part}: all {len(wanted)} results are there")
        return
    for _, policy in missing:
        codes[policy] = MIXED if policy in old else code[policy]
    about = {
        "part": part,
        "command": command,
        "seeds": options.seeds,
        "workers": plan.WORKERS,
        "versions": versions("acetune", "numpy", "optuna", "scipy"),
        "code": codes,
    }
    say(f"{part}: {len(missing)} of {len(wanted)} results to measure, {options.seeds} runs each")
    scores: Scores = {
        cell: {p: score for p, score in known.get(cell, {}).items() if (cell, p) in kept}
        for cell in plan.cells(part, plan.TABLES)  # in their order, whenever they are measured
    }
    made = TpeRunner if part == "tpe" else CellRunner
    runner = made(plan.sources(tables), options.seeds, plan.WORKERS)
    try:
        run(part, runner, missing, options, scores, lambda: save(path, about, scores, policies))
    finally:  # Ctrl-C too: what was measured is kept
        save(path, about, scores, policies)


def run(
    part: str,
    runner: CellRunner,
    pairs: Sequence[Pair],
    options: argparse.Namespace,
    scores: Scores,
    save: Any,
) -> None:
    """Score the pairs with a bar, and save now and then."""
    began = saved = time.monotonic()
    with progress_bar() as progress:
        bar = progress.add_task(part, total=len(pairs) * options.seeds)
        for done, ((cell, policy), score) in enumerate(
            score_all(runner, pairs, options.processes), start=1
        ):
            scores[cell][policy] = score
            progress.advance(bar, options.seeds)
            if time.monotonic() - saved >= SAVE_S:
                save()
                saved = time.monotonic()
                if progress.disable:  # no terminal, no bar
                    say(f"{part}: {done} of {len(pairs)}")
    say(f"{part}: {len(pairs)} results in {time.monotonic() - began:.0f} s")


def save(path: Path, about: dict[str, Any], scores: Scores, policies: Sequence[str]) -> None:
    """Write the file of a part, with policies in their order."""
    ordered = {
        cell: {policy: by_policy[policy] for policy in policies if policy in by_policy}
        for cell, by_policy in scores.items()
        if by_policy
    }
    write_scores(path, about, ordered)


def resume(path: Path, seeds: int) -> tuple[dict[str, Any], Scores]:
    """What a file holds, if there is one; it must be of as many seeds."""
    if not path.exists():
        return {}, {}
    about, scores = read_scores(path)
    if about.get("seeds") != seeds:
        raise AcetuneError(
            f"{path} holds results of {about.get('seeds')} seeds, and {seeds} are asked for; "
            "give another folder with --out, or remove it"
        )
    return about, scores


def tpe_policies(folder: Path) -> list[str]:
    """Those of TPE, with the best fixed policy of the random part before ours."""
    path = folder / "grid-random.json"
    _, scores = read_scores(path) if path.exists() else ({}, {})
    cells = [c for c in scored_everywhere(scores, plan.FIXED) if c.table in plan.RECORDED]
    if not cells:
        raise AcetuneError(
            f"the part tpe takes the best fixed policy of the part random, and {path} has no "
            "recorded table with all of them; run --part random first"
        )
    best = best_policy(scores, plan.FIXED, cells)
    return list(dict.fromkeys([*plan.TPE[:-1], best, plan.TPE[-1]]))


if __name__ == "__main__":
    run_main(main, "stopped; the same command goes on from here")
