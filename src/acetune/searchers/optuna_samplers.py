"""Optuna's samplers, with the violation as an official constraint of the trial."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from acetune.core.errors import GoalError
from acetune.core.goals import LEFT_OUT, Constraint, Estimate, FailedCheck, Goals
from acetune.core.import_on_use import import_extra
from acetune.core.outcome import Outcome
from acetune.searchers.searcher import Searcher, drop_tried, searched_part
from acetune.searchers.space import Choice, Dimension, Float, Space

SamplerName = Literal["random", "tpe", "gp", "cmaes"]


class OptunaSearcher(Searcher):
    """Random search, TPE, a Gaussian process or CMA-ES.

    TPE and the Gaussian process are told the constraint through Optuna's own constraints: feasible
    trials are preferred, infeasible ones tell where the limit is. **CMA-ES is blind to
    constraints**: it is told the objective alone and may settle where nothing qualifies.

    A trial that failed, or was turned down before training, has no loss. TPE and CMA-ES pass over
    it (TPE learns the violation of those turned down) and, as they draw at random, soon suggest
    something else. The Gaussian process would suggest the same again, for nothing has changed for
    it: it is told the worst loss seen so far, and the violation.

    Parameters
    ----------
    space:
        What to search.
    sampler:
        ``"random"``, ``"tpe"``, ``"gp"`` (needs PyTorch and SciPy) or ``"cmaes"`` (needs cmaes;
        draws the options of choices at random).
    points:
        Configurations to try first; open dimensions are sampled.
    seed:
        Makes the suggestions repeatable, given the same answers in the same order.
    """

    def __init__(
        self,
        space: Space,
        sampler: SamplerName = "tpe",
        points: Sequence[Mapping[str, Any]] = (),
        seed: int | None = None,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._sampler = sampler
        self._study = optuna.create_study(direction="minimize", sampler=_made(sampler, seed))
        self._space = space
        self._distributions = distributions(space)
        self._asked: dict[int, Trial] = {}
        self._points = [dict(point) for point in points]
        self._worst_loss: float | None = None

    def ask(self, trial: int) -> dict[str, Any]:
        """The next point to try first, or else what the sampler suggests."""
        if self._points:
            self._study.enqueue_trial(self._points.pop(0))
        self._asked[trial] = self._ask()
        return self._snapped(self._asked[trial].params)

    def tell(self, trial: int, outcome: Outcome, params: Mapping[str, Any] | None = None) -> None:
        """The outcome of a trial: its loss, and its violation as a constraint.

        If other ``params`` were run, a trial with those is added and the asked one ends as FAIL:
        samplers pass over it, whereas one that stays RUNNING counts as a bad value for TPE and as
        a value to come for the Gaussian process.
        """
        asked = self._asked.pop(trial)
        if params is not None:
            suggested = self._study.tell(asked, state=TrialState.FAIL)
            self._study.add_trial(self._frozen(params, outcome, suggested))
            return
        state, loss, constraints = self._in_optunas_terms(outcome)
        for name, value in constraints.items():
            asked.set_constraint(name, value)
        self._study.tell(asked, loss, state=state)

    def add(self, trial: int, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        """A trial of an earlier session. A point that was tried then is not tried again."""
        searched = searched_part(self._space, params)
        drop_tried(self._points, searched)
        if outcome is None:
            self._points.insert(0, searched)
            self.ask(trial)
        elif self._sampler == "cmaes":
            # only a trial that it has asked for belongs to one of its generations
            self._asked[trial] = self._ask()
            self.tell(trial, outcome, searched)
        else:
            self._study.add_trial(self._frozen(searched, outcome))

    def _snapped(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """On the steps: Optuna has none in logarithms, and computes others less exactly."""
        dimensions = self._space.dimensions
        return {
            name: value if isinstance(dimensions[name], Choice) else dimensions[name].snap(value)
            for name, value in drawn.items()
        }

    def _ask(self) -> Trial:
        # the Gaussian process divides 0 by 0 when all candidates but one are hopeless, and copes
        with np.errstate(invalid="ignore"):
            asked = self._study.ask()
            for name, one in self._distributions.items():
                if self._space.has(name, asked.params):
                    _suggest(asked, name, one)
            if self._sampler == "cmaes":
                # counts a point to try first among a generation, which it would pass over
                asked.relative_params  # noqa: B018
        return asked

    def _frozen(
        self, params: Mapping[str, Any], outcome: Outcome, in_place_of: FrozenTrial | None = None
    ) -> FrozenTrial:
        state, loss, constraints = self._in_optunas_terms(outcome)
        attributes = {} if in_place_of is None else in_place_of.system_attrs
        searched = searched_part(self._space, params)
        return create_trial(
            state=state,
            value=loss,
            params=searched,
            distributions={name: self._distributions[name] for name in searched},
            constraints=constraints,
            # the generation in which CMA-ES asked, and its state
            system_attrs={k: v for k, v in attributes.items() if k.startswith("cma:")},
        )

    def _in_optunas_terms(
        self, outcome: Outcome
    ) -> tuple[TrialState, float | None, dict[str, float]]:
        """State, value and constraints of a trial."""
        loss = outcome.loss
        if loss is not None:
            worst = self._worst_loss
            self._worst_loss = loss if worst is None else max(loss, worst)
        elif self._sampler == "gp":
            loss = self._worst_loss
        # CMA-ES would only warn that it does not use it
        constraints = {} if self._sampler == "cmaes" else {"violation": outcome.violation}
        if loss is not None:
            return TrialState.COMPLETE, loss, constraints
        if outcome.failed:
            return TrialState.FAIL, None, {}
        return TrialState.PRUNED, None, constraints  # turned down before training


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The space in Optuna's terms."""
    return {name: distribution(dimension) for name, dimension in space.dimensions.items()}


