"""Ranking within strata: what the policies that know the constraint share."""

from __future__ import annotations

import math

from acetune.core.decision import Stratum
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Wording

KEPT = Wording("kept", "rank {rank} of {of} {stratum} reports at step {step}: kept")
WORST = Wording(
    "worst",
    "rank {rank} of {of} {stratum} reports at step {step}: in the worst {share:.0%}",
    "in the worst {share:.0%} of the {stratum} reports at its step",
)


def file_in(stratum: Stratum, step: float, violation: float, loss: float) -> Filing:
    """With those of its step, or rung, and stratum: the invalid by (violation, loss), else by loss.

    >>> file_in("invalid", step=3, violation=0.1, loss=0.7)
    Filing(group=(3, 'invalid'), key=(0.1, 0.7))
    """
    return Filing((step, stratum), (violation, loss) if stratum == "invalid" else loss)


def in_worst(share: float, better: int, n: int) -> bool:
    """Whether a report belongs to the worst ``share`` of n, itself included; ties are for it.

    >>> [in_worst(0.25, better, n=4) for better in (2, 3)], in_worst(0.25, better=2, n=3)
    ([False, True], False)
    """
    return better >= n - math.floor(share * n + 1e-9)
