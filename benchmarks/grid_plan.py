"""What the grid measures: tables, limits, cost ratios, budgets and policies."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from acetune.core.errors import GoalError
from acetune.replay.curve_table import CurveTable
from acetune.replay.synthetic import synthetic_table
from acetune.replay.table_file import read_table
from benchmarks.grid_cells import GridCell

ROOT = Path(__file__).resolve().parents[1]
WORKERS = 4
RATIOS = (0.1, 2.0, 24.0, 100.0)
DEAR = 24.0  # from here on a check counts as dear
BUDGETS = (50, 200)  # mean configurations that the workers train to the end
TPE_TRIALS = 200  # a run, as TPE takes the longer for a suggestion the more it has seen

RECORDED = {  # the hard limit and the easy one
    "credit-lightgbm": ("eod<=0.25", "eod<=0.325"),
    "credit-lightgbm-confirm": ("eod<=0.25", "eod<=0.325"),
    "law-mlp": ("eod<=0.10", "eod<=0.45"),
    "sst2-minilm": ("afr<=0.19", "afr<=0.25"),
}
TWINS = ("credit-lightgbm", "credit-lightgbm-confirm")  # one task, recorded twice
SYNTHETIC = {  # drift and noise
    "synthetic-early": (0.2, 0.004),
    "synthetic-late": (-0.2, 0.004),
    "synthetic-flat": (0.0, 0.01),
}
DIFFICULTIES = {"hard": 0.93, "easy": 0.4}  # share of the checkpoints that break the limit
TABLES = (*RECORDED, *SYNTHETIC)

OURS = "ace2"
BACKOFFS = tuple(
    f"backoff:truncation={truncation:g},growth={growth:g}"
    for truncation, growth in itertools.product((0.25, 0.35, 0.5), (1.2, 1.5, 2.0))
)
FIXED = (
    "none",
    "median",
    "asha",
    "asha-lex",
    "ace",
    "ace-hard",
    "ace-beta1",
    "ace:truncation=0.5",
    "ace:truncation=0.5,interval=1",
    *BACKOFFS,
)
ABLATIONS = {  # what is taken away
    "ace2:invalid_truncation=0.25": "the invalid are cut no harder than the others",
    "ace2:head_start=0": "the first step is checked",
    "ace2:spacing=0": "from the first check on every step is checked",
    "ace2:patience=1": "who falls behind is not stopped for it",
    "ace2:remember=False": "a verdict is forgotten at the next report",
    "ace2:spare=False": "the never-checked are ranked while few checks find valid",
    "ace2:defer=False": "checks are not put off where many find valid",
}
SETTINGS = (  # among these one is chosen on all tables but one
    OURS,
    *ABLATIONS,
    "ace2:truncation=0.35",
    "ace2:invalid_truncation=0.5",
    "ace2:spacing=1",
)
# with TPE; the best of the fixed ones with random search is added, and none is constrained TPE
TPE = ("none", "asha-lex", "ace", OURS)

PARTS: dict[str, Sequence[str]] = {  # with random search: what each part measures
    "random": (*FIXED, OURS),
    "ablation": tuple(ABLATIONS),
    # what the others have not measured already
    "held-out": tuple(p for p in SETTINGS if p != OURS and p not in ABLATIONS),
}


def sources(names: Sequence[str]) -> dict[str, Callable[[], CurveTable]]:
    """What gives each of these tables."""
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise GoalError(f"no table {unknown[0]!r} in the grid; it has {', '.join(TABLES)}")
    return {
        name: functools.partial(read_table, ROOT / "tables" / f"{name}.parquet")
        if name in RECORDED
        else functools.partial(made_table, name, "hard")
        for name in names
    }


def made_table(name: str, kind: str) -> CurveTable:
    """A synthetic table; only its limit depends on the kind."""
    drift, noise = SYNTHETIC[name]
    return synthetic_table(
        configs=600,
        seed=7,
        max_steps=80,
        drift=drift,
        noise=noise,
        difficulty=DIFFICULTIES[kind],
    ).table


def limits(table: str) -> dict[str, str]:
    """The hard and the easy limit of a table."""
    if table in RECORDED:
        return dict(zip(DIFFICULTIES, RECORDED[table], strict=True))
    found = {}
    for kind in DIFFICULTIES:
        (constraint,) = made_table(table, kind).constraints
        found[kind] = f"{constraint.metric}<={constraint.upper:g}"
    return found


def cells(part: str, tables: Sequence[str]) -> list[GridCell]:
    """The cells of a part, those that share a table, a limit and a ratio beside each other."""
    searcher, trials = ("tpe", TPE_TRIALS) if part == "tpe" else ("random", None)
    return [
        GridCell(table, kind, limit, ratio, budget, searcher, trials)
        for table in tables
        for kind, limit in limits(table).items()
        for ratio in RATIOS
        for budget in BUDGETS
    ]


def label(policy: str) -> str:
    """A policy as pictures call it.

    >>> label("backoff:truncation=0.35,growth=1.2"), label("ace:truncation=0.5,interval=1")
    ('backoff 0.35 x1.2', 'ace 0.5 β=1')
    """
    name, _, options = policy.partition(":")
    words = {"truncation": "", "growth": "x", "interval": "β="}
    parts = [name]
    for option in filter(None, options.split(",")):
        key, _, value = option.partition("=")
        parts.append(words.get(key, f"{key}=") + value)
    return " ".join(parts)


def named(policy: str, names: Sequence[str]) -> bool:
    """Whether a policy is among these: by itself, by its name without options, or by 'all'."""
    return "all" in names or policy in names or policy.partition(":")[0] in names