def distribution(dimension: Dimension) -> BaseDistribution:
    """A dimension in Optuna's terms; steps of a logarithmic one, which Optuna lacks, left out."""
    if isinstance(dimension, Choice):
        return CategoricalDistribution(dimension.options)
    low, high, log = dimension.low, dimension.high, dimension.log
    if isinstance(dimension, Float):
        return FloatDistribution(low, high, log=log, step=None if log else dimension.step)
    return IntDistribution(int(low), int(high), log=log, step=1 if log else int(dimension.step))


def _suggest(trial: Trial, name: str, one: BaseDistribution) -> None:
    """Ask for a parameter, by the distribution it has."""
    if isinstance(one, CategoricalDistribution):
        trial.suggest_categorical(name, one.choices)
    elif isinstance(one, FloatDistribution):
        trial.suggest_float(name, one.low, one.high, step=one.step, log=one.log)
    else:
        assert isinstance(one, IntDistribution), "there is no other"
        trial.suggest_int(name, one.low, one.high, step=one.step, log=one.log)


def _made(sampler: SamplerName, seed: int | None) -> optuna.samplers.BaseSampler:
    if sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    if sampler == "tpe":
        return optuna.samplers.TPESampler(seed=seed)
    if sampler == "gp":
        for module in ("torch", "scipy"):
            import_extra(module, "PyTorch with SciPy", "gp")
        # says at every suggestion that the study has converged
        logging.getLogger("optuna._gp.optim_mixed").setLevel(logging.ERROR)
        return optuna.samplers.GPSampler(seed=seed, warn_independent_sampling=False)
    if sampler == "cmaes":
        import_extra("cmaes", "cmaes", "cmaes")
        return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
    raise GoalError(f"sampler must be one of {', '.join(get_args(SamplerName))}, got {sampler!r}")


# -- constraints in Optuna's terms -------------------------------------------------------------


def amount(constraint: Constraint, measured: Estimate) -> float:
    """How far a measurement lies beyond the limit, relative to it: Optuna's limit is 0."""
    excess = constraint.excess(measured)
    violation = constraint.violation(measured)
    if excess > 0:  # neither so small that it vanishes nor infinite
        return min(max(violation, sys.float_info.min), sys.float_info.max)
    scale = constraint.scale if constraint.scale is not None else abs(constraint.limit) or 1.0
    return max(excess / scale, -sys.float_info.max)


def amounts(
    goals: Goals, measured: Mapping[str, Estimate | FailedCheck], largest: float
) -> dict[str, float]:
    """How far beyond each limit a checkpoint lies, for Optuna, which knows no failed check.

    Where one failed, those without a number are together as bad as the ``largest`` violation seen.
    """
    numbers = {name: m for name, m in measured.items() if isinstance(m, Estimate)}
    missing = LEFT_OUT
    if len(numbers) < len(measured):
        missing = max(largest / (len(goals.constraints) - len(numbers)), sys.float_info.min)
    return {
        c.name: amount(c, numbers[c.name]) if c.name in numbers else missing
        for c in goals.constraints
    }
