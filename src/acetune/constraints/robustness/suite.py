"""Behavioural tests and suites of them: cases of text, and how often a model fails them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acetune.constraints.robustness.answers import NEGATIVE, POSITIVE, Answers
from acetune.constraints.robustness.rules import RULES
from acetune.core.numbers import require_whole
from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import Estimate

Array = NDArray[Any]


class FailureRate(NamedTuple):
    """How a model fared in one test: ``cases`` are those not left out."""

    failures: int
    cases: int

    @property
    def rate(self) -> float:
        """Failures over cases; NaN where all cases were left out."""
        return self.failures / self.cases if self.cases else math.nan


class BehaviouralTest:
    """Cases that a model should all pass.

    Parameters
    ----------
    cases:
        Each is one text with a label (minimum functionality), or an original and its variants.
    labels:
        For minimum functionality: 0 negative, 1 neutral, 2 positive, one for each case or one for
        all. The prediction must be the label.
    rule:
        For cases with variants: a name from ``RULES``. A case fails if any of its variants does; it
        is left out if the rule says so of its original.

    >>> words = BehaviouralTest("positive words", ["fun", "great"], labels=2)
    >>> words.cases, words.labels
    ((('fun',), ('great',)), (2, 2))
    >>> places = BehaviouralTest("places", [("Paris, hm", "Rome, hm")], rule="invariant")
    """

    def __init__(
        self,
        name: str,
        cases: Sequence[str | Sequence[str]],
        labels: int | Sequence[int] | None = None,
        rule: str | None = None,
        capability: str = "",
    ) -> None:
        if not name or not isinstance(name, str):
            raise GoalError(f"a test needs a name, got {name!r}")
        if isinstance(cases, str):
            raise GoalError(f"test {name!r}: cases must be a list of texts, got {cases!r}")
        self.name, self.rule, self.capability = name, rule, capability
        self.cases = tuple((case,) if isinstance(case, str) else tuple(case) for case in cases)
        for number, case in enumerate(self.cases):
            for text in case:
                if not isinstance(text, str):
                    raise GoalError(f"test {name!r}: case {number} holds {text!r}, not a text")
        self.labels: tuple[int, ...] | None = None
        if not self.cases:
            raise GoalError(f"test {name!r} has no cases")
        if (labels is None) == (rule is None):
            raise GoalError(
                f"test {name!r}: give labels (of minimum functionality) or a rule (for variants), "
                f"not both; got labels={labels!r}, rule={rule!r}"
            )
        if labels is None:
            self._require_variants()
        else:
            self.labels = self._require_labels(labels)

    def _require_variants(self) -> None:
        if self.rule not in RULES:
            raise GoalError(
                f"test {self.name!r}: unknown rule {self.rule!r}; choose from {sorted(RULES)}"
            )
        for number, case in enumerate(self.cases):
            if len(case) < 2:
                raise GoalError(
                    f"test {self.name!r}: case {number} has no variant beside {list(case)}"
                )

    def _require_labels(self, given: int | Sequence[int]) -> tuple[int, ...]:
        found: list[int]
        found = [given] * len(self.cases) if isinstance(given, int | np.integer) else list(given)
        if len(found) != len(self.cases):
            raise GoalError(f"test {self.name!r}: {len(found)} labels for {len(self.cases)} cases")
        for number, (case, label) in enumerate(zip(self.cases, found, strict=True)):
            if len(case) != 1:
                raise GoalError(
                    f"test {self.name!r}: case {number} has a label and must be one text, got "
                    f"{list(case)}"
                )
            if label not in range(NEGATIVE, POSITIVE + 1):
                raise GoalError(
                    f"test {self.name!r}: a label is 0 (negative), 1 (neutral) or 2 (positive), "
                    f"case {number} has {label!r}"
                )
        return tuple(int(label) for label in found)

    def sample(self, most: int, rng: np.random.Generator) -> BehaviouralTest:
        """At most so many of the cases, drawn at random, in their order."""
        if len(self.cases) <= most:
            return self
        chosen = np.sort(rng.choice(len(self.cases), most, replace=False))
        labels = self.labels
        return BehaviouralTest(
            self.name,
            tuple(self.cases[i] for i in chosen),
            None if labels is None else tuple(labels[i] for i in chosen),
            self.rule,
            self.capability,
        )


class _Places(NamedTuple):
    """Where the texts of a test stand among those of the suite, a pair a row."""

    case: Array
    original: Array
    variant: Array


class Suite:
    """Tests together: every text stands once in ``texts``, however many cases use it.

    >>> suite = Suite([
    ...     BehaviouralTest("words", ("fun", "boring"), labels=(2, 0)),
    ...     BehaviouralTest("a full stop", (("fun", "fun."),), rule="invariant"),
    ... ])
    >>> suite.texts
    ('fun', 'boring', 'fun.')
    >>> rates = suite.failure_rates(np.array([0.9, 0.8, 0.4]))      # P(positive) of each text
    >>> {name: found.rate for name, found in rates.items()}
    {'words': 0.5, 'a full stop': 1.0}
    >>> round(suite.average_failure_rate(np.array([0.9, 0.8, 0.4])).value, 2)
    0.75
    """

    def __init__(self, tests: Iterable[BehaviouralTest]) -> None:
        found = tuple(tests)
        if not found:
            raise GoalError("a suite needs at least one test")
        names = [test.name for test in found]
        for name in names:
            if names.count(name) > 1:
                raise GoalError(f"two tests of the suite are called {name!r}; rename one")
        self.tests = found
        every = (text for test in found for case in test.cases for text in case)
        self.texts = tuple(dict.fromkeys(every))

    @cached_property
    def _places(self) -> list[_Places]:
        place = {text: i for i, text in enumerate(self.texts)}
        found = []
        for test in self.tests:
            rows = [
                (number, place[case[0]], place[variant])
                for number, case in enumerate(test.cases)
                for variant in (case[1:] or case)
            ]
            found.append(_Places(*np.array(rows).T))
        return found

    def sample(self, most: int = 300, seed: int = 0) -> Suite:
        """At most so many cases a test, drawn at random; a test's draw depends on its name only."""
        require_whole("most", most, least=1)
        require_whole("seed", seed, least=0)
        return Suite(test.sample(most, _generator(seed, test.name)) for test in self.tests)

    def failure_rates(self, probabilities: Array | Answers) -> dict[str, FailureRate]:
        """How the model fared in each test, from its answers to ``texts``, in their order."""
        answers = probabilities if isinstance(probabilities, Answers) else Answers(probabilities)
        if len(answers) != len(self.texts):
            raise ReportError(
                f"the suite has {len(self.texts)} texts, but there are {len(answers)} answers"
            )
        return {
            test.name: _judge(test, places, answers)
            for test, places in zip(self.tests, self._places, strict=True)
        }

    def average_failure_rate(self, probabilities: Array | Answers) -> Estimate:
        """The mean over tests; its standard error takes the cases as drawn independently."""
        return average(self.failure_rates(probabilities))


