"""Study files written by hand, row by row, through the store that a study uses."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acetune.core.goals import Constraint, FailedCheck, Goals, Objective, as_measurement
from acetune.core.reason import stated
from acetune.policies import ACE
from acetune.study.opening import describe_study
from acetune.study.store import Store
from acetune.study.table_rows import CheckRow
from report.written import planned

SETTINGS = {"confirm_top": 5, "keep_models": 3, "workers": 2, "searcher": "tpe"}
BEGAN = 1_790_000_000.0


@dataclass
class Author:
    """Writes trials; ``run`` takes (objective, {constraint: value}) for each step."""

    store: Store
    goals: Goals
    now: float = BEGAN
    seqs: list[int] = field(default_factory=list)

    def run(
        self,
        trial: int,
        params: Mapping[str, Any],
        reports: Sequence[tuple[float, Mapping[str, Any] | None]],
        state: str = "finished",
        reason: str = "reached its last step",
        attempt: int = 1,
        resumed_from: int = 0,
        total: int | None = 10,
    ) -> None:
        store = self.store
        with store.transaction():
            store.add_trial(trial, attempt, params, self.now, resumed_from)
            store.set_plan(trial, attempt, *planned(ACE(), total, 1, 0.5), startup_s=0.25)
            for step, (value, measured) in enumerate(reports, resumed_from + 1):
                self.now += 1.0
                self._report(trial, attempt, step, value, measured)
            if state != "running":
                self.now += 1.0
                store.end_trial(trial, attempt, state, stated(state, reason), self.now)

    def _report(
        self, trial: int, attempt: int, step: int, value: float, measured: Mapping[str, Any] | None
    ) -> None:
        checked = violation = None
        stratum, checks = "unchecked", []
        if measured is not None or not self.goals.constraints:
            found = {k: as_measurement(v, k) for k, v in (measured or {}).items()}
            valid, violation = self.goals.judge(found)
            stratum, checked = ("valid" if valid else "invalid"), step
            checks = [
                CheckRow(name, None, None, 0.1, one.error)
                if isinstance(one, FailedCheck)
                else CheckRow(name, one.value, one.stderr, 0.1, None)
                for name, one in found.items()
            ]
        stored = None if math.isnan(value) else value
        row = (trial, attempt, "step", step, stored, checked, stored if checked else None,
               violation, stratum, 1, 1, "continue", 0.5, 0.01, self.now, None)  # fmt: skip
        self.seqs.append(self.store.add_report(row, checks))


@contextlib.contextmanager
def writing(
    path: Path,
    constraints: Sequence[Constraint] = (Constraint("g", upper=2.0),),
    mode: Any = "min",
    space: Mapping[str, Any] | None = None,
    objective: str = "loss",
) -> Iterator[Author]:
    """A new study file; ``space`` as :meth:`acetune.searchers.space.Space.describe` gives it."""
    goals = Goals(Objective(objective, mode), tuple(constraints))
    described = {"x": {"float": [0.0, 1.0], "log": False}} if space is None else space
    study = describe_study(goals, (), ACE(), described, SETTINGS)
    store = Store.create(path, study)
    try:
        yield Author(store, goals)
    finally:
        store.close()
