"""What a live experiment compares, and in which order its studies are run.

Every policy gets the same wall-clock time for every limit, searcher and seed, one study after
another. Seeds are outermost, and the order of the policies rotates from cell to cell, so that a
machine that slows down or speeds up over the hours does so for all policies alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from acetune.core.errors import GoalError
from acetune.core.numbers import is_number, require_whole
from acetune.policies import parse_policy
from acetune.searchers import SEARCHER_NAMES
from paper.published import EASY, HARD

ENGINES = ("local", "ray")


class LiveCase(NamedTuple):
    """One study to be run."""

    limit: float
    searcher: str
    policy: str
    seed: int

    def __str__(self) -> str:
        return f"EOD <= {self.limit:g}, {self.searcher}, {self.policy}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class LivePlan:
    """What is compared, and for how long each study runs. The defaults are the paper's.

    >>> plan = LivePlan(policies=("none", "ace"), searchers=("random",), limits=(0.25,))
    >>> [(case.seed, case.policy) for case in plan.cases()][:4]
    [(20, 'none'), (20, 'ace'), (21, 'ace'), (21, 'none')]
    """

    limits: tuple[float, ...] = (HARD, EASY)
    searchers: tuple[str, ...] = ("random", "blendsearch")
    policies: tuple[str, ...] = ("none", "none+after", "asha", "asha+after", "ace")
    seeds: tuple[int, ...] = (20, 21, 22)
    budget_s: float = 120.0
    workers: int = 4
    engine: Literal["local", "ray"] = "local"

    def __post_init__(self) -> None:
        for what in ("limits", "searchers", "policies", "seeds"):
            given = getattr(self, what)
            if not given or len(set(given)) != len(given):
                raise GoalError(f"{what} must name at least one, and each once, got {given!r}")
        for limit in self.limits:
            if not (is_number(limit) and 0 < limit <= 1):
                raise GoalError(
                    f"a limit on EOD lies above 0 and up to 1, got {limit!r}; the paper's are "
                    f"{HARD} and {EASY}"
                )
        for searcher in self.searchers:
            if searcher not in SEARCHER_NAMES:
                known = ", ".join(SEARCHER_NAMES)
                raise GoalError(f"unknown searcher {searcher!r}; choose from {known}")
        for policy in self.policies:
            parse_policy(policy)
        for seed in self.seeds:
            require_whole("seed", seed, least=0)
        require_whole("workers", self.workers, least=1)
        if not (is_number(self.budget_s) and self.budget_s > 0):
            raise GoalError(f"the budget must be a number of seconds > 0, got {self.budget_s!r}")
        if self.engine not in ENGINES:
            raise GoalError(f"engine must be one of {', '.join(ENGINES)}, got {self.engine!r}")

    def cases(self) -> list[LiveCase]:
        """All studies, in the order in which they are run."""
        cells = [
            (s, limit, by) for s in self.seeds for limit in self.limits for by in self.searchers
        ]
        found = []
        for place, (seed, limit, searcher) in enumerate(cells):
            first = place % len(self.policies)
            for policy in self.policies[first:] + self.policies[:first]:
                found.append(LiveCase(limit, searcher, policy, seed))
        return found
