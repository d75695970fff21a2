"""What the scores of a grid say: means, worst cells, ranks, and settings chosen on other tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from acetune.core.errors import GoalError
from acetune.replay.statistics import Ranks, rank_rows, ranks_of
from benchmarks.grid_cells import GridCell, Score, Scores

# of a policy over cells
Mean: TypeAlias = Callable[[Scores, str, Sequence[GridCell]], float]


class PolicySummary(NamedTuple):
    """A policy over cells: means of its scores there."""

    policy: str
    regret: float
    worst: float  # the largest regret of a cell,
    worst_cell: GridCell  # and the cell
    first: float
    nothing: float
    check_share: float
    check_time: float
    false_stops: float
    trials: float
    whole: float


def summarise_policy(scores: Scores, policy: str, cells: Sequence[GridCell]) -> PolicySummary:
    """The policy over these cells, each counted once."""
    if not cells:
        raise GoalError(f"no cells to summarise {policy!r} over")
    found = [scores[cell][policy] for cell in cells]
    worst = max(range(len(cells)), key=lambda i: found[i].regret)
    mean = Score(*(statistics.fmean(column) for column in zip(*found, strict=True)))
    return PolicySummary(
        policy,
        mean.regret,
        found[worst].regret,
        cells[worst],
        mean.first,
        mean.nothing,
        mean.check_share,
        mean.check_time,
        mean.false_stops,
        mean.trials,
        mean.whole,
    )


def mean_regret(scores: Scores, policy: str, cells: Sequence[GridCell]) -> float:
    """Over these cells, each counted once."""
    return statistics.fmean(scores[cell][policy].regret for cell in cells)


def best_policy(
    scores: Scores, policies: Sequence[str], cells: Sequence[GridCell], mean: Mean = mean_regret
) -> str:
    """The one with the smallest mean regret; the first of equals."""
    return min(policies, key=lambda policy: mean(scores, policy, cells))


def rank_in_cells(scores: Scores, policies: Sequence[str], cells: Sequence[GridCell]) -> Ranks:
    """Average ranks by mean regret, with a cell as a block of the tests."""
    regrets = [[scores[cell][p].regret for p in policies] for cell in cells]
    return ranks_of(policies, rank_rows(regrets))


def scored_everywhere(scores: Scores, policies: Iterable[str]) -> list[GridCell]:
    """The cells in which all of these policies have a score."""
    wanted = set(policies)
    return [cell for cell, by_policy in scores.items() if wanted <= by_policy.keys()]


def merged(several: Iterable[Scores]) -> Scores:
    """All of them together."""
    found: Scores = {}
    for scores in several:
        for cell, by_policy in scores.items():
            found.setdefault(cell, {}).update(by_policy)
    return found


# -- settings chosen on other tables --------------------------------------------------------------


class HeldOut(NamedTuple):
    """Tables that were left out together, and the setting that was best on all others."""

    tables: tuple[str, ...]
    setting: str
    elsewhere: float  # its mean regret on the others


def choose_elsewhere(
    scores: Scores,
    settings: Sequence[str],
    cells: Sequence[GridCell],
    left_out: Iterable[Collection[str]],
    mean: Mean = mean_regret,
) -> list[HeldOut]:
    """For each group of tables the setting with the best mean over the cells of all others."""
    found = []
    for tables in left_out:
        others = [cell for cell in cells if cell.table not in tables]
        if not others:
            raise GoalError(f"no tables are left to choose on without {', '.join(tables)}")
        setting = best_policy(scores, settings, others, mean)
        found.append(HeldOut(tuple(tables), setting, mean(scores, setting, others)))
    return found


def with_held_out(scores: Scores, name: str, choices: Sequence[HeldOut]) -> Scores:
    """The cells of the left-out tables, with a policy more: what was chosen on other tables."""
    setting = {table: choice.setting for choice in choices for table in choice.tables}
    return {
        cell: {**by_policy, name: by_policy[setting[cell.table]]}
        for cell, by_policy in scores.items()
        if cell.table in setting and setting[cell.table] in by_policy
    }
