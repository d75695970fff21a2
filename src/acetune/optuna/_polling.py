"""Which trials of a study may have news: those that have not ended, and those not seen yet."""

from __future__ import annotations

from optuna.trial import FrozenTrial

from acetune.optuna._private_api import StudyAccess, trial_id

# Up to so many trials are read one by one. For a database each costs as much as all those that
# have not ended together, but reading these goes through every trial of the study.
_FEW = 4


class StaleError(Exception):
    """What was read before is no longer what the storage holds."""


class Poll:
    """Remembers how far a study was read."""

    __slots__ = ("_next", "_open")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # number and id of the trials that have not ended
        self._next = 0  # the first number that was not seen yet

    def news(self, study: StudyAccess, own: int | None) -> list[FrozenTrial]:
        """The trials that may have news. ``own`` is left out: the caller has it at hand."""
        unended = self._open
        others = len(unended) - (own in unended)
        if others > _FEW or (own is not None and own - self._next > _FEW):
            return [trial for trial in self.everything(study) if trial.number != own]
        found: list[FrozenTrial] = []
        try:
            if others:
                found = [study.trial(at) for number, at in unended.items() if number != own]
            while (new := study.id_of(self._next)) is not None:
                unended[self._next] = new
                if self._next != own:
                    found.append(study.trial(new))
                self._next += 1
        except KeyError:
            raise StaleError from None
        if found:
            self._close(found)
        return found

    def everything(self, study: StudyAccess) -> list[FrozenTrial]:
        """The same without leaving one out, read all at once."""
        trials = study.trials()
        found = []
        for number in self._open:
            if number >= len(trials) or trials[number].number != number:
                raise StaleError
            found.append(trials[number])
        for trial in trials[self._next :]:
            found.append(trial)
            self._open[trial.number] = trial_id(trial)
            self._next = trial.number + 1
        self._close(found)
        return found

    def _close(self, found: list[FrozenTrial]) -> None:
        for trial in found:
            if trial.state.is_finished():
                self._open.pop(trial.number, None)
