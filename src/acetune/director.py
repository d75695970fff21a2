"""Between searcher and engine: which trial comes next, and who is told how it went."""

from __future__ import annotations

import json
from collections.abc import Sequence

from acetune.coordinator import Coordinator
from acetune.core.errors import GoalError, SearchError
from acetune.core.goals import Constraint, FailedCheck, as_measurement
from acetune.core.outcome import Outcome
from acetune.searchers import Searcher
from acetune.space import Params, Space
from acetune.study_trial import StudyTrial

_MAX_REJECTIONS = 1000


class Director:
    """Suggests trials that respect the limits on the configuration alone."""

    def __init__(
        self,
        coordinator: Coordinator,
        searcher: Searcher,
        space: Space,
        limits: Sequence[Constraint],
    ) -> None:
        self._coordinator, self._searcher = coordinator, searcher
        self._space, self._limits = space, limits

    def suggest(self) -> StudyTrial:
        """The next trial; suggestions that break a limit are recorded and passed over."""
        for _ in range(_MAX_REJECTIONS):
            number = self._coordinator.next_number()
            params = self._space.complete(self._searcher.ask(number))
            broken, violation = self._broken(params)
            if not broken:
                return self._coordinator.add_trial(params)
            self._coordinator.reject(params, f"breaks {broken} before any training")
            self._searcher.tell(number, Outcome(None, violation))
        raise SearchError(
            f"the last {_MAX_REJECTIONS} suggestions all broke a limit on the configuration "
            f"({broken}); widen the space or the limit"
        )

    def tell(self, number: int) -> None:
        """A trial has ended for good."""
        self._searcher.tell(number, self._coordinator.outcome(number))

    def remind(self, under_way: Sequence[int]) -> None:
        """Tell the searcher of the trials of earlier sessions."""
        for row in self._coordinator.store.rows(
            "SELECT trial, params FROM trials WHERE attempt = 1 ORDER BY trial"
        ):
            number, params = row["trial"], json.loads(row["params"])
            if number in self._coordinator.trials:
                unfinished = number in under_way
                outcome = None if unfinished else self._coordinator.outcome(number)
            else:
                outcome = Outcome(None, self._broken(params)[1])
            self._searcher.add(number, params, outcome)

    def _broken(self, params: Params) -> tuple[str, float]:
        """The limits on the configuration that are broken, and by how much in all."""
        broken, violation = [], 0.0
        for limit in self._limits:
            assert limit.check is not None  # Constraint requires it
            measured = as_measurement(limit.check(params), f"constraint {limit.name!r}")
            if isinstance(measured, FailedCheck):
                raise GoalError(
                    f"{measured.error} for the configuration {params}; a limit on the "
                    "configuration must always give a number"
                )
            if not limit.holds(measured):
                broken.append(f"{limit.describe()} with {measured.value:g}")
                violation += limit.violation(measured)
        return ", ".join(broken), violation
