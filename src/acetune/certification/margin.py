"""How far from the limit a search should stay, so that what it finds can be certified."""

from __future__ import annotations

import math
from statistics import NormalDist

POWER = 0.8  # how often the best of the search is to be certified
ALIKE = 0.75  # correlation of the errors of candidates: they are measured on the same rows
NOMINAL = 20  # candidates, where nobody has said how many trials there will be


def auto_margin(
    level: float, fresh_per_search: float = 1.0, candidates: int | None = None
) -> float:
    """The margin in standard errors of the rows that the search selects by.

    A model is certified with a probability of ``POWER`` if its true value is so many standard
    errors *of the fresh rows* within the limit. Those are ``1 / sqrt(fresh_per_search)`` times as
    large, where that is how many fresh rows there are for each row of the search. Among many
    candidates the one that is chosen looks better than it is (the winner's curse): what the best of
    so many gains by luck is added.

    Parameters
    ----------
    level:
        What the first look at fresh data may err with.
    fresh_per_search:
        Fresh rows for each row that the search selects by.
    candidates:
        How many trials compete.

    >>> round(auto_margin(0.0375, 1.0, 1), 2), round(auto_margin(0.0375, 4.0, 100), 2)
    (2.62, 2.56)
    """
    normal = NormalDist()
    reach = normal.inv_cdf(1 - level) + normal.inv_cdf(POWER)
    number = NOMINAL if candidates is None else max(1, candidates)
    # the mean of the largest of so many normal errors, nearly (Blom 1958)
    luck = normal.inv_cdf((number - 0.375) / (number + 0.25)) if number > 1 else 0.0
    return reach / math.sqrt(fresh_per_search) + math.sqrt(1 - ALIKE) * luck
