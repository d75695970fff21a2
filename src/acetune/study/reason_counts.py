"""Why trials ended, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from acetune.core.reason import Reason
from acetune.study.view import TrialRow


def count_reasons(trials: Iterable[TrialRow]) -> list[tuple[str, Reason, int]]:
    """State, reason and how many trials: the most frequent first.

    Reasons of one code are counted together where they differ only in numbers that their short
    form does not name.
    """
    counts: Counter[tuple[object, ...]] = Counter()
    examples: dict[tuple[object, ...], tuple[str, Reason]] = {}
    for trial in trials:
        key = (trial.state, trial.reason.code, *trial.reason.shared.values())
        examples.setdefault(key, (trial.state, trial.reason))
        counts[key] += 1
    return [(*examples[key], n) for key, n in counts.most_common()]
