"""The margins of a study: as they were given, as acetune chooses them, or as the file has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from acetune.certification.account import Account
from acetune.certification.margin import auto_margin
from acetune.core.errors import StudyError
from acetune.core.goals import Constraint, Margin, goals_from_json
from acetune.study._formats import CONFIDENCE
from acetune.study.store import reading


def with_margins(
    constraints: Sequence[Constraint],
    path: Path,
    aims: float | None,
    fresh_rows: int | None,
    candidates: int | None,
) -> list[Constraint]:
    """The constraints with a number for every margin.

    A margin that is left to acetune is fixed when the study is created: a study that goes on takes
    it from its file, whatever it would be by now, so that nothing is judged in two ways.

    Parameters
    ----------
    constraints:
        As they were given.
    path:
        The study file, which may exist.
    aims:
        What the first look at fresh data may err with; None: there is none, and margins that
        nobody has named are 0.
    fresh_rows, candidates:
        How many fresh rows there are and how many trials compete, where that is known.
    """
    constraints = list(constraints)
    if not all(isinstance(c, Constraint) for c in constraints):
        return constraints  # refused elsewhere
    stored = _stored(path)
    found = []
    for limit in constraints:
        left = limit.margin_is_auto or limit.margin_is_default
        if limit.on == "config" or not left:
            found.append(limit)
        elif limit.name in stored:
            found.append(replace(limit, margin_se=stored[limit.name]))
        elif limit.margin_is_auto or (aims is not None and not limit.compared_directly):
            level = Account(CONFIDENCE).next_level if aims is None else aims
            ratio = _fresh_per_search(limit, fresh_rows)
            chosen = round(auto_margin(level, ratio, candidates), 2)
            found.append(replace(limit, margin_se=Margin(chosen, "auto")))
        else:
            found.append(replace(limit, margin_se=0.0))
    return found


def _stored(path: Path) -> dict[str, float]:
    """The margins in a study file, if it is there and can be read."""
    if not path.exists():
        return {}
    try:
        with reading(path) as store:
            study = store.study()
            if not store.rows("SELECT 1 FROM reports LIMIT 1"):
                return {}  # the study may be begun anew
        goals = goals_from_json(study["objective"], study["constraints"])
    except StudyError:
        return {}  # whoever opens it says what is wrong
    return {limit.name: limit.margin_se for limit in goals.constraints}  # type: ignore[misc]


def _fresh_per_search(limit: Constraint, fresh_rows: int | None) -> float:
    """Fresh rows for each row of the search; 1 where one of them is not known."""
    rows = getattr(limit.check, "rows", None)
    if fresh_rows is None or not isinstance(rows, int) or rows < 1:
        return 1.0
    return max(0.01, fresh_rows / rows)
