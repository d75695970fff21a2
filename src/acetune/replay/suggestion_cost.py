"""What a suggestion costs on the simulated clock: a model, so that replays are the same anywhere.

Fitted to the CPU time of ``ask`` on one machine, at 10 to 5,000 trials of 20 reports in eight
dimensions (``benchmarks/suggestion_cost.py``). Random search, below 0.3 ms, counts as free.
"""

from __future__ import annotations

# ms: of any suggestion, more for each trial so far, more for each report that trials have made on
# average (the forest grows its trees anew when there are 15 % more reports)
_COSTS = {
    "forest": (2.0, 0.0, 0.1),
    "tpe": (1.5, 0.007, 0.0),
    "gp": (400.0, 3.2, 0.0),
    "cmaes": (0.5, 0.0, 0.0),
    "blendsearch": (0.5, 0.0, 0.0),
    "cfo": (0.5, 0.0, 0.0),
}
_FREE = (0.0, 0.0, 0.0)


def suggestion_s(searcher: str, trials: int, reports: int) -> float:
    """Seconds that a searcher takes for a suggestion after so many trials and reports.

    >>> suggestion_s("forest", trials=100, reports=5000), suggestion_s("random", 100, 5000)
    (0.007, 0.0)
    """
    any_ms, trial_ms, report_ms = _COSTS.get(searcher, _FREE)
    return (any_ms + trial_ms * trials + report_ms * reports / max(1, trials)) / 1000
