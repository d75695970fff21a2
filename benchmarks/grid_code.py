"""Which code decides the numbers of a policy: to know results by that other code has measured."""

from __future__ import annotations

from benchmarks import grid_plan as plan
from benchmarks.source_hash import source_hash

CODE = (  # what decides the numbers
    *(
        f"src/acetune/{name}"
        for name in ("core/*", "policies/*", "searchers/*", "study/coordinator*")
    ),
    *(
        f"src/acetune/replay/{name}"
        for name in ("simulator", "judged_table", "table_searcher", "synthetic")
    ),
    *(f"benchmarks/{name}" for name in ("budgets", "regret", "grid_cells")),
)


def code_hash(policy: str) -> str:
    """Of the source files that decide a policy's numbers."""
    ours = plan.named(policy, [plan.OURS])  # one file there serves one policy alone
    return source_hash(CODE, lambda path: not ours and path.stem.lstrip("_") == plan.OURS)
