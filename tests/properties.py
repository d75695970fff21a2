"""How many examples a property is tried with."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings

MORE = os.environ.get("ACETUNE_HYPOTHESIS_EXAMPLES")  # for a night
TIMEOUT_S = 0 if MORE else 600  # shrinking takes its time


def examples(default: int, **options: Any) -> settings:
    """Settings with so many examples, or half of them; in a quick run with few (conftest.py)."""
    profile = settings.get_current_profile_name()
    if profile == "quick":
        default = min(default, settings.get_profile("quick").max_examples)
    elif profile == "half":
        default = (default + 1) // 2
    return settings(max_examples=default, deadline=None, **options)


def examples_or_more(default: int) -> settings:
    """The same for a second implementation; ``ACETUNE_HYPOTHESIS_EXAMPLES`` asks for more."""
    found = examples(
        default,
        derandomize=MORE is None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # explaining is slow
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    return settings(found, max_examples=int(MORE)) if MORE else found
