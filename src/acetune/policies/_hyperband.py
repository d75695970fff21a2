"""Hyperband (Li et al. 2018), asynchronous: ASHA with brackets, given out to trials in turn."""

from __future__ import annotations

from dataclasses import dataclass

from acetune.core.decision import Decision
from acetune.core.history import History
from acetune.core.numbers import require_whole
from acetune.core.observation import Observation
from acetune.core.ranked_groups import Filing
from acetune.core.trial_record import TrialRecord
from acetune.policies._ranking import decide_by_cutoff, free_rung, require_factor, rungs_up_to
from acetune.policies.policy import Policy, When, require_when


@dataclass(frozen=True)
class Hyperband(Policy):
    """Stop at rungs, as ASHA does, but start some trials on a higher one. Blind to the constraint.

    In bracket ``s`` the first rung is at step ``min_steps * reduction_factor ** s``: the higher the
    bracket, the longer its trials run before any is stopped. Trials are compared within their
    bracket; trial ``n`` of a study, from 0 on, is in bracket ``n % brackets``. A bracket whose
    first rung lies beyond a trial's last step never stops it.

    Parameters
    ----------
    reduction_factor:
        Rungs are this factor apart and 1 in ``reduction_factor`` goes on.
    brackets:
        How many brackets there are; with one this stops what ASHA stops.
    min_steps:
        The first rung of the first bracket.
    constraints:
        ``"callback"``: the best checkpoint of each trial is checked when it ends.
        ``"after"``: checked after the run, from the best objective down.

    A NaN or infinite objective ranks last: it stops at any rung that holds a finite one.

    Li, Jamieson, DeSalvo, Rostamizadeh, Talwalkar: Hyperband. A novel bandit-based approach to
    hyperparameter optimization. JMLR 18, 2018. Brackets in turn: Li et al., A system for massively
    parallel hyperparameter tuning, MLSys 2020.

    >>> Hyperband(brackets=2)
    Hyperband(reduction_factor=4, brackets=2, min_steps=1, constraints='callback')
    """

    reduction_factor: float = 4
    brackets: int = 3
    min_steps: int = 1
    constraints: When = "callback"

    def __post_init__(self) -> None:
        require_factor("reduction_factor", self.reduction_factor)
        require_whole("brackets", self.brackets, least=1)
        require_whole("min_steps", self.min_steps, least=1)
        require_when(self.constraints)

    def bracket(self, trial: TrialRecord) -> int:
        """In which bracket the trial is, from 0 on."""
        return trial.order % self.brackets

    def file(self, trial: TrialRecord, report: Observation) -> Filing | None:
        """At the highest rung of its bracket that does not hold this trial yet."""
        bracket = self.bracket(trial)
        first = self.min_steps * self.reduction_factor**bracket
        rungs = rungs_up_to(report.step, first, self.reduction_factor)
        group = free_rung(trial, rungs, bracket)
        return None if group is None else Filing(group, report.loss)

    def decide(
        self, trial: TrialRecord, report: Observation, filing: Filing | None, history: History
    ) -> Decision:
        """Stop what is strictly worse than the cutoff at its bracket's rung."""
        where = f"the rung of bracket {self.bracket(trial)}"
        return decide_by_cutoff(report, filing, history, self.reduction_factor, where)