def average(rates: Mapping[str, FailureRate]) -> Estimate:
    """The mean of failure rates; tests whose cases were all left out are left out.

    In the standard error a failure and a success are added to each test, so that one that is never
    failed does not count as known exactly.
    """
    found = [rate for rate in rates.values() if rate.cases]
    if not found:
        raise ReportError("every case of every test was left out: there is no failure rate")
    shares = [((rate.failures + 1) / (rate.cases + 2), rate.cases) for rate in found]
    variance = math.fsum(share * (1 - share) / cases for share, cases in shares)
    mean = math.fsum(rate.rate for rate in found) / len(found)
    return Estimate(mean, math.sqrt(variance) / len(found))


def _judge(test: BehaviouralTest, places: _Places, answers: Answers) -> FailureRate:
    if test.labels is not None:
        failed = answers.labels[places.original] != np.array(test.labels)
        return FailureRate(int(failed.sum()), len(failed))
    assert test.rule is not None  # one of both is given
    failed, left_out = RULES[test.rule](answers, places.original, places.variant)
    # a case is left out by its original, so all of its pairs are; it fails by any of them
    counted = np.bincount(places.case[~left_out], minlength=len(test.cases)) > 0
    failing = np.bincount(places.case[failed & ~left_out], minlength=len(test.cases)) > 0
    return FailureRate(int(failing.sum()), int(counted.sum()))


def _generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode()])
