"""The margins of a study: as they were given, as acetune chooses them, or as the file has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from acetune.certification.account import Account
from acetune.certification.margin import NOMINAL, auto_margin
from acetune.core.errors import StudyError
from acetune.core.goals import Constraint, Margin, goals_from_json
from acetune.study._formats import CONFIDENCE
from acetune.study.store import reading


def with_margins(
    constraints: Sequence[Constraint],
    path: Path,
    confidence: float | None,
    fresh_rows: int | None,
    candidates: int | None,
) -> list[Constraint]:
    """The constraints with a number for every margin.

    A margin that is left to acetune is chosen when a session begins, and stands until it ends. It
    aims for the next look at fresh data, so a study that goes on may get another one: a later look
    is stricter, more trials compete, there are more fresh rows. It depends on how many looks there
    were, and on nothing that they have found. What was judged before keeps its verdict.

    Parameters
    ----------
    constraints:
        As they were given.
    path:
        The study file, which may exist.
    confidence:
        Of the certificates that are aimed for; None: fresh data is not looked at, and margins stay
        as they are in the file, or are 0 where nobody has named them.
    fresh_rows, candidates:
        How many fresh rows there are and how many trials compete, where that is known.
    """
    constraints = list(constraints)
    if not all(isinstance(c, Constraint) for c in constraints):
        return constraints  # refused elsewhere
    so_far = _so_far(path)
    candidates = max(NOMINAL if candidates is None else candidates, so_far.trials)
    level = Account(confidence or CONFIDENCE, so_far.looks).next_level
    found = []
    for limit in constraints:
        stored = so_far.margins.get(limit.name)
        if limit.on == "config" or not (limit.margin_is_auto or limit.margin_is_default):
            found.append(limit)
        elif stored is not None and (confidence is None or not _is_auto(stored)):
            found.append(replace(limit, margin_se=stored))
        elif limit.margin_is_auto or (confidence is not None and not limit.compared_directly):
            chosen = auto_margin(level, _fresh_per_search(limit, fresh_rows), candidates)
            found.append(replace(limit, margin_se=Margin(round(chosen, 2), "auto")))
        else:
            found.append(replace(limit, margin_se=0.0))
    return found


@dataclass(frozen=True, slots=True)
class _SoFar:
    """What a study that goes on has in its file."""

    margins: Mapping[str, float] = field(default_factory=dict)
    trials: int = 0
    looks: int = 0


def _so_far(path: Path) -> _SoFar:
    """From a study file, if it is there and can be read."""
    if not path.exists():
        return _SoFar()
    try:
        with reading(path) as store:
            study = store.study()
            if not store.rows("SELECT 1 FROM reports LIMIT 1"):
                return _SoFar()  # the study may be begun anew
            (counted,) = store.rows(
                "SELECT (SELECT count(*) FROM looks) AS looks, "
                "(SELECT count(DISTINCT trial) FROM reports) AS trials"
            )
        goals = goals_from_json(study["objective"], study["constraints"])
    except StudyError:
        return _SoFar()  # whoever opens it says what is wrong
    margins: dict[str, float] = {}
    for limit in goals.constraints:
        assert not isinstance(limit.margin_se, str)  # a file has numbers
        margins[limit.name] = limit.margin_se
    return _SoFar(margins, counted["trials"], counted["looks"])


def _is_auto(margin: float) -> bool:
    return isinstance(margin, Margin) and margin.origin == "auto"


def _fresh_per_search(limit: Constraint, fresh_rows: int | None) -> float:
    """Fresh rows for each row of the search; 1 where one of them is not known."""
    rows = getattr(limit.check, "rows", None)
    if fresh_rows is None or not isinstance(rows, int) or rows < 1:
        return 1.0
    return max(0.01, fresh_rows / rows)
