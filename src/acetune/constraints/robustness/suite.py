"""Behavioural tests and suites of them: cases of text, and how often a model fails them.

The rules by which a test passes are those of CheckList (Ribeiro et al. 2020), a function each. A
rule sees pairs of texts, an original and a variant of it, by their places among the answers, and
says of each pair whether it fails and whether it is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acetune.certification.evidence import Evidence, Measured, Parts, Refused, another_kind
from acetune.constraints._one_class import (
    LEAST_SHARE,
    Degenerate,
    judge_predictions,
    require_degenerate,
)
from acetune.core.errors import GoalError, ReportError
from acetune.core.goals import Estimate
from acetune.core.numbers import require_whole

Array = NDArray[Any]

Rule: TypeAlias = Callable[["Answers", Array, Array], tuple[Array, Array]]

NEGATIVE, NEUTRAL, POSITIVE = 0, 1, 2
TOLERANCE = 0.1  # a movement up to here is no failure
_ROUNDING = 1e-9  # 0.7 - 0.6 is a little more than 0.1


class Answers:
    """The answers of a model of two classes (negative, positive) or of three (neutral between).

    Parameters
    ----------
    probabilities:
        One row a text, one column a class; or P(positive) alone.

    A model of two classes calls a text neutral where P(positive) lies in the middle third, both
    ends included.

    >>> Answers(np.array([0.1, 0.5, 0.9])).labels.tolist()
    [0, 1, 2]
    >>> Answers(np.array([[0.2, 0.5, 0.3]])).labels.tolist()
    [1]
    """

    def __init__(self, probabilities: Array) -> None:
        if isinstance(probabilities, np.ma.MaskedArray) and probabilities.mask.any():
            raise ReportError("some of the probabilities are masked: every text needs an answer")
        if getattr(getattr(probabilities, "dtype", None), "kind", "f") not in "buifO":
            raise ReportError(f"probabilities must be numbers, got {probabilities.dtype}")
        found = np.asarray(probabilities, dtype=float)
        shape = found.shape
        if found.ndim != 1 and (found.ndim != 2 or shape[1] not in (2, 3)):
            raise ReportError(
                "a sentiment model answers with P(positive), or with one column for each of two "
                f"or three classes; got an array of shape {shape}"
            )
        outside = ~((found >= 0.0) & (found <= 1.0))  # NaN too
        if outside.any():
            raise ReportError(
                f"a probability is between 0 and 1; text {np.argwhere(outside)[0][0]} got "
                f"{found[outside][0]}: are these logits?"
            )
        if found.ndim == 1:
            found = np.column_stack([1.0 - found, found])
        self.probabilities = found
        self.labels: Array
        if found.shape[1] == 3:
            self.labels = found.argmax(axis=1)
        else:
            positive = found[:, 1]
            self.labels = np.where(positive < 1 / 3, NEGATIVE, NEUTRAL)
            self.labels[positive > 2 / 3] = POSITIVE

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def sentiment(self) -> Array:
        """P(positive) minus P(negative), from -1 to 1."""
        difference: Array = self.probabilities[:, -1] - self.probabilities[:, 0]
        return difference

    def rise(self, original: Array, variant: Array) -> Array:
        """By how much each variant raises the confidence in the label of its original.

        Two classes have no probability of neutral; for an original that is called neutral, any
        movement of P(positive) is a fall.
        """
        labels = self.labels[original]
        if self.probabilities.shape[1] == 3:
            moved = self.probabilities[variant, labels] - self.probabilities[original, labels]
        else:
            up = self.probabilities[variant, 1] - self.probabilities[original, 1]
            moved = np.where(labels == POSITIVE, up, np.where(labels == NEGATIVE, -up, -abs(up)))
        result: Array = moved
        return result


def _nothing_left_out(failed: Array) -> tuple[Array, Array]:
    return failed, np.zeros(len(failed), dtype=bool)


def invariant(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The label stays, or the confidence in it hardly moves."""
    changed = answers.labels[original] != answers.labels[variant]
    moved = np.abs(answers.rise(original, variant)) > TOLERANCE + _ROUNDING
    return _nothing_left_out(changed & moved)


