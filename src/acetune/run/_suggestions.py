"""New configurations: what the searcher suggests, within the limits on the configuration alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acetune.core.errors import GoalError, ReportError, SearchError
from acetune.core.goals import Constraint, FailedCheck, as_measurement
from acetune.core.outcome import Outcome
from acetune.core.reason import Reason, Wording
from acetune.searchers import Searcher
from acetune.searchers.searcher import FlatCurves
from acetune.searchers.space import Params, Space
from acetune.study.coordinator import StudyCoordinator
from acetune.study.session import StudyTrial
from acetune.trial.device_locks import GivenUpError
from acetune.trial.exclusive import alone, hardware_for, waiting_until

_MAX_REJECTIONS = 1000
_REJECTED = Wording("limit_on_configuration", "breaks {limit} before any training")


class Suggester:
    """Suggests trials that respect the limits on the configuration alone."""

    def __init__(
        self,
        coordinator: StudyCoordinator,
        searcher: Searcher,
        space: Space,
        limits: Sequence[Constraint],
    ) -> None:
        self._coordinator, self._searcher = coordinator, searcher
        curves = coordinator.curves
        searcher.watch(FlatCurves(space, curves) if space.nested else curves)
        self._space, self._limits = space, limits
        self._asked: tuple[int, Params] | None = None  # suggested, and not judged yet

    def suggest(self, give_up: Callable[[], bool] | None = None) -> StudyTrial | None:
        """The next trial; suggestions that break a limit are recorded and passed over.

        None if ``give_up`` has ended a wait to measure a limit alone: ask again later.
        """
        for _ in range(_MAX_REJECTIONS):
            number, params = self._asked = self._asked or self._ask()
            try:
                with waiting_until(give_up):
                    broken, violation = self._broken(params)
            except GivenUpError:
                return None
            self._asked = None
            if not broken:
                trial = self._coordinator.add_trial(params)
                self._note_hardware(number)
                return trial
            self._coordinator.reject(params, Reason(_REJECTED, {"limit": broken}))
            self._note_hardware(number)
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
        rejected, trials = self._coordinator.store.rejected(), self._coordinator.trials
        for number in sorted([*rejected, *trials]):
            if number in rejected:
                params = rejected[number]
                outcome: Outcome | None = Outcome(None, self._broken(params)[1])
            else:
                params, unfinished = trials[number].params, number in under_way
                outcome = None if unfinished else self._coordinator.outcome(number)
            searched = self._space.flatten(params) if self._space.nested else params
            self._searcher.add(number, searched, outcome)

    def _ask(self) -> tuple[int, Params]:
        number = self._coordinator.next_number()
        return number, self._space.complete(self._searcher.ask(number))

    def _note_hardware(self, number: int) -> None:
        """What the limits were measured on, where that matters: they are measured here."""
        hardware = hardware_for(limit.check for limit in self._limits)
        if hardware is not None:
            self._coordinator.store.set_hardware(number, 1, hardware)

    def _broken(self, params: Params) -> tuple[str, float]:
        """The limits on the configuration that are broken, and by how much in all."""
        broken, violation = [], 0.0
        for limit in self._limits:
            assert limit.check is not None  # Constraint requires it
            with alone(limit.check):
                found = limit.check(params)
            try:
                measured = as_measurement(found, f"constraint {limit.name!r}")
            except ReportError as not_a_number:
                measured = FailedCheck(str(not_a_number))
            if isinstance(measured, FailedCheck):
                raise GoalError(
                    f"{measured.error} for the configuration {params}; a limit on the "
                    "configuration must always give a number"
                )
            if not limit.holds(measured):
                broken.append(f"{limit.describe()} with {measured.value:g}")
                violation += limit.violation(measured)
        return ", ".join(broken), violation
