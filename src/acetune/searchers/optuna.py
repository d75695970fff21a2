"""Optuna's samplers, with the violation as an official constraint of the trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import Trial, TrialState, create_trial

from acetune.core.outcome import Outcome
from acetune.searchers.base import Searcher
from acetune.space import Choice, Float, Space


class OptunaSearcher(Searcher):
    """Random search or TPE.

    TPE is told the constraint through ``Trial.set_constraint``: feasible trials are preferred, and
    infeasible ones ordered by their violation.

    Parameters
    ----------
    space:
        What to search.
    sampler:
        ``"random"`` or ``"tpe"``.
    points:
        Configurations to try first; open dimensions are sampled.
    seed:
        Makes the suggestions repeatable, given the same answers in the same order.
    """

    def __init__(
        self,
        space: Space,
        sampler: Literal["random", "tpe"] = "tpe",
        points: Sequence[Mapping[str, Any]] = (),
        seed: int | None = None,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        made: optuna.samplers.BaseSampler
        if sampler == "random":
            made = optuna.samplers.RandomSampler(seed=seed)
        else:
            made = optuna.samplers.TPESampler(seed=seed)
        self._study = optuna.create_study(direction="minimize", sampler=made)
        self._distributions = distributions(space)
        self._asked: dict[int, Trial] = {}
        self._points = [dict(point) for point in points]

    def ask(self, trial: int) -> dict[str, Any]:
        """The next point to try first, or else what the sampler suggests."""
        if self._points:
            self._study.enqueue_trial(self._points.pop(0))
        asked = self._study.ask(self._distributions)
        self._asked[trial] = asked
        return dict(asked.params)

    def tell(self, trial: int, outcome: Outcome) -> None:
        """The outcome of a trial: its loss, and its violation as a constraint."""
        asked = self._asked.pop(trial)
        if outcome.failed:
            self._study.tell(asked, state=TrialState.FAIL)
        else:
            asked.set_constraint("violation", outcome.violation)
            if outcome.loss is None:  # turned down before training: no value, only a violation
                self._study.tell(asked, state=TrialState.PRUNED)
            else:
                self._study.tell(asked, outcome.loss)

    def add(self, trial: int, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        """A trial of an earlier session. A point that was tried then is not tried again."""
        searched = {name: params[name] for name in self._distributions}
        for point in self._points:
            if all(searched[name] == value for name, value in point.items()):
                self._points.remove(point)
                break
        if outcome is None:
            self._points.insert(0, searched)
            self.ask(trial)
            return
        state = TrialState.COMPLETE if outcome.loss is not None else TrialState.PRUNED
        self._study.add_trial(
            create_trial(
                state=TrialState.FAIL if outcome.failed else state,
                value=None if outcome.failed else outcome.loss,
                params=searched,
                distributions=self._distributions,
                constraints={} if outcome.failed else {"violation": outcome.violation},
            )
        )


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space in Optuna's terms."""
    found: dict[str, BaseDistribution] = {}
    for name, dimension in space.dimensions.items():
        if isinstance(dimension, Choice):
            found[name] = CategoricalDistribution(dimension.options)
        elif isinstance(dimension, Float):
            found[name] = FloatDistribution(dimension.low, dimension.high, log=dimension.log)
        else:
            found[name] = IntDistribution(
                int(dimension.low), int(dimension.high), log=dimension.log
            )
    return found