def not_less_confident(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The confidence in the original's label does not drop; neutral originals are left out."""
    dropped = answers.rise(original, variant) < -TOLERANCE - _ROUNDING
    return dropped, answers.labels[original] == NEUTRAL


def not_more_confident(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The confidence in the original's label does not rise; neutral originals are left out."""
    rose = answers.rise(original, variant) > TOLERANCE + _ROUNDING
    return rose, answers.labels[original] == NEUTRAL


def not_more_negative(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The sentiment does not fall."""
    change = answers.sentiment[variant] - answers.sentiment[original]
    return _nothing_left_out(change < -TOLERANCE - _ROUNDING)


def not_more_positive(answers: Answers, original: Array, variant: Array) -> tuple[Array, Array]:
    """The sentiment does not rise."""
    change = answers.sentiment[variant] - answers.sentiment[original]
    return _nothing_left_out(change > TOLERANCE + _ROUNDING)


RULES: dict[str, Rule] = {
    "invariant": invariant,
    "not less confident": not_less_confident,
    "not more confident": not_more_confident,
    "not more negative": not_more_negative,
    "not more positive": not_more_positive,
}


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
                    f"test {self.name!r}: case {number} has no variant, only {list(case)}"
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
        """At most this many cases per test, drawn at random by the name of the test."""
        require_whole("most", most, least=1)
        require_whole("seed", seed, least=0)
        return Suite(test.sample(most, _generator(seed, test.name)) for test in self.tests)

    def failure_rates(self, probabilities: Array | Answers) -> dict[str, FailureRate]:
        """How the model fared in each test, from its answers to ``texts``, in their order."""
        return {
            test.name: FailureRate(int(failed[counted].sum()), int(counted.sum()))
            for test, counted, failed in self._judged(probabilities)
        }

    def _judged(self, probabilities: Array | Answers) -> list[tuple[BehaviouralTest, Array, Array]]:
        """For each test, which of its cases count, and which fail."""
        answers = probabilities if isinstance(probabilities, Answers) else Answers(probabilities)
        if len(answers) != len(self.texts):
            raise ReportError(
                f"the suite has {len(self.texts)} texts, but there are {len(answers)} answers"
            )
        return [
            (test, *_judge(test, places, answers))
            for test, places in zip(self.tests, self._places, strict=True)
        ]

    def average_failure_rate(self, probabilities: Array | Answers) -> Estimate:
        """The mean over tests; its standard error takes the cases as drawn independently.

        A certificate does not: for it all cases that begin with the same sentence are one cluster,
        which counts once in each test.
        """
        return self._average(
            probabilities if isinstance(probabilities, Answers) else Answers(probabilities)
        )

    def _average(self, answers: Answers) -> Measured:
        return Measured(*average(self.failure_rates(answers)), self._evidence(answers))

    def _evidence(self, answers: Answers) -> Evidence:
        """What each source sentence adds to the average over tests, and the most that it could.

        A sentence counts once in each test, with the share of its cases that fail, however many
        they are: weighed by their number the sum would be no mean over sentences that are drawn.
        """
        parts: dict[str, float] = {}
        weights: dict[str, float] = {}
        tests: dict[str, list[int]] = {}
        cases = 0
        for number, (test, counted, failed) in enumerate(self._judged(answers)):
            if not counted.any():
                return Refused(f"every case of the test {test.name!r} was left out")
            fails: dict[str, list[bool]] = {}
            for place in np.flatnonzero(counted).tolist():
                fails.setdefault(test.cases[place][0], []).append(bool(failed[place]))
            weight = 1 / (len(self.tests) * len(fails))
            for sentence, found in fails.items():
                weights[sentence] = weights.get(sentence, 0.0) + weight
                share = sum(found) / len(found)
                parts[sentence] = parts.get(sentence, 0.0) + weight * share
                tests.setdefault(sentence, []).append(number)
                cases = max(cases, len(found))
        how = "Hoeffding-Bentkus bound over independent source sentences"
        if cases > 1:
            mean = math.fsum(parts.values())
            how += f", each of which counts once in a test: a mean of {mean:.4g}"
        # which tests a sentence stands in may tell of failures
        shared = any(len(own) > 1 for own in tests.values())
        mixed = shared and len({tuple(own) for own in tests.values()}) > 1
        return Parts(
            tuple(parts.values()),
            tuple(weights.values()),
            how,
            approximate=mixed,
            tests=tuple(map(_full_name, self.tests)),
        )


def _full_name(test: BehaviouralTest) -> str:
    """The name of a test with the rule by which it passes."""
    return f"{test.name} ({test.rule or 'labels'})"


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


def _judge(test: BehaviouralTest, places: _Places, answers: Answers) -> tuple[Array, Array]:
    """Which cases of a test count, and which of these fail."""
    if test.labels is not None:
        failed = answers.labels[places.original] != np.array(test.labels)
        return np.ones(len(failed), dtype=bool), failed
    assert test.rule is not None  # one of both is given
    failed, left_out = RULES[test.rule](answers, places.original, places.variant)
    # a case is left out by its original, so all of its pairs are; it fails by any of them
    counted = np.bincount(places.case[~left_out], minlength=len(test.cases)) > 0
    failing = np.bincount(places.case[failed & ~left_out], minlength=len(test.cases)) > 0
    return counted, failing


def _generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode()])


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

    degenerate:
        What becomes of a model that gives nearly all texts the same label, which has a low failure
        rate: ``"report"`` says so with the answer of the study, ``"fail"`` makes it a failed check.
    least_share:
        It does where fewer texts than this share get another label.

    >>> from acetune import Constraint
    >>> from acetune.constraints.robustness import BehaviouralTest
    >>> words = BehaviouralTest("words", ("good", "bad"), labels=(2, 0))
    >>> check = RobustnessCheck(Suite([words]), lambda model, texts: [model[t] for t in texts])
    >>> afr = Constraint("afr", upper=0.2, check=check)
    >>> check({"good": 0.9, "bad": 0.6}).value
    0.5
    """

    value_range = (0.0, 1.0)

    def __init__(
        self,
        suite: Suite,
        predict: Callable[[Any, Sequence[str]], Any],
        *,
        degenerate: Degenerate = "report",
        least_share: float = LEAST_SHARE,
    ) -> None:
        if not isinstance(suite, Suite):
            raise GoalError(f"suite must be a Suite of behavioural tests, got {suite!r}")
        if not callable(predict):
            raise GoalError(f"predict must be a function of model and texts, got {predict!r}")
        require_degenerate(degenerate, least_share)
        self.suite, self._predict = suite, predict
        self.degenerate, self.least_share = degenerate, least_share

    def __call__(self, model: Any) -> Estimate:
        """The average failure rate with its standard error."""
        answers = Answers(self._predict(model, self.suite.texts))
        found = self.suite._average(answers)
        shares = np.bincount(answers.labels, minlength=3) / len(answers)
        predicted = dict(zip(("negative", "neutral", "positive"), shares.tolist(), strict=True))
        found.note = judge_predictions(predicted, self.least_share, self.degenerate)
        return found

    def _identity(self) -> dict[str, Any]:
        """What it was made with: a study that goes on compares it."""
        rules = ", ".join(map(_full_name, self.suite.tests))
        given = {"degenerate": self.degenerate, "least_share": self.least_share}
        return {"predict": self._predict, "tests": rules, "cases": self.suite.tests, **given}

    def evidence_mismatch(self, found: object) -> str | None:
        """Why fresh rows tell nothing of the average that this check measures.

        It is the mean over tests: leaving out the hardest, or adding easy ones, would be a way to a
        certificate. The cases may be others; they should be.
        """
        if not isinstance(found, Parts):
            return another_kind(found, Parts, "an average failure rate")
        if not found.tests:
            return (
                "the search measured an average failure rate over a suite of tests, and confirm "
                "gave a mean over clusters: return what a RobustnessCheck of the same tests returns"
            )
        own = set(map(_full_name, self.suite.tests))
        lost, more = sorted(own - set(found.tests)), sorted(set(found.tests) - own)
        if not lost and not more:
            return None
        both = (("missing", lost), ("added", more))
        differ = "; ".join(f"{', '.join(names)} {what}" for what, names in both if names)
        return (
            f"the search averaged over other tests ({differ}): confirm by the same tests, with the "
            "same names and rules, on other cases"
        )

    def rates(self, model: Any) -> dict[str, FailureRate]:
        """The failure rate of each test."""
        return self.suite.failure_rates(self._predict(model, self.suite.texts))
