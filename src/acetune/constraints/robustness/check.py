"""The check: a model's average failure rate over a suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from acetune.constraints.robustness.suite import FailureRate, Suite, average
from acetune.core.errors import GoalError
from acetune.core.goals import Estimate


class RobustnessCheck:
    """The average failure rate of a model over a suite, as the check of a constraint.

    Parameters
    ----------
    suite:
        The tests; :func:`load_checklist` reads CheckList's own.
    predict:
        Called with the model and all texts of the suite, each once; returns P(positive) of each,
        or a column for each class. :class:`TransformerPredictor` does that for transformers, in
        batches, and tokenises every text once.

    A model that always says the same thing has a low failure rate: it is the objective's part to
    exclude it.

    >>> from acetune import Constraint
    >>> from acetune.constraints.robustness import BehaviouralTest
    >>> words = BehaviouralTest("words", ("good", "bad"), labels=(2, 0))
    >>> check = RobustnessCheck(Suite([words]), lambda model, texts: [model[t] for t in texts])
    >>> afr = Constraint("afr", upper=0.2, check=check)
    >>> check({"good": 0.9, "bad": 0.6}).value
    0.5
    """

    def __init__(self, suite: Suite, predict: Callable[[Any, Sequence[str]], Any]) -> None:
        if not isinstance(suite, Suite):
            raise GoalError(f"suite must be a Suite of behavioural tests, got {suite!r}")
        if not callable(predict):
            raise GoalError(f"predict must be a function of model and texts, got {predict!r}")
        self.suite, self._predict = suite, predict

    def __call__(self, model: Any) -> Estimate:
        """The average failure rate with its standard error."""
        return average(self.rates(model))

    def rates(self, model: Any) -> dict[str, FailureRate]:
        """The failure rate of each test."""
        return self.suite.failure_rates(self._predict(model, self.suite.texts))
