"""Small extracts of a folder of curve tables: fewer tables of each family, fewer configurations."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from acetune.replay.judged_table import judge, parse_limit
from acetune.replay.table_file import write_table
from benchmarks.common import run_main, say
from benchmarks.population_tables import LIMITS, read_folder, thin

FEWEST = 3  # configurations that hold each limit, or the extract says too little


def main(arguments: Sequence[str]) -> None:
    """Write the extracts and their limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of curve tables and limits.json")
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--most", type=int, default=4, help="tables of each family")
    parser.add_argument("--configs", type=int, default=150, help="configurations of each table")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    limits = json.loads((options.folder / LIMITS).read_text(encoding="utf-8"))
    kept = {}
    for source in thin(read_folder(options.folder), options.most):
        # what a seed draws, so that an extract is a random sample as the table is
        table = source.read()
        rng = np.random.default_rng(0)
        count = min(options.configs, len(table.configs))
        chosen = np.sort(rng.choice(len(table.configs), size=count, replace=False))
        extract = table.subset(chosen.tolist())
        for limit in source.limits.values():
            holds = np.isfinite(judge(extract, [parse_limit(limit)], 1.0).best_losses).sum()
            if holds < FEWEST:
                say(f"{source.name}: {holds} configurations hold {limit}; left out")
                break
        else:
            write_table(options.out / f"{source.name}.parquet", extract)
            kept[source.name] = limits[source.name]
    (options.out / LIMITS).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    say(f"{len(kept)} tables written to {options.out}")


if __name__ == "__main__":
    run_main(main)
